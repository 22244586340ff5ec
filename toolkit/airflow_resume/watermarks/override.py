"""Windows that do not begin at the mark: of a backfill run, or of a run whose conf names its bounds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from airflow_resume.attempt import AnyContext
from airflow_resume.errors import BackfillError, CursorTypeError, OverrideError
from airflow_resume.watermarks.begin import Bounds
from airflow_resume.watermarks.options import Options
from airflow_resume.watermarks.record import Origin

if TYPE_CHECKING:
    from pydantic import JsonValue

T = TypeVar("T")

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
    run_type = getattr(run, "run_type", None)
    if str(getattr(run_type, "value", run_type)) == "backfill":
        return _of_backfill(context, options)
    return None


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
    end = options.ceiling() if wish.get("to") is None else _bound(wish["to"], f'{place}["to"]', options)
    if end is not None and not start < end:  # type: ignore[operator]
        raise OverrideError(f"{place} ends at {end!r}, which is not after its start {start!r}.")
    return Override(bounds=Bounds(start=start, end=end), origin="conf", commits=commits)


def _bound(value: JsonValue, what: str, options: Options[T]) -> T:
    try:
        return options.cursor.parse(value, what=what)
    except CursorTypeError as error:
        raise OverrideError(error.message, error.remedy) from error


def _of_backfill(context: AnyContext, options: Options[T]) -> Override[T]:
    if options.backfill == "forbid":
        raise BackfillError(f"The watermark {options.name!r} has backfill='forbid', and this is a backfill run.")
    start, end = context.get("data_interval_start"), context.get("data_interval_end")
    if start is None or end is None or not options.cursor.has_clock:
        raise BackfillError(
            f"A backfill run loads its data interval, and there is {_what_is_missing(start, end)}.",
            f"Trigger {_with_conf(options)} instead.",
        )
    bounds = Bounds(start=_moment(start, options), end=_moment(end, options))
    if bounds.is_empty:
        raise BackfillError(
            f"A backfill run loads its data interval, and that of this run is empty: it begins and ends at {start}. In"
            " Airflow 3 all are, with schedule='@daily' or a cron expression.",
            "Use the schedule CronDataIntervalTimetable('@daily', timezone='UTC'), with which they are not, or trigger"
            f" {_with_conf(options)}.",
        )
    return Override(bounds=bounds, origin="backfill", commits=options.backfill == "fill")


def _with_conf(options: Options[T]) -> str:
    return f'a run with the conf {{"{CONF_KEY}": {{"{options.name}": {{"from": ..., "to": ...}}}}}}'


def _what_is_missing(start: object, end: object) -> str:
    if start is None or end is None:
        return "none, as the Dag has no schedule"
    return "no telling which values of this cursor it has"


def _moment(value: datetime, options: Options[T]) -> T:
    """A point in time as a value of the cursor."""
    cursor = options.cursor.leading
    moment: datetime | date = value.date() if cursor.type == "date" else value
    if cursor.definition().get("tz", "") is None:
        moment = value.replace(tzinfo=None)
    return options.cursor.led_by(cursor.parse(moment, what="the data interval"))
