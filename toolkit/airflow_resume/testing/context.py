"""An attempt of a task with its context, and what may happen to the task afterwards."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import lru_cache, partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from airflow.sdk.definitions.asset import Asset, AssetNameRef, AssetUriRef

from airflow_resume.last_message import end_what_is_open, forget_what_is_open
from airflow_resume.testing.assets import AnyAsset, FakeAssetStores
from airflow_resume.testing.events import AssetEvent, FakeInletEvents
from airflow_resume.testing.points import CrashedError
from airflow_resume.testing.stores import FakeTaskStore
from airflow_resume.testing.task_instance import FakeTaskInstance, PlainTask
from airflow_resume.testing.world import AirflowVersion, Instance, InstanceRecord, Run, World

if TYPE_CHECKING:
    from airflow.sdk import DAG, BaseOperator
    from typing_extensions import Self

LONG = timedelta(days=31)
"""Longer than Airflow keeps a key by default."""

MakeOperator: TypeAlias = "Callable[[], BaseOperator]"


def task_context(
    task: BaseOperator | MakeOperator | None = None,
    *,
    dag_id: str = "dag",
    task_id: str = "task",
    run_id: str = "run-1",
    map_index: int = -1,
    retries: int = 3,
    assets: Iterable[AnyAsset] = (),
    logical_date: datetime | None = None,
    conf: Mapping[str, Any] | None = None,
    airflow: AirflowVersion = "3.3",
    world: World | None = None,
) -> TaskAttempt:
    """The first attempt of a task, and its context.

        with task_context(assets=[orders]) as first:
            operator.execute(first.context)   # get_current_context() works in here
        with first.retry() as second:
            operator.execute(second.context)  # the same state, another attempt

    The operator itself can be given, and is then `ti.task`: its task id, retries, inlets, outlets and Dag are those of
    the context. A function that makes it is called for each attempt, as each new process reads the Dag file again.

        with task_context(lambda: Load(task_id="load", retries=2)) as first:
            first.ti.render_templates().execute(first.context)

    Args:
        task: the operator, which is put into a Dag if it has none, or what makes it.
        dag_id: of the task; an operator that has a Dag says it itself.
        task_id: of the task; an operator says it itself.
        run_id: of its run.
        map_index: of its instance; -1 when the task is not mapped.
        retries: of the task; an operator says it itself.
        assets: inlets and outlets at once; those given as `Asset` are known to Airflow and active. An operator says
            them itself.
        logical_date: of the run, and its data interval begins and ends there; None is that of a triggered run.
        conf: of the run.
        airflow: which version's life cycle.
        world: the Airflow that another attempt belongs to, for several tasks in one; its version is the world's.
    """
    given = world or World(airflow=airflow)
    spec = TaskSpec(
        dag_id=dag_id,
        task_id=task_id,
        run_id=run_id,
        map_index=map_index,
        retries=retries,
        inlets=tuple(assets),
        outlets=tuple(assets),
        logical_date=logical_date,
        conf=dict(conf or {}),
        operator=task,
    )
    return TaskAttempt(spec, given)


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
        """What state belongs to."""
        return self.dag_id, self.run_id, self.task_id, self.map_index

    @property
    def run(self) -> Run:
        """What a clear counts in."""
        return self.dag_id, self.run_id

    @property
    def assets(self) -> list[AnyAsset]:
        """The inlets and outlets that are assets; one that is both stands there once."""
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
            made.dag = _dag(self.dag_id)
        return made

    def of(self, task: Any) -> TaskSpec:
        """The same with what the operator says itself."""
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


def _dag(dag_id: str) -> DAG:
    from airflow.sdk import DAG

    return DAG(dag_id, schedule=None, **_configured(*map(os.environ.get, _VARIABLES.values())))


_VARIABLES = {
    "max_active_tasks": "AIRFLOW__CORE__MAX_ACTIVE_TASKS_PER_DAG",
    "max_active_runs": "AIRFLOW__CORE__MAX_ACTIVE_RUNS_PER_DAG",
    "max_consecutive_failed_dag_runs": "AIRFLOW__CORE__MAX_CONSECUTIVE_FAILED_DAG_RUNS_PER_DAG",
    "catchup": "AIRFLOW__SCHEDULER__CATCHUP_BY_DEFAULT",
    "disable_bundle_versioning": "AIRFLOW__DAG_PROCESSOR__DISABLE_BUNDLE_VERSIONING",
}
"""What a Dag has from Airflow's configuration."""


