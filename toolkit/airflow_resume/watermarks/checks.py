"""What about a task does not fit a watermark, in words.

`Watermark.task` and the mixin declare all that is needed. A `@task` above a watermark is out of its sight when the Dag
file is read, so what it lacks is said when the task runs.
"""

from __future__ import annotations

from collections.abc import Iterable
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


def remarks_on_days(task: Any, options: Options[Any]) -> list[str]:
    """What to change about days of which it is not known whose they are, a sentence each."""
    zone = zone_of_schedule(task.get_dag()) if hasattr(task, "get_dag") else None
    if zone is None or options.clock is not None or not lacks_zone(options.cursor):
        return []
    remedy = f"say whose days they are, such as cursor=Cursor.date({written(zone)}), or Cursor.date('UTC')"
    fault = (
        f"The days of the watermark have no time zone, so each is over at midnight in UTC; the schedule is in {zone}"
    )
    return [f"{fault}: {remedy}"]


def _declares(assets: Iterable[Any], asset: Asset) -> bool:
    """By its name: a reference has no more."""
    return any(getattr(one, "name", None) == asset.name or getattr(one, "uri", None) == asset.uri for one in assets)


def _max_active_runs(task: Any) -> int | None:
    dag = task.get_dag() if hasattr(task, "get_dag") else None
    return getattr(dag, "max_active_runs", None)
