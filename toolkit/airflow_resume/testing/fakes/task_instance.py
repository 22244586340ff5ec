"""The `ti` of a context, and the task of an attempt without an operator."""

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

from airflow_resume.testing.fakes.assets import AnyAsset
from airflow_resume.testing.fakes.clock import START
from airflow_resume.testing.fakes.world import World
from airflow_resume.testing.fakes.xcoms import Place

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

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"ti.task has no {name!r}, as it stands for an operator that was not given.\nGive it:"
            f" task_context(lambda: Load(task_id={self.__dict__.get('task_id')!r}))."
        )


UNKNOWN = {
    "bundle_instance": "the Dag's bundle, which no test has",
    "get_dag": "the Dag in the task's process; context['dag'] has it",
    "get_dr_count": "how many Dag runs the server counts",
    "get_first_reschedule_date": "when the server noted the first reschedule",
    "get_previous_dagrun": "the run before, from the server",
    "get_previous_ti": "the task instance before, from the server",
    "get_relevant_upstream_map_indexes": "the mapped tasks before it, from the server",
    "get_task_breadcrumbs": "the task instances of a Dag, from the server",
    "get_ti_count": "how many task instances the server counts",
    "sentry_integration": "the configuration of Sentry",
}
"""Attributes of a real `ti` that are missing here, and what they are."""

UNKNOWN_SINCE_3_4 = {"update_dagrun_note": "how a task changes the note of its run, on the server"}
"""The same, of Airflow 3.4 only."""


def sortable_uuid(when: datetime, number: int) -> UUID:
    """A UUID of version 7, as attempts have: a later one is larger, and different numbers give different ones."""
    milliseconds = int(when.timestamp() * 1000)
    return UUID(int=milliseconds << 80 | 7 << 76 | 2 << 62 | number)


@dataclass(kw_only=True, eq=False)
class FakeTaskInstance:
    """The `ti` of a context; its attributes are those of Airflow's `RuntimeTaskInstance`.

    Whatever Airflow would ask its server for and the world does not know (`UNKNOWN`) raises an AttributeError. A test
    may set it.
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
    """The number of the attempt among all in this world."""
    xcoms: dict[str, Any] = field(default_factory=dict)
    """What this attempt pushed."""
    context: dict[str, Any] = field(default_factory=dict, repr=False)
    end_date: datetime | None = None
    state: str = "running"
    is_mapped: bool = False
    rendered_map_index: str | None = None
    queue: str = "default"
    context_carrier: dict[str, Any] | None = field(default_factory=dict)
    region_id: UUID = field(init=False, repr=False)
    """Where the task instance is, in Airflow 3.4 only. There are no loops of tasks here, so there is one region."""
    region_index: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if self.world.airflow != "3.3":
            self.region_id, self.region_index = UUID(int=0), self.map_index

    def __getattr__(self, name: str) -> Any:
        world = vars(self).get("world")  # a copy that is being made has none yet
        unknown = UNKNOWN if world is None or world.airflow == "3.3" else UNKNOWN | UNKNOWN_SINCE_3_4
        if name in unknown:
            raise AttributeError(
                f"ti.{name} is {unknown[name]}; the world does not know it.\nSet it in the test:"
                f" attempt.ti.{name} = ..."
            )
        raise AttributeError(f"ti has no {name!r} here, and none in Airflow either.")

    @cached_property
    def id(self) -> UUID:
        """The id of the attempt. No two attempts have the same."""
        return sortable_uuid(self.start_date, self.number)

    @cached_property
    def dag_version_id(self) -> UUID:
        """The id of the only version of the Dag."""
        return sortable_uuid(START, 0)

    @cached_property
    def hostname(self) -> str:
        """The name of this machine."""
        from airflow_resume.compat import get_hostname

        return str(get_hostname())  # type: ignore[no-untyped-call]

    @property
    def log_url(self) -> str:
        """The URL that the page of the attempt would have."""
        from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

        made: Any = RuntimeTaskInstance.log_url
        return str(made.fget(self))

    @property
    def mark_success_url(self) -> str:
        """The same URL."""
        return self.log_url

    @property
    def stats_tags(self) -> dict[str, str]:
        """Tags of metrics."""
        return {"dag_id": self.dag_id, "task_id": self.task_id}

    def get_template_context(self) -> dict[str, Any]:
        """The context of the attempt."""
        return self.context

    def render_templates(self, context: Any = None, jinja_env: Any = None) -> Any:
        """Render the operator's template fields in place, as Airflow does before `execute`. Returns the operator."""
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
        self.world.xcoms.push((self.dag_id, self.run_id, self.task_id, self.map_index, key), value)
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
        """The values that tasks pushed: one or a list, by Airflow's rules.

        For one task and one map index (None: the task is not mapped), the result is the value, or the default. For
        several tasks or map indexes, it is a list, with the default where there is no value. Without `map_indexes`, it
        is the list of the values of all map indexes, with None for a task without a value; but for one task with at
        most one value it is this value, or None.
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

    async def axcom_push(self, key: str, value: Any) -> None:
        """As `xcom_push`."""
        self.xcom_push(key, value)

    async def axcom_pull(self, *arguments: Any, **options: Any) -> Any:
        """As `xcom_pull`."""
        return self.xcom_pull(*arguments, **options)

    def _pulled(self, run: tuple[str, str], task: str, index: int, key: str, *, prior: bool, default: Any) -> Any:
        def logical_date(place: Place) -> float:
            date = self.world.runs[place[:2]].logical_date
            return date.timestamp() if date else float("-inf")

        found = (place for place in self._places(run, task, key, prior=prior) if place[3] == index)
        newest = max(found, key=logical_date, default=None)
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
