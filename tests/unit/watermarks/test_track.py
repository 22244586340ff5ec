"""Rows on their way through a window: which are delivered, what is counted, what is refused."""

from __future__ import annotations

import dataclasses
import logging
import sqlite3
from collections import namedtuple
from contextlib import closing
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from airflow.sdk.exceptions import AirflowFailException
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import dataset

from airflow_resume import watermark
from airflow_resume.errors import (
    ColumnError,
    CursorTypeError,
    RowOrderError,
    WindowNotReadError,
)
from airflow_resume.watermarks import Cursor, Window
from airflow_resume.watermarks.commit import MAX_TIES
from airflow_resume.watermarks.rows.track import Tally, Tracker
from tests.support.kit.raised import having
from tests.support.watermarks.whole_numbers import (
    MARK,
    NUMBERS,
    Counter,
    a_try,
    load,
    marks,
    numbers,
    rows,
    stands,
    track,
)

Pair = namedtuple("Pair", ["n", "m"])  # noqa: PYI024


@dataclasses.dataclass(slots=True)
class Slotted:
    """A row without a `__dict__`."""

    m: int


def window_of(**options: Any) -> Window[Any]:
    return numbers(Counter(10), **options).begin(a_try().context)


# --- rows of any kind -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("row", "key"),
    [
        ({"n": 3}, "n"),
        (SimpleNamespace(n=3), "n"),
        (Pair(3, 4), "n"),
        (Slotted(3), "m"),
        ((8, 3), 1),
        ([8, 3], -1),
        ({1: 3}, 1),
        (np.array([(3,)], dtype=[("n", "i8")])[0], "n"),
        ({"a": {"b": 3}}, "a.b"),
        ({"a": {"b": {"c": 3}}}, "a.b.c"),
        ({"a": SimpleNamespace(b=3)}, "a.b"),
        (SimpleNamespace(a={"b": 3}), "a.b"),
        ({"a.b": 3, "a": {"b": 4}}, "a.b"),
        ({"n": 3}, lambda row: row["n"]),
    ],
)
@pytest.mark.parametrize("options", [{}, {"ordered": True}])
def test_a_value_is_found_in_rows_of_every_kind(row: Any, key: Any, options: Any) -> None:
    window = window_of()
    assert list(window.track([row], key, **options)) == [row]
    assert window.summary()["max"] == "3"


def test_what_is_nowhere_in_a_row_without_the_outer_part_has_no_value() -> None:
    window = window_of(nulls="skip")
    assert list(window.track([{"a": None}, {"a": {"b": None}}], "a.b")) == []
    assert window.tally.nulls == 2
    with pytest.raises(ColumnError, match="it has a"):
        list(window.track([{"a": {}}], "a.b"))


def test_several_columns_are_a_keyset() -> None:
    mark = watermark(NUMBERS, initial=(0, 0), cursor=Cursor.keyset(Cursor.int(), Cursor.int()))
    window = mark.begin(a_try().context)
    assert len(list(window.track([{"n": 3, "m": 4}, {"n": 3, "m": 2}], ["n", "m"]))) == 2
    assert window.summary()["max"] == ["3", "4"]


class Cursors:
    """An iterator of a database that is read with `await`."""

    def __aiter__(self) -> Any:
        raise NotImplementedError


@pytest.mark.parametrize(
    ("given", "remedy"),
    [
        (None, "Give a list or an iterator of rows"),
        (3, "Give a list or an iterator of rows"),
        (Cursors(), "row async for row in rows"),
        (pl.LazyFrame({"n": [1]}), r"rows\.collect\(\)"),
        (type("DataFrame", (), {"__iter__": None})(), r"rows\.to_pandas\(\)"),
        (dataset.dataset(pa.table({"n": [1]})), r"rows\.to_batches\(\)"),
    ],
)
def test_what_has_no_rows_is_refused_with_what_to_hand_over(given: Any, remedy: str) -> None:
    window = window_of()
    with pytest.raises(TypeError, match=rf"cannot go through the rows of .*\n.*{remedy}"):
        window.track(given, "n")
    with pytest.raises(WindowNotReadError, check=having(problem="unread")):
        numbers().begin(a_try().context).progress.check_read()


def test_a_row_of_sqlite_and_a_function_of_the_row() -> None:
    with closing(sqlite3.connect(":memory:")) as database:
        database.row_factory = sqlite3.Row
        window = window_of()
        assert len(list(window.track(database.execute("SELECT 3 AS n"), "n"))) == 1
        assert list(window.track([(1, 5)], lambda row: row[1])) == [(1, 5)]
        assert window.summary()["max"] == "5"
        with pytest.raises(ColumnError, match=r"it has n\.\nSelect"):
            list(window.track(database.execute("SELECT 3 AS n"), "m"))


