"""The types of cursors: what they read and refuse, what they keep, and the laws that hold for all of them."""

from __future__ import annotations

import enum
import importlib
import inspect
import json
import pkgutil
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any, get_args, get_type_hints
from uuid import UUID
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pendulum
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_resume import values
from airflow_resume.errors import CursorTypeError
from airflow_resume.watermarks import cursors
from airflow_resume.watermarks.cursors.cursor import CURSOR_TYPES, Cursor, CursorType, infer_cursor, restored_cursor

UTC = timezone.utc
BERLIN = ZoneInfo("Europe/Berlin")
AWARE = Cursor.datetime()
NAIVE = Cursor.datetime(tz=None)
KEYSET = Cursor.keyset(Cursor.datetime(), Cursor.int(), Cursor.text())


LOCAL = Cursor.datetime("Europe/Berlin", naive=True)
UUID7 = UUID("01890a5d-ac96-774b-bcce-b302099a8057")
UUID4, UUID1 = UUID("c0ffee00-5b1d-4d57-8c2b-3a0f5d0c1234"), UUID("68a92d30-eb70-11f1-b387-02fc00000001")


class ObjectId:
    """As that of bson is called."""


def utc(*fields: int) -> datetime:
    return datetime(*fields, tzinfo=UTC)  # type: ignore[arg-type,misc]


def naive(*fields: int) -> datetime:
    return datetime(*fields)  # type: ignore[arg-type]  # noqa: DTZ001


class Name(str, enum.Enum):
    A = "a"


class Level(enum.Enum):
    HIGH = 3


class Number(enum.IntEnum):
    ONE = 1


# --- what is read ---------------------------------------------------------------------------------------------

TOKENS: list[Any] = [0, "", False, [], {}, "next", {"a": [1, None, 1.5]}]
READ: list[tuple[CursorType[Any], object, object]] = [
    # points in time
    (AWARE, utc(2026, 1, 1), utc(2026, 1, 1)),
    (AWARE, utc(1970, 1, 1), utc(1970, 1, 1)),
    (AWARE, datetime(2026, 1, 1, 1, tzinfo=BERLIN), utc(2026, 1, 1)),
    (AWARE, "2026-01-01T00:00:00Z", utc(2026, 1, 1)),
    (AWARE, "2026-01-01t00:00:00z", utc(2026, 1, 1)),
    (AWARE, " 2026-01-01 00:00:00+00\n", utc(2026, 1, 1)),
    (AWARE, "2026-01-01 02:00 +0200", utc(2026, 1, 1)),
    (AWARE, "2026-01-01T00:00:00,5Z", utc(2026, 1, 1, 0, 0, 0, 500_000)),
    (AWARE, "2026-01-01T00:00:00.123456789Z", utc(2026, 1, 1, 0, 0, 0, 123_456)),
    (AWARE, "2026-01-01T00:00:00.9999999999+01:00", utc(2025, 12, 31, 23, 0, 0, 999_999)),
    (AWARE, "1969-12-31T23:59:59.9999999Z", utc(1969, 12, 31, 23, 59, 59, 999_999)),
    (AWARE, "1890-01-01T00:53:28+00:53:28", utc(1890, 1, 1)),
    (AWARE, "0001-01-01T00:00:00Z", utc(1, 1, 1)),
    (AWARE, "9999-12-31T23:59:59.999999Z", utc(9999, 12, 31, 23, 59, 59, 999_999)),
    (AWARE, pendulum.datetime(2026, 1, 1, 1, tz="Europe/Berlin"), utc(2026, 1, 1)),
    (AWARE, pd.Timestamp("2026-01-01T00:00:00.123456789Z"), utc(2026, 1, 1, 0, 0, 0, 123_456)),
    (AWARE, pd.Timestamp("1969-12-31T23:59:59.999999999Z"), utc(1969, 12, 31, 23, 59, 59, 999_999)),
    (NAIVE, naive(2026, 1, 1), naive(2026, 1, 1)),
    (NAIVE, "2026-01-01", naive(2026, 1, 1)),
    (NAIVE, "2026-01-01 00:00:00.1234567", naive(2026, 1, 1, 0, 0, 0, 123_456)),
    (NAIVE, pd.Timestamp("2026-01-01"), naive(2026, 1, 1)),
    (NAIVE, pendulum.naive(2026, 1, 1), naive(2026, 1, 1)),
    # days
    (Cursor.date(), date(2026, 1, 1), date(2026, 1, 1)),
    (Cursor.date(), " 2026-01-01 ", date(2026, 1, 1)),
    (Cursor.date(), pendulum.date(2026, 1, 1), date(2026, 1, 1)),
    (Cursor.date(), date.min, date.min),
    # whole numbers
    (Cursor.int(), 0, 0),
    (Cursor.int(), 2**53 + 1, 2**53 + 1),
    (Cursor.int(), -(10**100), -(10**100)),
    (Cursor.int(), "9007199254740993", 2**53 + 1),
    (Cursor.int(), " -007 ", -7),
    (Cursor.int(), np.int64(2**62 + 1), 2**62 + 1),
    (Cursor.int(), Number.ONE, 1),
    # numbers with digits after the point
    (Cursor.decimal(), Decimal("12345678901234567890.1234567890"), Decimal("12345678901234567890.123456789")),
    (Cursor.decimal(), "123456789012345678901234567890", Decimal(123456789012345678901234567890)),
    (Cursor.decimal(), Decimal("1E+5"), Decimal(100_000)),
    (Cursor.decimal(), "1.00", Decimal("1.0")),
    (Cursor.decimal(), "-.5", Decimal("-0.5")),
    (Cursor.decimal(), Decimal("-0.00"), Decimal(0)),
    (Cursor.decimal(), 3, Decimal(3)),
    (Cursor.decimal(), np.int32(3), Decimal(3)),
    # a NUMERIC column, with ids
    (Cursor.int(), Decimal(5), 5),
    (Cursor.int(), Decimal("9007199254740993.00"), 2**53 + 1),
    (Cursor.int(), Decimal("-1E+20"), -(10**20)),
    (Cursor.int(), np.uint64(2**64 - 1), 2**64 - 1),
    # of NumPy
    (NAIVE, np.datetime64("2026-01-01T00:00:00.123456789"), naive(2026, 1, 1, 0, 0, 0, 123_456)),
    (NAIVE, np.datetime64("1969-12-31T23:59:59.999999999"), naive(1969, 12, 31, 23, 59, 59, 999_999)),
    (NAIVE, np.datetime64("2026-01-01T05", "h"), naive(2026, 1, 1, 5)),
    (Cursor.date(), np.datetime64("2026-01-01"), date(2026, 1, 1)),
    (Cursor.date(), np.datetime64("2026-01"), date(2026, 1, 1)),
    (Cursor.date(), np.datetime64("2026"), date(2026, 1, 1)),
    (Cursor.date(), np.datetime64("2026-01-08", "W"), date(2026, 1, 8)),
    (NAIVE, np.datetime64("2026-01-01T05:00", ("m", 30)), naive(2026, 1, 1, 5)),
    # naive times of a zone
    (LOCAL, naive(2026, 10, 25, 2, 30), naive(2026, 10, 25, 2, 30)),
    (LOCAL, pd.Timestamp("2026-01-01"), naive(2026, 1, 1)),
    # UUIDs and bytes
    (Cursor.uuid(), UUID7, UUID7),
    (Cursor.uuid(), str(UUID7).upper(), UUID7),
    (Cursor.uuid(), UUID(int=0), UUID(int=0)),
    (Cursor.keyset(AWARE, Cursor.uuid()), (utc(2026, 1, 1), UUID4), (utc(2026, 1, 1), UUID4)),
    (Cursor.binary(), b"\x00\x07\xd1", b"\x00\x07\xd1"),
    (Cursor.binary(), bytearray(b"\xff"), b"\xff"),
    (Cursor.binary(), memoryview(b"\xff"), b"\xff"),
    (Cursor.binary(), "0x00000000000007D1", b"\0\0\0\0\0\0\x07\xd1"),
    (Cursor.binary(), "", b""),
    # text
    (Cursor.text(), "", ""),
    (Cursor.text(), " a\n", " a\n"),
    (Cursor.text(), "é😀", "é😀"),
    (Cursor.text(), Name.A, "a"),
    # several columns
    (KEYSET, (utc(2026, 1, 1), 0, ""), (utc(2026, 1, 1), 0, "")),
    (KEYSET, ["2026-01-01T00:00:00Z", "7", "b"], (utc(2026, 1, 1), 7, "b")),
    # tokens
    *((Cursor.token(), token, token) for token in TOKENS),
]


