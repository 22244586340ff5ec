"""Loops whose body deletes what is done, and then dies before the loop has acked it: the next one stands in its place.

Each test crashes at every call of the body once. A sink keeps one value for each `element.id`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from airflow_resume import checkpoint
from airflow_resume.loops import Checkpoint, CursorToken, Keyset, Page
from airflow_resume.store import MemoryStore

PARTS = range(3)


class KilledError(BaseException):
    """The process is gone."""


@dataclass
class Queue:
    """Rows that are deleted when they are done."""

    rows: list[int] = field(default_factory=lambda: list(range(1, 8)))
    in_sink: dict[str, Any] = field(default_factory=dict)
    parts: set[tuple[int, int]] = field(default_factory=set)
    calls: int = 0

    def after(self, key: int | None, limit: int) -> list[dict[str, int]]:
        return [{"id": row} for row in self.rows if key is None or row > key][:limit]

    def keyset(self) -> Keyset[dict[str, int]]:
        return Keyset(self.after, key="id", limit=3)

    def tokens(self) -> CursorToken[dict[str, int]]:
        """The token says after which row a page begins."""

        def fetch(token: str | None) -> Page[dict[str, int]]:
            rows = self.after(None if token is None else int(token), 4)
            return Page(rows[:3], str(rows[2]["id"]) if len(rows) > 3 else None)

        return CursorToken(fetch)

    def work(self, kill_at: int) -> None:
        """Raise at one of all calls."""
        self.calls += 1
        if self.calls == kill_at:
            raise KilledError

    def delete(self, row: int) -> None:
        self.rows.remove(row)


Source = Callable[[Queue], Any]
Attempt = Callable[[Queue, Any, MemoryStore, int], None]


def loop_over(source: Any, store: MemoryStore, **options: Any) -> Checkpoint[Any]:
    return checkpoint(source, name="queue", store=store, durability="sync", **options)


def rows_one_by_one(queue: Queue, source: Any, store: MemoryStore, kill_at: int) -> None:
    with loop_over(source, store, each=True) as loop:
        for row in loop:
            queue.in_sink[loop.element.id] = row["id"]
            queue.delete(row["id"])
            queue.work(kill_at)


def rows_in_workers(queue: Queue, source: Any, store: MemoryStore, kill_at: int) -> None:
    def load(row: dict[str, int]) -> int:
        queue.in_sink[loop.element.id] = row["id"]
        queue.delete(row["id"])
        return row["id"]

    with loop_over(source, store, each=True) as loop:
        for _ in loop.map(load, workers=1):
            queue.work(kill_at)


def parts_of_rows(queue: Queue, source: Any, store: MemoryStore, kill_at: int) -> None:
    with loop_over(source, store, each=True) as loop:
        for row in loop:
            with checkpoint(list(PARTS), name="parts", within=loop) as parts:
                for part in parts:
                    queue.in_sink[parts.element.id] = (row["id"], part)
                    queue.parts.add((row["id"], part))
                    if part == PARTS[-1]:
                        queue.delete(row["id"])
                    queue.work(kill_at)


def rows_of_pages(queue: Queue, source: Any, store: MemoryStore, kill_at: int) -> None:
    with loop_over(source, store) as loop:
        for page in loop:
            with checkpoint(page.items, name="rows", within=loop) as rows:
                for row in rows:
                    queue.in_sink[rows.element.id] = row["id"]
                    queue.delete(row["id"])
                    queue.work(kill_at)


SOURCES: dict[str, Source] = {"keyset": Queue.keyset, "tokens": Queue.tokens}


def crashes(attempt: Attempt, make: Source) -> Iterator[Queue]:
    """The queue after the work, for a crash at each call of the body."""
    for kill_at in range(1, 100):
        queue, store = Queue(), MemoryStore()
        try:
            attempt(queue, make(queue), store, kill_at)
        except KilledError:
            attempt(queue, make(queue), store, -1)
        else:
            assert kill_at > len(Queue().rows)
            return
        yield queue
    raise AssertionError("it never ended")


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("attempt", [rows_one_by_one, rows_in_workers])
def test_a_row_that_takes_the_place_of_a_deleted_one_has_an_id_of_its_own(attempt: Attempt, source: str) -> None:
    for queue in crashes(attempt, SOURCES[source]):
        assert not queue.rows
        assert sorted(queue.in_sink.values()) == Queue().rows


@pytest.mark.parametrize("source", SOURCES)
def test_an_inner_loop_does_not_go_on_in_another_row(source: str) -> None:
    wanted = {(row, part) for row in Queue().rows for part in PARTS}
    for queue in crashes(parts_of_rows, SOURCES[source]):
        assert not queue.rows
        assert queue.parts == wanted
        assert set(queue.in_sink.values()) == wanted


def test_an_inner_loop_does_not_go_on_in_another_page_of_a_keyset() -> None:
    """A token says nothing about what is on its page: docs/loops.md says to use each=True there."""
    for queue in crashes(rows_of_pages, Queue.keyset):
        assert not queue.rows
        assert sorted(queue.in_sink.values()) == Queue().rows
