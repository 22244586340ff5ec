"""Dag runs, and the Dags of tasks without an operator, as an attempt sees them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk.definitions.asset import Asset

from airflow_resume.testing.fakes.new_dag import configured_by, new_dag
from airflow_resume.testing.fakes.task_spec import TaskSpec
from airflow_resume.testing.fakes.world import World

if TYPE_CHECKING:
    from airflow.sdk import DAG


def dag_with_the_task(world: World, task: TaskSpec) -> DAG:
    """The Dag of a task without an operator; a world makes it once."""
    from airflow.sdk import BaseOperator

    others = frozenset(
        task_id for dag_id, _, task_id, _ in world.instances if dag_id == task.dag_id and task_id != task.task_id
    )
    key = (
        *configured_by(),
        task.dag_id,
        task.task_id,
        task.retries,
        tuple(map(_known_by, task.inlets)),
        tuple(map(_known_by, task.outlets)),
        others,
    )
    if key not in world.dags:
        made = new_dag(task.dag_id)
        for other in sorted(others):
            BaseOperator(task_id=other, dag=made)
        BaseOperator(
            task_id=task.task_id, retries=task.retries, inlets=list(task.inlets), outlets=list(task.outlets), dag=made
        )
        # The task is kept with it: the key has the ids of assets, which must not be used again.
        world.dags[key] = made, task
    dag: DAG = world.dags[key][0]
    return dag


def dag_run_of(world: World, task: TaskSpec) -> Any:
    """The Dag run as an attempt sees it."""
    from airflow.sdk.api.datamodels._generated import DagRun, DagRunState, DagRunType

    run = world.runs[task.run]
    return DagRun.model_construct(
        dag_id=task.dag_id,
        run_id=task.run_id,
        logical_date=run.logical_date,
        data_interval_start=run.logical_date,
        data_interval_end=run.logical_date,
        run_after=run.run_after,
        start_date=world.run_starts[task.run],
        end_date=None,
        clear_number=world.clear_numbers[task.run],
        run_type=DagRunType.MANUAL,
        triggering_user_name="tester",
        state=DagRunState.RUNNING,
        conf=dict(task.conf),
        consumed_asset_events=[],
        partition_key=None,
    )


def _known_by(asset: Any) -> object:
    """A key that is equal for equal assets; anything else equals only itself."""
    if type(asset) is Asset and not asset.watchers:
        return asset.name, asset.uri, asset.group, repr(asset.extra)
    return id(asset)