@pytest.mark.parametrize(("cursor", "given_value", "expected"), READ)
def test_a_value_is_read_as_a_plain_one_of_the_type(
    cursor: CursorType[Any], given_value: object, expected: object
) -> None:
    read = cursor.parse(given_value, what="initial")
    assert read == expected
    assert type(read) is type(expected)
    assert_kept(cursor, read)


def assert_kept(cursor: CursorType[Any], value: Any) -> None:
    kept = cursor.dump(value)
    values.check(kept)
    back = cursor.parse(json.loads(json.dumps(kept)), what="the record")
    assert back == value
    assert repr(back) == repr(value)


@pytest.mark.parametrize(
    ("cursor", "value", "kept"),
    [
        (AWARE, utc(2026, 1, 1), "2026-01-01T00:00:00+00:00"),
        (AWARE, datetime(2026, 1, 1, 1, tzinfo=BERLIN), "2026-01-01T00:00:00+00:00"),
        (NAIVE, naive(2026, 1, 1, 0, 0, 0, 1), "2026-01-01T00:00:00.000001"),
        (Cursor.date(), date(26, 1, 1), "0026-01-01"),
        (Cursor.int(), 2**64, "18446744073709551616"),
        (Cursor.decimal(), Decimal("1E+5"), "100000"),
        (Cursor.decimal(), Decimal("1E-7"), "0.0000001"),
        (Cursor.decimal(), Decimal("1.10"), "1.1"),
        (Cursor.decimal(), Decimal("-0.00"), "0"),
        (Cursor.text(), "", ""),
        (KEYSET, (utc(2026, 1, 1), 7, "b"), ["2026-01-01T00:00:00+00:00", "7", "b"]),
        (Cursor.token(), {"link": 1}, {"link": 1}),
    ],
)
def test_a_value_is_kept_as_readable_text(cursor: CursorType[Any], value: object, kept: object) -> None:
    assert cursor.dump(cursor.parse(value, what="initial")) == kept


def test_a_row_of_a_database_is_a_value_of_a_keyset() -> None:
    connection = sqlite3.connect(":memory:")
    connection.row_factory = sqlite3.Row
    row = connection.execute("select '2026-01-01T00:00:00Z', 7, 'b'").fetchone()
    connection.close()
    assert KEYSET.parse(row, what="row 1") == (utc(2026, 1, 1), 7, "b")


def test_a_token_is_a_copy_that_later_changes_do_not_reach() -> None:
    token = {"links": ["a"]}
    kept = Cursor.token().parse(token, what="token")
    token["links"].append("b")
    assert kept == {"links": ["a"]}


# --- what is refused ------------------------------------------------------------------------------------------

