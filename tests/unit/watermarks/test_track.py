"""Rows on their way through a window: which are delivered, what is counted, what is refused."""

from __future__ import annotations

import sqlite3
from collections import namedtuple
from contextlib import closing
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException
from hypothesis import given, settings
from hypothesis import strategies as st
from numbered import MARK, NUMBERS, Counter, a_try, load, marks, numbers, rows, stands, track

from airflow_resume import watermark
from airflow_resume.errors import (
    CursorColumnError,
    CursorTypeError,
    FutureRowError,
    NullCursorError,
    UnsortedRowsError,
)
from airflow_resume.watermarks import Cursor, Window
from airflow_resume.watermarks.commit import MAX_TIES
from airflow_resume.watermarks.track import Tally, Tracker

Pair = namedtuple("Pair", ["n", "m"])  # noqa: PYI024


def window_of(**options: Any) -> Window[Any]:
    return numbers(Counter(10), **options).begin(a_try().context)


# --- rows of any kind -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("row", [{"n": 3}, SimpleNamespace(n=3), Pair(3, 4)])
def test_a_column_is_found_in_a_dict_an_object_and_a_named_tuple(row: Any) -> None:
    window = window_of()
    assert list(window.track([row], "n")) == [row]
    assert window.summary()["max"] == "3"


def test_a_row_of_sqlite_and_a_function_of_the_row() -> None:
    with closing(sqlite3.connect(":memory:")) as database:
        database.row_factory = sqlite3.Row
        window = window_of()
        assert len(list(window.track(database.execute("SELECT 3 AS n"), "n"))) == 1
        assert list(window.track([(1, 5)], lambda row: row[1])) == [(1, 5)]
        assert window.summary()["max"] == "5"
        with pytest.raises(CursorColumnError, match=r"it has n\.\nSelect"):
            list(window.track(database.execute("SELECT 3 AS n"), "m"))


@pytest.mark.parametrize("row", [{"m": 3}, SimpleNamespace(m=3), Pair(3, 4), (3,), 3])
@pytest.mark.parametrize("options", [{}, {"ordered": True}, {"unique": "id"}])
def test_a_missing_column_names_those_there_are(row: Any, options: Any) -> None:
    with pytest.raises(CursorColumnError, match="Select the column") as raised:
        list(window_of().track([row], "x", **options))
    assert isinstance(raised.value, AirflowFailException)


@pytest.mark.parametrize("value", [0.5, True, "x", datetime(2026, 1, 1, tzinfo=timezone.utc), float("nan")])
def test_a_value_of_another_type_is_refused_and_the_mark_stays(value: Any) -> None:
    first = a_try()
    with pytest.raises(CursorTypeError, match="the cursor value of a row"):
        load(first, numbers(Counter(10)), track(3, value))
    assert stands(first) == "0"


def test_a_time_without_a_zone_is_refused() -> None:
    mark = watermark(NUMBERS, initial="2026-01-01T00:00:00Z", delay=timedelta(0))
    with pytest.raises(CursorTypeError, match="no offset"):
        list(mark.begin(a_try().context).track([{"at": datetime(2026, 1, 2)}], "at"))  # noqa: DTZ001


def test_a_number_that_is_none_is_refused() -> None:
    mark = watermark(NUMBERS, initial=Decimal(0))
    with pytest.raises(CursorTypeError, match="not a number"):
        list(mark.begin(a_try().context).track([{"n": Decimal("NaN")}], "n"))


def test_text_of_the_source_is_read_as_the_cursor_reads_it() -> None:
    window = window_of()
    assert track("3", "12", "007")(window) == ["3", "007"]
    assert window.summary()["max"] == "7"


# --- nulls and the future -------------------------------------------------------------------------------------


def test_a_row_without_a_value_is_refused_by_default_with_what_to_do() -> None:
    with pytest.raises(NullCursorError, match=r"nulls='skip'.*nulls='keep'") as raised:
        track(3, None)(window_of())
    assert isinstance(raised.value, AirflowFailException)


@pytest.mark.parametrize(("nulls", "delivered"), [("skip", [3]), ("keep", [3, None])])
@pytest.mark.parametrize("options", [{}, {"unique": "id"}, {"ordered": True}])
def test_rows_without_a_value_are_passed_over_or_kept(nulls: Any, delivered: Any, options: Any) -> None:
    first = a_try()
    window = load(first, numbers(nulls=nulls), lambda window: print(track(3, None, **options)(window)))
    assert (window.tally.rows, window.tally.nulls) == (len(delivered), 1)
    assert stands(first) == "3"