@pytest.mark.parametrize(
    ("row", "remedy"),
    [
        ({"m": 3}, "it has m.\nSelect the column"),
        (SimpleNamespace(m=3), "it has m.\nSelect the column"),
        (Slotted(3), "it has m.\nSelect the column"),
        (Pair(3, 4), "it has n, m.\nSelect the column"),
        (np.array([(3,)], dtype=[("m", "i8")])[0], "it has m.\nSelect the column"),
        (3, "it has no columns.\nSelect the column"),
        ((3,), r"give the position instead, such as track\(rows, 0\), or a function"),
        ([3], r"give the position instead, such as track\(rows, 0\), or a function"),
        ((0, pd.Series({"x": 3})), r"the pairs of iterrows\(\): hand over the DataFrame"),
    ],
)
@pytest.mark.parametrize("options", [{}, {"ordered": True}, {"unique": "id"}])
def test_a_missing_column_names_those_there_are(row: Any, remedy: str, options: Any) -> None:
    with pytest.raises(ColumnError, match=remedy) as raised:
        list(window_of().track([row], "x", **options))
    assert isinstance(raised.value, AirflowFailException)


@pytest.mark.parametrize(
    ("row", "names"),
    [
        ({"n": 3, "m": 1}, ("n", "m")),
        (SimpleNamespace(n=3), ("n",)),
        (Pair(3, 4), ("n", "m")),
        (np.array([(3,)], dtype=[("n", "i8")])[0], ("n",)),
        (pd.DataFrame({"n": [3]}), ("n",)),
        (pl.DataFrame({"n": [3]}), ("n",)),
        (pa.table({"n": [3]}), ("n",)),
    ],
    ids=lambda given: type(given).__name__,
)
@pytest.mark.parametrize(
    ("options", "argument"),
    [
        ({"unique": "id"}, "unique"),
        ({"unique": ["n", "id"]}, "unique"),
        ({"unique": "n", "version": "id"}, "version"),
        ({"unique": True, "version": ["n", "id"]}, "version"),
    ],
    ids=str,
)
def test_a_missing_column_of_unique_or_version_names_those_there_are(
    row: Any, names: tuple[str, ...], options: Any, argument: str
) -> None:
    with pytest.raises(ColumnError, match=rf"it has {', '.join(names)}\.\nSelect the column") as raised:
        list(window_of().track([row], "n", **options))
    assert (raised.value.column, raised.value.columns) == ("id", names)
    assert isinstance(raised.value, AirflowFailException)
    is_frame = hasattr(row, "shape") and len(row.shape) == 2
    assert is_frame or f"no value for {argument}= " in raised.value.message


def test_a_function_of_the_row_that_looks_for_another_column_is_a_column_error() -> None:
    with pytest.raises(ColumnError, match=r"no value for unique= \(KeyError.'id'.\); it has n\.") as raised:
        list(window_of().track([{"n": 3}], "n", unique=lambda row: row["id"]))
    assert raised.value.column is None


@pytest.mark.parametrize("value", [0.5, True, "x", datetime(2026, 1, 1, tzinfo=timezone.utc)])
def test_a_value_of_another_type_is_refused_and_the_mark_stays(value: Any) -> None:
    first = a_try()
    with pytest.raises(CursorTypeError, match="the cursor value of a row"):
        load(first, numbers(Counter(10)), track(3, value))
    assert stands(first) == "0"


def test_a_time_without_a_zone_is_refused() -> None:
    mark = watermark(NUMBERS, initial="2026-01-01T00:00:00Z", delay=timedelta(0))
    with pytest.raises(CursorTypeError, match="no offset"):
        list(mark.begin(a_try().context).track([{"at": datetime(2026, 1, 2)}], "at"))  # noqa: DTZ001


@pytest.mark.parametrize("value", ["Infinity", "-Infinity"])
def test_a_number_without_end_is_refused(value: str) -> None:
    mark = watermark(NUMBERS, initial=Decimal(0))
    with pytest.raises(CursorTypeError, match="not a number"):
        list(mark.begin(a_try().context).track([{"n": Decimal(value)}], "n"))


def test_text_of_the_source_is_read_as_the_cursor_reads_it() -> None:
    window = window_of()
    assert track("3", "12", "007")(window) == ["3", "007"]
    assert window.summary()["max"] == "7"