REFUSED: list[tuple[CursorType[Any], object, str, str]] = [
    (AWARE, naive(2026, 1, 1), "has no offset", "Write 2026-01-01T00:00:00+00:00 if its time zone is UTC"),
    (AWARE, "2026-01-01", "it is naive, and the values of this watermark are aware", "Cursor.datetime(tz=None)"),
    (AWARE, pd.Timestamp("2026-01-01"), "type Timestamp", 'Cursor.datetime("Europe/Berlin", naive=True)'),
    (AWARE, np.datetime64("2026-01-01T00:00"), "no time zone: it is naive", "Write 2026-01-01T00:00:00+00:00"),
    (AWARE, np.datetime64("NaT"), "It means a missing value", "nulls="),
    (AWARE, np.datetime64("2026-01"), "type datetime64", "Give a datetime"),
    (AWARE, pd.NaT, "NaT", "Give a datetime"),
    (NAIVE, pd.NaT, "NaT", "Give a datetime"),
    (AWARE, None, "is None", "Give a datetime"),
    (AWARE, 1_767_225_600, "type int", "datetime.fromtimestamp(seconds, timezone.utc)"),
    (AWARE, 1.5, "type float", "datetime.fromtimestamp"),
    (AWARE, True, "type bool", "Give a datetime"),
    (AWARE, date(2026, 1, 1), "type date", "cursor=Cursor.date()"),
    (AWARE, "yesterday", "not ISO 8601", "2026-01-01T00:00:00Z"),
    (AWARE, "", "not ISO 8601", "2026-01-01T00:00:00Z"),
    (AWARE, "2026-02-30T00:00:00Z", "day", "2026-01-01T00:00:00Z"),
    (AWARE, "\u0662026-01-01T00:00:00Z", "not ISO 8601", "2026-01-01T00:00:00Z"),
    (
        AWARE,
        datetime.min.replace(tzinfo=timezone(timedelta(hours=1))),
        "outside the years",
        "a time within these years",
    ),
    (NAIVE, utc(2026, 1, 1), "has an offset", "value.replace(tzinfo=None)"),
    (NAIVE, "2026-01-01T00:00:00Z", "has an offset", "Write it without"),
    (LOCAL, utc(2026, 1, 1), "it is aware, and the values of this watermark are naive (naive=True)", "time zone"),
    (Cursor.date(), naive(2026, 1, 1), "has a time of day", ".date()"),
    (Cursor.date(), pd.Timestamp("2026-01-01"), "type Timestamp", "cursor=Cursor.datetime()"),
    (Cursor.date(), "2026-01-01T00:00:00Z", "not an ISO 8601 date", "2026-01-01"),
    (Cursor.date(), "2026-02-30", "day", "2026-01-01"),
    (Cursor.date(), 20260101, "type int", "Give a date"),
    (Cursor.int(), True, "type bool", "Give an int"),
    (Cursor.int(), np.bool_(True), "type bool", "Give an int"),
    (Cursor.int(), 2.0, "not exact, above 2**53", "CAST"),
    (Cursor.int(), np.float64(2), "not exact", "CAST"),
    (Cursor.int(), Decimal("5.5"), "It is not a whole number", "cursor=Cursor.decimal()"),
    (Cursor.int(), Decimal("NaN"), "type Decimal", "cursor=Cursor.decimal()"),
    (Cursor.int(), Decimal("1E+999999"), "more than 4000 digits", "a shorter key"),
    (Cursor.int(), float("nan"), "type float", "CAST"),
    (Cursor.int(), pd.NA, "It means a missing value", "nulls="),
    (Cursor.int(), np.ma.masked, "It means a missing value", "nulls="),
    (Cursor.int(), {0: 5}, "type dict", "Give an int"),
    (Cursor.int(), Level.HIGH, "type Level", "Take its .value. Give an int"),
    (Cursor.int(), "1.0", "type str", "text of its digits"),
    (Cursor.int(), "1_000", "type str", "text of its digits"),
    (Cursor.int(), "\u0663", "type str", "text of its digits"),
    (Cursor.int(), "", "type str", "text of its digits"),
    (Cursor.int(), None, "is None", "Give an int"),
    (Cursor.int(), "1" * 5_000, "more than 4000 digits", "a shorter key"),
    (Cursor.decimal(), 0.1, "not exact", "CAST"),
    (Cursor.decimal(), True, "type bool", "Give a Decimal"),
    (Cursor.decimal(), Decimal("NaN"), "It is not a number", "Leave such rows out"),
    (Cursor.decimal(), Decimal("-Infinity"), "It is not a number", "Leave such rows out"),
    (Cursor.decimal(), Decimal("sNaN"), "It is not a number", "Leave such rows out"),
    (Cursor.decimal(), "NaN", "type str", "without exponent"),
    (Cursor.decimal(), "1E5", "type str", "without exponent"),
    (Cursor.decimal(), ".", "type str", "without exponent"),
    (Cursor.decimal(), Decimal("1E+999999"), "more than 4000 digits", "a shorter key"),
    (Cursor.decimal(), Decimal("1E-999999"), "more than 4000 digits", "a shorter key"),
    (Cursor.text(), None, "is None", "Give text"),
    (Cursor.text(), 5, "type int", "cursor="),
    (Cursor.text(), UUID7, "type UUID", "cursor=Cursor.uuid()"),
    (Cursor.text(), b"a", "type bytes", "cursor=Cursor.binary()"),
    (Cursor.text(), ObjectId(), "type ObjectId", "row['_id'].generation_time"),
    (Cursor.uuid(), UUID4, "version 4 do not grow with time", "Cursor.keyset(Cursor.datetime(), Cursor.uuid())"),
    (Cursor.uuid(), str(UUID1), "version 1 do not grow with time", "Cursor.keyset("),
    (Cursor.uuid(), UUID7.hex, "type str", "with hyphens"),
    (Cursor.uuid(), 5, "type int", "with hyphens"),
    (Cursor.keyset(Cursor.uuid(), Cursor.int()), (UUID4, 1), "do not grow", "Cursor.keyset("),
    (Cursor.binary(), "0x1", "type str", "hexadecimal digits"),
    (Cursor.binary(), 5, "type int", "hexadecimal digits"),
    (Cursor.binary(), None, "It means a missing value", "hexadecimal digits"),
    (Cursor.binary(), bytes(2_001), "more than 2000 bytes", "a shorter key"),
    (Cursor.text(), "a\x00", "NUL", "Remove it"),
    (Cursor.text(), "\ud800", "half a surrogate pair", "Decode it"),
    (KEYSET, "abc", "type str", "Give a tuple (datetime, int, text)"),
    (KEYSET, 5, "type int", "Give a tuple (datetime, int, text)"),
    (KEYSET, (utc(2026, 1, 1), 1, "a", 2), "has 4 values", "Give 3: (datetime, int, text)"),
    (KEYSET, (), "has 0 values", "Give 3: (datetime, int, text)"),
    (KEYSET, (utc(2026, 1, 1), 1.5, ""), "initial[1]", "CAST"),
    (Cursor.token(), None, "is None", 'Use "" or {}'),
    (Cursor.token(), {"at": [utc(2026, 1, 1)]}, "initial.at[0] is a datetime", "Store text"),
    (Cursor.token(), {"n": float("nan")}, "initial.n is nan", "Store None or text"),
    (Cursor.token(), (1,), "is a tuple", "a list"),
]


