"""What outlives the attempts of a task: the rows of the database, and what Airflow knows of task instances and runs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Literal, TypeAlias

from airflow.sdk.definitions.asset import Asset, AssetUriRef

from airflow_resume.testing.fakes.asset_events import AssetEvent
from airflow_resume.testing.fakes.assets import AnyAsset
from airflow_resume.testing.fakes.clock import FakeClock
from airflow_resume.testing.fakes.operations import CallRecorder, Observer
from airflow_resume.testing.fakes.rows import StoredRows
from airflow_resume.testing.fakes.stores import (
    AsyncFakeTaskStore,
    FakeAssetStore,
    FakeTaskStore,
    NextFakeAssetStore,
)
from airflow_resume.testing.fakes.xcoms import XComs

A_MINUTE = timedelta(minutes=1)

AirflowVersion: TypeAlias = Literal["3.3", "3.4"]

Instance: TypeAlias = tuple[str, str, str, int]
"""Dag id, run id, task id and map index: what state belongs to."""

Run: TypeAlias = tuple[str, str]
"""Dag id and run id."""

MOMENT = timedelta(microseconds=1)
"""A run that is started again starts later, even where the clock was not moved."""

attempt_begun: ContextVar[Callable[[object, bool], object] | None] = ContextVar("attempt_begun", default=None)
"""Called by a new attempt with its task instance, and whether it replaces another attempt."""


@dataclass
class InstanceRecord:
    """What Airflow knows of a task instance."""

    rows: StoredRows = field(default_factory=StoredRows)
    try_number: int = 0
    max_tries: int = 0
    state: str = "running"
    """The state of the task instance, as `ti.get_task_states` returns it."""
    comes_back: bool = False
    """Whether the last attempt rescheduled itself, so that the next one has the same try number."""
    current: list[FakeTaskStore | FakeAssetStore] = field(default_factory=list)
    """The stores of the attempt that Airflow knows; those of all others are replaced."""

    def copy(self) -> InstanceRecord:
        """A copy for a backup, which does not include the known attempt."""
        return replace(self, rows=StoredRows(self.rows), current=[])

    def start_attempt(self, *, retries: int, later: bool = False) -> list[FakeTaskStore | FakeAssetStore]:
        """Count another try, unless the last attempt rescheduled itself, and forget the attempt that is known.

        Args:
            retries: of the task.
            later: the attempt that is known may write until the new one begins.

        Returns:
            The stores that are to be replaced when the new attempt begins.
        """
        tell = attempt_begun.get()
        if tell is not None:
            tell(self, bool(self.current))
        leaving, self.current = (self.current, []) if later else ([], self.current)
        self.replace()
        if self.try_number == 0 and self.max_tries == 0:
            self.max_tries = retries
        self.try_number += not self.comes_back
        self.comes_back = False
        return leaving

    def replace(self) -> None:
        """Forget the attempt that is known: from now on it reads defaults, and its writes are refused."""
        for store in self.current:
            store.replaced = True
        self.current = []


@dataclass
class RunRecord:
    """What Airflow knows of a Dag run, besides when it was started."""

    run_after: datetime
    logical_date: datetime | None = None
    end_date: datetime | None = None
    """When the last of its tasks succeeded; None while one has not."""


@dataclass
class AssetRecord:
    """What Airflow knows of an asset."""

    asset: Asset
    rows: StoredRows = field(default_factory=StoredRows)
    active: bool = True


@dataclass(frozen=True)
class WorldBackup:
    """A backup of the database."""

    instances: dict[Instance, InstanceRecord]
    clear_numbers: dict[Run, int]
    run_starts: dict[Run, datetime]
    runs: dict[Run, RunRecord]
    xcoms: dict[Any, Any]
    assets: dict[str, AssetRecord]
    events: list[AssetEvent]


@dataclass
class World:
    """One Airflow.

    Every call of every store passes `counter`, which has the log of operations, the observer and the outage.
    """

    airflow: AirflowVersion = "3.3"
    """The version of Airflow that the stores are like."""
    clock: FakeClock = field(default_factory=FakeClock)
    """The clock of retention, runs and events."""
    counter: CallRecorder = field(default_factory=CallRecorder)
    """Observes and logs the calls of all stores."""
    instances: dict[Instance, InstanceRecord] = field(default_factory=lambda: defaultdict(InstanceRecord))
    """By Dag id, run id, task id and map index."""
    clear_numbers: dict[Run, int] = field(default_factory=lambda: defaultdict(int))
    """How often any task of a run was cleared, by Dag id and run id."""
    run_starts: dict[Run, datetime] = field(default_factory=dict)
    """When the scheduler started each run. A retry leaves that alone, and so does a clear while the run goes on; the
    clear of a finished run starts it again, and so does a run that is deleted and created again with its id.
    """
    runs: dict[Run, RunRecord] = field(default_factory=dict)
    """By Dag id and run id."""
    xcoms: XComs = field(default_factory=XComs)
    """What the tasks have pushed."""
    attempts: int = 0
    """How many attempts there were, of all tasks."""
    latest: Instance | None = None
    """Of which task instance the newest attempt is; None if there was no attempt."""
    assets: dict[str, AssetRecord] = field(default_factory=dict)
    """By name."""
    events: list[AssetEvent] = field(default_factory=list)
    """The events of all assets, oldest first."""
    dags: dict[Any, Any] = field(default_factory=dict, repr=False)
    """Dags of tasks without an operator, which Airflow makes slowly; each world has its own."""

    @property
    def observer(self) -> Observer | None:
        """The observer of all stores, see `FakeTaskStore.observer`; so `CrashWorld(airflow=World())` watches them."""
        return self.counter.observer

    @observer.setter
    def observer(self, observer: Observer | None) -> None:
        self.counter.observer = observer

    def know(self, assets: Iterable[AnyAsset]) -> None:
        """Make the assets known and active; a reference alone makes none known.

        Args:
            assets: assets, and references to them.
        """
        for asset in assets:
            if isinstance(asset, Asset):
                self.assets.setdefault(asset.name, AssetRecord(asset))

    def start_run(self, run: Run, logical_date: datetime | None) -> None:
        """Make the run known and started, unless it is already.

        Args:
            run: Dag id and run id.
            logical_date: of the run, with its zone; None: it has none.
        """
        self.run_starts.setdefault(run, self.clock.now())
        self.runs.setdefault(run, RunRecord(run_after=self.clock.now(), logical_date=logical_date)).end_date = None

    def count_clear(self, run: Run, *, is_over: bool) -> None:
        """Count that a task of the run was cleared; one that is over is started again.

        Args:
            run: Dag id and run id.
            is_over: whether the run had come to its end.
        """
        self.clear_numbers[run] += 1
        if is_over:
            self.run_starts[run] = max(self.clock.now(), self.run_starts[run] + MOMENT)

    def states_of(self, run: Run) -> dict[Instance, str]:
        """The states of the task instances of a run.

        Args:
            run: Dag id and run id.
        """
        return {instance: record.state for instance, record in self.instances.items() if instance[:2] == run}

    def end_run(self, run: Run) -> None:
        """Note that the run is over, if all its tasks have succeeded.

        Args:
            run: Dag id and run id.
        """
        if set(self.states_of(run).values()) == {"success"}:
            self.runs[run].end_date = self.clock.now()

    def last_success(self, run: Run) -> Run | None:
        """The run of the same Dag with the newest logical date before that of `run`, of those that succeeded.

        Args:
            run: Dag id and run id.
        """
        own = self.runs[run].logical_date
        found = [
            (record.logical_date, other)
            for other, record in self.runs.items()
            if own and other[0] == run[0] and record.end_date and record.logical_date and record.logical_date < own
        ]
        return max(found)[1] if found else None

    def recreate_runs(self, *runs: Run) -> None:
        """The runs (Dag id and run id; by default, all) are deleted and created again with their ids, a minute later.

        Their task state is gone, try numbers begin at 1 again, nothing counts as cleared, and every attempt is
        replaced. The state and events of assets stay.

        Args:
            runs: Dag id and run id of each.
        """
        self.clock.advance(A_MINUTE)
        for instance in [each for each in self.instances if not runs or each[:2] in runs]:
            self.instances.pop(instance).replace()
            self.xcoms.forget(*instance)
        for run in runs or list(self.run_starts):
            self.run_starts.pop(run, None)
            self.runs.pop(run, None)
            self.clear_numbers.pop(run, None)

    def come_back(self, at: datetime) -> None:
        """The newest attempt has ended with `AirflowRescheduleException`: the next one of its task has the same try.

        Args:
            at: the date of the exception; the clock is advanced to it.
        """
        if self.latest is not None:
            self.instances[self.latest].comes_back = True
        self.clock.advance(max(at - self.clock.now(), timedelta(0)))

    def clear_state(self) -> None:
        """A person clears all task state; runs and attempts go on."""
        for record in self.instances.values():
            record.rows.clear()

    def backup(self) -> WorldBackup:
        """A backup of the database as it is now."""
        return WorldBackup(
            instances={instance: record.copy() for instance, record in self.instances.items()},
            clear_numbers=dict(self.clear_numbers),
            run_starts=dict(self.run_starts),
            runs={run: replace(record) for run, record in self.runs.items()},
            xcoms=dict(self.xcoms.kept),
            assets={name: replace(record, rows=StoredRows(record.rows)) for name, record in self.assets.items()},
            events=list(self.events),
        )

    def restore(self, backup: WorldBackup) -> None:
        """Restore the database. Every attempt is replaced, as the ones that began since then are not known.

        Args:
            backup: as `backup` returned it.
        """
        for record in self.instances.values():
            record.replace()
        _replace_all(self.instances, {instance: record.copy() for instance, record in backup.instances.items()})
        _replace_all(self.clear_numbers, backup.clear_numbers)
        # A run is started before its first attempt, so a backup made at the start of that has it already.
        self.run_starts.update(backup.run_starts)
        self.runs.update({run: replace(record) for run, record in backup.runs.items()})
        _replace_all(self.xcoms.kept, backup.xcoms)
        for name, asset in self.assets.items():
            old = backup.assets.get(name)
            asset.rows.replace_by(old.rows if old else {})
            asset.active = old is None or old.active
        self.events[:] = backup.events

    def replace_all(self, task: tuple[str, str, str]) -> None:
        """Forget the attempts of all instances of a mapped task, named by Dag id, run id and task id.

        Args:
            task: Dag id, run id and task id.
        """
        for instance, record in self.instances.items():
            if instance[:3] == task:
                record.replace()

    def task_store(self, instance: Instance) -> FakeTaskStore:
        """The store of a new attempt.

        Args:
            instance: Dag id, run id, task id and map index.
        """
        kind = FakeTaskStore if self.airflow == "3.3" else AsyncFakeTaskStore
        store = kind(self.instances[instance].rows, clock=self.clock, counter=self.counter)
        self.instances[instance].current.append(store)
        return store

    def asset_store(self, instance: Instance, asset: AnyAsset) -> FakeAssetStore:
        """The store of an asset, for a new attempt.

        Args:
            instance: Dag id, run id, task id and map index.
            asset: the asset, or a reference to it.
        """
        if isinstance(asset, AssetUriRef):
            record = next((each for each in self.assets.values() if each.asset.uri == asset.uri), None)
        else:
            record = self.assets.get(asset.name)
        kind = FakeAssetStore if self.airflow == "3.3" else NextFakeAssetStore
        store = kind(
            record.rows if record else None,
            active=record is not None and record.active,
            clock=self.clock,
            counter=self.counter,
        )
        self.instances[instance].current.append(store)
        return store

    def expire(self, after: timedelta) -> list[str]:
        """Let time pass, and run `airflow state-store clean`. Returns the deleted keys.

        Args:
            after: how much time passes before the cleanup.
        """
        self.clock.advance(after)
        return [key for record in self.instances.values() for key in record.rows.collect(self.clock.now())]


def _replace_all(kept: dict[Any, Any], by: dict[Any, Any]) -> None:
    kept.clear()
    kept.update(by)