# --- nulls and the future -------------------------------------------------------------------------------------

MISSING = [
    None,
    float("nan"),
    Decimal("NaN"),
    Decimal("sNaN"),
    np.float32("nan"),
    np.datetime64("NaT"),
    np.ma.masked,
    pd.NaT,
    pd.NA,
    pa.scalar(None),
    pa.scalar(None, pa.int64()),
    pa.scalar(float("nan")),
]


@pytest.mark.parametrize("value", MISSING, ids=repr)
@pytest.mark.parametrize("nulls", ["raise", None, "skip", "keep"])
@pytest.mark.parametrize("options", [{}, {"unique": "id"}, {"ordered": True}])
def test_whatever_says_that_there_is_no_value_is_one_that_is_missing(value: Any, nulls: Any, options: Any) -> None:
    tracker = Tracker(cursor=Cursor.int(), at=0, start=0, end=10, nulls=nulls, future="exclude")
    tally = Tally()
    if nulls in {"raise", None}:
        with pytest.raises(ColumnError, match="no cursor value"):
            list(tracker.tracked(rows(3, value), "n", tally, **options))
        return
    delivered = list(tracker.tracked(rows(3, value), "n", tally, **options))
    assert len(delivered) == tally.rows == (2 if nulls == "keep" else 1)
    assert (tally.nulls, tally.top) == (1, 3)


WHOLE = [np.int64(3), np.uint8(3), pa.scalar(3), pa.scalar(3, pa.uint64())]


@pytest.mark.parametrize("value", WHOLE, ids=repr)
def test_a_number_of_a_library_is_the_number(value: Any) -> None:
    window = window_of()
    assert len(track(value, value)(window)) == 2
    assert (window.tally.top, type(window.tally.top)) == (3, int)


MOMENT = datetime(1960, 1, 1, 0, 0, 0, 2, tzinfo=timezone.utc)
NANOSECONDS = (MOMENT - datetime(1970, 1, 1, tzinfo=timezone.utc)) // timedelta(microseconds=1) * 1000 + 999


@pytest.mark.parametrize(
    "value",
    [
        pd.Timestamp(NANOSECONDS, tz="UTC"),
        pd.Timestamp(NANOSECONDS, tz="Europe/Berlin"),
        pa.scalar(NANOSECONDS, pa.timestamp("ns", "UTC")),
        pa.scalar(MOMENT),
        pd.Timestamp(NANOSECONDS, tz="UTC").isoformat(),
    ],
    ids=repr,
)
def test_a_time_of_a_library_is_cut_to_microseconds_and_never_rounded_up(value: Any) -> None:
    mark = watermark(NUMBERS, initial="1950-01-01T00:00:00Z", advance="observed", delay=timedelta(0))
    window = mark.begin(a_try().context)
    assert len(list(window.track([{"n": value}], "n"))) == 1
    assert window.tally.top == MOMENT


@pytest.mark.parametrize(
    "value", [np.datetime64(NANOSECONDS, "ns"), pa.scalar(NANOSECONDS, pa.timestamp("ns")), pd.Timestamp(NANOSECONDS)]
)
def test_a_time_of_a_library_without_a_zone_is_one_without_a_zone(value: Any) -> None:
    naive = MOMENT.replace(tzinfo=None)
    mark = watermark(
        NUMBERS,
        initial=naive,
        cursor=Cursor.datetime(tz=None),
        advance="observed",
        now=lambda: datetime(2100, 1, 1),  # noqa: DTZ001
        delay=timedelta(0),
    )
    window = mark.begin(a_try().context)
    assert len(list(window.track([{"n": value}], "n"))) == 1
    assert window.tally.top == naive
    aware = watermark(NUMBERS, initial="1950-01-01T00:00:00Z", advance="observed", delay=timedelta(0)).begin(
        a_try().context
    )
    with pytest.raises(CursorTypeError, match="no offset"):
        list(aware.track([{"n": value}], "n"))


@pytest.mark.parametrize(
    "value", [np.datetime64("2026-01-02"), np.datetime64("2026-01-02", "D"), pa.scalar(date(2026, 1, 2))]
)
def test_a_day_of_a_library_is_a_day(value: Any) -> None:
    window = watermark(NUMBERS, initial="2026-01-01", advance="observed", delay=timedelta(0)).begin(a_try().context)
    list(window.track([{"n": value}], "n"))
    assert window.summary()["max"] == "2026-01-02"


