"""Windows that do not begin at the mark: those of backfill runs, and of runs whose conf names the bounds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from airflow_resume.attempt import AnyContext
from airflow_resume.errors import CursorTypeError, WatermarkInputError
from airflow_resume.shown import get_logger
from airflow_resume.watermarks.cursors.moments import moment_with_offset
from airflow_resume.watermarks.cursors.zones import clock_reading
from airflow_resume.watermarks.marks.outbox import Origin
from airflow_resume.watermarks.options import Options
from airflow_resume.watermarks.schedule import end_of_partition, partition_of, written, zone_of_schedule
from airflow_resume.watermarks.windows.bounds import Bounds

if TYPE_CHECKING:
    from pydantic import JsonValue

T = TypeVar("T")

log = get_logger(__name__)

CONF_KEY = "watermark"
_MEMBERS = {"from", "to", "commit"}


@dataclass(frozen=True, kw_only=True)
class Override(Generic[T]):
    """Bounds that do not come from the mark, and whether the mark may move for them."""

    bounds: Bounds[T]
    origin: Origin
    commits: bool


def override_of(context: AnyContext, options: Options[T]) -> Override[T] | None:
    """The window that the run asks for; None if the window begins at the mark.

    Raises:
        WatermarkInputError: the conf is not understood, or the backfill run cannot be loaded.
    """
    run = context.get("dag_run")
    conf = getattr(run, "conf", None) or {}
    wishes = conf.get(CONF_KEY) if isinstance(conf, Mapping) else None
    if wishes is not None and not isinstance(wishes, Mapping):
        raise WatermarkInputError(
            f'conf["{CONF_KEY}"] is {wishes!r}, and must be a dict of windows by the names of watermarks.',
            f'Write {{"{options.name}": {{"from": ..., "to": ...}}}}.',
            given="window",
            asset=options.asset.name,
        )
    if wishes is not None and options.name in wishes:
        return _of_conf(wishes[options.name], options)
    if wishes:
        _check_named(wishes, options)
    run_type = getattr(run, "run_type", None)
    if str(getattr(run_type, "value", run_type)) == "backfill":
        return _of_backfill(context, options)
    return None


def _check_named(wishes: Mapping[str, Any], options: Options[Any]) -> None:
    """Check that the windows in the conf belong to other watermarks, if there is no window for this one.

    Raises:
        WatermarkInputError: the conf names no watermark, or names the asset in place of the watermark.
    """
    remedy = f'Write {{"{CONF_KEY}": {{"{options.name}": {{"from": ..., "to": ..., "commit": false}}}}}}.'
    if not all(isinstance(wish, Mapping) for wish in wishes.values()):
        raise WatermarkInputError(
            f'conf["{CONF_KEY}"] is {wishes!r}, and names no watermark.',
            remedy,
            given="window",
            asset=options.asset.name,
        )
    if options.asset.name in wishes:
        raise WatermarkInputError(
            f'conf["{CONF_KEY}"] names {options.asset.name!r}, which is an asset, and its watermark is'
            f" {options.name!r}.",
            remedy,
            given="window",
            asset=options.asset.name,
        )
    log.warning(
        "The run's conf names windows of %s, and this watermark is %r: it continues from its mark.",
        ", ".join(map(repr, wishes)),
        options.name,
    )


def _of_conf(wish: Any, options: Options[T]) -> Override[T]:
    place = f'conf["{CONF_KEY}"]["{options.name}"]'
    if not isinstance(wish, Mapping) or not _MEMBERS.issuperset(wish) or "from" not in wish:
        raise WatermarkInputError(
            f"{place} is {wish!r}.",
            'Write {"from": ..., "to": ..., "commit": false}, where "to" and "commit" may be left out.',
            given="window",
            asset=options.asset.name,
        )
    commits = wish.get("commit", False)
    if not isinstance(commits, bool):
        raise WatermarkInputError(
            f'{place}["commit"] is {commits!r}.', "Write true or false.", given="window", asset=options.asset.name
        )
    if wish.get("to") is not None and not options.cursor.is_ordered:
        raise WatermarkInputError(
            f'{place}["to"]: a {options.cursor.type} has no order, so a window of it has no end.',
            'Leave "to" out.',
            given="window",
            asset=options.asset.name,
        )
    start = _bound(wish["from"], f'{place}["from"]', options)
    end = options.ceiling() if wish.get("to") is None else _bound(wish["to"], f'{place}["to"]', options, up=True)
    if end is not None and not start < end:  # type: ignore[operator]
        raise WatermarkInputError(
            f"{place} ends at {end!r}, which is not after its start {start!r}.",
            'Give a "to" that is greater than "from", or leave it out.',
            given="window",
            asset=options.asset.name,
        )
    return Override(bounds=Bounds(start=start, end=end), origin="conf", commits=commits)


def _bound(value: JsonValue, what: str, options: Options[T], *, up: bool = False) -> T:
    """A value of the cursor; a point in time is converted to the cursor's zone."""
    moment = moment_with_offset(value)
    try:
        if moment is not None and options.cursor.home is not None:
            return options.cursor.of_moment(moment, up=up)
        return options.cursor.parse(value, what=what)
    except CursorTypeError as error:
        raise WatermarkInputError(error.message, error.remedy, given="window", asset=options.asset.name) from error


