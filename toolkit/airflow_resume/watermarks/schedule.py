"""The time zone of a Dag's schedule, and the end of a partition of it."""

from __future__ import annotations

from datetime import datetime, timezone, tzinfo
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from airflow_resume.errors import WatermarkError, WatermarkInputError
from airflow_resume.watermarks.cursors.zones import clock_reading, plain_datetime

if TYPE_CHECKING:
    from airflow_resume.attempt import AnyContext

_WINTER, _SUMMER = datetime(2026, 1, 1, tzinfo=timezone.utc), datetime(2026, 7, 1, tzinfo=timezone.utc)


def zone_of_schedule(dag: Any) -> tzinfo | None:
    """The time zone of the Dag's schedule, or else of the Dag; None if it is UTC or not known.

    Raises:
        WatermarkError: it has the name of a zone that is not known on this machine.
    """
    zone = _zone_of(getattr(dag, "timetable", None)) or _plain_zone(getattr(dag, "timezone", None))
    is_utc = zone is None or all(not moment.astimezone(zone).utcoffset() for moment in (_WINTER, _SUMMER))
    return None if is_utc else zone


def _zone_of(timetable: Any) -> tzinfo | None:
    # Airflow's own timetables have it under the one name in the SDK, and under the other in the core.
    return _plain_zone(getattr(timetable, "timezone", None) or getattr(timetable, "_timezone", None))


def _plain_zone(zone: object) -> tzinfo | None:
    """The zone; None for what is neither a name nor a zone, such as a stand-in in a test."""
    if not isinstance(zone, str):
        return zone if isinstance(zone, tzinfo) else None
    try:
        return ZoneInfo(zone)
    except (LookupError, ValueError, OSError) as error:
        raise WatermarkError(
            f"The Dag is scheduled in the time zone {zone!r}, which is not known on this machine.",
            "Correct the name, or install the package tzdata.",
        ) from error


def written(zone: tzinfo) -> str:
    """The zone as an argument in Python; `...` where it has no name, as a fixed offset has none."""
    try:
        return repr(ZoneInfo(str(zone)).key)
    except (LookupError, ValueError, OSError):
        return "..."


def partition_of(context: AnyContext) -> tuple[str | None, datetime | None]:
    """The key and the date of the partition that the run is for; None if it has none."""
    run = context.get("dag_run")
    key = context.get("partition_key") or getattr(run, "partition_key", None)
    return key, context.get("partition_date") or getattr(run, "partition_date", None)


def end_of_partition(dag: Any, date: datetime) -> datetime | None:
    """When the next partition begins; None if the Dag's timetable has no partitions by cron.

    The date of a partition is a time of the cron expression, and the next partition has the next time.

    Args:
        dag: of the run.
        date: of a partition, aware.

    Raises:
        WatermarkInputError: its cron expression cannot be read.
    """
    timetable = getattr(dag, "timetable", None)
    if type(timetable).__name__ != "CronPartitionTimetable":
        return None
    expression: Any = getattr(timetable, "expression", None) or getattr(timetable, "_expression", None)
    zone = _zone_of(timetable) or timezone.utc
    plain = plain_datetime(date.astimezone(timezone.utc))  # pendulum has its own rules for adding
    reading = clock_reading(plain, zone)
    try:
        from croniter import croniter  # type: ignore[import-untyped]  # Airflow reads such a timetable by it, too

        cron = croniter(expression, reading)
        following: datetime = cron.get_next(datetime)
    except (ImportError, TypeError, ValueError, LookupError, AttributeError) as error:
        raise WatermarkInputError(
            f"Where a partition of the schedule {expression!r} ends cannot be found ({error!r}).",
            "Correct the expression, or install the package croniter where it is missing.",
            given="window",
        ) from error
    if cron.expanded[1] == ["*"]:  # every hour: then Airflow ignores a change of the clock
        return plain + (following - reading)
    # For a time that the clock shows twice, or never, Airflow takes the later of the two moments that it may mean.
    return max(following.replace(tzinfo=zone, fold=fold).astimezone(timezone.utc) for fold in (0, 1))