@lru_cache(maxsize=4)
def _configured(*_values: str | None) -> dict[str, Any]:
    """Reading the configuration takes most of the time of making a Dag; in one process only its environment changes."""
    from airflow.sdk import DAG

    dag = DAG("any", schedule=None)
    return {name: getattr(dag, name) for name in _VARIABLES}


def _dag_of(task: TaskSpec, others: frozenset[str]) -> DAG:
    from airflow.sdk import BaseOperator

    dag = _dag(task.dag_id)
    for other in sorted(others):
        BaseOperator(task_id=other, dag=dag)
    BaseOperator(
        task_id=task.task_id, retries=task.retries, inlets=list(task.inlets), outlets=list(task.outlets), dag=dag
    )
    return dag


def _known_by(asset: Any) -> object:
    """What is the same of two assets that are; anything else is only the same as itself."""
    if type(asset) is Asset and not asset.watchers:
        return asset.name, asset.uri, asset.group, repr(asset.extra)
    return id(asset)


class TaskAttempt:
    """One attempt of a task. In a `with` block its context is the current one.

    The end of the block is that of the attempt: a loop that is still open, as its iterator is held in a variable, is
    saved, whether the block ends by an error or not. `CrashedError` is the end of a process in which nothing is saved.

    Every step of the life cycle gives the attempt that comes next, and replaces this one: whatever still holds its
    stores reads defaults from that of the task, and is refused when it writes.
    """

    def __init__(self, task: TaskSpec, world: World, *, begins_when_entered: bool = False) -> None:
        made = task.make_task()
        self.world = world
        self._task = task.of(made)
        self._stack = ExitStack()
        world.know(self._task.assets)
        world.start_run(self._task.run, task.logical_date)
        self._forgets_xcoms = begins_when_entered
        if not begins_when_entered:
            world.xcoms.forget(*self._task.instance)
        world.attempts += 1
        self._record.start_attempt(retries=self._task.retries)
        self.context = self._context(self._task_instance(made))
        """What Airflow passes to `execute`; a plain dict."""

    def __enter__(self) -> Self:
        from airflow.sdk.bases.operator import ExecutorSafeguard
        from airflow.sdk.execution_time.context import set_current_context

        self._record.state = "running"
        if self._forgets_xcoms:
            self._forgets_xcoms = False
            self.world.xcoms.forget(*self._task.instance)
        self._stack.enter_context(set_current_context(self.context))  # type: ignore[arg-type]
        if self._task.operator is not None:
            token = ExecutorSafeguard.tracker.set(self.ti.task)
            self._stack.callback(ExecutorSafeguard.tracker.reset, token)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # As Airflow, which sends the last message of an attempt after its body; a killed one sends none.
        try:
            if kind is None or not issubclass(kind, CrashedError):
                end_what_is_open(owner=self.task_store)
        finally:
            forget_what_is_open(owner=self.task_store)
            self._stack.close()

    @property
    def _record(self) -> InstanceRecord:
        return self.world.instances[self._task.instance]

    def _context(self, ti: FakeTaskInstance) -> dict[str, Any]:
        from airflow.sdk.execution_time import context as real

        task, assets = self._task, self._task.assets
        dag_run = self._dag_run()
        dag = None if task.operator is None else ti.task.dag
        ti.context = {
            "ti": ti,
            "task_instance": ti,
            "task": ti.task,
            "dag": dag or _lazy(self._dag_with_the_task),
            "run_id": ti.run_id,
            "dag_run": dag_run,
            "inlets": ti.task.inlets,
            "outlets": ti.task.outlets,
            "params": _params(dag, ti.task, task.conf),
            "map_index_template": ti.task.map_index_template,
            "outlet_events": real.OutletEventAccessors(),
            "inlet_events": FakeInletEvents(task.inlets, self.world.events),
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
            "prev_start_date_success": _lazy(partial(self._last_success, "start_date")),
            "prev_end_date_success": _lazy(partial(self._last_success, "end_date")),
            "task_state_store": self.world.task_store(task.instance),
        }
        if dag_run.logical_date is not None:
            ti.context.update(self._dates(dag_run.logical_date))
        if assets:  # without any, Airflow leaves the key out
            store_of = partial(self.world.asset_store, task.instance)
            ti.context["asset_state_store"] = FakeAssetStores(assets, store_of)
        return ti.context

    def _dates(self, logical_date: datetime) -> dict[str, Any]:
        """What Airflow leaves out for a run without a logical date."""
        from airflow.sdk.timezone import coerce_datetime

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
            "task_instance_key_str": f"{self._task.dag_id}__{self._task.task_id}__{ds_nodash}",
            "prev_data_interval_start_success": _lazy(partial(self._last_success, "logical_date")),
            "prev_data_interval_end_success": _lazy(partial(self._last_success, "logical_date")),
        }

    def _last_success(self, date: Literal["start_date", "end_date", "logical_date"]) -> datetime | None:
        from airflow.sdk.timezone import coerce_datetime

        run = self.world.last_success(self._task.run)
        if run is None:
            return None
        found = self.world.run_starts[run] if date == "start_date" else getattr(self.world.runs[run], date)
        return coerce_datetime(found)

    def _dag_with_the_task(self) -> DAG:
        task = self._task
        others = frozenset(
            task_id
            for dag_id, _, task_id, _ in self.world.instances
            if dag_id == task.dag_id and task_id != task.task_id
        )
        key = (
            *map(os.environ.get, _VARIABLES.values()),
            task.dag_id,
            task.task_id,
            task.retries,
            tuple(map(_known_by, task.inlets)),
            tuple(map(_known_by, task.outlets)),
            others,
        )
        if key not in self.world.dags:
            # The task is kept beside it, as its assets are told apart by where they are in memory.
            self.world.dags[key] = _dag_of(task, others), task
        dag: DAG = self.world.dags[key][0]
        return dag

    def _dag_run(self) -> Any:
        from airflow.sdk.api.datamodels._generated import DagRun, DagRunState, DagRunType

        run = self.world.runs[self._task.run]
        return DagRun.model_construct(
            dag_id=self._task.dag_id,
            run_id=self._task.run_id,
            logical_date=run.logical_date,
            data_interval_start=run.logical_date,
            data_interval_end=run.logical_date,
            run_after=run.run_after,
            start_date=self.world.run_starts[self._task.run],
            end_date=None,
            clear_number=self.world.clear_numbers[self._task.run],
            run_type=DagRunType.MANUAL,
            state=DagRunState.RUNNING,
            conf=dict(self._task.conf),
            consumed_asset_events=[],
            partition_key=None,
        )

    def _task_instance(self, made: Any) -> FakeTaskInstance:
        from airflow.sdk.api.datamodels._generated import TaskInstanceState

        return FakeTaskInstance(
            dag_id=self._task.dag_id,
            task_id=self._task.task_id,
            run_id=self._task.run_id,
            map_index=self._task.map_index,
            try_number=self._record.try_number,
            max_tries=self._record.max_tries,
            start_date=max(self.world.clock.now(), self.world.run_starts[self._task.run]),
            task=made,
            world=self.world,
            number=self.world.attempts,
            state=TaskInstanceState.RUNNING,
            is_mapped=self._task.map_index >= 0,
        )

    @property
    def ti(self) -> FakeTaskInstance:
        """The task instance."""
        ti: FakeTaskInstance = self.context["ti"]
        return ti

    @property
    def task_store(self) -> FakeTaskStore:
        """The store of the task, with its log, observer and rows."""
        store: FakeTaskStore = self.context["task_state_store"]
        return store

    @property
    def asset_stores(self) -> FakeAssetStores:
        """The stores of the assets.

        Raises:
            KeyError: the task has none.
        """
        stores: FakeAssetStores = self.context["asset_state_store"]
        return stores

    def retry(self) -> TaskAttempt:
        """The attempt failed, or its process died: the next one has its state, and the same `max_tries`."""
        self._record.state = "running"
        return TaskAttempt(self._task, self.world)

    def reschedule(self) -> TaskAttempt:
        """The attempt ended with `AirflowRescheduleException`: another process goes on in the same try."""
        self._record.try_number -= 1
        return self.retry()

    def supersede(self) -> TaskAttempt:
        """The attempt was given up for dead and lives on: what comes next is a retry, at the same time as this."""
        return self.retry()

    def mark(self, state: Literal["failed", "success"]) -> None:
        """A person marks the task: the attempt goes on, with its `on_kill` called, until Airflow kills it."""
        self._record.state = state

    def clear(
        self,
        *,
        while_running: bool = False,
        moves_max_tries: bool = True,
        keep_state: bool | None = None,
    ) -> TaskAttempt:
        """A person clears the task: the next attempt.

        `clear_number` of the run moves, and `max_tries` becomes the number of tries so far plus the retries. The run
        is started again, with a new `start_date`, if this was the last of its tasks that ran.

        Args:
            while_running: the attempt still runs, and goes on until Airflow kills it some seconds later; its XComs
                are there until the next attempt is entered.
            moves_max_tries: False for a clear while running that looks like a retry of which only `clear_number`
                tells; Airflow leaves `max_tries` alone when the attempt does not end as it was told to.
            keep_state: by default Airflow's way: 3.3 keeps the task's state, 3.4 discards it.

        Raises:
            ValueError: `max_tries` stays only when the task is cleared while it runs.
        """
        if not (moves_max_tries or while_running):
            raise ValueError("max_tries of a task that has ended moves when it is cleared")
        self._clear(self._task, moves_max_tries=moves_max_tries, keep_state=keep_state)
        self._count_clear(is_over=not while_running)
        if not while_running:
            return self.retry()
        following = TaskAttempt(self._task, self.world, begins_when_entered=True)
        self._record.state = "restarting"
        return following

    def _clear(self, task: TaskSpec, *, moves_max_tries: bool = True, keep_state: bool | None = None) -> None:
        record = self.world.instances[task.instance]
        if moves_max_tries:
            record.max_tries = record.try_number + task.retries
        if not (self.world.airflow == "3.3" if keep_state is None else keep_state):
            record.rows.clear()

    def _count_clear(self, *, is_over: bool) -> None:
        others = {
            state
            for instance, state in self.world.states_of(self._task.run).items()
            if instance[2] != self._task.task_id
        }
        self.world.count_clear(self._task.run, is_over=is_over and others <= {"success", "failed"})

    def clear_another_task(self) -> None:
        """A person clears another task of the run: attempts from now on have a higher `clear_number`."""
        self._count_clear(is_over=False)

    def recreate(self) -> TaskAttempt:
        """The Dag run is deleted and made again with its run id, a minute later: the first attempt of the new one.

        The state of all its tasks is gone, try numbers begin at 1, nothing counts as cleared. Assets keep theirs.
        """
        self.world.recreate_runs(self._task.run)
        return TaskAttempt(self._task, self.world)

    def expire(self, after: timedelta = LONG) -> list[str]:
        """Let time pass, and Airflow delete what has expired of all task state: the keys that went.

        The attempt goes on. What was written with `NEVER_EXPIRE`, and the state of assets, stays.
        """
        return self.world.expire(after)

    def remap(self, items: Sequence[object]) -> list[TaskAttempt]:
        """The mapped task is cleared, and its list has become another: an attempt for each item.

        State follows the index, not the item: what an instance finds was left by whichever item had its index. The
        attempts of all instances that there were are replaced.
        """
        self.world.replace_all(self._task.instance[:3])
        self._count_clear(is_over=True)
        return [self._mapped(replace(self._task, map_index=index)) for index in range(len(items))]

    def _mapped(self, task: TaskSpec) -> TaskAttempt:
        self._clear(task)
        return TaskAttempt(task, self.world)

    def succeed(self) -> None:
        """The attempt succeeded: the events of its outlets are published, which is when others see them."""
        events: Any = self.context["outlet_events"]
        self._record.state = "success"
        self.world.end_run(self._task.run)
        # By what Airflow knows an asset by; its own hash and comparison of assets are slow.
        outlets = {(asset.name, asset.uri): asset for asset in self._task.outlets if isinstance(asset, Asset)}
        for asset in outlets.values():
            self.world.events.append(self._event(asset, events[asset].extra))

    def _event(self, asset: Asset, extra: dict[str, Any]) -> AssetEvent:
        return AssetEvent(
            asset=asset,
            timestamp=self.world.clock.now(),
            extra=dict(extra),
            source_dag_id=self._task.dag_id,
            source_task_id=self._task.task_id,
            source_run_id=self._task.run_id,
            source_map_index=self._task.map_index,
        )

    def next_run(self, run_id: str | None = None, *, logical_date: datetime | None = None) -> TaskAttempt:
        """The first attempt in another run: the task's state is empty, that of the assets is the same.

        Whether this attempt succeeded is not its business: call `succeed` before if it has.
        """
        runs = {instance[1] for instance in self.world.instances}
        task = replace(self._task, run_id=run_id or f"run-{len(runs) + 1}", logical_date=logical_date)
        return TaskAttempt(task, self.world)


def _lazy(make: Callable[[], Any]) -> Any:
    """A stand-in that is made when it is first used, as Airflow has in its contexts."""
    from lazy_object_proxy import Proxy  # type: ignore[import-untyped]

    return Proxy(make)


def _params(dag: DAG | None, task: Any, conf: dict[str, Any]) -> dict[str, Any]:
    if not (dag or conf):
        return {}
    from airflow.sdk.definitions.param import process_params

    return process_params(dag, task, conf, suppress_exception=False)  # type: ignore[arg-type]
