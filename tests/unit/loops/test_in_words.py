"""A record begins with one line in words, and then has what people look for. `pytest -s` prints the lines."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from airflow_resume import checkpoint
from airflow_resume.loops import CursorToken, Files, Page, PageNumber, Skip
from airflow_resume.loops.progress import Progress, in_words
from airflow_resume.store import MemoryStore
from airflow_resume.testing import task_context

KEY = "resume.loop.l"
NOW = datetime(2026, 1, 1, 13, 20, tzinfo=timezone.utc)
ZONE = timezone(timedelta(hours=2))


def count(n: int, total: int | None = None, rows: int | None = None, skipped: int = 0, noun: str = "page") -> Progress:
    return Progress(noun=noun, n=n, total=total, rows=rows, skipped=skipped)


LINES: dict[str, tuple[Progress, dict[str, Any]]] = {
    "page 1, try 1": (count(0), {}),
    "page 183 of 400, 1.9/s, done about 14:05 UTC, try 2": (
        count(182, 400),
        {"rate": 1.9, "eta": NOW + timedelta(minutes=45), "try_number": 2},
    ),
    "page 183 of 400, 0.001/s, done about 2026-01-04 01:20 UTC, try 1": (
        count(182, 400),
        {"rate": 0.001, "eta": NOW + timedelta(hours=60)},
    ),
    "page 183 of 400, done about 14:05 UTC, try 1": (
        count(182, 400),
        {"eta": (NOW + timedelta(minutes=45)).astimezone(ZONE)},
    ),
    "page 1,001, 1,250/s, 1,825,000 rows, 3 skipped, try 1": (count(1000, None, 1_825_000, 3), {"rate": 1250.4}),
    "400 of 400 pages, try 1": (count(400, 400), {}),
    "3 of 2 pages, try 1": (count(3, 2), {}),
    "page 1 of 0, try 1": (count(0, 0), {}),
    "file 2 of 3 (pages: page 7 of 9), try 1": (count(1, 3, noun="file"), {"inside": " (pages: page 7 of 9)"}),
    "done, 400 pages, 1,825,000 rows": (count(400, 400, 1_825_000), {"done": True, "rate": 2.0}),
    "done, 1 page, 2 skipped": (count(1, 1, None, 2), {"done": True}),
    "done, 0 pages": (count(0, 0), {"done": True}),
}


@pytest.mark.parametrize("line", LINES)
def test_a_line(line: str) -> None:
    counted, facts = LINES[line]
    print(line)
    assert in_words(counted, **{"done": False, "try_number": 1, "now": NOW, **facts}) == line


def pages(token: int | None) -> Page[int]:
    number = token or 0
    return Page([number, number], number + 1 if number < 3 else None, pages=4)


def test_a_record_begins_with_it_and_goes_on_with_what_people_look_for() -> None:
    store = MemoryStore()
    for page in checkpoint(CursorToken(pages), name="l", store=store, durability="sync"):
        record: Any = store.values[KEY]
        looked_for = ["summary", "done", "n", *(["total"] if page.items[0] else []), "skipped"]
        assert list(record)[: len(looked_for)] == looked_for
        assert record["summary"].startswith(f"page {page.items[0] + 1}")
    record = store.values[KEY]
    assert record["summary"] == "done, 4 pages, 8 rows"
    assert next(iter(record)) == "summary"


def test_it_is_there_from_the_claim_on_and_tells_the_try() -> None:
    first = task_context()
    with first, pytest.raises(ZeroDivisionError):
        for page in checkpoint(CursorToken(pages), name="l"):
            record: Any = first.task_store.values[KEY]
            assert record["summary"] == "page 1, 0 rows, try 1"
            _ = 1 // (1 - page.items[0])
    with first.retry() as second:
        loop = iter(checkpoint(CursorToken(pages), name="l"))
        next(loop)
        record = second.task_store.values[KEY]
        assert record["summary"] == "page 2 of 4, 2 rows, try 2"


def test_it_tells_of_the_loop_inside() -> None:
    store = MemoryStore()
    outer = checkpoint(["a", "b"], name="l", store=store, durability="sync")
    told = set()
    with outer:
        for name in outer:
            for page in checkpoint(PageNumber(lambda n: [n] if n < 9 else []), name="pages", within=outer):
                told.add(store.values[KEY]["summary"])  # type: ignore[call-overload,index]
                if name == "b" and page.items == [3]:
                    break
            if name == "b":
                break
    assert {"element 1 of 2 (pages: page 3), try 1", "element 2 of 2 (pages: page 2), try 1"} <= told
    record: Any = store.values[KEY]
    assert record["summary"] == "element 2 of 2 (pages: page 3), try 1"
    assert next(iter(checkpoint(["a", "b"], name="l", store=store))) == "b"
    record = store.values[KEY]
    assert record["summary"] == "element 2 of 2 (pages: 2 done), try 1"


def test_it_tells_of_what_was_skipped_and_the_skips_come_before_the_rest() -> None:
    store = MemoryStore()
    with checkpoint(Files(["a", "b"]), name="l", store=store, skip=Skip(on=(ValueError,))) as loop:
        for path in loop:
            with loop.skipping():
                if path == "b":
                    raise ValueError("bad")
    record: Any = store.values[KEY]
    assert record["summary"] == "done, 2 files, 1 skipped"
    assert list(record).index("skips") < list(record).index("kind")


def test_no_position_is_told_in_words() -> None:
    store = MemoryStore()
    answers = {None: Page([1], "tok-s3cret"), "tok-s3cret": Page([2], "tok-2")}
    loop = checkpoint(CursorToken(lambda token: answers[token]), name="l", store=store, durability="sync")
    next(it := iter(loop))
    next(it)
    record: Any = store.values[KEY]
    assert record["pos"] == {"token": "tok-s3cret", "rows": 1}
    assert "s3cret" not in record["summary"]


def test_it_is_written_and_never_read() -> None:
    store = MemoryStore()
    list(checkpoint(range(3), name="l", store=store))
    record: Any = store.values[KEY]
    lies: tuple[Any, ...] = ("page 7 of 9", {"of": "another kind"}, None)
    for lie in lies:
        store.values[KEY] = {**record, "summary": lie, "later": [1]}
        assert list(checkpoint(range(3), name="l", store=store)) == []
        found: Any = store.values[KEY]
        assert (found["summary"], found["later"]) == ("done, 3 elements", [1])


def test_a_record_stays_small() -> None:
    first = task_context()
    with first, pytest.raises(ZeroDivisionError):
        for page in checkpoint(CursorToken(pages), name="l"):
            _ = 1 // (2 - page.items[0])
    size = len(json.dumps(first.task_store.values[KEY]))
    print(f"{size} bytes")
    assert size < 500
