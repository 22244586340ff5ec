"""Points in time and days in the form that another system needs: text, or seconds since 1970."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import MAXYEAR, date, datetime, time, timedelta, timezone, tzinfo

from airflow_resume.watermarks.cursors.zones import earliest, latest, zone_of

_UNITS = {"epoch": 1_000_000, "epoch_ms": 1_000, "epoch_us": 1}


def formatted(value: object, form: str, tz: str | None, *, up: bool = False, home: str | None = None) -> str | int:
    """A point in time or a date in another system's form, rounded down, or with `up` rounded up.

    Args:
        value: a datetime or a date.
        form: `"iso"`, `"date"`, `"epoch"`, `"epoch_ms"`, `"epoch_us"`, or a format of `strftime`.
        tz: the time zone of the result. Without it, a naive datetime stays as it is, and others are shown in `home`.
        up: round up.
        home: the time zone of a day or a naive datetime. Without it, a day begins at midnight in `tz`, and seconds
            since 1970 of a naive datetime are counted as in UTC.

    Raises:
        TypeError: the value is neither. ValueError: the form is unknown.
    """
    if not isinstance(value, date):
        raise TypeError(f"{value!r} is not a point in time, so it has no form {form!r}.\nUse it as it is.")
    is_day = not isinstance(value, datetime)
    if is_day and form in {"iso", "date"}:
        return value.isoformat()
    zone = zone_of(tz or home)
    reading = value if isinstance(value, datetime) else datetime.combine(value, time.min)
    if reading.tzinfo is not None:
        moment = reading.astimezone(zone)
    elif home is not None and (is_day or tz is not None or form in _UNITS):
        moment = (latest if up else earliest)(reading, zone_of(home)).astimezone(zone)
    else:
        moment = reading.replace(tzinfo=zone) if is_day else reading
    if form in _UNITS:
        microseconds = _microseconds_since_1970(moment)
        return -(-microseconds // _UNITS[form]) if up else microseconds // _UNITS[form]
    return _as_text(_rounded_up(moment, form) if up else moment, form)


def _as_text(moment: datetime, form: str) -> str:
    if form in {"iso", "date"}:
        return moment.isoformat() if form == "iso" else moment.date().isoformat()
    if "%" not in form:
        raise ValueError(
            f"form={form!r} is unknown.\nTake 'iso', 'date', 'epoch', 'epoch_ms', 'epoch_us', or '%Y-%m-%d'."
        )
    return moment.strftime(form)


def _rounded_up(moment: datetime, form: str) -> datetime:
    """The next moment that the form can show; the moment itself if the form can show it, or if there is no next one."""
    text = _as_text(moment, form)
    is_first = moment.replace(tzinfo=None) == datetime.min  # noqa: DTZ901  what its clock shows
    if is_first or _as_text(_later(moment, timedelta(microseconds=-1)), form) != text:
        return moment
    try:
        units, since = _next_units(moment), _microseconds_since_1970  # Python compares times of one zone by its clock
        return next(later for later in units if since(later) > since(moment) and _as_text(later, form) != text)
    except (StopIteration, OverflowError):
        return moment


def _next_units(moment: datetime) -> Iterator[datetime]:
    """Where the next second, minute, hour, day, month and year begin.

    They are counted in UTC. If they were counted on the clock, an hour that comes twice would end before it comes
    again.
    """
    second = moment.replace(microsecond=0)
    yield _later(second, timedelta(seconds=1))
    yield _later(second.replace(second=0), timedelta(minutes=1))
    hour = second.replace(minute=0, second=0)
    hours = [_later((hour + timedelta(hours=n)).replace(fold=fold), timedelta(0)) for n in (0, 1, 2) for fold in (0, 1)]
    # Where a clock change skips the beginning of an hour, as on Lord Howe Island, that hour has no beginning.
    yield from sorted((each for each in hours if not each.minute), key=_microseconds_since_1970)
    day = datetime.combine(moment.date(), time.min)
    yield _begin(day + timedelta(days=1), moment.tzinfo)
    yield _begin((day.replace(day=1) + timedelta(days=31)).replace(day=1), moment.tzinfo)
    if moment.year < MAXYEAR:
        yield _begin(day.replace(year=moment.year + 1, month=1, day=1), moment.tzinfo)


def _later(moment: datetime, span: timedelta) -> datetime:
    """The moment `span` later, with the `fold` that its clock has then."""
    zone = moment.tzinfo
    return moment + span if zone is None else (moment.astimezone(timezone.utc) + span).astimezone(zone)


def _begin(midnight: datetime, zone: tzinfo | None) -> datetime:
    return midnight if zone is None else earliest(midnight, zone).astimezone(zone)


def _microseconds_since_1970(moment: datetime) -> int:
    """As `timestamp()`, but exact; a naive time counts as UTC."""
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=timezone.utc)
    passed = aware - datetime(1970, 1, 1, tzinfo=timezone.utc)
    return (passed.days * 86_400 + passed.seconds) * 1_000_000 + passed.microseconds
