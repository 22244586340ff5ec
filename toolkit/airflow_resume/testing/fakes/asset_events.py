"""Asset events: what a task publishes with its success, and what later tasks see of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, overload

from airflow.sdk.definitions.asset import Asset, AssetUriRef

if TYPE_CHECKING:
    from typing_extensions import Self

    from airflow_resume.testing.fakes.assets import AnyAsset


@dataclass(frozen=True, kw_only=True)
class AssetEvent:
    """One event of an asset."""

    asset: Asset
    timestamp: datetime
    extra: dict[str, Any] = field(default_factory=dict)
    source_dag_id: str = ""
    source_task_id: str = ""
    source_run_id: str = ""
    source_map_index: int = -1


class FakeAssetEvents(Sequence[AssetEvent]):
    """The events of one asset, oldest first: Airflow's `inlet_events[asset]`, narrowed by its chained methods."""

    def __init__(self, events: Callable[[], list[AssetEvent]]) -> None:
        self._read = events
        self._between: tuple[datetime | None, datetime | None] = (None, None)
        self._ascending = True
        self._limit: int | None = None

    def after(self, after: datetime | str) -> Self:
        """Keep only events from that time on."""
        self._between = (_time(after), self._between[1])
        return self

    def before(self, before: datetime | str) -> Self:
        """Keep only events up to that time."""
        self._between = (self._between[0], _time(before))
        return self

    def ascending(self, ascending: bool = True) -> Self:  # noqa: FBT001, FBT002  Airflow's signature
        """Oldest first, or newest first."""
        self._ascending = ascending
        return self

    def limit(self, limit: int) -> Self:
        """Keep at most this many events, the first ones."""
        self._limit = limit
        return self

    def _events(self) -> list[AssetEvent]:
        after, before = self._between
        found = [
            event
            for event in self._read()
            if (after is None or event.timestamp >= after) and (before is None or event.timestamp <= before)
        ]
        return (found if self._ascending else found[::-1])[: self._limit]

    def __iter__(self) -> Iterator[AssetEvent]:
        return iter(self._events())

    def __len__(self) -> int:
        return len(self._events())

    @overload
    def __getitem__(self, index: int) -> AssetEvent: ...
    @overload
    def __getitem__(self, index: slice) -> list[AssetEvent]: ...
    def __getitem__(self, index: int | slice) -> AssetEvent | list[AssetEvent]:
        return self._events()[index]


def _time(given: datetime | str) -> datetime:
    return datetime.fromisoformat(given) if isinstance(given, str) else given


class FakeInletEvents:
    """The events of the inlets of a task: Airflow's `context["inlet_events"]`."""

    def __init__(self, inlets: Sequence[AnyAsset], events: list[AssetEvent]) -> None:
        self._inlets = inlets
        self._events = events

    def __len__(self) -> int:
        return len(self._inlets)

    def __iter__(self) -> Iterator[AnyAsset]:
        return iter(self._inlets)

    def __getitem__(self, inlet: int | AnyAsset) -> FakeAssetEvents:
        """The events of an inlet.

        Raises:
            KeyError: it is not an inlet of the task.
        """
        named = self._inlets[inlet] if isinstance(inlet, int) else inlet
        if not any(_same(named, mine) for mine in self._inlets):
            raise KeyError(named)
        return FakeAssetEvents(lambda: [event for event in self._events if _same(named, event.asset)])


def _same(one: AnyAsset, other: AnyAsset) -> bool:
    if isinstance(one, AssetUriRef) or isinstance(other, AssetUriRef):
        return getattr(one, "uri", None) == getattr(other, "uri", None)
    return one.name == other.name