@pytest.mark.parametrize(("cursor", "value", "reason", "remedy"), REFUSED)
def test_another_value_is_refused_with_its_place_the_reason_and_the_remedy(
    cursor: CursorType[Any], value: object, reason: str, remedy: str
) -> None:
    with pytest.raises(CursorTypeError) as caught:
        cursor.parse(value, what="initial")
    error = caught.value
    assert error.message.startswith("initial")
    assert reason in error.message
    assert remedy in str(error.remedy)
    assert str(error) == f"{error.message}\n{error.remedy}"
    assert len(str(error)) < 600


def test_a_number_that_python_does_not_write_out_is_refused_all_the_same() -> None:
    with pytest.raises(CursorTypeError, match="more than 4000 digits"):
        Cursor.int().parse(10**5_000, what="initial")
    with pytest.raises(CursorTypeError, match="too long to show"):
        Cursor.text().parse(10**5_000, what="initial")


@pytest.mark.parametrize(
    ("make", "kind", "message"),
    [
        (lambda: Cursor.datetime(tz="Mars/Olympus"), ValueError, 'such as tz="Europe/Berlin"'),
        (lambda: Cursor.datetime(tz="Europe"), ValueError, 'such as tz="Europe/Berlin"'),
        (lambda: Cursor.datetime(tz=""), ValueError, 'such as tz="Europe/Berlin"'),
        (lambda: Cursor.datetime(tz=BERLIN), TypeError, 'such as tz="Europe/Berlin"'),  # type: ignore[call-overload]
        (lambda: Cursor.datetime(granularity=timedelta(0)), ValueError, "must be above 0"),
        (lambda: Cursor.datetime(granularity=timedelta(-1)), ValueError, "negative"),
        (lambda: Cursor.datetime(granularity=60), TypeError, "must be a timedelta"),  # type: ignore[call-overload]
        (lambda: Cursor.datetime(tz=None, naive=True), ValueError, 'Cursor.datetime("Europe/Berlin", naive=True)'),  # type: ignore[call-overload]
        (lambda: Cursor.datetime("Mars", naive=True), ValueError, 'such as tz="Europe/Berlin"'),
        (lambda: Cursor.datetime(granularity=timedelta(0), naive=True), ValueError, "must be above 0"),
        (lambda: Cursor.date("Mars/Olympus"), ValueError, 'such as tz="Europe/Berlin"'),
        (lambda: Cursor.date(timedelta(1)), TypeError, "is not text"),  # type: ignore[arg-type]
        (lambda: Cursor.int(granularity=0), ValueError, "above 0"),
        (lambda: Cursor.int(granularity=0.5), TypeError, "not exact"),  # type: ignore[arg-type]
        (lambda: Cursor.decimal(granularity=Decimal(-1)), ValueError, "above 0"),
        (lambda: Cursor.keyset(Cursor.int(), Cursor.token()), TypeError, "cursors of one column that have an order"),
        (lambda: Cursor.keyset(Cursor.int(), KEYSET), TypeError, "cursors of one column"),
        (lambda: Cursor.keyset(Cursor.int(), int), TypeError, "cursors of one column"),  # type: ignore[arg-type]
        (lambda: type(KEYSET)((Cursor.int(),)), ValueError, "at least two parts"),
    ],
)
def test_a_cursor_that_cannot_be_is_refused_when_it_is_made(
    make: Callable[[], object], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind) as caught:
        make()
    assert message in str(caught.value)


# --- laws -----------------------------------------------------------------------------------------------------

instants = st.datetimes(timezones=st.sampled_from([UTC, BERLIN, ZoneInfo("America/New_York")])).filter(
    lambda value: 1 < value.year < 9999
)
decimals = st.decimals(allow_nan=False, allow_infinity=False) | st.decimals(
    min_value=-(10**30), max_value=10**30, places=10
)
short_decimals = decimals.filter(lambda value: abs(value.adjusted()) < 200 and len(f"{value:f}") < 400)
plain_text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"))
lengths = st.timedeltas(timedelta(0), timedelta(days=3_000))
json_values = st.recursive(
    st.booleans() | st.integers(values.MIN_INT, values.MAX_INT) | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner | st.none()) | st.dictionaries(plain_text, inner | plain_text),
    max_leaves=6,
)


ONLY_NOTHING = st.just(0)


@dataclass(frozen=True)
class Law:
    """A cursor, its values, and its spans where it has some."""

    cursor: CursorType[Any]
    values: st.SearchStrategy[Any]
    spans: st.SearchStrategy[Any] = ONLY_NOTHING
    counts_exactly: bool = True