@pytest.mark.parametrize("nulls", ["raise", "skip", "keep"])
def test_a_null_in_one_of_several_columns_is_one(nulls: Any) -> None:
    mark = watermark(NUMBERS, initial=(0, 0), cursor=Cursor.keyset(Cursor.int(), Cursor.int()), nulls=nulls)
    window = mark.begin(a_try().context)
    given = [{"k": (3, None)}, {"k": (2, 5)}]
    if nulls == "raise":
        with pytest.raises(NullCursorError):
            list(window.track(given, "k"))
        return
    assert list(window.track(given, "k")) == (given if nulls == "keep" else given[1:])
    assert window.summary()["max"] == ["2", "5"]


@pytest.mark.parametrize(
    ("future", "delivered", "stood"), [("exclude", [3], "3"), ("clamp", [3, 10, 12], "10"), ("fail", None, "0")]
)
def test_rows_of_the_future(future: Any, delivered: Any, stood: str) -> None:
    first = a_try()
    mark = numbers(Counter(10), future=future, advance="observed")
    if delivered is None:
        with pytest.raises(FutureRowError, match="future='exclude'"):
            load(first, mark, track(3, 10, 12))
    else:
        window = load(first, mark, track(3, 10, 12))
        assert (window.tally.future, window.tally.rows) == (2, len(delivered))
    assert stands(first) == stood


def test_rows_of_the_future_are_loaded_when_it_has_come() -> None:
    first, clock = a_try(), Counter(10)
    mark = numbers(clock)
    load(first, mark, track(3, 12))
    clock.number = 20
    window = load(first.next_run(), mark, track(12))
    assert window.tally.rows == 1


def test_rows_before_the_mark_are_late_and_do_not_move_it_back() -> None:
    first = a_try()
    load(first, numbers(lookback=5), track(9))
    window = load(first.next_run(), numbers(lookback=5), track(6, 7))
    assert (window.start, window.tally.late, stands(first)) == (4, 2, "9")


# --- in order -------------------------------------------------------------------------------------------------


def test_rows_that_are_said_to_be_in_order_are_held_to_it() -> None:
    assert track(1, 1, 3, ordered=True)(window_of()) == [1, 1, 3]
    with pytest.raises(UnsortedRowsError, match="The row with 2 comes after one with 3") as raised:
        track(1, 3, 2, ordered=True)(window_of())
    assert isinstance(raised.value, AirflowFailException)


def test_a_row_without_a_value_does_not_end_the_order() -> None:
    with pytest.raises(UnsortedRowsError):
        track(3, None, 2, ordered=True)(window_of(nulls="skip"))


# --- ties -----------------------------------------------------------------------------------------------------


def tied(*names: str, n: int = 5) -> list[dict[str, Any]]:
    return [{"n": n, "id": name} for name in names]


def delivers(attempt: Any, mark: Any, given: list[dict[str, Any]], unique: Any = "id") -> list[str]:
    got: list[str] = []
    load(attempt, mark, lambda window: got.extend(row["id"] for row in window.track(given, "n", unique=unique)))
    return got


@pytest.mark.parametrize("unique", ["id", lambda row: row["id"]])
def test_of_rows_at_the_mark_the_loaded_ones_are_passed_over_and_new_ones_delivered(unique: Any) -> None:
    attempt, mark = a_try(), numbers()
    assert delivers(attempt, mark, tied("a", "b"), unique) == ["a", "b"]
    second = attempt.next_run()
    assert delivers(second, mark, tied("a", "b", "c"), unique) == ["c"]
    assert delivers(second.next_run(), mark, tied("a", "b", "c"), unique) == []
    third = second.next_run()
    assert delivers(third, mark, [*tied("a", "b", "c"), *tied("a", n=6)], unique) == ["a"]
    assert delivers(third.next_run(), mark, [*tied("a", "b", n=6)], unique) == ["b"]


