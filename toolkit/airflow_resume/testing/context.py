"""An attempt of a task with its context, and what may happen to the task afterwards."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from types import SimpleNamespace, TracebackType
from typing import TYPE_CHECKING, Any, Literal

from airflow.sdk.definitions.asset import Asset

from airflow_resume.testing.assets import AnyAsset, FakeAssetStores
from airflow_resume.testing.events import AssetEvent, FakeInletEvents
from airflow_resume.testing.stores import FakeTaskStore
from airflow_resume.testing.world import AirflowVersion, Instance, InstanceRecord, World

if TYPE_CHECKING:
    from typing_extensions import Self

LONG = timedelta(days=31)
"""Longer than Airflow keeps a key by default."""


def task_context(
    *,
    dag_id: str = "dag",
    task_id: str = "task",
    run_id: str = "run-1",
    map_index: int = -1,
    retries: int = 3,
    assets: Iterable[AnyAsset] = (),
    airflow: AirflowVersion = "3.3",
    world: World | None = None,
) -> TaskAttempt:
    """The first attempt of a task, and its context.

        with task_context(assets=[orders]) as first:
            operator.execute(first.context)   # get_current_context() works in here
        with first.retry() as second:
            operator.execute(second.context)  # the same state, another attempt

    Args:
        dag_id: of the task.
        task_id: of the task.
        run_id: of its run.
        map_index: of its instance; -1 when the task is not mapped.
        retries: of the task.
        assets: inlets and outlets at once; those given as `Asset` are known to Airflow and active.
        airflow: which version's life cycle.
        world: the Airflow that another attempt belongs to, for several tasks in one; its version is the world's.
    """
    given = world or World(airflow=airflow)
    task = TaskSpec(
        dag_id=dag_id, task_id=task_id, run_id=run_id, map_index=map_index, retries=retries, assets=tuple(assets)
    )
    given.know(task.assets)
    return TaskAttempt(task, given)


@dataclass(frozen=True, kw_only=True)
class TaskSpec:
    """The task instance that an attempt is of."""

    dag_id: str
    task_id: str
    run_id: str
    map_index: int
    retries: int
    assets: tuple[AnyAsset, ...]

    @property
    def instance(self) -> Instance:
        """What state belongs to."""
        return self.dag_id, self.run_id, self.task_id, self.map_index

    @property
    def run(self) -> tuple[str, str]:
        """What a clear counts in."""
        return self.dag_id, self.run_id


@dataclass(kw_only=True)
class FakeTaskInstance:
    """The `ti` of a context."""

    dag_id: str
    task_id: str
    run_id: str
    map_index: int
    try_number: int
    max_tries: int
    task: Any
    world: World = field(repr=False)
    xcoms: dict[str, Any] = field(default_factory=dict)
    """What this attempt pushed."""

    @property
    def stats_tags(self) -> dict[str, str]:
        """Tags of metrics."""
        return {"dag_id": self.dag_id, "task_id": self.task_id}

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

    def xcom_push(self, key: str, value: Any) -> None:
        """Keep an XCom."""
        self.xcoms[key] = value


class TaskAttempt:
    """One attempt of a task. In a `with` block its context is the current one.

    Every step of the life cycle gives the attempt that comes next, and replaces this one: whatever still holds its
    stores reads defaults from that of the task, and is refused when it writes.
    """

    def __init__(self, task: TaskSpec, world: World) -> None:
        self.world = world
        self._task = task
        self._stack = ExitStack()
        world.start_attempt(task.instance, retries=task.retries)
        self.context = self._context()
        """What Airflow passes to `execute`; a plain dict."""

    def __enter__(self) -> Self:
        from airflow.sdk.execution_time.context import set_current_context

        self._record.state = "running"
        self._stack.enter_context(set_current_context(self.context))  # type: ignore[arg-type]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    @property
    def _record(self) -> InstanceRecord:
        return self.world.instances[self._task.instance]

    def _context(self) -> dict[str, Any]:
        from airflow.sdk.execution_time.context import OutletEventAccessors

        ti = self._task_instance()
        items: dict[str, Any] = {
            "ti": ti,
            "task_instance": ti,
            "task": ti.task,
            "run_id": ti.run_id,
            "dag_run": self._dag_run(),
            "inlets": list(self._task.assets),
            "outlets": list(self._task.assets),
            "params": {},
            "outlet_events": OutletEventAccessors(),
            "inlet_events": FakeInletEvents(self._task.assets, self.world.events),
            "task_state_store": self.world.task_store(self._task.instance),
        }
        if self._task.assets:  # without any, Airflow leaves the key out
            store_of = partial(self.world.asset_store, self._task.instance)
            items["asset_state_store"] = FakeAssetStores(self._task.assets, store_of)
        return items

    def _dag_run(self) -> SimpleNamespace:
        clear_number = self.world.clear_numbers[self._task.run]
        return SimpleNamespace(
            dag_id=self._task.dag_id,
            run_id=self._task.run_id,
            clear_number=clear_number,
            conf={},
            logical_date=None,
            start_date=self.world.run_starts.get(self._task.run),
        )

    def _task_instance(self) -> FakeTaskInstance:
        assets = list(self._task.assets)
        return FakeTaskInstance(
            dag_id=self._task.dag_id,
            task_id=self._task.task_id,
            run_id=self._task.run_id,
            map_index=self._task.map_index,
            try_number=self._record.try_number,
            max_tries=self._record.max_tries,
            task=SimpleNamespace(
                task_id=self._task.task_id,
                retries=self._task.retries,
                inlets=assets,
                outlets=assets,
                on_kill=lambda: None,
            ),
            world=self.world,
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
        run_had_finished: bool = False,
    ) -> TaskAttempt:
        """A person clears the task: the next attempt.

        `clear_number` of the run moves, and `max_tries` becomes the number of tries so far plus the retries.

        Args:
            while_running: the attempt still runs, and goes on until Airflow kills it some seconds later.
            moves_max_tries: False for a clear while running that looks like a retry of which only `clear_number`
                tells; Airflow leaves `max_tries` alone when the attempt does not end as it was told to.
            keep_state: by default Airflow's way: 3.3 keeps the task's state, 3.4 discards it.
            run_had_finished: then the run starts once more, and has another start date.

        Raises:
            ValueError: `max_tries` stays only when the task is cleared while it runs.
        """
        if not (moves_max_tries or while_running):
            raise ValueError("max_tries of a task that has ended moves when it is cleared")
        self._clear(self._task, moves_max_tries=moves_max_tries, keep_state=keep_state)
        self.world.clear_numbers[self._task.run] += 1
        if run_had_finished:
            self.world.restart_run(self._task.run)
        following = self.retry()
        if while_running:  # until the next attempt is entered
            self._record.state = "restarting"
        return following

    def _clear(self, task: TaskSpec, *, moves_max_tries: bool = True, keep_state: bool | None = None) -> None:
        record = self.world.instances[task.instance]
        if moves_max_tries:
            record.max_tries = record.try_number + task.retries
        if not (self.world.airflow == "3.3" if keep_state is None else keep_state):
            record.rows.clear()

    def recreate(self) -> TaskAttempt:
        """The Dag run is deleted and made again with its run id, a minute later: the first attempt of the new one.

        The state of all its tasks is gone, try numbers begin at 1, nothing counts as cleared. Assets keep theirs.
        """
        self.world.recreate_runs(self._task.run)
        return TaskAttempt(self._task, self.world)

    def clear_another_task(self) -> None:
        """A person clears another task of the run: attempts from now on have a higher `clear_number`."""
        self.world.clear_numbers[self._task.run] += 1

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
        self.world.clear_numbers[self._task.run] += 1
        return [self._mapped(replace(self._task, map_index=index)) for index in range(len(items))]

    def _mapped(self, task: TaskSpec) -> TaskAttempt:
        self._clear(task)
        return TaskAttempt(task, self.world)

    def succeed(self) -> None:
        """The attempt succeeded: the events of its outlets are published, which is when others see them."""
        events: Any = self.context["outlet_events"]
        for asset in self._task.assets:
            if isinstance(asset, Asset):
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

    def next_run(self, run_id: str | None = None) -> TaskAttempt:
        """The first attempt in another run: the task's state is empty, that of the assets is the same.

        Whether this attempt succeeded is not its business: call `succeed` before if it has.
        """
        runs = {instance[1] for instance in self.world.instances}
        task = replace(self._task, run_id=run_id or f"run-{len(runs) + 1}")
        return TaskAttempt(task, self.world)