LAWS = {
    "datetime": Law(AWARE, instants, lengths),
    "datetime in Berlin": Law(Cursor.datetime("Europe/Berlin"), instants, lengths),
    "datetime by the second": Law(Cursor.datetime(granularity=timedelta(seconds=1)), instants, lengths),
    "datetime by odd lengths": Law(Cursor.datetime(granularity=timedelta(days=7, microseconds=3)), instants, lengths),
    "naive datetime": Law(NAIVE, st.datetimes(), lengths),
    "naive datetime by the hour": Law(Cursor.datetime(None, timedelta(hours=1)), st.datetimes(), lengths),
    "local datetime": Law(LOCAL, st.datetimes(), lengths, counts_exactly=False),
    "date": Law(Cursor.date(), st.dates(), st.integers(0, 3_000).map(lambda days: timedelta(days=days))),
    "int": Law(Cursor.int(), st.integers(), st.integers(0)),
    "int by seven": Law(Cursor.int(granularity=7), st.integers(), st.integers(0)),
    "decimal": Law(Cursor.decimal(), short_decimals, short_decimals.map(abs) | st.integers(0)),
    "decimal by cents": Law(Cursor.decimal(Decimal("0.01")), short_decimals, short_decimals.map(abs)),
    "text": Law(Cursor.text(), plain_text),
    "uuid": Law(Cursor.uuid(), st.uuids(version=4).map(lambda one: UUID(hex=f"{one.hex[:12]}7{one.hex[13:]}"))),
    "binary": Law(Cursor.binary(), st.binary(max_size=20)),
    "keyset": Law(KEYSET, st.tuples(instants, st.integers(), plain_text), lengths, counts_exactly=False),
    "bounds of a keyset": Law(KEYSET, st.tuples(instants), lengths),
    "keyset of text": Law(Cursor.keyset(Cursor.text(), Cursor.int()), st.tuples(plain_text, st.integers())),
    "token": Law(Cursor.token(), json_values | plain_text),
}
every_law = pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)
ordered = pytest.mark.parametrize("law", [law for law in LAWS.values() if law.cursor.is_ordered])


@every_law
@given(data=st.data())
def test_what_is_kept_is_read_back_equal_and_of_the_same_type(law: Law, data: st.DataObject) -> None:
    assert_kept(law.cursor, law.cursor.parse(data.draw(law.values), what="v"))


@every_law
@given(data=st.data())
def test_what_is_read_is_of_the_plain_class_that_the_cursor_names(law: Law, data: st.DataObject) -> None:
    value = law.cursor.parse(data.draw(law.values), what="v")
    assert law.cursor.plain in {object, type(value)}


@every_law
@given(data=st.data())
def test_reading_a_value_twice_changes_nothing(law: Law, data: st.DataObject) -> None:
    once = law.cursor.parse(data.draw(law.values), what="v")
    assert law.cursor.parse(once, what="v") == once


@ordered
@given(data=st.data())
def test_what_is_kept_has_the_order_of_the_values(law: Law, data: st.DataObject) -> None:
    one, other = (law.cursor.parse(data.draw(law.values), what="v") for _ in range(2))
    kept, other_kept = (law.cursor.dump(value) for value in (one, other))
    back, other_back = (law.cursor.parse(value, what="v") for value in (kept, other_kept))
    assert (one < other, one == other) == (back < other_back, back == other_back)
    assert (one == other) == (kept == other_kept)


@ordered
@given(data=st.data())
def test_rounding_goes_down_by_less_than_one_step_and_only_once(law: Law, data: st.DataObject) -> None:
    value = law.cursor.parse(data.draw(law.values), what="v")
    floor = law.cursor.floor(value)
    assert floor <= value
    assert law.cursor.floor(floor) == floor
    granularity = getattr(law.cursor, "granularity", None)
    assert value == floor if granularity is None else value < law.cursor.plus(floor, granularity)
    assert_kept(law.cursor, floor)


@every_law
@given(data=st.data())
def test_minus_undoes_plus(law: Law, data: st.DataObject) -> None:
    cursor = law.cursor
    value, span = cursor.parse(data.draw(law.values), what="v"), data.draw(law.spans)
    later = cursor.plus(value, span)
    if isinstance(value, date) and later == cursor.plus(later, timedelta(days=1)):
        return  # the end of the calendar
    if law.counts_exactly:
        assert cursor.minus(later, span) == value
    if cursor.is_ordered:
        assert cursor.minus(value, span) <= value <= later
    assert cursor.plus(value, cursor.no_span) == cursor.minus(value, cursor.no_span) == value
    assert_kept(cursor, later)


@every_law
@given(data=st.data())
def test_what_is_presented_is_the_same_value(law: Law, data: st.DataObject) -> None:
    value = law.cursor.parse(data.draw(law.values), what="v")
    assert law.cursor.parse(law.cursor.present(value), what="v") == value


