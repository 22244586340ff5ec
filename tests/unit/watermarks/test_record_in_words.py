"""The first line of a record, as a person reads it in Airflow's UI."""

from __future__ import annotations

from typing import Any

from tests.support.watermarks.whole_numbers import MARK, Counter, a_try, marks, numbers


def test_a_mark_and_a_window_begin_with_what_people_look_for() -> None:
    attempt, mark = a_try(), numbers(Counter(10))
    window = mark.begin(attempt.context)
    record: Any = next(iter(attempt.task_store.values.values()))
    assert list(record)[:2] == ["summary", "from"]
    assert record["summary"] == "from 0 to 10, pending, try 1"
    mark.commit(attempt.context, window)
    record = next(iter(attempt.task_store.values.values()))
    assert record["summary"] == "from 0 to 10, committed, try 1"
    record = marks(attempt)[MARK]
    assert list(record)[:2] == ["summary", "at"]
    run_id = attempt.context["run_id"]
    assert record["summary"] == f"at 10, moved by run {run_id}, try 1, 1 window that no event may have published yet"


def test_a_mark_that_a_person_set_says_so() -> None:
    attempt, mark = a_try(), numbers(Counter(10))
    with attempt:
        mark.reset(attempt.context, 5)
    record: Any = marks(attempt)[MARK]
    assert record["summary"].startswith("at 5, nothing loaded from there yet")