def _of_backfill(context: AnyContext, options: Options[T]) -> Override[T]:
    if options.backfill == "forbid":
        raise WatermarkInputError(
            f"{_named(options)} cannot load this backfill run: backfill='forbid' is set.",
            f"Set backfill='isolated' or 'fill', or trigger {_with_conf(options)}.",
            given="window",
            asset=options.asset.name,
        )
    start, end = _interval(context, options)
    if not start < end:
        raise WatermarkInputError(
            f"{_named(options)} cannot load this backfill run: its data interval is empty, from {start} to {end}. In"
            " Airflow 3 that is so for every schedule that is a cron expression, such as '@daily'.",
            "Schedule the Dag by CronDataIntervalTimetable('@daily', timezone='UTC'), whose data intervals are not"
            f" empty, or trigger {_with_conf(options)}.",
            given="window",
            asset=options.asset.name,
        )
    _check_zone_is_known(context, options, start, end)
    first, last = options.cursor.interval(start, end)
    bounds = Bounds(start=first, end=last)
    if bounds.is_empty:
        raise WatermarkInputError(
            f"{_named(options)} cannot load this backfill run: it loads the days that end in the data interval, and"
            f" from {start} to {end} no day ends, it is {bounds.start} all the time.",
            f"Use a schedule of whole days in the watermark's time zone, or trigger {_with_conf(options)}.",
            given="window",
            asset=options.asset.name,
        )
    return Override(bounds=bounds, origin="backfill", commits=options.backfill == "fill")


def _interval(context: AnyContext, options: Options[Any]) -> tuple[datetime, datetime]:
    """The interval of a backfill run: its data interval, or the interval of its partition.

    Raises:
        WatermarkInputError: it has neither, or the cursor has no times.
    """
    start, end = context.get("data_interval_start"), context.get("data_interval_end")
    key, date = partition_of(context)
    if not options.cursor.has_clock:
        why = f"it is for an interval, and it is not known which values of this {options.cursor.type} cursor are in it"
    elif start is not None and end is not None:
        return start, end
    elif key is None:
        why = "it has no data interval, and is for no partition"
    elif date is None:
        why = f"it is for the partition {key!r}, and Airflow does not know the date of that"
    else:
        end = end_of_partition(context.get("dag"), date)
        if end is not None:
            return date, end
        timetable = type(getattr(context.get("dag"), "timetable", None)).__name__
        why = f"it is for the partition {key!r}, and {timetable} does not say when that ends"
    raise WatermarkInputError(
        f"{_named(options)} cannot load this backfill run: {why}.",
        f"Trigger {_with_conf(options)} instead.",
        given="window",
        asset=options.asset.name,
    )


def _check_zone_is_known(context: AnyContext, options: Options[Any], start: datetime, end: datetime) -> None:
    """Refuse a cursor that does not say whether its days or naive times are in UTC or in the zone of the schedule."""
    zone, is_of_days = zone_of_schedule(context.get("dag")), options.cursor.zoneless == "days"
    if zone is None or options.cursor.zoneless is None:
        return
    readings = [[clock_reading(moment, of) for moment in (start, end)] for of in (timezone.utc, zone)]
    in_utc, there = [[time.date() for time in times] for times in readings] if is_of_days else readings
    if in_utc != there:
        remedy = f"Cursor.date({written(zone)})" if is_of_days else f"Cursor.datetime({written(zone)}, naive=True)"
        raise WatermarkInputError(
            f"{_named(options)} cannot load this backfill run: its data interval begins at {in_utc[0]} in UTC and at"
            f" {there[0]} in the time zone of the schedule, and the watermark does not say which of the two its values"
            " are.",
            f"Say it: cursor={remedy}, or the same with 'UTC'.",
            given="window",
            asset=options.asset.name,
        )


def _named(options: Options[Any]) -> str:
    return f"The watermark {options.name!r} on {options.asset.name!r}"


def _with_conf(options: Options[Any]) -> str:
    return f'a run with the conf {{"{CONF_KEY}": {{"{options.name}": {{"from": ..., "to": ...}}}}}}'
