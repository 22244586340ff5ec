"""The decision at the opening as a table. `pytest -s` prints it."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import pytest

from airflow_resume.attempt import Epoch
from airflow_resume.loops.opening import Definition, Opening, decide_opening
from airflow_resume.loops.record import LoopRecord, Opened

NOW = datetime(2026, 1, 1, tzinfo=timezone.utc)
BEFORE, CLEARED, PERHAPS = Epoch(max_tries=3), Epoch(max_tries=4, clear_number=1), Epoch(max_tries=3, clear_number=1)
SAME, OTHER_KIND, OTHER_QUERY = (
    Definition(kind="batches", fp={"query": "a"}),
    Definition(kind="cursor_token", fp={"query": "a"}),
    Definition(kind="batches", fp={"query": "b"}),
)


def record(*, done: bool) -> LoopRecord:
    at = Opened(try_number=1, epoch=BEFORE)
    return LoopRecord(key="k", kind="batches", fp={"query": "a"}, pos=5, n=5, done=done, at=at, t0=NOW, ts=NOW)


HALF, DONE = record(done=False), record(done=True)

TABLE: dict[str, tuple[LoopRecord | None, Epoch, Definition, str, str, Opening]] = {
    "first": (None, BEFORE, SAME, "restart", "restart", Opening.START),
    "retry": (HALF, BEFORE, SAME, "restart", "restart", Opening.RESUME),
    "retry, done": (DONE, BEFORE, SAME, "restart", "restart", Opening.NOTHING_LEFT),
    "cleared": (HALF, CLEARED, SAME, "restart", "restart", Opening.RESTART_CLEARED),
    "cleared, done": (DONE, CLEARED, SAME, "restart", "restart", Opening.RESTART_CLEARED),
    "cleared, wants to resume": (HALF, CLEARED, SAME, "resume", "restart", Opening.RESUME),
    "cleared, done, wants to resume": (DONE, CLEARED, SAME, "resume", "restart", Opening.NOTHING_LEFT),
    "perhaps cleared": (HALF, PERHAPS, SAME, "restart", "restart", Opening.RESUME),
    "changed": (HALF, BEFORE, OTHER_QUERY, "restart", "restart", Opening.RESTART_CHANGED),
    "changed, fail": (HALF, BEFORE, OTHER_QUERY, "restart", "fail", Opening.FAIL_CHANGED),
    "changed, resume": (HALF, BEFORE, OTHER_QUERY, "restart", "resume", Opening.RESUME),
    "changed, done": (DONE, BEFORE, OTHER_QUERY, "restart", "restart", Opening.RESTART_CHANGED),
    "another kind": (HALF, BEFORE, OTHER_KIND, "restart", "restart", Opening.RESTART_CHANGED),
    "another kind, resume": (HALF, BEFORE, OTHER_KIND, "restart", "resume", Opening.FAIL_CHANGED),
    "cleared and changed, fail": (HALF, CLEARED, OTHER_KIND, "restart", "fail", Opening.RESTART_CLEARED),
}


@pytest.mark.parametrize("row", TABLE)
def test_opening(row: str) -> None:
    found, epoch, definition, on_clear, on_change, expected = TABLE[row]
    policies: dict[str, Any] = {"on_clear": on_clear, "on_change": on_change}
    print(f"{row:35} -> {expected.value}")
    assert decide_opening(found, epoch=epoch, definition=definition, **policies) is expected


def test_the_changed_fields_are_named() -> None:
    assert OTHER_QUERY.changes(HALF) == ["query"]
    assert OTHER_KIND.changes(HALF) == ["source"]