# --- rounding and counting ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cursor", "value", "floor"),
    [
        (Cursor.datetime(granularity=timedelta(hours=1)), utc(1969, 12, 31, 23, 30), utc(1969, 12, 31, 23)),
        (Cursor.datetime(granularity=timedelta(days=1)), utc(1969, 12, 31, 23, 30), utc(1969, 12, 31)),
        (Cursor.datetime(granularity=timedelta(days=7)), utc(1, 1, 1, 5), utc(1, 1, 1)),
        (Cursor.datetime("Europe/Berlin", timedelta(days=1)), utc(2026, 7, 1, 23), utc(2026, 7, 1, 22)),
        (Cursor.datetime("Europe/Berlin", timedelta(hours=1)), utc(2026, 7, 1, 23, 30), utc(2026, 7, 1, 23)),
        (Cursor.datetime(granularity=pd.Timedelta("1D")), utc(1, 1, 1, 5), utc(1, 1, 1)),
        (Cursor.datetime(granularity=pendulum.duration(hours=1)), utc(2026, 1, 1, 5, 1), utc(2026, 1, 1, 5)),
        (Cursor.int(10), -1, -10),
        (Cursor.int(10), -10, -10),
        (Cursor.int(10), 19, 10),
        (Cursor.decimal(Decimal("0.1")), Decimal("-0.01"), Decimal("-0.1")),
        (Cursor.decimal(Decimal("0.1")), Decimal("-0.1"), Decimal("-0.1")),
        (Cursor.decimal(10), Decimal("12345678901234567890123456789.9"), Decimal(12345678901234567890123456780)),
    ],
)
def test_values_are_rounded_down_below_zero_and_before_1970_too(
    cursor: CursorType[Any], value: object, floor: object
) -> None:
    assert cursor.floor(value) == floor


@pytest.mark.parametrize(
    ("cursor", "span"),
    [
        (AWARE, timedelta(minutes=2)),
        (NAIVE, pd.Timedelta("2min")),
        (AWARE, pendulum.duration(minutes=2)),
        (AWARE, timedelta(0)),
        (Cursor.date(), timedelta(days=2)),
        (Cursor.date(), pendulum.duration(days=2)),
        (Cursor.int(), 0),
        (Cursor.int(), 10**30),
        (Cursor.decimal(), 2),
        (Cursor.decimal(), Decimal("0.5")),
        (Cursor.text(), 0),
    ],
)
def test_a_span_that_fits_is_accepted(cursor: CursorType[Any], span: object) -> None:
    cursor.check_span("delay", span)


VALUES = {"keyset": (utc(2026, 1, 1), 7)}


@pytest.mark.parametrize(
    ("cursor", "span", "kind", "message"),
    [
        (AWARE, 5, CursorTypeError, "delay=timedelta(days=1)"),
        (AWARE, timedelta(seconds=-1), ValueError, "may not be negative"),
        (Cursor.date(), timedelta(hours=36), CursorTypeError, "whole days, such as delay=timedelta(days=1)"),
        (Cursor.date(), timedelta(days=-1), ValueError, "may not be negative"),
        (Cursor.date(), 1, CursorTypeError, "delay=timedelta(days=1)"),
        (Cursor.int(), timedelta(1), CursorTypeError, "delay=1000"),
        (Cursor.int(), True, CursorTypeError, "delay=1000"),
        (Cursor.int(), 1.0, CursorTypeError, "delay=1000"),
        (Cursor.int(), -1, ValueError, "may not be negative"),
        (Cursor.decimal(), 0.5, CursorTypeError, 'delay=Decimal("0.5")'),
        (Cursor.decimal(), "0.5", CursorTypeError, 'delay=Decimal("0.5")'),
        (Cursor.decimal(), Decimal("-0.5"), ValueError, "may not be negative"),
        (Cursor.decimal(), Decimal("NaN"), CursorTypeError, "not a number"),
        (Cursor.text(), 1, CursorTypeError, "Leave delay out"),
        (Cursor.text(), timedelta(0), CursorTypeError, "Leave delay out"),
        (KEYSET, 5, CursorTypeError, "delay=timedelta(days=1)"),
        (Cursor.keyset(Cursor.text(), Cursor.int()), 1, CursorTypeError, "use a cursor that counts"),
        (Cursor.token(), 1, CursorTypeError, "use a cursor that counts"),
    ],
)
def test_a_span_that_does_not_fit_is_refused_by_its_name_with_the_remedy(
    cursor: CursorType[Any], span: Any, kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind) as caught:
        cursor.check_span("delay", span)
    assert str(caught.value).startswith("delay")
    assert message in str(caught.value)
    for count in (cursor.plus, cursor.minus):
        with pytest.raises(kind):
            count(VALUES.get(cursor.type, utc(2026, 1, 1)), span)


def test_counting_with_lengths_of_other_libraries_gives_plain_datetimes() -> None:
    for span in (pd.Timedelta("1D"), pendulum.duration(days=1)):
        assert type(AWARE.minus(utc(2026, 1, 2), span)) is datetime
        assert AWARE.minus(utc(2026, 1, 2), span) == utc(2026, 1, 1)


def test_counting_stops_at_the_ends_of_the_calendar() -> None:
    assert AWARE.minus(utc(1, 1, 1), timedelta(days=1)) == utc(1, 1, 1)
    assert AWARE.plus(utc(2026, 1, 1), timedelta.max) == datetime.max.replace(tzinfo=UTC)
    assert NAIVE.minus(naive(1, 1, 1), timedelta(days=1)) == naive(1, 1, 1)
    assert Cursor.date().plus(date.max, timedelta(days=1)) == date.max


def test_a_small_span_counts_exactly_from_a_large_decimal() -> None:
    large = Decimal(123456789012345678901234567890)
    assert Cursor.decimal().minus(large, Decimal("0.1")) == Decimal("123456789012345678901234567889.9")


# --- the night of a clock change ------------------------------------------------------------------------------

BEFORE = datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN, fold=0)
AFTER = datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN, fold=1)


@pytest.mark.parametrize(
    "as_given",
    [
        lambda value: value,
        pendulum.instance,
        pd.Timestamp,
        datetime.isoformat,
    ],
)
def test_both_half_past_two_of_autumn_are_points_in_time_of_their_own(as_given: Callable[[datetime], Any]) -> None:
    cursor = Cursor.datetime("Europe/Berlin")
    before, after = (cursor.parse(as_given(value), what="v") for value in (BEFORE, AFTER))
    assert (before, after) == (utc(2026, 10, 25, 0, 30), utc(2026, 10, 25, 1, 30))
    assert cursor.minus(after, timedelta(hours=1)) == before
    shown = [cursor.present(value) for value in (before, after)]
    assert [(value.hour, value.minute, value.fold) for value in shown] == [(2, 30, 0), (2, 30, 1)]
    assert all(value.tzinfo is BERLIN for value in shown)
    assert [cursor.parse(value, what="v") for value in shown] == [before, after]


