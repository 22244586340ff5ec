"""The decision at the opening as a table. `pytest -s` prints it."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from typing import Any, Literal

import pytest

from airflow_resume.attempt import Attempt, Cleared, Epoch
from airflow_resume.loops import Batches
from airflow_resume.loops.loop_record import Level, LoopRecord, Opened
from airflow_resume.loops.opening import (
    Definition,
    Opening,
    OpeningPolicy,
    SavedFacts,
    decide_opening,
    facts_of,
    stalls_of,
)

NO, PERHAPS, YES = Cleared
NOW = datetime(2026, 1, 1, tzinfo=timezone.utc)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)


TABLE: dict[str, tuple[SavedFacts | Literal["nothing", "unreadable"], dict[str, Any], Opening]] = {
    "first": ("nothing", {}, Opening.START),
    "retry": (SavedFacts(), {}, Opening.RESUME),
    "retry, done": (SavedFacts(done=True), {}, Opening.NOTHING_LEFT),
    "cleared": (SavedFacts(cleared=YES), {}, Opening.RESTART_CLEARED),
    "cleared, done": (SavedFacts(cleared=YES, done=True), {}, Opening.RESTART_CLEARED),
    "cleared, resume": (SavedFacts(cleared=YES), {"on_clear": "resume"}, Opening.RESUME),
    "cleared, done, resume": (SavedFacts(cleared=YES, done=True), {"on_clear": "resume"}, Opening.NOTHING_LEFT),
    "perhaps cleared": (SavedFacts(cleared=PERHAPS), {}, Opening.RESUME),
    "changed": (SavedFacts(changes=["query"]), {}, Opening.RESTART_CHANGED),
    "changed, fail": (SavedFacts(changes=["query"]), {"on_change": "fail"}, Opening.FAIL_CHANGED),
    "changed, resume": (SavedFacts(changes=["query"]), {"on_change": "resume"}, Opening.RESUME),
    "changed, done": (SavedFacts(changes=["query"], done=True), {}, Opening.RESTART_CHANGED),
    "another kind": (SavedFacts(same_kind=False), {}, Opening.RESTART_CHANGED),
    "another kind, resume": (SavedFacts(same_kind=False), {"on_change": "resume"}, Opening.FAIL_CHANGED),
    "cleared and changed, fail": (
        SavedFacts(cleared=YES, changes=["a"]),
        {"on_change": "fail"},
        Opening.RESTART_CLEARED,
    ),
    "unreadable": ("unreadable", {}, Opening.FAIL_UNREADABLE),
    "unreadable, restart": ("unreadable", {"on_unreadable": "restart"}, Opening.RESTART_UNREADABLE),
    "damaged": (SavedFacts(damaged="pos"), {}, Opening.FAIL_UNREADABLE),
    "damaged, restart": (SavedFacts(damaged="pos"), {"on_unreadable": "restart"}, Opening.RESTART_UNREADABLE),
    "damaged, done": (SavedFacts(damaged="pos", done=True), {}, Opening.FAIL_UNREADABLE),
    "damaged, cleared": (SavedFacts(damaged="pos", cleared=YES), {}, Opening.RESTART_CLEARED),
    "damaged, changed": (SavedFacts(damaged="pos", changes=["query"]), {}, Opening.FAIL_UNREADABLE),
    "restart": (SavedFacts(), {"restart": True}, Opening.RESTART_ASKED),
    "restart, nothing": ("nothing", {"restart": True}, Opening.START),
    "restart, unreadable": ("unreadable", {"restart": True}, Opening.RESTART_ASKED),
    "restart, died": (SavedFacts(stalls=3), {"restart": True}, Opening.RESTART_ASKED),
    "restart, changed, fail": (
        SavedFacts(changes=["a"]),
        {"restart": True, "on_change": "fail"},
        Opening.RESTART_ASKED,
    ),
    "asked by hand": (SavedFacts(start_over=True), {}, Opening.RESTART_BY_HAND),
    "asked by hand, done, damaged": (SavedFacts(start_over=True, done=True, damaged="x"), {}, Opening.RESTART_BY_HAND),
    "restart, retried": (SavedFacts(retried=True), {"restart": True}, Opening.RESUME),
    "restart, retried, damaged": (SavedFacts(retried=True, damaged="x"), {"restart": True}, Opening.RESTART_ASKED),
    "done, on_done": (SavedFacts(done=True), {"on_done": "restart"}, Opening.RESTART_DONE),
    "not done, on_done": (SavedFacts(), {"on_done": "restart"}, Opening.RESUME),
    "done, changed, fail, on_done": (
        SavedFacts(done=True, changes=["a"]),
        {"on_done": "restart", "on_change": "fail"},
        Opening.RESTART_DONE,
    ),
    "done, damaged, on_done": (SavedFacts(done=True, damaged="x"), {"on_done": "restart"}, Opening.FAIL_UNREADABLE),
    "old": (SavedFacts(age=DAY), {"max_age": HOUR}, Opening.RESTART_EXPIRED),
    "old, fail": (SavedFacts(age=DAY), {"max_age": HOUR, "on_expired": "fail"}, Opening.FAIL_EXPIRED),
    "old, done": (SavedFacts(age=DAY, done=True), {"max_age": HOUR}, Opening.NOTHING_LEFT),
    "old enough": (SavedFacts(age=HOUR), {"max_age": HOUR}, Opening.RESUME),
    "two died": (SavedFacts(stalls=2), {}, Opening.RESUME),
    "three died": (SavedFacts(stalls=3), {}, Opening.FAIL_STALLED),
    "three died, skip": (SavedFacts(stalls=3), {"skip_stalled": True}, Opening.SKIP_STALLED),
    "three died, no limit": (SavedFacts(stalls=3), {"max_stalls": None}, Opening.RESUME),
    "three died, old": (SavedFacts(stalls=3, age=DAY), {"max_age": HOUR}, Opening.RESTART_EXPIRED),
}


@pytest.mark.parametrize("row", TABLE)
def test_opening(row: str) -> None:
    left, policy, expected = TABLE[row]
    print(f"{row:30} -> {expected.value}")
    assert decide_opening(left, OpeningPolicy(**policy)) is expected


def test_every_decision_is_in_the_table() -> None:
    assert {expected for *_, expected in TABLE.values()} == set(Opening)


# --- the facts ------------------------------------------------------------------------------------------------

BEFORE = Epoch(max_tries=3)
RETRIED, CLEARED = (
    Attempt(try_number=2, epoch=epoch, retries=3) for epoch in (BEFORE, Epoch(max_tries=4, clear_number=1))
)


def record(**update: Any) -> LoopRecord:
    """Opened at element 5, and no further."""
    at = Opened(try_number=1, epoch=BEFORE)
    record = LoopRecord(key="k", kind="batches", fp={"query": "a"}, pos=5, n=5, at=at, t0=NOW, ts=NOW)
    opened = record.model_copy(update={"at": at.model_copy(update={"where": record.where(), "stalls": 1})})
    return opened.model_copy(update=update)


def test_an_attempt_that_came_no_further_and_said_nothing_counts_as_a_stall() -> None:
    opened = record()
    assert stalls_of(opened, RETRIED) == 2
    assert stalls_of(opened, CLEARED) == 0
    assert stalls_of(record(pos=6, n=6), RETRIED) == 0
    assert stalls_of(record(at=opened.at.model_copy(update={"left": True})), RETRIED) == 0


def test_an_inner_loop_that_came_further_is_no_stall_of_the_outer_one() -> None:
    assert stalls_of(record(inner={"i": Level(kind="batches", pos=1, n=1)}), RETRIED) == 0


class Changed(Batches):
    """Its listing is another one than before, and its positions expire."""

    def __init__(self, *, expires: bool = True) -> None:
        super().__init__([])
        self.max_age = DAY if expires else None

    def changes(self, position: Any) -> list[str]:
        assert position == 5
        return ["the listing shrank"]


def test_the_changed_fields_are_named() -> None:
    other = Definition(kind="batches", fp={"query": "b", "size": "c"})
    facts = facts_of(record(pos_at=NOW), Changed(), attempt=RETRIED, definition=other, now=NOW + HOUR)
    assert facts.changes == ["query", "size", "the listing shrank"]
    assert (facts.same_kind, facts.age, facts.cleared) == (True, HOUR, NO)


def test_another_kind_of_source_is_not_asked_about_a_position_that_means_nothing_to_it() -> None:
    other = Definition(kind="cursor_token", fp={"query": "b", "size": "c"})
    facts = facts_of(record(pos="abc"), Changed(), attempt=RETRIED, definition=other, now=NOW + HOUR)
    assert facts.changes == ["source", "query", "size"]
    assert (facts.same_kind, facts.damaged, facts.cleared) == (False, None, NO)


SAME = Definition(kind="batches", fp={"query": "a"})


def test_the_age_counts_from_when_it_was_received_and_a_clock_that_was_put_back_makes_it_new() -> None:
    def age(received: datetime | None, *, expires: bool = True) -> timedelta:
        left = record(pos_at=received)
        return facts_of(left, Changed(expires=expires), attempt=RETRIED, definition=SAME, now=NOW + DAY).age

    assert age(NOW) == DAY
    assert age(NOW + DAY + HOUR) == timedelta(0)
    assert age(NOW, expires=False) == timedelta(0)
    assert age(None) == timedelta(0)


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        ({"pos": "abc"}, "its pos .*TypeError: the position='abc' must be a whole number"),
        ({"pos": -1}, "its pos .*ValueError: the position=-1 must be at least 0"),
        ({"state": {"a": {"~datetime": "zz"}}}, "its state was changed by hand or damaged"),
    ],
)
def test_what_no_attempt_can_have_saved_is_damage(damage: dict[str, Any], why: str) -> None:
    facts = facts_of(record(**damage), Changed(), attempt=RETRIED, definition=SAME, now=NOW)
    assert facts.damaged is not None
    assert re.search(why, facts.damaged)