def test_a_row_without_a_value_is_refused_by_default_with_what_to_do() -> None:
    with pytest.raises(ColumnError, match=r"nulls='skip'.*nulls='keep'") as raised:
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
        with pytest.raises(ColumnError, match="no cursor value"):
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
        with pytest.raises(RowOrderError, match="future='exclude'"):
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


def test_in_a_window_that_ends_before_the_mark_a_row_at_the_mark_is_of_the_future() -> None:
    tracker = Tracker(cursor=Cursor.int(), at=10, start=2, end=6, nulls="raise", future="exclude")
    assert [row["n"] for row in tracker.tracked(rows(2, 10, 5, 6), "n", Tally())] == [2, 5]


def test_rows_before_the_mark_are_late_and_do_not_move_it_back() -> None:
    first = a_try()
    load(first, numbers(lookback=5), track(9))
    window = load(first.next_run(), numbers(lookback=5), track(6, 7))
    assert (window.start, window.tally.late, stands(first)) == (4, 2, "9")


# --- in order -------------------------------------------------------------------------------------------------


def test_rows_that_are_said_to_be_in_order_are_held_to_it() -> None:
    assert track(1, 1, 3, ordered=True)(window_of()) == [1, 1, 3]
    with pytest.raises(RowOrderError, match="The row with 2 comes after one with 3") as raised:
        track(1, 3, 2, ordered=True)(window_of())
    assert isinstance(raised.value, AirflowFailException)


def test_a_row_without_a_value_does_not_end_the_order() -> None:
    with pytest.raises(RowOrderError, match=r"in the order of|comes after one"):
        track(3, None, 2, ordered=True)(window_of(nulls="skip"))


# --- ties -----------------------------------------------------------------------------------------------------


def tied(*names: str, n: int = 5) -> list[dict[str, Any]]:
    return [{"n": n, "id": name} for name in names]


def delivers(attempt: Any, mark: Any, given: list[dict[str, Any]], unique: Any = "id") -> list[Any]:
    got: list[Any] = []
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


def test_what_loaded_rows_are_known_by_is_longer_than_in_0_1_whose_ties_still_hold() -> None:
    attempt, mark = a_try(), numbers()
    delivers(attempt, mark, tied("a", "b"))
    ties = marks(attempt)[MARK]["ties"]
    assert [len(tie) for tie in ties] == [12, 12]
    marks(attempt)[MARK]["ties"] = [tie[:8] for tie in ties]
    assert delivers(attempt.next_run(), mark, tied("a", "b", "c")) == ["c"]


@pytest.mark.parametrize("other", ["1", Decimal(1), 1.0, True, b"1", (1,)])
def test_an_id_of_another_type_is_another_id_so_its_row_is_never_passed_over(other: Any) -> None:
    attempt, mark = a_try(), numbers()
    assert delivers(attempt, mark, [{"n": 5, "id": 1}]) == [1]
    assert delivers(attempt.next_run(), mark, [{"n": 5, "id": 1}, {"n": 5, "id": other}]) == [other]


@pytest.mark.parametrize("same", [np.int64(1), np.uint8(1), pa.scalar(1)])
def test_an_id_of_a_library_is_the_id(same: Any) -> None:
    attempt, mark = a_try(), numbers()
    assert delivers(attempt, mark, [{"n": 5, "id": 1}]) == [1]
    assert delivers(attempt.next_run(), mark, [{"n": 5, "id": same}]) == []


@pytest.mark.parametrize("unit", ["us", "ns"])
def test_ids_that_differ_in_nanoseconds_are_two(unit: str) -> None:
    attempt, mark = a_try(), numbers()
    ids = [np.datetime64(1_001, "ns"), np.datetime64(1_002, "ns")] if unit == "ns" else [1_001, 1_002]
    assert delivers(attempt, mark, [{"n": 5, "id": ids[0]}]) == ids[:1]
    assert delivers(attempt.next_run(), mark, [{"n": 5, "id": id_} for id_ in ids]) == ids[1:]


@pytest.mark.parametrize("missing", [None, pd.NaT, float("nan"), (None, None)])
def test_rows_without_an_id_cannot_be_told_apart_and_are_loaded_again(missing: Any) -> None:
    attempt, mark = a_try(), numbers()
    assert len(delivers(attempt, mark, [{"n": 5, "id": missing}])) == 1
    assert len(delivers(attempt.next_run(), mark, [{"n": 5, "id": missing}, {"n": 5, "id": missing}])) == 2


def versions(*given: tuple[str, Any], n: int = 5) -> list[dict[str, Any]]:
    return [{"n": n, "id": name, "v": version} for name, version in given]


