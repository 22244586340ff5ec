"""Frames of pandas, polars and Arrow through a window: by columns, with the same outcome as their rows one by one."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import create_engine, text

from airflow_resume import watermark
from airflow_resume.errors import (
    ColumnError,
    CursorTypeError,
    RowOrderError,
    WatermarkError,
    WindowNotReadError,
)
from airflow_resume.watermarks import Cursor, SqlColumn, Window
from airflow_resume.watermarks.commit import MAX_TIES
from airflow_resume.watermarks.rows.frames import frame_of
from airflow_resume.watermarks.rows.track import Tally, Tracker
from tests.support.kit.raised import having
from tests.support.watermarks.whole_numbers import NUMBERS, Counter, a_try, load, numbers, stands

UTC = timezone.utc
FIRST = datetime(2026, 1, 1, tzinfo=UTC)


# --- every library and every kind of column -------------------------------------------------------------------

Make = Callable[[dict[str, list[Any]], str], Any]


def of_pandas(columns: dict[str, list[Any]], kind: str) -> Any:
    """Columns as pandas reads them by itself: objects, floats, NaT."""
    return pd.DataFrame(columns)


def of_typed_pandas(columns: dict[str, list[Any]], kind: str) -> Any:
    types = {"int": "Int64", "datetime": "datetime64[ns, UTC]", "text": "string", "naive": "datetime64[us]"}
    return pd.DataFrame({"u": pd.Series(columns["u"], dtype=types.get(kind, "object")), "id": columns["id"]})


def of_arrow_pandas(columns: dict[str, list[Any]], kind: str) -> Any:
    return pd.DataFrame({"u": pd.Series(columns["u"], dtype=pd.ArrowDtype(ARROW[kind])), "id": columns["id"]})


def of_polars(columns: dict[str, list[Any]], kind: str) -> Any:
    return pl.DataFrame(columns, schema_overrides={"u": POLARS[kind]})


def of_arrow(columns: dict[str, list[Any]], kind: str) -> Any:
    return pa.table({"u": pa.array(columns["u"], ARROW[kind]), "id": pa.array(columns["id"], pa.string())})


def of_arrow_chunks(columns: dict[str, list[Any]], kind: str) -> Any:
    table = of_arrow(columns, kind)
    return pa.concat_tables([table.slice(0, 2), table.slice(2, 1), table.slice(3)])


def of_a_batch(columns: dict[str, list[Any]], kind: str) -> Any:
    return pa.record_batch({"u": pa.array(columns["u"], ARROW[kind]), "id": pa.array(columns["id"], pa.string())})


MAKERS = [of_pandas, of_typed_pandas, of_arrow_pandas, of_polars, of_arrow, of_arrow_chunks, of_a_batch]
ARROW = {
    "int": pa.int64(),
    "datetime": pa.timestamp("ns", "UTC"),
    "seconds": pa.timestamp("s", "UTC"),
    "naive": pa.timestamp("us"),
    "text": pa.string(),
    "decimal": pa.decimal128(12, 2),
    "date": pa.date32(),
}
POLARS: dict[str, Any] = {
    "int": pl.Int64,
    "datetime": pl.Datetime("ns", "UTC"),
    "seconds": pl.Datetime("ms", "UTC"),
    "naive": pl.Datetime("us"),
    "text": pl.String,
    "decimal": pl.Decimal(12, 2),
    "date": pl.Date,
}
CURSORS: dict[str, Any] = {
    "int": Cursor.int(),
    "datetime": Cursor.datetime(),
    "seconds": Cursor.datetime("Europe/Berlin"),
    "naive": Cursor.datetime(tz=None),
    "text": Cursor.text(),
    "decimal": Cursor.decimal(),
    "date": Cursor.date(),
}


VALUES: dict[str, Callable[[int], Any]] = {
    "int": int,
    "datetime": lambda number: FIRST + timedelta(microseconds=number),
    "seconds": lambda number: FIRST + timedelta(seconds=number),
    "naive": lambda number: FIRST.replace(tzinfo=None) + timedelta(microseconds=number),
    "text": lambda number: f"é{number + 50}",
    "decimal": lambda number: Decimal(number) / 4,
    "date": lambda number: date(2026, 1, 1) + timedelta(days=number),
}
"""Values in the order of their numbers."""


def outcome(pass_through: Callable[[Tracker, Tally], list[Any]], tracker: Tracker) -> Any:
    """What is delivered and counted, or that it is refused; of two reasons, each has one of its own first."""
    tally = Tally()
    try:
        delivered = pass_through(tracker, tally)
    except WatermarkError:
        return "refused"
    return delivered, {**asdict(tally), "ties": None if tally.ties is None else sorted(tally.ties)}


def ids_of(frame: Any) -> list[Any]:
    return frame.column("id").to_pylist() if isinstance(frame, (pa.Table, pa.RecordBatch)) else list(frame["id"])


def same_outcomes(make: Make, kind: str, given: list[int | None], rules: dict[str, Any], how: dict[str, Any]) -> None:
    cursor = CURSORS[kind]
    at, end = rules["at"], rules["end"]
    bounds = {
        "at": cursor.parse(VALUES[kind](at), what="at"),
        "end": None if end is None else cursor.parse(VALUES[kind](end), what="end"),
    }
    known = Tally()
    ids = [f"r{place % 5}" for place in range(len(given))]
    columns: dict[str, list[Any]] = {
        "u": [None if number is None else VALUES[kind](number) for number in given],
        "id": ids,
    }
    free = Tracker(cursor=cursor, **{**bounds, "end": None}, start=None, nulls="skip", future="exclude")
    list(free.tracked([{"u": bounds["at"], "id": "r1"}], "u", known, unique="id"))
    rules = {**rules, **bounds, "start": None, "known": frozenset(known.ties or ())}
    tracker = Tracker(cursor=cursor, **rules)
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    frame = make(columns, kind)

    def by_rows(tracker: Tracker, tally: Tally) -> list[Any]:
        return [row["id"] for row in tracker.tracked(rows, "u", tally, **how)]

    def by_frame(tracker: Tracker, tally: Tally) -> list[Any]:
        found = frame_of(frame)
        assert found is not None
        passed = tracker.framed(found, "u", tally, **how)
        assert type(passed) is type(frame)
        assert (passed is frame) == (len(passed) == len(frame))
        return ids_of(passed)

    assert outcome(by_frame, tracker) == outcome(by_rows, tracker)


GIVEN = st.lists(st.one_of(st.none(), st.integers(-4, 12)), min_size=1, max_size=7)
RULES = st.fixed_dictionaries(
    {
        "at": st.integers(0, 6),
        "end": st.sampled_from([None, 3, 9]),
        "nulls": st.sampled_from(["raise", "skip", "keep", None]),
        "future": st.sampled_from(["exclude", "clamp", "fail"]),
    }
)
HOW = st.sampled_from([{}, {"unique": "id"}, {"unique": True}, {"unique": "id", "version": "id"}, {"ordered": True}])


@pytest.mark.parametrize("kind", list(CURSORS))
@pytest.mark.parametrize("make", MAKERS)
@given(numbers=GIVEN, rules=RULES, how=HOW)
@settings(max_examples=25, deadline=None)
def test_a_frame_and_its_rows_have_one_outcome(
    make: Make, kind: str, numbers: list[int | None], rules: Any, how: Any
) -> None:
    same_outcomes(make, kind, numbers, rules, how)


# --- what comes back ------------------------------------------------------------------------------------------


def times(**options: Any) -> Window[Any]:
    options = {"initial": FIRST, "advance": "observed", "delay": timedelta(0), "now": lambda: second(10), **options}
    return watermark(NUMBERS, **options).begin(a_try().context)


def second(number: float) -> datetime:
    return FIRST + timedelta(seconds=number)


FRAMES: list[Any] = [
    pd.DataFrame,
    lambda columns: pd.DataFrame(columns, index=["x", "x", "y"]),
    lambda columns: pd.DataFrame(columns).convert_dtypes(dtype_backend="pyarrow"),
    pl.DataFrame,
    pa.table,
    pa.RecordBatch.from_pydict,
]


@pytest.mark.parametrize("make", FRAMES)
def test_a_frame_goes_in_and_a_frame_comes_out(make: Any) -> None:
    given_frame = make({"u": [second(3), second(12), second(5)], "v": [1, 2, 3]})
    window = times()
    passed = window.track(given_frame, "u")
    assert type(passed) is type(given_frame)
    assert list(passed["v"].to_pylist() if hasattr(passed["v"], "to_pylist") else passed["v"]) == [1, 3]
    window.progress.check_read()  # it is read at once
    assert window.summary() == {
        "from": FIRST.isoformat(),
        "to": second(10).isoformat(),
        "rows": 2,
        "late": 0,
        "nulls": 0,
        "future": 1,
        "known": 0,
        "max": second(5).isoformat(),
    }


@pytest.mark.parametrize("make", FRAMES)
def test_a_frame_of_which_all_is_loaded_comes_back_itself(make: Any) -> None:
    given_frame = make({"u": [second(3), second(9), second(5)]})
    assert times().track(given_frame, "u") is given_frame


def test_what_comes_back_of_pandas_may_be_written_into() -> None:
    passed = times().track(pd.DataFrame({"u": [second(3), second(12)], "v": [1, 2]}), "u")
    passed["loaded"] = True  # no SettingWithCopyWarning
    assert passed["loaded"].to_list() == [True]


class Sales(pd.DataFrame):  # type: ignore[misc]
    """Like a GeoDataFrame."""

    @property
    def _constructor(self) -> Any:
        return Sales


def test_a_subclass_stays_one() -> None:
    assert type(times().track(Sales({"u": [second(3), second(12)]}), "u")) is Sales


PARTS: list[Any] = [
    lambda frame: iter([frame.iloc[:2], frame.iloc[2:2], frame.iloc[2:]]),
    lambda frame: pl.from_pandas(frame).iter_slices(2),
    lambda frame: pa.Table.from_pandas(frame).to_batches(max_chunksize=2),
    lambda frame: pa.Table.from_pandas(frame).to_reader(max_chunksize=2),
]


@pytest.mark.parametrize("parts", PARTS)
@pytest.mark.parametrize("options", [{}, {"unique": "v"}, {"ordered": True}])
def test_frames_in_parts_are_watched_part_by_part(parts: Any, options: Any) -> None:
    frame = pd.DataFrame({"u": [second(3), second(5), second(9), second(12)], "v": [1, 2, 3, 4]})
    window = times()
    passed = window.track(parts(frame), "u", **options)
    with pytest.raises(WatermarkError):
        window.progress.check_read()
    assert sum(len(part) for part in passed) == 3
    window.progress.check_read()
    assert (window.tally.rows, window.tally.future, window.tally.top) == (3, 1, second(9))


@pytest.mark.parametrize("parts", PARTS)
def test_parts_that_are_not_in_order_one_after_the_other_are_refused(parts: Any) -> None:
    frame = pd.DataFrame({"u": [second(3), second(5), second(4), second(6)]})
    with pytest.raises(RowOrderError, match=r"in the order of|comes after one"):
        list(times().track(parts(frame), "u", ordered=True))


def test_read_sql_whole_and_in_chunks(tmp_path: Path) -> None:
    engine = create_engine(f"sqlite:///{tmp_path / 'rows.db'}")
    pd.DataFrame({"id": range(1, 8), "v": 1.5}).to_sql("rows", engine, index=False)
    attempt, mark, got = a_try(), numbers(), []
    with mark.open(attempt.context) as window:
        got.append(len(window.track(pd.read_sql("SELECT * FROM rows", engine), "id", unique=True)))
    attempt.succeed()
    assert stands(attempt) == "7"
    with engine.begin() as connection:
        connection.execute(text("INSERT INTO rows VALUES (8, 1), (9, 1)"))
    second_run = attempt.next_run()
    with mark.open(second_run.context) as window:
        chunks = pd.read_sql("SELECT * FROM rows WHERE id >= 7", engine, chunksize=2)
        got += [len(chunk) for chunk in window.track(chunks, "id", unique=True)]
    assert (got, stands(second_run)) == ([7, 1, 1], "9")


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_an_empty_frame_was_looked_at_and_the_mark_stays(make: Any) -> None:
    attempt = a_try()
    load(attempt, numbers(), lambda window: window.observe(5))
    after = attempt.next_run()
    for empty in (make({"n": []}), make({})):
        load(after, numbers(), lambda window, empty=empty: window.track(empty, "n"))  # type: ignore[misc]
        assert stands(after) == "5"
        after = after.next_run()


# --- exactly --------------------------------------------------------------------------------------------------

NANOSECONDS = [-2_001, -2_000, -1_999, -1, 0, 1, 1_999, 2_000, 2_001]


@pytest.mark.parametrize("of", [of_typed_pandas, of_arrow_pandas, of_polars, of_arrow])
@pytest.mark.parametrize("at", NANOSECONDS)
def test_nanoseconds_are_cut_down_before_1970_too(of: Make, at: int) -> None:
    column = pa.array([at], pa.timestamp("ns", "UTC"))
    table = pa.table({"u": column, "id": ["r0"]})
    frames = {of_arrow: table, of_polars: pl.from_arrow(table), of_typed_pandas: table.to_pandas()}
    frame = frames[of] if of in frames else table.to_pandas(types_mapper=pd.ArrowDtype)
    window = watermark(NUMBERS, initial="1960-01-01T00:00:00Z", advance="observed", delay=timedelta(0)).begin(
        a_try().context
    )
    window.track(frame, "u", unique="id")
    assert window.tally.top == datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=at // 1_000)
    assert len(window.tally.ties or ()) == 1


BIG = 2**53 + 1


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame({"n": [1, BIG]}),
        pd.DataFrame({"n": pd.array([1, BIG, None], dtype="Int64")}),
        pd.DataFrame({"n": pd.array([1, BIG, None], dtype="int64[pyarrow]")}),
        pd.DataFrame({"n": np.array([1, BIG], dtype="uint64")}),
        pl.DataFrame({"n": [1, BIG, None]}),
        pa.table({"n": pa.array([1, BIG, None], pa.uint64())}),
    ],
)
def test_numbers_that_no_float_has_are_exact(frame: Any) -> None:
    window = numbers(nulls="skip").begin(a_try().context)
    window.track(frame, "n")
    assert window.tally.top == BIG
    tracker = Tracker(cursor=Cursor.int(), at=BIG - 1, start=0, end=BIG, nulls="skip", future="exclude")
    tally, found = Tally(), frame_of(frame)
    assert found is not None
    assert len(tracker.framed(found, "n", tally)) == 1
    assert (tally.future, tally.late, tally.top) == (1, 1, 1)


@pytest.mark.parametrize("end", [2**70, -(2**70), None])
@pytest.mark.parametrize("dtype", ["int8", "uint64", "Int32"])
def test_bounds_that_a_column_cannot_have_are_no_trouble(end: int | None, dtype: str) -> None:
    at = 2**65 if end is None else end - 1
    tracker = Tracker(cursor=Cursor.int(), at=at, start=0, end=end, nulls="skip", future="exclude")
    tally, found = Tally(), frame_of(pd.DataFrame({"n": pd.array([1, 3], dtype=dtype)}))
    assert found is not None
    tracker.framed(found, "n", tally)
    assert (tally.rows, tally.late, tally.future) == ((2, 2, 0) if end != -(2**70) else (0, 0, 2))


def test_bounds_at_the_ends_of_time() -> None:
    first, last = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
    tracker = Tracker(cursor=Cursor.datetime(), at=first, start=first, end=last, nulls="skip", future="exclude")
    for frame in (pd.DataFrame({"u": [FIRST]}), pl.DataFrame({"u": [FIRST]}), pa.table({"u": [FIRST]})):
        tally, found = Tally(), frame_of(frame)
        assert found is not None
        tracker.framed(found, "u", tally, unique="u")
        assert (tally.rows, tally.top) == (1, FIRST)


def test_a_time_that_python_does_not_have_is_refused() -> None:
    far = pa.table({"u": pa.array([2**60], pa.timestamp("s", "UTC"))})
    with pytest.raises(CursorTypeError, match="outside the years 1 to 9999"):
        times(now=None).track(far, "u")


# --- whole numbers that pandas made floats --------------------------------------------------------------------


def test_numbers_that_pandas_made_floats_for_a_missing_one_are_read_as_the_whole_numbers_they_were() -> None:
    window = numbers(nulls="skip").begin(a_try().context)
    passed = window.track(pd.DataFrame({"n": [1, 7, None], "id": ["a", "b", "c"]}), "n", unique="id")
    assert (len(passed), window.tally.top, type(window.tally.top), window.tally.nulls) == (2, 7, int, 1)


@pytest.mark.parametrize(
    "column", [[1.0, 2.0], [1.5, None], [float(2**53), None], [float("inf"), None]], ids=["all", "part", "big", "inf"]
)
def test_other_floats_are_refused_with_how_to_read_whole_numbers(column: Any) -> None:
    with pytest.raises(CursorTypeError, match=r"A float is not exact.*\n.*dtype=\{'n': 'Int64'\}"):
        numbers(nulls="skip").begin(a_try().context).track(pd.DataFrame({"n": column}), "n")


# --- refused, with what to do ---------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
@pytest.mark.parametrize("given", [{"key": "x"}, {"key": "n", "unique": "x"}, {"key": 7}, {"key": ["n", "x"]}])
def test_a_column_that_a_frame_has_not_is_named_with_those_it_has(make: Any, given: Any) -> None:
    window = numbers().begin(a_try().context)
    with pytest.raises(ColumnError, match=r"has no column ('x'|7); it has n, m\.\nSelect"):
        window.track(make({"n": [1], "m": [2]}), **given)
    with pytest.raises(WatermarkError):
        window.progress.check_read()


def test_two_columns_of_one_name_are_refused() -> None:
    twice = pd.DataFrame([[1, 2]], columns=["n", "n"])
    for frame in (twice, pa.Table.from_arrays([pa.array([1])] * 2, names=["n", "n"])):
        with pytest.raises(ColumnError, match="has several columns 'n'"):
            numbers().begin(a_try().context).track(cast("Any", frame), "n")


@pytest.mark.parametrize(
    ("make", "rows"),
    [
        (pd.DataFrame, r"df\.itertuples\(index=False\)"),
        (pl.DataFrame, r"df\.iter_rows\(named=True\)"),
        (pa.table, r"table\.to_pylist\(\)"),
    ],
)
@pytest.mark.parametrize("name", ["key", "unique", "version"])
def test_a_function_of_a_row_wants_rows(make: Any, rows: str, name: str) -> None:
    given: dict[str, Any] = {"key": "n", "unique": "n", name: lambda row: row["n"]}
    with pytest.raises(TypeError, match=rf"{name}= is a function of a row.*\n.*window\.track\({rows}, \.\.\.\)"):
        numbers().begin(a_try().context).track(make({"n": [1]}), **given)


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_each_rule_has_its_error(make: Any) -> None:
    columns = {"u": [second(3), None, second(12), second(11)]}
    with pytest.raises(ColumnError, match="A row has no cursor value: 'u' is missing"):
        times().track(make(columns), "u")
    with pytest.raises(RowOrderError, match=r"The last of 2 rows has .*0, 12"):
        times(nulls="skip", future="fail").track(make(columns), "u")
    with pytest.raises(RowOrderError, match="not in the order of 'u'"):
        times(nulls="skip").track(make(columns), "u", ordered=True)
    with pytest.raises(CursorTypeError, match="no offset"):
        times().track(make({"u": [datetime(2026, 1, 2)]}), "u")  # noqa: DTZ001


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_a_body_that_swallows_the_refusal_of_a_frame_commits_nothing(make: Any) -> None:
    def body(window: Window[Any]) -> None:
        with contextlib.suppress(ColumnError):
            window.track(make({"n": [3, None]}), "n")

    attempt = a_try()
    with pytest.raises(WindowNotReadError, check=having(problem="unread")):
        load(attempt, numbers(Counter(10)), body)
    assert stands(attempt) == "0"


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_a_column_of_nothing_has_no_values(make: Any) -> None:
    window = times(nulls="keep")
    assert len(window.track(make({"u": [None, None]}), "u")) == 2
    assert (window.tally.nulls, window.tally.top) == (2, None)


# --- values that only Python compares -------------------------------------------------------------------------


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_text_is_read_as_the_times_that_it_is(make: Any) -> None:
    """By the text alone the first would be the greater."""
    window = times()
    passed = window.track(make({"u": ["2026-01-01T01:00:01+01:00", "2026-01-01T00:00:02Z"]}), "u")
    assert (len(passed), window.tally.top) == (2, second(2))


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_a_keyset_of_columns(make: Any) -> None:
    cursor = Cursor.keyset(Cursor.datetime(), Cursor.int())
    mark = watermark(NUMBERS, initial=(FIRST, 0), cursor=cursor, nulls="skip", delay=timedelta(0))
    attempt, got = a_try(), []
    for columns in (
        {"u": [second(2), second(2), None, second(1)], "n": [2, 3, 9, 7]},
        {"u": [second(2), second(2), second(3)], "n": [3, 4, 1]},
    ):
        with mark.open(attempt.context) as window:
            got.append(len(window.track(make(columns), ["u", "n"], unique=True)))
        attempt.succeed()
        attempt = attempt.next_run()
    assert got == [3, 2]
    assert stands(attempt) == [second(3).isoformat(), "1"]


def test_ids_that_differ_in_nanoseconds_are_two_in_every_frame() -> None:
    for make in (pl.from_arrow, lambda table: table, lambda table: table.to_pandas()):
        attempt, got = a_try(), []
        for ids in ([1_001], [1_001, 1_002]):
            frame: Any = make(pa.table({"n": [5] * len(ids), "id": pa.array(ids, pa.timestamp("ns"))}))
            with numbers().open(attempt.context) as window:
                got.append(len(window.track(frame, "n", unique="id")))
            attempt.succeed()
            attempt = attempt.next_run()
        assert got == [1, 1]


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_more_ties_than_are_kept(make: Any) -> None:
    size = MAX_TIES + 5
    attempt, got = a_try(), []
    for _ in range(2):
        with numbers().open(attempt.context) as window:
            got.append(len(window.track(make({"n": [5] * size, "id": list(range(size))}), "n", unique="id")))
        attempt.succeed()
        attempt = attempt.next_run()
    assert got == [size, size]


def test_rows_and_frames_are_known_by_the_same_ids() -> None:
    attempt, mark = a_try(), numbers()
    given = [{"n": 5, "id": 1}, {"n": 5, "id": 2}]
    load(attempt, mark, lambda window: list(window.track(given, "n", unique="id")))
    for make in (pd.DataFrame, pl.DataFrame, pa.Table.from_pylist):
        attempt = attempt.next_run()
        with mark.open(attempt.context) as window:
            assert len(window.track(cast("Any", make(given)), "n", unique="id")) == 0
        attempt.succeed()


# --- nothing of them is imported ------------------------------------------------------------------------------


def test_no_library_of_frames_is_imported() -> None:
    script = (
        "import sys; import airflow_resume.watermarks; from airflow_resume.watermarks.rows.frames import frame_of;"
        "assert frame_of([{}]) is None;"
        "print(sorted({'pandas', 'polars', 'pyarrow', 'numpy'} & set(sys.modules)))"
    )
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert found.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_a_column_whose_zone_the_definition_says_is_read_in_it(make: Any) -> None:
    """In Tokyo it is 9 hours later than in UTC."""
    clock = [datetime(2026, 1, 1, 8, 59), datetime(2026, 1, 1, 10), datetime(2026, 1, 2, 9, 30)]  # noqa: DTZ001
    mark = watermark(
        NUMBERS,
        initial="2026-01-01T00:00:00Z",
        now=lambda: "2026-01-02T00:00:00Z",
        advance="observed",
        delay=timedelta(0),
        sql=SqlColumn("timestamp", tz="Asia/Tokyo", driver="psycopg2"),
    )
    attempt = a_try()
    with mark.open(attempt.context) as window:
        got: Any = window.track(make({"u": clock}), "u")
    assert (len(got), window.summary()["late"], stands(attempt)) == (2, 1, "2026-01-01T01:00:00+00:00")
