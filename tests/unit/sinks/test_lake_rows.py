"""What becomes of rows in the types of a table: kept as they are, or refused by name. `pytest -s` prints the tables."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from airflow_resume.errors import SinkUnsafeError
from airflow_resume.sinks.lake_rows import RowWriter, fitted_rows

NOON = datetime(2026, 1, 1, 12)  # noqa: DTZ001
EAST = timezone(timedelta(hours=2))
US, UTC_US = pa.timestamp("us"), pa.timestamp("us", "UTC")
A = pa.struct([("a", pa.int64())])
AB = pa.struct([("a", pa.int64()), ("b", pa.string())])
TWICE = datetime(2026, 10, 25, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"))
REFUSED = object()

# The type of the column, the value, what is kept.
VALUES: dict[str, tuple[pa.DataType, Any, Any]] = {
    "int in int": (pa.int64(), 5, 5),
    "whole float in int": (pa.int64(), 5.0, 5),
    "float in int": (pa.int64(), 1.5, REFUSED),
    "decimal in int": (pa.int64(), Decimal("1.5"), REFUSED),
    "too large an int": (pa.int32(), 2**40, REFUSED),
    "text in int": (pa.int64(), "12", REFUSED),
    "int in float": (pa.float64(), 3, 3.0),
    "int that is no float": (pa.float64(), 2**53 + 1, REFUSED),
    "float in float32": (pa.float32(), 0.1, pytest.approx(0.1)),
    "float too large for float32": (pa.float32(), 1e300, REFUSED),
    "infinity": (pa.float32(), float("inf"), float("inf")),
    "decimal in decimal": (pa.decimal128(10, 2), Decimal("1.5"), Decimal("1.50")),
    "decimal with more digits": (pa.decimal128(10, 2), Decimal("1.234"), REFUSED),
    "date in date": (pa.date32(), date(2026, 1, 1), date(2026, 1, 1)),
    "midnight in date": (pa.date32(), datetime(2026, 1, 1), date(2026, 1, 1)),  # noqa: DTZ001
    "time in date": (pa.date32(), NOON, REFUSED),
    "naive in naive": (US, NOON, NOON),
    "aware in naive": (US, NOON.replace(tzinfo=EAST), REFUSED),
    "UTC in naive": (US, NOON.replace(tzinfo=timezone.utc), REFUSED),
    "naive in UTC": (UTC_US, NOON, REFUSED),
    "aware in UTC": (UTC_US, NOON.replace(tzinfo=EAST), datetime(2026, 1, 1, 10, tzinfo=timezone.utc)),
    "an hour that comes twice": (UTC_US, TWICE, datetime(2026, 10, 25, 0, 30, tzinfo=timezone.utc)),
    "text in text": (pa.string(), "x", "x"),
    "int in text": (pa.string(), 5, REFUSED),
    "bytes in text": (pa.string(), b"x", REFUSED),
    "bytes in bytes": (pa.binary(), b"x", b"x"),
    "bool in bool": (pa.bool_(), True, True),
    "null": (pa.int64(), None, None),
    "struct": (AB, {"a": 1, "b": "x"}, {"a": 1, "b": "x"}),
    "struct without a field": (AB, {"a": 1}, {"a": 1, "b": None}),
    "struct with another field": (A, {"A": 1, "zz": 2}, REFUSED),
    "struct with a lossy field": (A, {"a": 1.5}, REFUSED),
    "structs in a list": (pa.list_(A), [{"a": 1}, None], [{"a": 1}, None]),
    "structs with another field in a list": (pa.list_(A), [{"a": 1, "y": 2}], REFUSED),
    "list": (pa.list_(pa.int64()), [1, None], [1, None]),
    "list with a lossy value": (pa.list_(pa.int64()), [1, 1.5], REFUSED),
    "map": (pa.map_(pa.string(), pa.int64()), [("k", 1)], [("k", 1)]),
    "lossy map": (pa.map_(pa.string(), pa.int64()), [("k", 1.5)], REFUSED),
    "UUID": (pa.binary(16), UUID(int=7).bytes, UUID(int=7).bytes),
}


def kept(rows: Any, kind: pa.DataType) -> Any:
    [found] = fitted_rows(rows, pa.schema([("v", kind)]), "x")["v"].to_pylist()
    return found


@pytest.mark.parametrize("name", VALUES)
def test_what_is_kept_of_a_value_of_python(name: str) -> None:
    kind, value, wanted = VALUES[name]
    if wanted is REFUSED:
        with pytest.raises((ValueError, TypeError), match=r"column v|The column v") as raised:
            kept([{"v": value}], kind)
        print(f"{name:40} {str(raised.value).splitlines()[0]}")
        return
    assert kept([{"v": value}], kind) == wanted
    print(f"{name:40} {wanted}")


AB_INT = pa.struct([("a", pa.int32()), ("y", pa.int64())])
# The type of the column, the type of the value, the value, what is kept.
COLUMNS: dict[str, tuple[pa.DataType, pa.DataType, Any, Any]] = {
    "narrower int": (pa.int64(), pa.int8(), 5, 5),
    "float in int": (pa.int64(), pa.float64(), 1.5, REFUSED),
    "int that is no float": (pa.float64(), pa.int64(), 2**53 + 1, REFUSED),
    "float in float32": (pa.float32(), pa.float64(), 0.1, pytest.approx(0.1)),
    "float too large for float32": (pa.float32(), pa.float64(), 1e300, REFUSED),
    "NaN": (pa.float32(), pa.float64(), float("nan"), pytest.approx(float("nan"), nan_ok=True)),
    "float in decimal": (pa.decimal128(10, 2), pa.float64(), 1.1, Decimal("1.10")),
    "float with more digits in decimal": (pa.decimal128(10, 2), pa.float64(), 1.239, REFUSED),
    "int in text": (pa.string(), pa.int64(), 5, REFUSED),
    "text in int": (pa.int64(), pa.string(), "5", REFUSED),
    "text in large text": (pa.large_string(), pa.string(), "x", "x"),
    "bytes in text": (pa.string(), pa.binary(), b"x", REFUSED),
    "a category": (pa.string(), pa.dictionary(pa.int8(), pa.string()), "x", "x"),
    "time in date": (pa.date32(), US, NOON, REFUSED),
    "naive in UTC": (UTC_US, US, NOON, REFUSED),
    "aware in naive": (US, UTC_US, NOON.replace(tzinfo=EAST), REFUSED),
    "another zone": (
        UTC_US,
        pa.timestamp("us", "Europe/Berlin"),
        NOON.replace(tzinfo=EAST),
        datetime(2026, 1, 1, 10, tzinfo=timezone.utc),
    ),
    "nanoseconds": (US, pa.timestamp("ns"), 1, REFUSED),
    "nulls": (pa.int64(), pa.null(), None, None),
    "null of a narrower type": (pa.int64(), pa.int8(), None, None),
    "struct in another order": (
        AB,
        pa.struct([("b", pa.string()), ("a", pa.int8())]),
        {"b": "x", "a": 1},
        {"a": 1, "b": "x"},
    ),
    "struct without a field": (AB, A, {"a": 1}, {"a": 1, "b": None}),
    "struct with another field": (A, AB_INT, {"a": 1, "y": 2}, REFUSED),
    "struct with a lossy field": (A, pa.struct([("a", pa.float64())]), {"a": 1.5}, REFUSED),
    "structs with another field in a list": (pa.list_(A), pa.list_(AB_INT), [{"a": 1, "y": 2}], REFUSED),
    "list of narrower": (pa.list_(pa.int64()), pa.list_(pa.int8()), [1, None], [1, None]),
    "list of text in list of int": (pa.list_(pa.int64()), pa.list_(pa.string()), ["1"], REFUSED),
    "list with too large a float": (pa.list_(pa.float32()), pa.list_(pa.float64()), [1.0, 1e300], REFUSED),
    "map": (pa.map_(pa.string(), pa.int64()), pa.map_(pa.string(), pa.int8()), [("k", 1)], [("k", 1)]),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_what_is_kept_of_a_value_of_arrow(name: str) -> None:
    kind, given, value, wanted = COLUMNS[name]
    rows = pa.table({"v": pa.array([value], given)})
    if wanted is REFUSED:
        with pytest.raises(ValueError, match=r"column v|The column v") as raised:
            kept(rows, kind)
        print(f"{name:40} {str(raised.value).splitlines()[0]}")
        return
    assert kept(rows, kind) == wanted
    print(f"{name:40} {wanted}")


def test_an_index_that_is_no_column_is_named_with_a_remedy() -> None:
    frame = pd.DataFrame({"v": [1, 2]}, index=[3, 1])
    with pytest.raises(ValueError, match=r"index of a data frame.*reset_index\(drop=True\)"):
        fitted_rows(frame, pa.schema([("v", pa.int64())]), "x")


# --- the caller's memory --------------------------------------------------------------------------------------------

NUMBERS = pa.schema([("v", pa.int64())])
REUSED: dict[str, Callable[[Any], Any]] = {
    "numpy in Arrow": lambda numbers: pa.table({"v": pa.array(numbers)}),
    "pandas": lambda numbers: pd.DataFrame({"v": numbers}, copy=False),
    "polars": lambda numbers: pl.DataFrame({"v": pl.Series(numbers)}),
    "a batch": lambda numbers: pa.record_batch({"v": pa.array(numbers)}),
}


@pytest.fixture
def writer() -> RowWriter:
    return RowWriter(lambda rows: fitted_rows(rows, NUMBERS, "x"))


@pytest.mark.parametrize("form", REUSED)
def test_what_was_appended_does_not_change_with_the_memory_it_came_from(form: str, writer: RowWriter) -> None:
    numbers = np.array([1, 2])
    writer.append(REUSED[form](numbers))
    numbers[:] = [8, 9]
    assert writer.pending[0]["v"].to_pylist() == [1, 2]


# --- threads --------------------------------------------------------------------------------------------------------


def test_another_thread_appends_nothing(writer: RowWriter) -> None:
    raised: list[Exception] = []

    def append() -> None:
        try:
            writer.append([{"v": 1}])
        except SinkUnsafeError as error:
            raised.append(error)

    thread = threading.Thread(target=append)
    thread.start()
    thread.join()
    assert writer.pending == []
    assert "Another thread than that of the loop" in str(raised[0])