def by_rows(window: Window[Any], given_rows: list[dict[str, Any]], **options: Any) -> list[tuple[str, Any]]:
    return [(row["id"], row["v"]) for row in window.track(given_rows, "n", **options)]


def by_frame(window: Window[Any], given_rows: list[dict[str, Any]], **options: Any) -> list[tuple[str, Any]]:
    frame: Any = pl.DataFrame(given_rows)
    return [(row["id"], row["v"]) for row in window.track(frame, "n", **options).iter_rows(named=True)]


@pytest.mark.parametrize(
    ("way", "unique", "version"),
    [
        (by_rows, "id", "v"),
        (by_rows, ["id", "n"], ["v"]),
        (by_rows, lambda row: row["id"], lambda row: row["v"]),
        (by_frame, "id", "v"),
        (by_frame, ["id", "n"], ["v"]),
    ],
)
def test_a_row_that_was_changed_at_the_moment_of_the_mark_is_loaded_again(way: Any, unique: Any, version: Any) -> None:
    attempt, mark, got = a_try(), numbers(), []
    for now_there in (
        versions(("a", 1), ("b", 1)),
        versions(("a", 2), ("b", 1)),
        versions(("a", 2), ("b", 1)),
        versions(("a", 2), ("b", None)),
        versions(("a", 2), ("b", None)),
    ):
        with mark.open(attempt.context) as window:
            got.append(way(window, now_there, unique=unique, version=version))
        attempt.succeed()
        attempt = attempt.next_run()
    assert got == [[("a", 1), ("b", 1)], [("a", 2)], [], [("b", None)], []]


def test_without_a_version_such_a_change_is_passed_over() -> None:
    attempt, mark = a_try(), numbers()
    assert delivers(attempt, mark, versions(("a", 1))) == ["a"]
    assert delivers(attempt.next_run(), mark, versions(("a", 2))) == []


def test_a_version_of_what_is_unique_by_itself() -> None:
    attempt, mark, got = a_try(), numbers(), []
    for version in (1, 1, 2):
        with mark.open(attempt.context) as window:
            got.append(len(list(window.track(versions(("a", version)), "n", unique=True, version="v"))))
        attempt.succeed()
        attempt = attempt.next_run()
    assert got == [1, 0, 1]


def test_a_version_of_nothing_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match="Give unique= too"):
        window_of().track(rows(1), "n", version="id")


def test_too_many_ties_are_said_once(caplog: pytest.LogCaptureFixture) -> None:
    attempt, mark = a_try(), numbers()
    many = tied(*(f"r{number}" for number in range(MAX_TIES + 1)))
    with caplog.at_level(logging.WARNING, "airflow_resume.watermarks"):
        for _ in range(3):
            delivers(attempt, mark, many)
            attempt = attempt.next_run()
    said = [record.getMessage() for record in caplog.records if "too many to tell apart" in record.getMessage()]
    assert len(said) == 1
    assert said[0].startswith(f"More than {MAX_TIES} rows have the cursor value 5, where the mark will stand.")
    assert "\nUse a finer time, or a second column" in said[0]


def test_too_many_ties_that_come_run_by_run_are_said_when_they_are_too_many(caplog: pytest.LogCaptureFixture) -> None:
    attempt, mark = a_try(), numbers()
    many = [f"r{number}" for number in range(MAX_TIES + 5)]
    with caplog.at_level(logging.WARNING, "airflow_resume.watermarks"):
        delivers(attempt, mark, tied(*many[:MAX_TIES]))
        assert caplog.records == []
        second = attempt.next_run()
        assert delivers(second, mark, tied(*many)) == many[MAX_TIES:]
        assert len(caplog.records) == 1
        assert delivers(second.next_run(), mark, tied(*many)) == many
        assert len(caplog.records) == 1


def test_many_ties_at_a_value_that_the_mark_passes_are_no_trouble(caplog: pytest.LogCaptureFixture) -> None:
    attempt, mark = a_try(), numbers()
    with caplog.at_level(logging.WARNING, "airflow_resume.watermarks"):
        delivers(attempt, mark, [*tied(*map(str, range(MAX_TIES + 1))), *tied("last", n=6)])
    assert caplog.records == []
    assert delivers(attempt.next_run(), mark, tied("last", "new", n=6)) == ["new"]


def test_no_more_ties_are_held_than_tell_that_they_are_too_many() -> None:
    window = numbers().begin(a_try().context)
    list(window.track(tied(*map(str, range(50 * MAX_TIES))), "n", unique="id"))
    assert window.tally.ties is not None
    assert len(window.tally.ties) == MAX_TIES + 1


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
