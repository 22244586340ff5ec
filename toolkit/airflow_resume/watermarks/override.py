"""Windows that do not begin at the mark: of a backfill run, or of a run whose conf names its bounds."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from airflow_resume.attempt import AnyContext
from airflow_resume.errors import BackfillError, CursorTypeError, OverrideError
from airflow_resume.watermarks.begin import Bounds
from airflow_resume.watermarks.days import lacks_zone
from airflow_resume.watermarks.entry import Origin
from airflow_resume.watermarks.moments import moment_with_offset
from airflow_resume.watermarks.options import Options
from airflow_resume.watermarks.schedule import end_of_partition, partition_of, written, zone_of_schedule
from airflow_resume.watermarks.zones import shown

if TYPE_CHECKING:
    from pydantic import JsonValue

T = TypeVar("T")

log = logging.getLogger(__name__)

CONF_KEY = "watermark"
_MEMBERS = {"from", "to", "commit"}


@dataclass(frozen=True, kw_only=True)
class Override(Generic[T]):
    """Bounds from elsewhere, and whether the mark may move for them."""

    bounds: Bounds[T]
    origin: Origin
    commits: bool


def override_of(context: AnyContext, options: Options[T]) -> Override[T] | None:
    """What the run says about its window; None where the mark decides.

    Raises:
        OverrideError: the conf is not understood. BackfillError: a backfill that cannot be.
    """
    run = context.get("dag_run")
    conf = getattr(run, "conf", None) or {}
    wishes = conf.get(CONF_KEY) if isinstance(conf, Mapping) else None
    if wishes is not None and not isinstance(wishes, Mapping):
        raise OverrideError(
            f'conf["{CONF_KEY}"] is {wishes!r}, and should hold windows by the names of watermarks.',
            f'Write {{"{options.name}": {{"from": ..., "to": ...}}}}.',
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
    """See that a wish that is not for this watermark is for another one.

    Raises:
        OverrideError: it is no window by the name of a watermark, or by that of the asset.
    """
    remedy = f'Write {{"{CONF_KEY}": {{"{options.name}": {{"from": ..., "to": ..., "commit": false}}}}}}.'
    if not all(isinstance(wish, Mapping) for wish in wishes.values()):
        raise OverrideError(f'conf["{CONF_KEY}"] is {wishes!r}, and names no watermark.', remedy)
    if options.asset.name in wishes:
        raise OverrideError(
            f'conf["{CONF_KEY}"] names {options.asset.name!r}, which is an asset, and its watermark is'
            f" {options.name!r}.",
            remedy,
        )
    log.warning(
        "The run's conf names windows of %s, and this watermark is %r: it goes on from its mark.",
        ", ".join(map(repr, wishes)),
        options.name,
    )


def _of_conf(wish: Any, options: Options[T]) -> Override[T]:
    place = f'conf["{CONF_KEY}"]["{options.name}"]'
    if not isinstance(wish, Mapping) or not _MEMBERS.issuperset(wish) or "from" not in wish:
        raise OverrideError(
            f"{place} is {wish!r}.",
            'Write {"from": ..., "to": ..., "commit": false}, where "to" and "commit" may be left out.',
        )
    commits = wish.get("commit", False)
    if not isinstance(commits, bool):
        raise OverrideError(f'{place}["commit"] is {commits!r}.', "Write true or false.")
    if wish.get("to") is not None and not options.cursor.is_ordered:
        raise OverrideError(f'{place}["to"]: a {options.cursor.type} has no order, so a window of it has no end')
    start = _bound(wish["from"], f'{place}["from"]', options)
    end = options.ceiling() if wish.get("to") is None else _bound(wish["to"], f'{place}["to"]', options, up=True)
    if end is not None and not start < end:  # type: ignore[operator]
        raise OverrideError(f"{place} ends at {end!r}, which is not after its start {start!r}.")
    return Override(bounds=Bounds(start=start, end=end), origin="conf", commits=commits)


def _bound(value: JsonValue, what: str, options: Options[T], *, up: bool = False) -> T:
    """A value of the cursor; a point in time is turned into its zone, so that days are whole ones."""
    moment = moment_with_offset(value)
    try:
        if moment is not None and options.cursor.home is not None:
            return options.cursor.of_moment(moment, up=up)
        return options.cursor.parse(value, what=what)
    except CursorTypeError as error:
        raise OverrideError(error.message, error.remedy) from error


def _of_backfill(context: AnyContext, options: Options[T]) -> Override[T]:
    if options.backfill == "forbid":
        raise BackfillError(
            f"{_named(options)} cannot load this backfill run: backfill='forbid' is set.",
            f"Set backfill='isolated' or 'fill', or trigger {_with_conf(options)}.",
        )
    start, end = _interval(context, options)
    if not start < end:
        raise BackfillError(
            f"{_named(options)} cannot load this backfill run: its data interval is empty, from {start} to {end}. In"
            " Airflow 3 that is so for every schedule that is a cron expression, such as '@daily'.",
            "Schedule the Dag by CronDataIntervalTimetable('@daily', timezone='UTC'), whose data intervals are not"
            f" empty, or trigger {_with_conf(options)}.",
        )
    _check_zone_is_known(context, options, start, end)
    first, last = options.cursor.interval(start, end)
    bounds = Bounds(start=first, end=last)
    if bounds.is_empty:
        raise BackfillError(
            f"{_named(options)} cannot load this backfill run: it loads the days that end in the data interval, and"
            f" from {start} to {end} no day ends, it is {bounds.start} all the time.",
            f"Use a schedule of whole days in the watermark's time zone, or trigger {_with_conf(options)}.",
        )
    return Override(bounds=bounds, origin="backfill", commits=options.backfill == "fill")


def _interval(context: AnyContext, options: Options[Any]) -> tuple[datetime, datetime]:
    """The stretch of time that a backfill run is for: its data interval, or its partition.

    Raises:
        BackfillError: it has neither, or none that the cursor can be compared with.
    """
    start, end = context.get("data_interval_start"), context.get("data_interval_end")
    key, date = partition_of(context)
    if not options.cursor.has_clock:
        why = f"it is for an interval, and which values of this cursor ({options.cursor.type}) are in it is not known"
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
    raise BackfillError(
        f"{_named(options)} cannot load this backfill run: {why}.", f"Trigger {_with_conf(options)} instead."
    )


def _check_zone_is_known(context: AnyContext, options: Options[Any], start: datetime, end: datetime) -> None:
    """Refuse to guess whose days, or naive times, an interval is: those of UTC, or of the schedule's zone."""
    cursor, zone = options.cursor.leading, zone_of_schedule(context.get("dag"))
    is_of_days = lacks_zone(cursor)
    if zone is None or not (is_of_days or options.is_naive):
        return
    readings = [[shown(moment, of) for moment in (start, end)] for of in (timezone.utc, zone)]
    in_utc, there = [[time.date() for time in times] for times in readings] if is_of_days else readings
    if in_utc != there:
        remedy = f"Cursor.date({written(zone)})" if is_of_days else f"Cursor.datetime({written(zone)}, naive=True)"
        raise BackfillError(
            f"{_named(options)} cannot load this backfill run: its data interval begins at {in_utc[0]} in UTC and at"
            f" {there[0]} in the time zone of the schedule, and the watermark does not say which of the two its values"
            " are.",
            f"Say it: cursor={remedy}, or the same with 'UTC'.",
        )


def _named(options: Options[Any]) -> str:
    return f"The watermark {options.name!r} on {options.asset.name!r}"


def _with_conf(options: Options[Any]) -> str:
    return f'a run with the conf {{"{CONF_KEY}": {{"{options.name}": {{"from": ..., "to": ...}}}}}}'