def test_a_day_is_24_hours_over_a_clock_change() -> None:
    cursor = Cursor.datetime("Europe/Berlin")
    noon = cursor.parse(datetime(2026, 3, 28, 12, tzinfo=BERLIN), what="v")
    assert cursor.present(cursor.plus(noon, timedelta(days=1))) == datetime(2026, 3, 29, 13, tzinfo=BERLIN)


def test_a_naive_value_forgets_which_of_two_hours_it_was() -> None:
    assert NAIVE.parse(AFTER.replace(tzinfo=None), what="v").fold == 0


def test_what_a_keyset_counts_to_is_a_bound_of_its_first_column() -> None:
    value = (utc(2026, 1, 2), 7, "b")
    assert KEYSET.plus(value, timedelta(days=1)) == (utc(2026, 1, 3),)
    assert KEYSET.minus(value, timedelta(days=1)) == (utc(2026, 1, 1),)
    assert (utc(2026, 1, 1), 2**63, "z") < (utc(2026, 1, 2),) < (utc(2026, 1, 2), -(2**63), "")
    assert KEYSET.now(lambda: utc(2026, 1, 2)) == KEYSET.now(lambda: (utc(2026, 1, 2),)) == (utc(2026, 1, 2),)
    assert KEYSET.now(lambda: value) == value
    by_day = Cursor.keyset(Cursor.datetime(granularity=timedelta(days=1)), Cursor.int())
    noon = utc(2026, 1, 2) + timedelta(hours=12)
    assert (by_day.floor((noon,)), by_day.floor((noon, 5))) == ((utc(2026, 1, 2),), (noon, 5))


@pytest.mark.parametrize("value", [(utc(2026, 1, 1),), (utc(2026, 1, 1), 7)])
def test_a_row_has_all_values_of_a_keyset(value: Any) -> None:
    assert KEYSET.parse(value, what="a bound") == value
    with pytest.raises(CursorTypeError, match="Give 3:"):
        KEYSET.parse_row(value, what="a row")
    assert KEYSET.parse_row((utc(2026, 1, 1), 7, "b"), what="a row") == (utc(2026, 1, 1), 7, "b")


def test_a_keyset_shows_every_value_as_its_own_cursor_does() -> None:
    cursor = Cursor.keyset(Cursor.datetime("Europe/Berlin"), Cursor.int())
    assert [str(value) for value in cursor.present((utc(2026, 1, 1), 7))] == ["2026-01-01 01:00:00+01:00", "7"]


def test_a_bound_that_the_zone_cannot_show_is_shown_in_utc() -> None:
    first = AWARE.parse("0001-01-01T00:00:00Z", what="v")
    assert Cursor.datetime("America/New_York").present(first) is first


# --- now, definitions, abilities ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cursor", "clock", "now"),
    [
        (AWARE, datetime(2026, 1, 1, 1, tzinfo=BERLIN), utc(2026, 1, 1)),
        (AWARE, "2026-01-01T00:00:00Z", utc(2026, 1, 1)),
        (NAIVE, naive(2026, 1, 1), naive(2026, 1, 1)),
        (Cursor.date(), datetime(2026, 1, 1, 0, 30, tzinfo=BERLIN), date(2026, 1, 1)),
        (Cursor.date(), utc(2026, 1, 1, 23), date(2026, 1, 1)),
        (Cursor.date(), "2026-01-01", date(2026, 1, 1)),
        (Cursor.int(), 5, 5),
    ],
)
def test_now_is_the_value_that_the_clock_gives(cursor: CursorType[Any], clock: object, now: object) -> None:
    assert cursor.now(lambda: clock) == now


@pytest.mark.parametrize(
    ("cursor", "clock", "remedy"),
    [
        (AWARE, naive(2026, 1, 1), "+00:00"),
        (NAIVE, utc(2026, 1, 1), "give `now=` a clock of the source"),
        (Cursor.date(), 5, "Give a date"),
        (Cursor.date(), pd.NaT, "Give a date"),
    ],
)
def test_a_clock_of_another_type_is_refused(cursor: CursorType[Any], clock: object, remedy: str) -> None:
    with pytest.raises(CursorTypeError, match=r"^now\(\)") as caught:
        cursor.now(lambda: clock)
    assert remedy in str(caught.value)


def test_a_definition_says_what_the_kept_values_mean_and_no_more() -> None:
    assert AWARE.definition() == {"type": "datetime", "tz": "UTC"}
    assert Cursor.datetime("Europe/Berlin", timedelta(hours=1)).definition() == AWARE.definition()
    assert NAIVE.definition() == LOCAL.definition() == {"type": "datetime", "tz": None}
    assert Cursor.date().definition() == Cursor.date("Asia/Tokyo").definition() == {"type": "date"}
    assert Cursor.int(7).definition() == Cursor.int().definition() == {"type": "int"}
    assert Cursor.keyset(NAIVE, Cursor.text()).definition() == {
        "type": "keyset",
        "parts": [{"type": "datetime", "tz": None}, {"type": "text"}],
    }


