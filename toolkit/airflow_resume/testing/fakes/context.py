"""An attempt of a task with its context, and what can happen to the task afterwards."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime, timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

from airflow.sdk.definitions.asset import Asset

from airflow_resume.arguments import check_type
from airflow_resume.last_message import end_what_is_open, forget_what_is_open
from airflow_resume.testing.fakes.asset_events import AssetEvent
from airflow_resume.testing.fakes.assets import AnyAsset, FakeAssetStores
from airflow_resume.testing.fakes.context_entries import context_entries
from airflow_resume.testing.fakes.stores import FakeTaskStore
from airflow_resume.testing.fakes.task_instance import FakeTaskInstance
from airflow_resume.testing.fakes.task_spec import MakeOperator, TaskSpec
from airflow_resume.testing.fakes.world import AirflowVersion, InstanceRecord, World
from airflow_resume.testing.points import CrashedError

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator
    from typing_extensions import Self

LONG = timedelta(days=31)
"""Longer than Airflow keeps a key by default."""


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
        task: the operator, which is put into a Dag if it has none, or a function that makes it.
        dag_id: the id of the Dag; an operator with a Dag has its own.
        task_id: the id of the task; an operator has its own.
        run_id: the id of the run.
        map_index: the map index; -1 if the task is not mapped.
        retries: the retries of the task; an operator has its own.
        assets: both inlets and outlets; those given as `Asset` are known to Airflow and active. An operator has
            its own.
        logical_date: the logical date of the run. Its data interval begins and ends there. None: it has none, like a
            triggered run.
        conf: the conf of the run.
        airflow: the version of Airflow whose life cycle is followed.
        world: the Airflow of another attempt, for several tasks in the same one; the version is then the world's.

    Raises:
        TypeError: `world` is something else.
    """
    if world is not None:
        check_type("world", world, World, "a World, such as attempt.world")
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


class TaskAttempt:
    """One attempt of a task. In a `with` block its context is the current one.

    Made by `task_context` and by the methods of an attempt.

    The attempt ends with the block: a loop that is still open because a variable holds its iterator is saved, whether
    the block ends with an error or not. `CrashedError` stands for the end of the process, and then nothing is saved.

    Every step of the life cycle (`retry`, `clear`, ...) returns the next attempt and replaces this one: code that still
    holds its stores reads defaults from the task's store, and its writes are refused.
    """

    def __init__(
        self, task: TaskSpec, world: World, *, begins_when_entered: bool = False, keeps_xcoms: bool = False
    ) -> None:
        made = task.make_task()
        self.world = world
        """The Airflow that the attempt is in."""
        self._task = task.of(made)
        self._stack = ExitStack()
        world.know(self._task.assets)
        world.start_run(self._task.run, task.logical_date)
        self._forgets_xcoms = begins_when_entered
        if not (begins_when_entered or keeps_xcoms):
            world.xcoms.forget(*self._task.instance)
        world.attempts += 1
        world.latest = self._task.instance
        later = begins_when_entered and world.airflow != "3.3"
        self._leaving = self._record.start_attempt(retries=self._task.retries, later=later)
        self.context = context_entries(world, self._task, self._task_instance(made))
        """What Airflow passes to `execute`; a plain dict."""

    def __enter__(self) -> Self:
        from airflow.sdk.bases.operator import ExecutorSafeguard
        from airflow.sdk.execution_time.context import set_current_context

        self._record.state = "running"
        while self._leaving:
            self._leaving.pop().replaced = True
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
        self._record.comes_back = True
        return self.retry()

    def resume(self) -> TaskAttempt:
        """The attempt was deferred, and its trigger has fired: another process goes on in the same try.

        It finds the XComs that were pushed before.
        """
        self._record.try_number -= 1
        following = TaskAttempt(self._task, self.world, keeps_xcoms=True)
        following.ti.xcoms.update(self.ti.xcoms)
        return following

    def supersede(self) -> TaskAttempt:
        """Airflow gave the attempt up while it still runs: the next attempt is a retry that runs at the same time."""
        return self.retry()

    def mark(self, state: Literal["failed", "success"]) -> None:
        """A person marks the task: the attempt goes on, with its `on_kill` called, until Airflow kills it.

        Args:
            state: the state that the person gives the task instance.
        """
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
                are there until the next attempt is entered. In 3.3 it may not write any more. In 3.4 it may, until the
                next attempt is entered.
            moves_max_tries: False for a clear of a running attempt that only `clear_number` tells from a retry. Airflow
                leaves `max_tries` as it is if the attempt does not end in the way that it was told to.
            keep_state: by default Airflow's way: 3.3 keeps the task's state, 3.4 discards it.

        Raises:
            ValueError: `max_tries` stays only when the task is cleared while it runs.
        """
        if not (moves_max_tries or while_running):
            raise ValueError("A clear moves max_tries unless the task runs.\nPass while_running=True as well.")
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
        """The Dag run is deleted and created again with its run id, a minute later: the first attempt in the new run.

        The state of all its tasks is gone, try numbers begin at 1, nothing counts as cleared. Assets keep theirs.
        """
        self.world.recreate_runs(self._task.run)
        return TaskAttempt(self._task, self.world)

    def expire(self, after: timedelta = LONG) -> list[str]:
        """Let time pass, and let Airflow delete all expired task state. Returns the keys that were deleted.

        The attempt goes on. What was written with `NEVER_EXPIRE`, and the state of assets, stays.

        Args:
            after: how much time passes before the cleanup.
        """
        return self.world.expire(after)

    def remap(self, items: Sequence[object]) -> list[TaskAttempt]:
        """The mapped task is cleared, and its list has changed: an attempt for each item.

        State belongs to the index, not the item: an instance finds what the earlier item with its index left. The
        attempts of all earlier instances are replaced.

        Args:
            items: one for each instance that the task has now.
        """
        self.world.replace_all(self._task.instance[:3])
        self._count_clear(is_over=True)
        attempts = []
        for index in range(len(items)):
            task = replace(self._task, map_index=index)
            self._clear(task)
            attempts.append(TaskAttempt(task, self.world))
        return attempts

    def succeed(self) -> None:
        """The attempt succeeded: the events of its outlets are published, and from then on others see them."""
        events: Any = self.context["outlet_events"]
        self._record.state = "success"
        self.world.end_run(self._task.run)
        # By name and URI, by which Airflow knows an asset, because the asset's own hash and comparison are slow.
        outlets = {(asset.name, asset.uri): asset for asset in self._task.outlets if isinstance(asset, Asset)}
        for asset in outlets.values():
            event = AssetEvent(
                asset=asset,
                timestamp=self.world.clock.now(),
                extra=dict(events[asset].extra),
                source_dag_id=self._task.dag_id,
                source_task_id=self._task.task_id,
                source_run_id=self._task.run_id,
                source_map_index=self._task.map_index,
            )
            self.world.events.append(event)

    def next_run(self, run_id: str | None = None, *, logical_date: datetime | None = None) -> TaskAttempt:
        """The first attempt in another run: the state of the task is empty, and that of the assets is kept.

        It does not mark this attempt as successful: call `succeed` before, if it is.

        Args:
            run_id: of that run; by default `run-2`, and so on.
            logical_date: of that run, with its zone; by default it has none.
        """
        runs = {instance[1] for instance in self.world.instances}
        task = replace(self._task, run_id=run_id or f"run-{len(runs) + 1}", logical_date=logical_date)
        return TaskAttempt(task, self.world)
