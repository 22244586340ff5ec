"""Loops over every kind of source, each left by an attempt that dies in its third element."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from typing import Any

from airflow_resume import checkpoint
from airflow_resume.loops import Batches, Checkpoint, CursorToken, Files, Keyset, Offset, Page, PageNumber, TimeSlices
from airflow_resume.store import MemoryStore

START = datetime(2026, 1, 1, tzinfo=timezone.utc)


class Reader:
    """An iterable that saves its own state."""

    done = 0

    def state_dict(self) -> dict[str, Any]:
        return {"done": self.done}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.done = state["done"]

    def __iter__(self) -> Iterator[int]:
        while self.done < 6:
            self.done += 1
            yield self.done


def numbers(position: Any) -> Iterator[tuple[int, Any]]:
    for number in range(position or 0, 6):
        yield number, number + 1


def keyset() -> Keyset[Any]:
    return Keyset(lambda after, limit: [{"id": n} for n in range((after or 0) + 1, 7)][:limit], key="id", limit=2)


def tokens() -> CursorToken[int]:
    return CursorToken(lambda token: Page([token or 0, 0], (token or 0) + 1 if (token or 0) < 5 else None))


SOURCES: dict[str, tuple[Callable[[], Any], bool, list[Any]]] = {
    "list": (lambda: list(range(6)), False, ["abc", -1, 1.5, True, {}, [1]]),
    "lists": (lambda: Batches(range(6), size=2), False, ["abc", -2]),
    "iterable": (lambda: iter(range(6)), False, ["abc", -1]),
    "tokens": (tokens, False, ["abc", 3, [], {"token": 1, "rows": "x"}, {"token": 1, "rows": -1}]),
    "tokens, each": (
        tokens,
        True,
        [
            "abc",
            {"page": "abc", "index": 0},
            {"page": {"token": 1, "rows": 2}, "index": -1, "of": 2},
            {"page": {"token": 1, "rows": 2}, "index": "1", "of": 2},
            {"page": {"token": 1, "rows": 2}, "index": 1},
            {"page": {"token": 1, "rows": 2}, "index": 3, "of": 2},
        ],
    ),
    "numbers": (
        lambda: PageNumber(lambda n: [n] if n < 6 else []),
        False,
        ["abc", {"page": "2", "rows": 1}, {"page": 2.5, "rows": 1}, {"page": None, "rows": 1}],
    ),
    "offset": (
        lambda: Offset(lambda offset, limit: list(range(6))[offset : offset + limit], limit=2),
        False,
        [7, {"offset": -2}, {"offset": "2"}],
    ),
    "keyset": (keyset, False, ["abc", {"after": {"~datetime": "zz"}, "rows": 1}, {"after": 1, "rows": None}]),
    "files": (
        lambda: Files("abcdef"[n] for n in range(6)),
        False,
        ["abc", {"count": -1}, {"count": "2"}, {"count": 2}, {"count": 2, "last": 3, "hash": "x"}],
    ),
    "slices": (
        lambda: TimeSlices(START, START + timedelta(hours=6), timedelta(hours=1)),
        False,
        [
            "abc",
            {"next": "zz", "end": "2026-01-01T06:00:00+00:00"},
            {"next": "2026-01-01T02:00:00+00:00"},
            {"next": "2026-01-01T02:00:00", "end": "2026-01-01T06:00:00"},
            {"next": 7, "end": 8},
        ],
    ),
    "state": (Reader, False, [{"~datetime": "zz"}]),
    "function": (lambda: numbers, False, [{"~decimal": "zz"}]),
}
"""For each source, the function that makes it, whether the loop is over `each` element, and invalid positions."""


def loop_of(name: str, store: MemoryStore, **options: Any) -> Checkpoint[Any]:
    make, each, _ = SOURCES[name]
    make_loop: Any = checkpoint
    loop: Checkpoint[Any] = make_loop(make(), name="l", each=each, store=store, **options)
    return loop


def left_by(name: str) -> MemoryStore:
    """The store after an attempt that dies in its third element."""
    store = MemoryStore()
    with suppress(ZeroDivisionError):
        for number, _ in enumerate(loop_of(name, store, durability="sync")):
            _ = 1 // (2 - number)
    return store
