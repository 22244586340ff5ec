"""What outlives the attempts of a task: the rows of the database, and what Airflow knows of task instances and runs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Literal, TypeAlias

from airflow.sdk.definitions.asset import Asset, AssetUriRef

from airflow_resume.testing.assets import AnyAsset
from airflow_resume.testing.clock import FakeClock
from airflow_resume.testing.events import AssetEvent
from airflow_resume.testing.operations import Counter, Observer
from airflow_resume.testing.rows import Rows
from airflow_resume.testing.stores import AsyncFakeTaskStore, FakeAssetStore, FakeTaskStore
from airflow_resume.testing.xcoms import XComs

A_MINUTE = timedelta(minutes=1)

AirflowVersion: TypeAlias = Literal["3.3", "3.4"]

Instance: TypeAlias = tuple[str, str, str, int]
"""Dag id, run id, task id and map index: what state belongs to."""

Run: TypeAlias = tuple[str, str]
"""Dag id and run id."""

MOMENT = timedelta(microseconds=1)
"""A run that is started again starts later, even where the clock was not moved."""

attempt_begun: ContextVar[Callable[[object, bool], object] | None] = ContextVar("attempt_begun", default=None)
"""Told by a new attempt of which task instance it is, and whether it replaces another one."""


@dataclass
class InstanceRecord:
    """What Airflow knows of a task instance."""

    rows: Rows = field(default_factory=Rows)
    try_number: int = 0
    max_tries: int = 0
    state: str = "running"
    """Of the task instance, as `ti.get_task_states` answers."""
    current: list[FakeTaskStore | FakeAssetStore] = field(default_factory=list)
    """The stores of the attempt that is known; those of every other one are replaced."""

    def copy(self) -> InstanceRecord:
        """What a backup has of it; which attempt is known is not in it."""
        return replace(self, rows=Rows(self.rows), current=[])

    def start_attempt(self, *, retries: int) -> None:
        """Count another try, and forget the attempt that is known."""
        tell = attempt_begun.get()
        if tell is not None:
            tell(self, bool(self.current))
        self.replace()
        if self.try_number == 0 and self.max_tries == 0:
            self.max_tries = retries
        self.try_number += 1

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
    rows: Rows = field(default_factory=Rows)
    active: bool = True


@dataclass(frozen=True)
class WorldBackup:
    """What the database had."""

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
    clock: FakeClock = field(default_factory=FakeClock)
    counter: Counter = field(default_factory=Counter)
    instances: dict[Instance, InstanceRecord] = field(default_factory=lambda: defaultdict(InstanceRecord))
    clear_numbers: dict[Run, int] = field(default_factory=lambda: defaultdict(int))
    """By Dag id and run id: how often any task of the run was cleared."""
    run_starts: dict[Run, datetime] = field(default_factory=dict)
    """When the scheduler started each run. A retry leaves that alone, and so does a clear while the run goes on; the
    clear of a run that is over has it started again, and so has a run that is deleted and made again with its id.
    """
    runs: dict[Run, RunRecord] = field(default_factory=dict)
    xcoms: XComs = field(default_factory=XComs)
    attempts: int = 0
    """How many there were, of all tasks."""
    assets: dict[str, AssetRecord] = field(default_factory=dict)
    """By name."""
    events: list[AssetEvent] = field(default_factory=list)
    """Of all assets, oldest first."""
    dags: dict[Any, Any] = field(default_factory=dict, repr=False)
    """Dags of tasks that are no operators, which Airflow is slow to make; another world has its own."""

    @property
    def observer(self) -> Observer | None:
        """Of all stores at once, see `FakeTaskStore.observer`; so `CrashWorld(airflow=World())` watches them."""
        return self.counter.observer

    @observer.setter
    def observer(self, observer: Observer | None) -> None:
        self.counter.observer = observer

    def know(self, assets: Iterable[AnyAsset]) -> None:
        """Let the assets be known and active; a reference alone makes none known."""
        for asset in assets:
            if isinstance(asset, Asset):
                self.assets.setdefault(asset.name, AssetRecord(asset))

    def start_run(self, run: Run, logical_date: datetime | None) -> None:
        """Let the run be known and started, unless it is."""
        self.run_starts.setdefault(run, self.clock.now())
        self.runs.setdefault(run, RunRecord(run_after=self.clock.now(), logical_date=logical_date)).end_date = None

    def count_clear(self, run: Run, *, is_over: bool) -> None:
        """Count that a task of the run was cleared; one that is over is started again."""
        self.clear_numbers[run] += 1
        if is_over:
            self.run_starts[run] = max(self.clock.now(), self.run_starts[run] + MOMENT)

    def states_of(self, run: Run) -> dict[Instance, str]:
        """The states of the task instances of a run."""
        return {instance: record.state for instance, record in self.instances.items() if instance[:2] == run}

    def end_run(self, run: Run) -> None:
        """Note that the run is over, if all its tasks have succeeded."""
        if set(self.states_of(run).values()) == {"success"}:
            self.runs[run].end_date = self.clock.now()

    def last_success(self, run: Run) -> Run | None:
        """The run of the same Dag with the newest logical date before that of `run`, of those that succeeded."""
        own = self.runs[run].logical_date
        found = [
            (record.logical_date, other)
            for other, record in self.runs.items()
            if own and other[0] == run[0] and record.end_date and record.logical_date and record.logical_date < own
        ]
        return max(found)[1] if found else None

    def recreate_runs(self, *runs: Run) -> None:
        """The runs (Dag id and run id; by default, all) are deleted and made again with their ids, a minute later.

        Their task state is gone, try numbers begin at 1 again, nothing counts as cleared, and every attempt is
        replaced. The state and events of assets stay.
        """
        self.clock.advance(A_MINUTE)
        for instance in [each for each in self.instances if not runs or each[:2] in runs]:
            self.instances.pop(instance).replace()
            self.xcoms.forget(*instance)
        for run in runs or list(self.run_starts):
            self.run_starts.pop(run, None)
            self.runs.pop(run, None)
            self.clear_numbers.pop(run, None)

    def clear_state(self) -> None:
        """A person clears all task state; runs and attempts go on."""
        for record in self.instances.values():
            record.rows.clear()

    def backup(self) -> WorldBackup:
        """What the database has now."""
        return WorldBackup(
            instances={instance: record.copy() for instance, record in self.instances.items()},
            clear_numbers=dict(self.clear_numbers),
            run_starts=dict(self.run_starts),
            runs={run: replace(record) for run, record in self.runs.items()},
            xcoms=dict(self.xcoms.kept),
            assets={name: replace(record, rows=Rows(record.rows)) for name, record in self.assets.items()},
            events=list(self.events),
        )

    def restore(self, backup: WorldBackup) -> None:
        """Make the database what it was. Every attempt is replaced: those that began since are not known."""
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
        """Forget the attempts of all instances of a mapped task, named by Dag id, run id and task id."""
        for instance, record in self.instances.items():
            if instance[:3] == task:
                record.replace()

    def task_store(self, instance: Instance) -> FakeTaskStore:
        """The store of a new attempt."""
        kind = FakeTaskStore if self.airflow == "3.3" else AsyncFakeTaskStore
        store = kind(self.instances[instance].rows, clock=self.clock, counter=self.counter)
        self.instances[instance].current.append(store)
        return store

    def asset_store(self, instance: Instance, asset: AnyAsset) -> FakeAssetStore:
        """The store of an asset, for a new attempt."""
        record = self._record(asset)
        store = FakeAssetStore(
            record.rows if record else None,
            active=record is not None and record.active,
            clock=self.clock,
            counter=self.counter,
        )
        self.instances[instance].current.append(store)
        return store

    def _record(self, asset: AnyAsset) -> AssetRecord | None:
        if not isinstance(asset, AssetUriRef):
            return self.assets.get(asset.name)
        return next((record for record in self.assets.values() if record.asset.uri == asset.uri), None)

    def expire(self, after: timedelta) -> list[str]:
        """Let time pass and run `airflow state-store clean`; the keys that it deleted."""
        self.clock.advance(after)
        return [key for record in self.instances.values() for key in record.rows.collect(self.clock.now())]


def _replace_all(kept: dict[Any, Any], by: dict[Any, Any]) -> None:
    kept.clear()
    kept.update(by)