def test_what_is_unique_by_itself_is_loaded_once() -> None:
    attempt, mark = a_try(), numbers()
    assert delivers(attempt, mark, tied("a"), unique=True) == ["a"]
    assert delivers(attempt.next_run(), mark, tied("a"), unique=True) == []
    assert delivers(attempt.next_run(), mark, [*tied("a"), *tied("b", n=6)], unique=True) == ["b"]


def test_at_a_mark_where_nothing_was_loaded_yet_rows_are_loaded_once_too() -> None:
    attempt, mark = a_try(), numbers(initial=5)
    assert delivers(attempt, mark, tied("a"), unique=True) == ["a"]
    second = attempt.next_run()
    assert delivers(second, mark, tied("a"), unique=True) == []
    assert not mark.begin(second.next_run().context).is_initial


def test_after_a_rewind_to_the_same_value_its_rows_are_loaded_again() -> None:
    attempt, mark = a_try(), numbers()
    assert delivers(attempt, mark, tied("a")) == ["a"]
    attempt.asset_stores[NUMBERS].set(MARK, "5")
    assert delivers(attempt.next_run(), mark, tied("a")) == ["a"]


def test_a_retry_passes_over_the_same_rows_as_its_first_attempt() -> None:
    attempt, mark = a_try(), numbers()
    delivers(attempt, mark, tied("a"))
    second = attempt.next_run()
    mark.begin(second.context)
    load(attempt.next_run(), mark, lambda window: list(window.track(tied("a", "b"), "n", unique="id")))
    assert delivers(second.retry(), mark, tied("a", "b")) == ["b"]


def test_a_retry_with_a_lookback_knows_where_the_mark_stood() -> None:
    attempt, mark = a_try(), numbers(lookback=3)
    delivers(attempt, mark, tied("a"))
    second = attempt.next_run()
    mark.begin(second.context)
    retry = second.retry()
    window = load(retry, mark, lambda window: list(window.track([*tied("l", n=3), *tied("a", "b")], "n", unique="id")))
    assert (window.start, window.tally.late, window.tally.known, window.tally.rows) == (2, 1, 1, 2)


def test_rows_that_are_not_told_apart_are_loaded_again() -> None:
    attempt, mark = a_try(), numbers()
    delivers(attempt, mark, tied("a"))
    second = attempt.next_run()
    assert delivers(second, mark, [*tied("a"), *tied("x", n=6)], unique=None) == ["a", "x"]
    assert delivers(second.next_run(), mark, tied("x", n=6)) == ["x"]


def test_more_ties_than_are_kept_are_loaded_again() -> None:
    attempt, mark = a_try(), numbers()
    many = tied(*(f"r{number}" for number in range(MAX_TIES + 1)))
    delivers(attempt, mark, many)
    assert "ties" not in marks(attempt)[MARK]
    assert len(delivers(attempt.next_run(), mark, many)) == MAX_TIES + 1


@pytest.mark.parametrize("say", ["fail_from", "advance"])
def test_ties_at_what_failed_are_none(say: str) -> None:
    attempt, mark = a_try(), numbers()
    load(attempt, mark, lambda window: [list(window.track(tied("a", "b"), "n", unique="id")), getattr(window, say)(5)])
    assert stands(attempt) == "5"
    assert delivers(attempt.next_run(), mark, tied("a", "b")) == ["a", "b"]


def test_a_unique_column_that_is_missing_is_an_error() -> None:
    with pytest.raises((LookupError, AttributeError)):
        track(1, unique="x")(window_of())


# --- the fast way and the careful one -------------------------------------------------------------------------

VALUES = st.one_of(st.none(), st.integers(-3, 14), st.integers(-3, 14).map(str))


def tallied(options: dict[str, Any], given: list[Any], **ways: Any) -> tuple[Any, ...]:
    tracker = Tracker(cursor=Cursor.int(), at=3, start=0, nulls="keep", **options)
    tally = Tally()
    delivered = [row["n"] for row in tracker.tracked(rows(*given), "n", tally, **ways)]
    return delivered, tally.rows, tally.late, tally.nulls, tally.future, tally.top


@given(st.lists(VALUES), st.sampled_from([None, 10]), st.sampled_from(["exclude", "clamp"]))
@settings(max_examples=60, deadline=None)
def test_the_fast_way_and_the_careful_one_find_the_same(given_values: list[Any], end: Any, future: Any) -> None:
    options = {"end": end, "future": future}
    assert tallied(options, given_values) == tallied(options, given_values, unique="id")