@pytest.mark.parametrize(
    ("cursor", "tag", "is_ordered", "has_spans", "has_clock"),
    [
        (AWARE, "datetime", True, True, True),
        (Cursor.date(), "date", True, True, True),
        (Cursor.int(), "int", True, True, False),
        (Cursor.decimal(), "decimal", True, True, False),
        (Cursor.text(), "text", True, False, False),
        (KEYSET, "keyset", True, True, True),
        (Cursor.keyset(Cursor.text(), Cursor.datetime()), "keyset", True, False, False),
        (Cursor.uuid(), "uuid", True, False, False),
        (Cursor.binary(), "binary", True, False, False),
        (LOCAL, "datetime", True, True, True),
        (Cursor.date("Asia/Tokyo"), "date", True, True, True),
        (Cursor.token(), "token", False, False, False),
    ],
)
def test_a_cursor_says_what_it_can_do(
    cursor: CursorType[Any], tag: str, *, is_ordered: bool, has_spans: bool, has_clock: bool
) -> None:
    assert cursor.type == tag
    assert (cursor.is_ordered, cursor.has_spans, cursor.has_clock) == (is_ordered, has_spans, has_clock)
    cursor.check_span("delay", cursor.no_span)
    assert hash(cursor) == hash(cursor)


# --- inferred -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("initial", "cursor"),
    [
        (utc(2026, 1, 1), AWARE),
        (pendulum.datetime(2026, 1, 1), AWARE),
        ("2026-01-01T00:00:00Z", AWARE),
        ("2026-01-01 00:00+01", AWARE),
        (lambda: 5, AWARE),
        (date(2026, 1, 1), Cursor.date()),
        ("2026-01-01", Cursor.date()),
        (0, Cursor.int()),
        (np.int64(5), Cursor.int()),
        (Decimal(0), Cursor.decimal()),
        (Number.ONE, Cursor.int()),
        (np.datetime64("2026-01-01"), Cursor.date()),
        (UUID7, Cursor.uuid()),
        (b"", Cursor.binary()),
        (memoryview(b"\0"), Cursor.binary()),
    ],
)
def test_the_cursor_is_inferred_from_an_initial_value_that_means_one(initial: object, cursor: CursorType[Any]) -> None:
    assert infer_cursor(initial) == cursor


@pytest.mark.parametrize(
    ("initial", "remedies"),
    [
        (naive(2026, 1, 1), ["+00:00 if its time zone is UTC", "Cursor.datetime(tz=None)"]),
        ("2026-01-01T00:00:00", ["+00:00 if its time zone is UTC", "Cursor.datetime(tz=None)"]),
        ("2026-02-30", ["Write it as 2026-01-01"]),
        ("5", ["Cursor.text()", "Cursor.int()"]),
        ("", ["Cursor.text()"]),
        (1.5, ["CAST"]),
        (True, ["Give an int"]),
        (Decimal("NaN"), ["Leave such rows out"]),
        ((utc(2026, 1, 1), 5), ["Cursor.keyset("]),
        ([1, 2], ["Cursor.keyset("]),
        ({"link": ""}, ["Cursor.token()"]),
        ({}, ["Cursor.token()"]),
        ({0: 17, 1: 4}, ["initial=0 with partition=", "Cursor.token()", "text for keys", "window.advance(map)"]),
        (str(UUID7), ["Cursor.uuid()", "Cursor.text()"]),
        (UUID4, ["Cursor.keyset(Cursor.datetime(), Cursor.uuid())"]),
        (ObjectId(), ["generation_time", "Cursor.text()"]),
        (np.datetime64("2026-01-01T00:00"), ["naive=True"]),
        (np.datetime64("NaT"), ["nulls="]),
        (pd.NaT, ["nulls="]),
        (float("nan"), ["CAST"]),
        (None, ["cursor="]),
    ],
)
def test_the_cursor_is_not_guessed(initial: object, remedies: list[str]) -> None:
    with pytest.raises(CursorTypeError, match=r"^initial") as caught:
        infer_cursor(initial)
    assert all(remedy in str(caught.value) for remedy in remedies)


# --- nothing is forgotten of a type -------------------------------------------------------------------------------

STAY_JSON = {"keyset", "token"}
"""Types whose values an asset event does not restore."""


def defined() -> list[type[CursorType[Any]]]:
    modules = [
        importlib.import_module(f"{cursors.__name__}.{one.name}") for one in pkgutil.iter_modules(cursors.__path__)
    ]
    found = {
        kind
        for module in modules
        for kind in vars(module).values()
        if isinstance(kind, type) and issubclass(kind, CursorType) and kind.__module__ == module.__name__
    }
    return sorted((kind for kind in found if not inspect.isabstract(kind)), key=lambda kind: kind.__name__)


def made_by_functions() -> set[type]:
    """What the functions of `Cursor` return."""
    functions = [getattr(Cursor, name) for name in vars(Cursor) if not name.startswith("_")]
    hints = [get_type_hints(one, vars(inspect.getmodule(Cursor)))["return"] for one in functions]
    return {kind for hint in hints for kind in (get_args(hint) or (hint,))}


@pytest.mark.parametrize("kind", defined())
def test_every_type_is_registered_and_can_be_asked_for_and_its_laws_are_tested(kind: type[CursorType[Any]]) -> None:
    assert kind in CURSOR_TYPES
    assert kind in made_by_functions()
    assert kind in {type(law.cursor) for law in LAWS.values()}


@pytest.mark.parametrize("kind", defined())
@pytest.mark.parametrize("name", ["type", "sql_values", "restored"])
def test_every_type_answers_itself_what_has_an_answer_that_would_be_wrong_in_silence(
    kind: type[CursorType[Any]], name: str
) -> None:
    asked = [base for base in kind.__mro__ if base is not CursorType and name in vars(base)]
    assert asked, f"{kind.__name__} does not say its {name}"


@every_law
def test_an_event_restores_a_cursor_that_reads_the_same_values(law: Law) -> None:
    found = restored_cursor(law.cursor.definition())
    assert (found is None) == (law.cursor.type in STAY_JSON)
    assert found is None or found.definition() == law.cursor.definition()


def test_values_of_a_type_that_is_not_known_stay_json() -> None:
    assert restored_cursor({"type": "of a later version"}) is None
