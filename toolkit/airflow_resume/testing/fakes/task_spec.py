"""The task instance of an attempt, and its operator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeAlias

from airflow.sdk.definitions.asset import Asset, AssetNameRef, AssetUriRef

from airflow_resume.testing.fakes.assets import AnyAsset
from airflow_resume.testing.fakes.new_dag import new_dag
from airflow_resume.testing.fakes.task_instance import PlainTask
from airflow_resume.testing.fakes.world import Instance, Run

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator

MakeOperator: TypeAlias = "Callable[[], BaseOperator]"


@dataclass(frozen=True, kw_only=True)
class TaskSpec:
    """The task instance that an attempt is of."""

    dag_id: str
    task_id: str
    run_id: str
    map_index: int
    retries: int
    inlets: tuple[Any, ...]
    outlets: tuple[Any, ...]
    logical_date: datetime | None
    conf: dict[str, Any]
    operator: BaseOperator | MakeOperator | None

    @property
    def instance(self) -> Instance:
        """The key of the task's state."""
        return self.dag_id, self.run_id, self.task_id, self.map_index

    @property
    def run(self) -> Run:
        """The key of the Dag run."""
        return self.dag_id, self.run_id

    @property
    def assets(self) -> list[AnyAsset]:
        """The inlets and outlets that are assets, each once."""
        both = {id(asset): asset for asset in (*self.inlets, *self.outlets)}  # Airflow's hash of an asset is slow
        return [asset for asset in both.values() if isinstance(asset, (Asset, AssetNameRef, AssetUriRef))]

    def make_task(self) -> Any:
        """The operator of a new attempt."""
        if self.operator is None:
            return PlainTask(
                dag_id=self.dag_id,
                task_id=self.task_id,
                retries=self.retries,
                inlets=list(self.inlets),
                outlets=list(self.outlets),
            )
        made: Any = self.operator() if callable(self.operator) else self.operator
        if not made.has_dag():
            made.dag = new_dag(self.dag_id)
        return made

    def of(self, task: Any) -> TaskSpec:
        """The same, with the attributes of the operator."""
        if self.operator is None:
            return self
        return replace(
            self,
            dag_id=task.dag_id,
            task_id=task.task_id,
            retries=task.retries,
            inlets=tuple(task.inlets),
            outlets=tuple(task.outlets),
        )
