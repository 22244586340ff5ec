"""What a Dag says about time: the zone of its schedule, and how long a partition of it is."""

from __future__ import annotations

from datetime import datetime, timezone, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

from airflow_resume.attempt import AnyContext
from airflow_resume.errors import BackfillError, WatermarkError
from airflow_resume.watermarks.zones import plain_datetime, shown

_WINTER, _SUMMER = datetime(2026, 1, 1, tzinfo=timezone.utc), datetime(2026, 7, 1, tzinfo=timezone.utc)


def zone_of_schedule(dag: Any) -> tzinfo | None:
    """The zone in which the Dag is scheduled, or else the Dag's; None where that is UTC, or not known.

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
    """What is neither a name nor a zone, such as a stand-in in a test, says nothing."""
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
    """The key of the partition that the run is for, and the date of it; None where it has none."""
    run = context.get("dag_run")
    key = context.get("partition_key") or getattr(run, "partition_key", None)
    return key, context.get("partition_date") or getattr(run, "partition_date", None)


def end_of_partition(dag: Any, date: datetime) -> datetime | None:
    """Where the next partition begins; None where the Dag's timetable does not say.

    Airflow gives a partition the date at which its cron expression strikes, and the next one that of the next strike.

    Args:
        dag: of the run.
        date: of a partition, aware.

    Raises:
        BackfillError: its cron expression cannot be read.
    """
    timetable = getattr(dag, "timetable", None)
    if type(timetable).__name__ != "CronPartitionTimetable":
        return None
    expression: Any = getattr(timetable, "expression", None) or getattr(timetable, "_expression", None)
    zone = _zone_of(timetable) or timezone.utc
    plain = plain_datetime(date.astimezone(timezone.utc))  # one of pendulum counts by rules of its own
    reading = shown(plain, zone)
    try:
        from croniter import croniter  # type: ignore[import-untyped]  # with which Airflow reads such a timetable itself

        cron = croniter(expression, reading)
        following: datetime = cron.get_next(datetime)
    except (ImportError, TypeError, ValueError, LookupError, AttributeError) as error:
        raise BackfillError(
            f"Where a partition of the schedule {expression!r} ends cannot be found ({error!r}).",
            "Correct the expression, or install the package croniter where it is missing.",
        ) from error
    if cron.expanded[1] == ["*"]:  # of every hour: Airflow counts on over a change of the clock
        return plain + (following - reading)
    # A reading that comes twice, or never, is to Airflow the later of the two moments that it may mean.
    return max(following.replace(tzinfo=zone, fold=fold).astimezone(timezone.utc) for fold in (0, 1))
