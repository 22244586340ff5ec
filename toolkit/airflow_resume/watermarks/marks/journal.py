"""Copies of the mark that outlive the asset's state: a line in the asset event of every run, and an XCom of every run.

Airflow writes an event in the same transaction as the success of the task, and the event stays when the asset's state
is lost. So the event shows that a missing mark was lost, and the mark can be recovered from it. Consumers find in it
which windows were loaded. When the URI of an asset is changed, earlier events do not belong to the asset any more, but
XComs of earlier runs can still be read. An earlier run is one whose logical date (or, without one, its run-after date)
is not later than the date of this run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from airflow_resume.store import StateStore, ask
from airflow_resume.watermarks.keys import Keys
from airflow_resume.watermarks.marks.outbox import Outbox, OutboxEntry

if TYPE_CHECKING:
    from airflow.sdk import Asset
    from pydantic import JsonValue

    from airflow_resume.attempt import AnyContext, Scope

EXTRA_KEY = "watermark"
ALSO = "also"
"""The member of a line with the windows that it publishes for other runs, oldest first."""
FEW, NEWEST = 5, 100
"""How many events are searched for lines of this watermark: first a few, then more, because others write events too."""


@dataclass(frozen=True, kw_only=True)
class JournalLine:
    """The content of a line in an event, or of an XCom, about the mark.

    Args:
        at: the mark at that time.
        run_id: of the run whose event it is; None for an XCom.
        first: the initial value, if a function gave it.
    """

    at: JsonValue
    run_id: str | None = None
    first: JsonValue = None

    @property
    def source(self) -> str:
        """Where the line was found, for messages."""
        return "an XCom of an earlier run" if self.run_id is None else f"the asset event of the run {self.run_id!r}"


@dataclass(frozen=True, kw_only=True)
class PublishedIn:
    """The windows that the newest events have published.

    Args:
        ids: of the windows in the lines of these events.
        instances: the task instances whose events have a line about the mark, by run id and map index.
        is_all: whether these are all events. If not, an older event may have published a window too.
        is_read: whether events can be read.
    """

    ids: frozenset[str] = frozenset()
    instances: frozenset[tuple[str, int]] = frozenset()
    is_all: bool = False
    is_read: bool = True

    def has(self, entry: OutboxEntry, state_of: Callable[[Scope], str | None]) -> bool:
        """Whether an event has published the window. If that is not known, the state of its task decides.

        Args:
            entry: the window.
            state_of: asks Airflow for the state of a task instance.
        """
        if entry.id in self.ids:
            return True
        if entry.id is None and (entry.by.run_id, entry.by.map_index) in self.instances:
            return True  # events of version 0.1 have no ids
        if self.is_all:
            return False
        state = state_of(entry.publisher)
        return state == "success" or (state is None and not self.is_read)  # if nothing can be known, assume so


@dataclass(frozen=True, kw_only=True)
class Journal:
    """The lines and notes about one mark.

    Args:
        context: of the task.
        asset: the asset that is loaded.
        keys: of the watermark.
        name: of the watermark. `partition`: of this task instance; None if the asset has no partitions.
        store: the store whose channel is used to ask Airflow.
    """

    context: AnyContext
    asset: Asset
    keys: Keys
    store: StateStore
    name: str = "watermark"
    partition: JsonValue = None

    def write(self, line: Mapping[str, JsonValue]) -> None:
        """Add the line to the event that this task sends when it succeeds.

        Args:
            line: `name`, `asset`, `from`, `to`, `at`, `outcome`, `definition`, and optional members.
        """
        events: Any = self.context.get("outlet_events")
        if events is not None:
            events[self.asset].extra.setdefault(EXTRA_KEY, {})[self.keys.entry] = dict(line)

    def note(self, at: JsonValue, when: datetime, *, first: JsonValue = None) -> None:
        """Write an XCom with the mark, and with the initial value if a function gave it."""
        push = getattr(self.context.get("ti"), "xcom_push", None)
        if push is not None:
            note = {"at": at, "when": when.isoformat(), "asset": self.asset.name}
            if first is not None:
                note["first"] = first
            ask(self.store, lambda: push(key=self.keys.note, value=note))

    def last(self) -> JournalLine | None:
        """The newest line, or the newest XCom if there is no line."""
        return ask(self.store, lambda: next(self._lines(), None) or self._noted())

    @property
    def has_events(self) -> bool:
        """Whether the events of the asset can be read, because the asset is among the task's inlets."""
        events: Any = self.context.get("inlet_events")
        return events is not None and self.asset in list(events)

    def published(self, outbox: Outbox) -> PublishedIn:
        """Which of the windows the newest events have published."""
        if not self.has_events:
            return PublishedIn(is_read=False)
        few = self._published_in(FEW)
        return few if few.is_all or all(each.id in few.ids for each in outbox) else self._published_in(NEWEST)

    def _published_in(self, count: int) -> PublishedIn:
        events = ask(self.store, lambda: self._newest_events(count))
        lines = [(event, self._line_of(event)) for event in events]
        return PublishedIn(
            ids=frozenset(one for _, line in lines for one in _ids_of(line)),
            instances=frozenset(
                (event.source_run_id or "", -1 if event.source_map_index is None else event.source_map_index)
                for event, line in lines
                if line is not None
            ),
            is_all=len(events) < count,
        )

    def moves(self, count: int) -> list[JournalLine]:
        """The newest lines with a move of the mark, oldest first."""
        moves: list[JournalLine] = []
        for line in ask(self.store, lambda: list(self._lines())):
            if moves and moves[-1].at == line.at:  # of two lines with one mark, the older one is the move
                moves.pop()
            moves.append(line)
        return moves[:count][::-1]

    def _lines(self) -> Iterator[JournalLine]:
        """The lines, newest first."""
        for event in self._newest_events():
            line = self._line_of(event)
            if isinstance(line, dict) and line.get("at") is not None:
                yield JournalLine(at=line["at"], run_id=event.source_run_id or "", first=line.get("first"))

    def _line_of(self, event: Any) -> Any:
        """The line about the mark.

        In version 0.1 the watermark `x.1` and the partition 1 of `x` had the same key: the line says whose it is.
        """
        lines, old = entries_of(event), self.keys.old
        if self.keys.entry in lines or old is None:
            return lines.get(self.keys.entry)
        line = lines.get(old.entry)
        names = (line.get("name"), line.get("partition")) if isinstance(line, dict) else None
        return line if names == (self.name, self.partition) else None

    def _newest_events(self, count: int = NEWEST) -> list[Any]:
        if not self.has_events:
            return []
        events: Any = self.context.get("inlet_events")
        found = events[self.asset]
        if hasattr(found, "ascending"):
            return list(found.ascending(False).limit(count))
        return list(found)[::-1][:count]

    def _noted(self) -> JournalLine | None:
        """The newest XCom of an earlier run of this Dag."""
        ti: Any = self.context.get("ti")
        if not hasattr(ti, "xcom_pull"):
            return None
        writers, old = self._writers(), self.keys.old
        found = self._newest_note(self.keys.note, writers)
        # An XCom of version 0.1 does not name its asset. So it counts only if the task has no other asset.
        tasks = [task_id for task_id, assets in writers.items() if assets <= {self.asset.name}]
        return found if found or old is None or not tasks else self._newest_note(old.note, tasks)

    def _newest_note(self, key: str, task_ids: Iterable[str]) -> JournalLine | None:
        # All map indexes, as a partition may have had another one; and all earlier runs, in no particular order.
        ti: Any = self.context.get("ti")
        notes = ti.xcom_pull(task_ids=sorted(task_ids), key=key, include_prior_dates=True)
        ours = [note for note in notes if isinstance(note, dict) and note.get("at") is not None]
        newest = max(ours, key=lambda note: str(note.get("when", "")), default=None)
        return None if newest is None else JournalLine(at=newest["at"], first=newest.get("first"))

    def _writers(self) -> dict[str, set[str]]:
        """The tasks of this Dag that may have committed a window, with the names of their assets.

        Usually that is this task. If this task only stages windows, another task commits them.
        """
        own: Any = self.context.get("ti")
        tasks: Iterable[Any] = getattr(self.context.get("dag"), "tasks", ())
        found: dict[str, set[str]] = {own.task_id: _assets_of(getattr(own, "task", None))}
        found.update({task.task_id: _assets_of(task) for task in tasks if self.asset in (task.outlets or ())})
        return found


def _assets_of(task: Any) -> set[str]:
    declared = [*(getattr(task, "inlets", None) or ()), *(getattr(task, "outlets", None) or ())]
    return {str(getattr(asset, "name", asset)) for asset in declared}


def _ids_of(line: Any) -> list[str]:
    """The ids of the windows in a line."""
    if not isinstance(line, dict):
        return []
    return [one["id"] for one in (line, *(line.get(ALSO) or ())) if isinstance(one, dict) and "id" in one]


def entries_of(event: Any) -> dict[str, Any]:
    """The lines of one event, by the name of the watermark."""
    entries = (event.extra or {}).get(EXTRA_KEY)
    return entries if isinstance(entries, dict) else {}
