"""What about a task does not fit a watermark, in words.

`Watermark.task` and the mixin declare all that is needed. A `@task` above a watermark is out of its sight when the Dag
file is read, so what it lacks is said when the task runs.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import tzinfo
from typing import TYPE_CHECKING, Any

from airflow_resume.watermarks.days import lacks_zone
from airflow_resume.watermarks.schedule import written, zone_of_schedule

if TYPE_CHECKING:
    from airflow.sdk import Asset

    from airflow_resume.watermarks.options import Options


def remarks_on(task: Any, asset: Asset, *, is_partitioned: bool) -> list[str]:
    """What to change about the task, a sentence each.

    Args:
        task: an operator; anything else is not remarked on.
        asset: of the watermark.
        is_partitioned: instances have a mark each, so they may run side by side.
    """
    if not all(hasattr(task, name) for name in ("inlets", "outlets", "max_active_tis_per_dag")):
        return []
    remarks = [
        f"The asset {asset.name!r} is not among the task's {name}: declare it in inlets and outlets, or its state is"
        f" deleted when the Dag's file is missing for a while"
        for name in ("inlets", "outlets")
        if not _declares(getattr(task, name), asset)
    ]
    one_at_a_time = 1 in {task.max_active_tis_per_dag, _max_active_runs(task)}
    if not is_partitioned and not one_at_a_time:
        remarks.append(
            "Two runs may load at the same time, and then load the same rows: max_active_tis_per_dag=1 on the task"
            " prevents it"
        )
    return remarks


def remarks_on_zone(task: Any, options: Options[Any]) -> list[str]:
    """What to change about values of which it is not known in what time zone they are, a sentence each."""
    zone = zone_of_schedule(task.get_dag()) if hasattr(task, "get_dag") else None
    lost = None if zone is None else lost_without_zone(options)
    if zone is None or lost is None:
        return []
    return [f"The schedule is in {zone}, and {lost}: say in which zone its values are, cursor={zoned(options, zone)}"]


def lost_without_zone(options: Options[Any]) -> str | None:
    """What a watermark loses because it is not known in which zone its values are; None where that does not matter."""
    named = f"the watermark {options.name!r} on {options.asset.name!r}"
    if lacks_zone(options.cursor.leading):
        is_by_our_clock = options.clock is None and options.has_ceiling
        lost = "where a day is over after midnight in UTC, what comes on it until then is never loaded"
        return f"{named} is of days without a time zone: {lost}" if is_by_our_clock else None
    if not options.is_naive or options.lookback is not None:
        return None
    return (
        f"{named} is of naive times without a time zone: where clocks are set back, the same times come twice, and what"
        " comes in the second hour may never be loaded"
    )


def zoned(options: Options[Any], zone: tzinfo | None = None) -> str:
    """The cursor with a zone, in Python."""
    name = "'America/Los_Angeles'" if zone is None else written(zone)
    if lacks_zone(options.cursor.leading):
        return f"Cursor.date({name}), or Cursor.date('UTC')"
    return f"Cursor.datetime({name}, naive=True), or Cursor.datetime(naive=True) for UTC"


def _declares(assets: Iterable[Any], asset: Asset) -> bool:
    """By its name: a reference has no more."""
    return any(getattr(one, "name", None) == asset.name or getattr(one, "uri", None) == asset.uri for one in assets)


def _max_active_runs(task: Any) -> int | None:
    dag = task.get_dag() if hasattr(task, "get_dag") else None
    return getattr(dag, "max_active_runs", None)
