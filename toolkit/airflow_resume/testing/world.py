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

A_MINUTE = timedelta(minutes=1)

AirflowVersion: TypeAlias = Literal["3.3", "3.4"]

Instance: TypeAlias = tuple[str, str, str, int]
"""Dag id, run id, task id and map index: what state belongs to."""

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
class AssetRecord:
    """What Airflow knows of an asset."""

    asset: Asset
    rows: Rows = field(default_factory=Rows)
    active: bool = True


@dataclass(frozen=True)
class WorldBackup:
    """What the database had."""

    instances: dict[Instance, InstanceRecord]
    clear_numbers: dict[tuple[str, str], int]
    run_starts: dict[tuple[str, str], datetime]
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
    clear_numbers: dict[tuple[str, str], int] = field(default_factory=lambda: defaultdict(int))
    """By Dag id and run id: how often any task of the run was cleared."""
    run_starts: dict[tuple[str, str], datetime] = field(default_factory=dict)
    """By Dag id and run id: when its first attempt began. It tells a run from one that was made again with its id."""
    assets: dict[str, AssetRecord] = field(default_factory=dict)
    """By name."""
    events: list[AssetEvent] = field(default_factory=list)
    """Of all assets, oldest first."""

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

    def start_attempt(self, instance: Instance, *, retries: int) -> None:
        """A task instance is tried once more; with the first attempt of its run, the run begins."""
        self.run_starts.setdefault(instance[:2], self.clock.now())
        self.instances[instance].start_attempt(retries=retries)

    def restart_run(self, run: tuple[str, str]) -> None:
        """A task of a run that had finished is cleared: the run begins once more, a minute later."""
        self.clock.advance(A_MINUTE)
        self.run_starts[run] = self.clock.now()

    def recreate_runs(self, *runs: tuple[str, str]) -> None:
        """The runs (Dag id and run id; by default, all) are deleted and made again with their ids, a minute later.

        Their task state is gone, try numbers begin at 1 again, nothing counts as cleared, and every attempt is
        replaced. The state and events of assets stay.
        """
        self.clock.advance(A_MINUTE)
        for instance in [each for each in self.instances if not runs or each[:2] in runs]:
            self.instances.pop(instance).replace()
        for run in runs or list(self.run_starts):
            self.run_starts.pop(run, None)
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
            assets={name: replace(record, rows=Rows(record.rows)) for name, record in self.assets.items()},
            events=list(self.events),
        )

    def restore(self, backup: WorldBackup) -> None:
        """Make the database what it was. Every attempt is replaced: those that began since are not known."""
        for record in self.instances.values():
            record.replace()
        _replace_all(self.instances, {instance: record.copy() for instance, record in backup.instances.items()})
        _replace_all(self.clear_numbers, backup.clear_numbers)
        _replace_all(self.run_starts, backup.run_starts)
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
