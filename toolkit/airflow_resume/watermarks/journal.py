"""What outlives the asset's state: a line about the mark in the asset event of every run, and an XCom of every run.

An event is written atomically with the task's success, and it stays when the asset's state is lost: it is the
evidence that a missing mark is a lost one, the copy it can be recovered from, and what tells consumers which windows
were loaded. The events of an asset whose URI was changed belong to the asset that it was. XComs of earlier runs are
still there: of those whose logical date, or for lack of one the date they ran after, is no later than this run's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from airflow_resume.store import StateStore, ask
from airflow_resume.watermarks.entry import Entry, Outbox
from airflow_resume.watermarks.keys import Keys

if TYPE_CHECKING:
    from airflow.sdk import Asset
    from pydantic import JsonValue

    from airflow_resume.attempt import AnyContext, Scope

EXTRA_KEY = "watermark"
ALSO = "also"
"""The member of a line with the windows that it tells beside its own, oldest first."""
FEW, NEWEST = 5, 100
"""How many events are looked through for a line of ours; others may write events of the same asset."""


@dataclass(frozen=True, kw_only=True)
class Line:
    """What a line or a note says of the mark.

    Args:
        at: where it stood.
        run_id: of the run whose event it is; None for a note.
        first: where the first run started, if that was a function's answer.
    """

    at: JsonValue
    run_id: str | None = None
    first: JsonValue = None

    @property
    def source(self) -> str:
        """What tells it, in words."""
        return "an XCom of an earlier run" if self.run_id is None else f"the asset event of the run {self.run_id!r}"


@dataclass(frozen=True, kw_only=True)
class ToldIn:
    """What stands in the newest events.

    Args:
        ids: of the windows that their lines tell.
        instances: whose events have a line about the mark, by run id and map index.
        is_all: there are no more events than these; otherwise one that is older may tell a window, too.
        is_read: events can be read.
    """

    ids: frozenset[str] = frozenset()
    instances: frozenset[tuple[str, int]] = frozenset()
    is_all: bool = False
    is_read: bool = True

    def has(self, entry: Entry, state_of: Callable[[Scope], str | None]) -> bool:
        """Whether an event tells a window. Where that cannot be seen, one does if its task has succeeded.

        Args:
            entry: the window.
            state_of: asks Airflow for the state of a task instance.
        """
        if entry.id in self.ids:
            return True
        if entry.id is None and (entry.by.run_id, entry.by.map_index) in self.instances:
            return True  # events of before had no ids
        if self.is_all:
            return False
        state = state_of(entry.told_by)
        return state == "success" or (state is None and not self.is_read)  # where nothing can be asked, it is believed


@dataclass(frozen=True, kw_only=True)
class Journal:
    """The lines and notes about one mark.

    Args:
        context: of the task.
        asset: that is loaded.
        keys: of the watermark.
        name: of the watermark. `partition`: of this task instance; None: the asset is one.
        store: in the way of which Airflow is asked.
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
            line: `name`, `asset`, `from`, `to`, `at`, `outcome`, `definition`, and what else there is.
        """
        events: Any = self.context.get("outlet_events")
        if events is not None:
            events[self.asset].extra.setdefault(EXTRA_KEY, {})[self.keys.entry] = dict(line)

    def note(self, at: JsonValue, when: datetime, *, first: JsonValue = None) -> None:
        """Keep where the mark stands as an XCom of this run, and where the first run started."""
        push = getattr(self.context.get("ti"), "xcom_push", None)
        if push is not None:
            note = {"at": at, "when": when.isoformat(), "asset": self.asset.name}
            if first is not None:
                note["first"] = first
            ask(self.store, lambda: push(key=self.keys.note, value=note))

    def last(self) -> Line | None:
        """The newest line or, for lack of one, the newest note."""
        return ask(self.store, lambda: next(self._lines(), None) or self._noted())

    @property
    def has_events(self) -> bool:
        """Whether the events of the asset can be read: it is among the task's inlets."""
        events: Any = self.context.get("inlet_events")
        return events is not None and self.asset in list(events)

    def told(self, outbox: Outbox) -> ToldIn:
        """Which of the windows stand in the newest events."""
        if not self.has_events:
            return ToldIn(is_read=False)
        few = self._told_in(FEW)
        return few if few.is_all or all(each.id in few.ids for each in outbox) else self._told_in(NEWEST)

    def _told_in(self, count: int) -> ToldIn:
        events = ask(self.store, lambda: self._newest_events(count))
        lines = [(event, self._line_of(event)) for event in events]
        return ToldIn(
            ids=frozenset(told for _, line in lines for told in ids_of(line)),
            instances=frozenset(_instance_of(event) for event, line in lines if line is not None),
            is_all=len(events) < count,
        )

    def moves(self, count: int) -> list[Line]:
        """The newest lines that tell of a move, oldest first."""
        moves: list[Line] = []
        for told in ask(self.store, lambda: list(self._lines())):
            if moves and moves[-1].at == told.at:  # the older one of two has moved the mark there
                moves.pop()
            moves.append(told)
        return moves[:count][::-1]

    def _lines(self) -> Iterator[Line]:
        """From the newest on."""
        for event in self._newest_events():
            line = self._line_of(event)
            if isinstance(line, dict) and line.get("at") is not None:
                yield Line(at=line["at"], run_id=event.source_run_id or "", first=line.get("first"))

    def _line_of(self, event: Any) -> Any:
        """The line about the mark.

        In version 0.1 the watermark `x.1` and the partition 1 of `x` had one key: the line itself says which it is of.
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

    def _noted(self) -> Line | None:
        """What an earlier run of this Dag noted last."""
        ti: Any = self.context.get("ti")
        if not hasattr(ti, "xcom_pull"):
            return None
        return self._newest_note(self.keys.note, self._writers()) or self._old_note()

    def _old_note(self) -> Line | None:
        """A note of version 0.1 did not say of which asset it is: it counts where the task has no other asset."""
        old = self.keys.old
        tasks = [task_id for task_id, assets in self._writers().items() if assets <= {self.asset.name}]
        return None if old is None or not tasks else self._newest_note(old.note, tasks)

    def _newest_note(self, key: str, task_ids: Iterable[str]) -> Line | None:
        # Of every map index, as a partition may have had another one, and of every run of before, in no order.
        ti: Any = self.context.get("ti")
        notes = ti.xcom_pull(task_ids=sorted(task_ids), key=key, include_prior_dates=True)
        ours = [note for note in notes if isinstance(note, dict) and note.get("at") is not None]
        newest = max(ours, key=lambda note: str(note.get("when", "")), default=None)
        return None if newest is None else Line(at=newest["at"], first=newest.get("first"))

    def _writers(self) -> dict[str, set[str]]:
        """The tasks of this Dag that may have committed a window, with the names of the assets they have.

        That is this one or, if it only stages, another one.
        """
        own: Any = self.context.get("ti")
        tasks: Iterable[Any] = getattr(self.context.get("dag"), "tasks", ())
        found: dict[str, set[str]] = {own.task_id: _assets_of(getattr(own, "task", None))}
        found.update({task.task_id: _assets_of(task) for task in tasks if self.asset in (task.outlets or ())})
        return found


def _assets_of(task: Any) -> set[str]:
    declared = [*(getattr(task, "inlets", None) or ()), *(getattr(task, "outlets", None) or ())]
    return {str(getattr(asset, "name", asset)) for asset in declared}


def _instance_of(event: Any) -> tuple[str, int]:
    return event.source_run_id or "", -1 if event.source_map_index is None else event.source_map_index


def ids_of(line: Any) -> list[str]:
    """The ids of the windows that a line tells."""
    if not isinstance(line, dict):
        return []
    return [told["id"] for told in (line, *(line.get(ALSO) or ())) if isinstance(told, dict) and "id" in told]


def entries_of(event: Any) -> dict[str, Any]:
    """The lines of one event, by the name of the watermark."""
    entries = (event.extra or {}).get(EXTRA_KEY)
    return entries if isinstance(entries, dict) else {}
