"""The entries of the context that Airflow passes to `execute`."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from airflow_resume.testing.fakes.asset_events import FakeInletEvents
from airflow_resume.testing.fakes.assets import FakeAssetStores
from airflow_resume.testing.fakes.dags import dag_run_of, dag_with_the_task
from airflow_resume.testing.fakes.task_instance import FakeTaskInstance
from airflow_resume.testing.fakes.task_spec import TaskSpec
from airflow_resume.testing.fakes.world import World

if TYPE_CHECKING:
    from airflow.sdk import DAG


def context_entries(world: World, task: TaskSpec, ti: FakeTaskInstance) -> dict[str, Any]:
    """The context of an attempt, as Airflow makes it; it becomes `ti.context`, too."""
    from airflow.sdk.execution_time import context as real

    assets = task.assets
    dag_run = dag_run_of(world, task)
    dag = None if task.operator is None else ti.task.dag
    ti.context = {
        "ti": ti,
        "task_instance": ti,
        "task": ti.task,
        "dag": dag or _lazy(partial(dag_with_the_task, world, task)),
        "run_id": ti.run_id,
        "dag_run": dag_run,
        "inlets": ti.task.inlets,
        "outlets": ti.task.outlets,
        "params": _params(dag, ti.task, task.conf),
        "map_index_template": ti.task.map_index_template,
        "outlet_events": real.OutletEventAccessors(),
        "inlet_events": FakeInletEvents(task.inlets, world.events),
        "triggering_asset_events": real.TriggeringAssetEventsAccessor.build([]),
        "macros": real.MacrosAccessor(),
        "var": {
            "json": real.VariableAccessor(deserialize_json=True),
            "value": real.VariableAccessor(deserialize_json=False),
        },
        "conn": real.ConnectionAccessor(),
        "task_instance_key_str": f"{task.dag_id}__{task.task_id}__{task.run_id}",
        "task_reschedule_count": 0,
        "partition_key": None,
        "partition_date": None,
        "prev_start_date_success": _lazy(partial(_last_success, world, task, "start_date")),
        "prev_end_date_success": _lazy(partial(_last_success, world, task, "end_date")),
        "task_state_store": world.task_store(task.instance),
    }
    if dag_run.logical_date is not None:
        ti.context.update(_dates(world, task, dag_run.logical_date))
    if assets:  # without any, Airflow leaves the key out
        store_of = partial(world.asset_store, task.instance)
        ti.context["asset_state_store"] = FakeAssetStores(assets, store_of)
    return ti.context


def _dates(world: World, task: TaskSpec, logical_date: datetime) -> dict[str, Any]:
    """The entries that Airflow leaves out for a run without a logical date."""
    from airflow_resume.compat import coerce_datetime

    date: Any = coerce_datetime(logical_date)
    ds, ts = date.strftime("%Y-%m-%d"), date.isoformat()
    ds_nodash = ds.replace("-", "")
    return {
        "logical_date": date,
        "data_interval_start": date,
        "data_interval_end": date,
        "ds": ds,
        "ds_nodash": ds_nodash,
        "ts": ts,
        "ts_nodash": date.strftime("%Y%m%dT%H%M%S"),
        "ts_nodash_with_tz": ts.replace("-", "").replace(":", ""),
        "task_instance_key_str": f"{task.dag_id}__{task.task_id}__{ds_nodash}",
        "prev_data_interval_start_success": _lazy(partial(_last_success, world, task, "logical_date")),
        "prev_data_interval_end_success": _lazy(partial(_last_success, world, task, "logical_date")),
    }


def _last_success(
    world: World, task: TaskSpec, date: Literal["start_date", "end_date", "logical_date"]
) -> datetime | None:
    from airflow_resume.compat import coerce_datetime

    run = world.last_success(task.run)
    if run is None:
        return None
    found = world.run_starts[run] if date == "start_date" else getattr(world.runs[run], date)
    return coerce_datetime(found)


def _lazy(make: Callable[[], Any]) -> Any:
    """A proxy for an object that is made when it is first used, as in Airflow's contexts."""
    from lazy_object_proxy import Proxy  # type: ignore[import-untyped]

    return Proxy(make)


def _params(dag: DAG | None, task: Any, conf: dict[str, Any]) -> dict[str, Any]:
    if not (dag or conf):
        return {}
    from airflow.sdk.definitions.param import process_params

    return process_params(dag, task, conf, suppress_exception=False)  # type: ignore[arg-type]
