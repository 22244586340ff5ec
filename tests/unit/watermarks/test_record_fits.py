"""A record never outgrows its store: what it can do without is dropped, and never the mark."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_resume import values, watermark
from airflow_resume.errors import ValueTooLargeError
from airflow_resume.record import StoredRecord
from airflow_resume.store import MemoryStore
from airflow_resume.watermarks import Cursor
from airflow_resume.watermarks.marks.mark_record import MarkRecord, Move
from tests.support.watermarks.whole_numbers import MARK, NUMBERS, WINDOW, a_try, load, marks, numbers

LARGEST = "é" * (values.MAX_CURSOR_BYTES // 6 - 2)
TOO_LARGE = "x" * (values.MAX_CURSOR_BYTES + 1)


@pytest.mark.parametrize("cursor", [Cursor.text(), Cursor.token()])
def test_a_value_that_is_too_large_is_refused_at_the_definition(cursor: Any) -> None:
    with pytest.raises(ValueTooLargeError, match="initial"):
        watermark(NUMBERS, initial=TOO_LARGE, cursor=cursor)


def test_a_token_that_is_too_large_is_refused_when_the_body_names_it_and_may_be_named_first() -> None:
    attempt, saved = a_try(), []
    mark = watermark(NUMBERS, initial="t0", cursor=Cursor.token())

    def body(window: Any) -> None:
        window.advance({"next": TOO_LARGE})
        saved.append("rows")

    with pytest.raises(ValueTooLargeError, match=r"advance\(\)"):
        load(attempt, mark, body)
    assert saved == []
    load(attempt.retry(), mark, lambda window: window.advance("t1"))
    assert marks(attempt)[MARK]["at"] == "t1"


@pytest.mark.parametrize("cursor", [Cursor.text(), Cursor.token()])
def test_the_largest_value_moves_the_mark_run_by_run(cursor: Any) -> None:
    attempt = a_try()
    mark = watermark(NUMBERS, initial="a", cursor=cursor, advance="explicit")
    for letter in "bcdef":
        load(attempt, mark, lambda window, letter=letter: window.advance(letter + LARGEST))  # type: ignore[misc]
        attempt = attempt.next_run()
    record = marks(attempt)[MARK]
    assert record["at"] == "f" + LARGEST
    assert len(record["history"]) < 5
    assert len(json.dumps(record)) <= values.MAX_BYTES


def test_a_keyset_of_texts_counts_as_one_value() -> None:
    half = "x" * (values.MAX_CURSOR_BYTES // 2 + 1)
    with pytest.raises(ValueTooLargeError):
        watermark(NUMBERS, initial=(half, half), cursor=Cursor.keyset(Cursor.text(), Cursor.text()))


def test_many_ties_fit() -> None:
    attempt = a_try()
    rows = [{"n": 5, "id": str(number)} for number in range(200)]
    load(attempt, numbers(initial=0), lambda window: list(window.track(rows, "n", unique="id")))
    load(attempt.next_run(), numbers(), lambda window: list(window.track(rows, "n", unique="id")))
    assert len(marks(attempt)[MARK]["ties"]) == 200


grown = st.builds(
    MarkRecord,
    key=st.just(MARK),
    type=st.just("text"),
    at=st.integers(1, 20_000).map("x".__mul__),
    epoch=st.just("e"),
    history=st.lists(
        st.builds(Move, to=st.integers(1, 20_000).map("y".__mul__), run_id=st.integers(1, 250).map("r".__mul__)),
        max_size=12,
    ).map(tuple),
    islands=st.lists(st.integers(1, 10_000).map(lambda n: ("a" * n, "b" * n)), max_size=20).map(tuple),
    ties=st.integers(0, 200).map(lambda count: tuple(f"{number:08}" for number in range(count))),
)


@given(grown)
@settings(max_examples=60, deadline=None)
def test_history_goes_first_then_islands_then_ties_and_the_mark_stays(record: MarkRecord) -> None:
    fitted = StoredRecord(MemoryStore(), MARK, MarkRecord).write(record)
    assert values.stored_size(fitted.to_json()) <= values.MAX_BYTES
    assert (fitted.at, fitted.epoch) == (record.at, record.epoch)
    assert fitted.history == record.history[len(record.history) - len(fitted.history) :]
    assert fitted.islands == record.islands[: len(fitted.islands)]
    if fitted.islands != record.islands:
        assert fitted.history == ()
    if fitted.ties != record.ties:
        assert (fitted.ties, fitted.islands) == (None, ())


def test_the_window_of_the_largest_values_fits() -> None:
    attempt = a_try()
    mark = watermark(NUMBERS, initial=LARGEST, cursor=Cursor.text(), now=lambda: "ü" + LARGEST)
    load(attempt, mark)
    assert len(json.dumps(attempt.task_store.values[WINDOW])) <= values.MAX_BYTES


def test_the_largest_values_of_an_initial_function_and_of_what_is_untold_never_fail_a_commit() -> None:
    """It would be after the load, in every retry."""
    attempt = a_try()
    mark = watermark(NUMBERS, initial=lambda: "a" + LARGEST, cursor=Cursor.text(), advance="explicit")
    for letter in "bcd":
        window = mark.begin(attempt.context)
        window.advance(letter + LARGEST)
        mark.commit(attempt.context, window)
        assert marks(attempt)[MARK]["at"] == letter + LARGEST
        attempt.mark("failed")  # so that nothing is told of it
        attempt = attempt.next_run()
    load(attempt, mark, lambda window: window.advance("e" + LARGEST))
    assert marks(attempt)[MARK]["at"] == "e" + LARGEST
