"""The `ti` of a context, and the task of one that is only named."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, Any
from uuid import UUID

from airflow.sdk.definitions._internal.types import NOTSET

from airflow_resume.testing.assets import AnyAsset
from airflow_resume.testing.clock import START
from airflow_resume.testing.world import Instance, World
from airflow_resume.testing.xcoms import Place

if TYPE_CHECKING:
    from airflow.sdk.definitions._internal.types import ArgNotSet


@dataclass(kw_only=True, eq=False)
class PlainTask:
    """The task of an attempt that was made without an operator; it has what every operator has."""

    dag_id: str
    task_id: str
    retries: int
    inlets: list[AnyAsset]
    outlets: list[AnyAsset]
    params: dict[str, Any] = field(default_factory=dict)
    owner: str = "airflow"
    map_index_template: str | None = None
    do_xcom_push: bool = True
    multiple_outputs: bool = False

    def on_kill(self) -> None:
        """Do nothing, as an operator's by default."""


def sortable_uuid(when: datetime, number: int) -> UUID:
    """A UUID of version 7, as those of attempts: a later one is larger, and no two numbers have the same."""
    milliseconds = int(when.timestamp() * 1000)
    return UUID(int=milliseconds << 80 | 7 << 76 | 2 << 62 | number)


@dataclass(kw_only=True, eq=False)
class FakeTaskInstance:
    """The `ti` of a context.

    What Airflow would have to ask its server for, and is not known to the world, is missing: an AttributeError.
    """

    dag_id: str
    task_id: str
    run_id: str
    map_index: int
    try_number: int
    max_tries: int
    start_date: datetime
    task: Any
    world: World = field(repr=False)
    number: int = field(default=0, repr=False)
    """Of the attempt, of all in this world."""
    xcoms: dict[str, Any] = field(default_factory=dict)
    """What this attempt pushed."""
    context: dict[str, Any] = field(default_factory=dict, repr=False)
    end_date: datetime | None = None
    state: str = "running"
    is_mapped: bool = False
    rendered_map_index: str | None = None
    queue: str = "default"
    context_carrier: dict[str, Any] | None = None

    @cached_property
    def id(self) -> UUID:
        """Another one in each attempt."""
        return sortable_uuid(self.start_date, self.number)

    @cached_property
    def dag_version_id(self) -> UUID:
        """Of the only version of the Dag."""
        return sortable_uuid(START, 0)

    @cached_property
    def hostname(self) -> str:
        """Of this machine."""
        from airflow.sdk.api.client import get_hostname

        return str(get_hostname())  # type: ignore[no-untyped-call]

    @property
    def log_url(self) -> str:
        """Where the page of the attempt would be."""
        from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

        made: Any = RuntimeTaskInstance.log_url
        return str(made.fget(self))

    @property
    def mark_success_url(self) -> str:
        """The same."""
        return self.log_url

    @property
    def stats_tags(self) -> dict[str, str]:
        """Tags of metrics."""
        return {"dag_id": self.dag_id, "task_id": self.task_id}

    @property
    def _instance(self) -> Instance:
        return self.dag_id, self.run_id, self.task_id, self.map_index

    def get_template_context(self) -> dict[str, Any]:
        """The context that this belongs to."""
        return self.context

    def render_templates(self, context: Any = None, jinja_env: Any = None) -> Any:
        """Render the template fields of the operator, in place, as Airflow does before `execute`; the operator."""
        self.task.render_template_fields(context or self.context, jinja_env)
        return self.task

    # --- of task instances and runs ---------------------------------------------------------------------------

    def get_task_states(
        self,
        dag_id: str,
        map_index: int | None = None,
        task_ids: Sequence[str] = (),
        *,
        run_ids: Sequence[str] = (),
    ) -> dict[str, dict[str, str]]:
        """The states of task instances, by run and task, as Airflow's `ti` answers; a mapped one is `task_<index>`."""
        states: dict[str, dict[str, str]] = defaultdict(dict)
        for (dag, run, task, index), record in self.world.instances.items():
            if dag == dag_id and run in run_ids and task in task_ids and map_index in {None, index}:
                states[run][task if index < 0 else f"{task}_{index}"] = record.state
        return dict(states)

    def get_dagrun_state(self, dag_id: str, run_id: str) -> str:
        """`success` when all its tasks have succeeded, else `running`.

        Raises:
            KeyError: the world has no such run.
        """
        from airflow.sdk.api.datamodels._generated import DagRunState

        is_over = self.world.runs[dag_id, run_id].end_date is not None
        return DagRunState.SUCCESS if is_over else DagRunState.RUNNING

    # --- XComs ------------------------------------------------------------------------------------------------

    def xcom_push(self, key: str, value: Any) -> None:
        """Keep an XCom until the next attempt begins."""
        self.world.xcoms.push((*self._instance, key), value)
        self.xcoms[key] = value

    def xcom_pull(
        self,
        task_ids: str | Iterable[str] | None = None,
        dag_id: str | None = None,
        key: str = "return_value",
        include_prior_dates: bool = False,  # noqa: FBT001, FBT002  Airflow's signature
        *,
        map_indexes: int | Iterable[int] | ArgNotSet | None = NOTSET,
        default: Any = None,
        run_id: str | None = None,
    ) -> Any:
        """What tasks pushed: one value or a list of them, by Airflow's rules.

        Of one task and one map index (None is that of a task that is not mapped) it is the value, or the default. Of
        several of either, a list, with the default where there is none. Without `map_indexes`, the values of all of a
        task; those of one task are not a list when there is only one, and where there are none stands None.
        """
        of_one_task = task_ids is None or isinstance(task_ids, str)
        tasks: list[str] = [task_ids or self.task_id] if of_one_task else list(task_ids)  # type: ignore[arg-type, list-item]
        run = dag_id or self.dag_id, run_id or self.run_id
        if map_indexes is NOTSET:
            found: list[Any] = []
            for task in tasks:
                places = sorted(self._places(run, task, key, prior=include_prior_dates), key=lambda place: place[3])
                found += [self.world.xcoms.read(place) for place in places] or [None]
            return found[0] if of_one_task and len(found) == 1 else found
        of_one_index = map_indexes is None or isinstance(map_indexes, int)
        indexes: list[Any] = [map_indexes] if of_one_index else list(map_indexes)  # type: ignore[arg-type]
        found = [
            self._pulled(run, task, -1 if index is None else index, key, prior=include_prior_dates, default=default)
            for task, index in product(tasks, indexes)
        ]
        return found[0] if of_one_task and of_one_index else found

    def _pulled(self, run: tuple[str, str], task: str, index: int, key: str, *, prior: bool, default: Any) -> Any:
        newest = max(
            (place for place in self._places(run, task, key, prior=prior) if place[3] == index),
            key=self._logical_date,
            default=None,
        )
        value = None if newest is None else self.world.xcoms.read(newest)
        return default if value is None else value

    def _places(self, run: tuple[str, str], task: str, key: str, *, prior: bool) -> Iterator[Place]:
        """Newest first."""
        latest = self.world.runs.get(run)
        for place in self.world.xcoms.find(run[0], task, key):
            own = self.world.runs.get(place[:2])
            is_prior = (
                own and latest and (own.logical_date or own.run_after) <= (latest.logical_date or latest.run_after)
            )
            if place[:2] == run or (prior and is_prior):
                yield place

    def _logical_date(self, place: Place) -> float:
        date = self.world.runs[place[:2]].logical_date
        return date.timestamp() if date else float("-inf")
