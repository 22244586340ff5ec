"""Warnings about a task that does not fit its watermark.

`Watermark.task` and the mixin declare everything that is needed. A plain `@task` above a watermark cannot be checked
when the Dag file is read, so its warnings are logged when the task runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_resume.watermarks.options import Options, lost_without_zone, zoned
from airflow_resume.watermarks.schedule import zone_of_schedule

if TYPE_CHECKING:
    from airflow.sdk import Asset


def remarks_on(task: Any, asset: Asset, *, is_partitioned: bool) -> list[str]:
    """What to change about the task, a sentence each.

    Args:
        task: an operator; for anything else there are no warnings.
        asset: of the watermark.
        is_partitioned: each instance has a mark of its own, so they may run at the same time.
    """
    if not all(hasattr(task, name) for name in ("inlets", "outlets", "max_active_tis_per_dag")):
        return []
    remarks = [
        f"The asset {asset.name!r} is not among the task's {name}: declare it in inlets and outlets, or its state is"
        f" deleted when the Dag's file is missing for a while"
        for name in ("inlets", "outlets")
        # By its name: a reference to an asset has no more.
        if not any(
            getattr(one, "name", None) == asset.name or getattr(one, "uri", None) == asset.uri
            for one in getattr(task, name)
        )
    ]
    dag = task.get_dag() if hasattr(task, "get_dag") else None
    one_at_a_time = 1 in {task.max_active_tis_per_dag, getattr(dag, "max_active_runs", None)}
    if not is_partitioned and not one_at_a_time:
        remarks.append(
            "Two runs may load at the same time, and then load the same rows: max_active_tis_per_dag=1 on the task"
            " prevents it"
        )
    return remarks


def remarks_on_zone(task: Any, options: Options[Any]) -> list[str]:
    """What to change if the time zone of the values is not known, a sentence each."""
    zone = zone_of_schedule(task.get_dag()) if hasattr(task, "get_dag") else None
    lost = None if zone is None else lost_without_zone(options)
    if zone is None or lost is None:
        return []
    return [f"The schedule is in {zone}, and {lost}: say in which zone its values are, cursor={zoned(options, zone)}"]
