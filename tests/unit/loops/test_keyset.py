from __future__ import annotations

import sqlite3
from collections import namedtuple
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from enum import IntEnum
from types import SimpleNamespace
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_resume import values
from airflow_resume.errors import (
    ColumnError,
    InvalidValueError,
    RowOrderError,
    ValueTooLargeError,
    WrongAnswerError,
)
from airflow_resume.loops import Keyset, Page
from airflow_resume.loops.serial.each import Each

NEW_YEAR = datetime(2026, 1, 1, tzinfo=timezone.utc)
Pair = namedtuple("Pair", ["id", "count"])  # noqa: PYI024  a row as database drivers make them


@dataclass
class Row:
    id: Any


def table(*keys: Any) -> Callable[[Any, int], list[dict[str, Any]]]:
    """A fetch from a table with these keys."""

    def fetch(after: Any, limit: int) -> list[dict[str, Any]]:
        return [{"id": key, "x": 0} for key in keys if after is None or key > after][:limit]

    return fetch


def ids(source: Keyset[Any], position: Any = None) -> list[list[Any]]:
    return [[row["id"] for row in page.items] for page, _ in source.elements(position)]


def only(*pages: Any) -> Keyset[Any]:
    """A keyset over these pages."""
    left = iter([*pages, []])
    return Keyset(lambda _after, _limit: next(left), key="id", limit=2)


KEYS: dict[str, list[Any]] = {
    "int": [1, 2, 5, 9],
    "text": ["a", "b", "ä"],
    "float": [0.5, 1.5, 2.5],
    "datetime": [NEW_YEAR, NEW_YEAR + timedelta(microseconds=1), NEW_YEAR + timedelta(days=1)],
    "date": [NEW_YEAR.date(), NEW_YEAR.date() + timedelta(days=1), NEW_YEAR.date() + timedelta(days=2)],
    "Decimal": [Decimal("1.10"), Decimal("1.2"), Decimal(3)],
    "UUID": [UUID(int=1), UUID(int=2), UUID(int=3)],
    "bytes": [b"\x00", b"\x01", b"\xff"],
    "tuple": [(NEW_YEAR, 1), (NEW_YEAR, 2), (NEW_YEAR + timedelta(1), 1)],
    "empty text": ["", "a", "b"],
    "zero": [0, 1, 2],
}


@pytest.mark.parametrize("kind", KEYS)
def test_a_key_of_any_type_comes_back_as_it_was(kind: str) -> None:
    asked: list[Any] = []

    def fetch(after: Any, limit: int) -> list[dict[str, Any]]:
        asked.append(after)
        return table(*KEYS[kind])(after, limit)

    _, position = next(Keyset(fetch, key="id", limit=1).elements(None))
    assert ids(Keyset(fetch, key="id", limit=9), position) == [KEYS[kind][1:]]
    assert asked[1] == KEYS[kind][0]
    assert type(asked[1]) is type(KEYS[kind][0])


@given(
    keys=st.lists(st.tuples(st.integers(0, 3), st.text("abcä", max_size=3)), unique=True, max_size=20),
    limits=st.lists(st.integers(1, 5), min_size=20, max_size=20),
)
def test_one_page_an_attempt_delivers_every_row_once(keys: list[Any], limits: list[int]) -> None:
    fetch, position, delivered = table(*sorted(keys)), None, list[Any]()
    for limit in limits:
        page, position = next(Keyset(fetch, key="id", limit=limit).elements(position), (Page([]), position))
        delivered += [row["id"] for row in page.items]
    assert delivered == sorted(keys)


def test_only_an_empty_page_ends_the_loop() -> None:
    assert ids(only([])) == []
    assert ids(only([{"id": 1}], [{"id": 2}], [{"id": 3}, {"id": 4}])) == [[1], [2], [3, 4]]


def test_a_position_is_the_last_key_and_counts_the_rows() -> None:
    source = Keyset(lambda after, limit: Page(table(*KEYS["date"])(after, limit), total=3), key="id", limit=2)
    assert [(page.next, after) for page, after in source.elements(None)] == [
        ({"~date": "2026-01-02"}, {"after": {"~date": "2026-01-02"}, "rows": 2}),
        ({"~date": "2026-01-03"}, {"after": {"~date": "2026-01-03"}, "rows": 3}),
    ]
    assert (source.total(None), source.total_rows(None), source.rows({"after": 1, "rows": 2})) == (2, 3, 2)


def sqlite_rows() -> list[Any]:
    with sqlite3.connect(":memory:") as connection:
        connection.row_factory = sqlite3.Row
        rows = connection.execute("select 1 as id, 7 as count union select 2, 8").fetchall()
    connection.close()
    return rows


ROWS: dict[str, list[Any]] = {
    "dict": [{"id": 1, "count": 7}, {"id": 2, "count": 8}],
    "namedtuple": [Pair(1, 7), Pair(2, 8)],
    "object": [SimpleNamespace(id=1, count=7), SimpleNamespace(id=2, count=8)],
    "sqlite3.Row": sqlite_rows(),
}


@pytest.mark.parametrize("kind", ROWS)
@pytest.mark.parametrize(
    ("key", "last"),
    [("id", 2), ("count", 8), (("count", "id"), {"~tuple": [8, 2]})],
    ids=["a name", "a name that is a method of tuples", "names"],
)
def test_columns_are_found_in_rows_of_any_kind(kind: str, key: Any, last: Any) -> None:
    left = iter([ROWS[kind], []])
    ((_, after),) = Keyset(lambda _after, _limit: next(left), key=key, limit=2).elements(None)
    assert after == {"after": last, "rows": 2}


def test_a_key_may_be_computed() -> None:
    left = iter([[(1, 7), (2, 8)], []])
    ((_, after),) = Keyset(lambda _after, _limit: next(left), key=lambda row: row[1], limit=2).elements(None)
    assert after == {"after": 8, "rows": 2}


@pytest.mark.parametrize(
    ("pages", "message"),
    [
        ([[{"id": 2}, {"id": 1}]], r"fetch\(None, 3\) returned, the key 1 is not greater than 2 before it"),
        ([[{"id": 0}, {"id": -1}]], "the key -1 is not greater than 0"),
        ([[{"id": 2}, {"id": 2}]], "the key 2 is not greater than 2"),
        ([[{"id": 1}, {"id": 2}], [{"id": 2}]], r"fetch\(2, 3\) returned, the key 2 is not greater than 2"),
        ([[{"id": "b"}, {"id": "B"}]], "Sort text by its code points"),
        ([[{"id": 1}, {"id": "2"}]], r"the key '2' cannot be compared with 1 before it \(.*'str' and 'int'\)"),
        ([[{"id": NEW_YEAR}, {"id": datetime(2027, 1, 1)}]], "cannot be compared.*offset-naive"),  # noqa: DTZ001
        ([[{"id": (1, 2)}, {"id": (1, 2, 3)}]], r"has 3 columns and \(1, 2\) before it has 2"),
        ([[{"id": 1.0}, {"id": float("nan")}]], "the key nan is not greater"),
    ],
)
def test_keys_that_do_not_increase_are_named(pages: list[Any], message: str) -> None:
    delivered: list[Any] = []
    with pytest.raises(RowOrderError, match=message):
        delivered.extend(only(*pages).elements(None))
    assert len(delivered) == len(pages) - 1, "the page was not delivered"


def test_a_fetch_that_gives_the_last_row_again_is_found_after_a_retry_as_well() -> None:
    with pytest.raises(RowOrderError, match="the key 2 is not greater than 2"):
        ids(only([{"id": 2}]), {"after": 2, "rows": 2})


@pytest.mark.parametrize(
    ("row", "key", "message"),
    [
        ({"a": 1, "b": 2}, "id", "no column 'id' for the key; it has a, b"),
        ({"a": 1}, "items", "no column 'items' for the key; it has a"),
        (Pair(1, 2), "key", "it has id, count"),
        (Pair(1, 2), "index", "no column 'index'.*it has id, count"),
        (SimpleNamespace(a=1), ("a", "b"), "no column 'b' for the key; it has a"),
        ("text", "id", "it has no columns"),
        ({"a": 1}, lambda row: row["id"], r"KeyError\('id'\).*it has a"),
        (Row(1), lambda row: row.key, "AttributeError.*it has id"),
        ({"id": None}, "id", "None in the key column 'id'"),
        (Row(None), "id", "None in the key column 'id'"),
        ({"id": 1, "at": None}, ("id", "at"), "None in the key column 'at'"),
        ({"id": None}, lambda row: row["id"], "None in the key"),
        ({"id": None}, lambda row: (1, row["id"]), "None in the key"),
    ],
)
def test_a_row_without_its_key_is_named(row: Any, key: Any, message: str) -> None:
    with pytest.raises(ColumnError, match=message):
        list(Keyset(lambda _after, _limit: [row], key=key, limit=1).elements(None))


class Level(IntEnum):
    LOW = 1


class Moment(datetime):
    """As pandas and pendulum have them."""


@pytest.mark.parametrize(
    ("key", "message"),
    [
        (float("nan"), r"the last key that fetch\(None, 3\) returned is nan"),
        (Level.LOW, "is a Level, which the next attempt would not get back unchanged"),
        (Moment(2026, 1, 1, tzinfo=timezone.utc), "is a Moment"),
        (2**70, "outside 64 bits"),
        (frozenset(), "is a frozenset"),
        ((1, Level.LOW), "is a tuple"),
    ],
)
def test_a_key_that_cannot_be_saved_is_named(key: Any, message: str) -> None:
    with pytest.raises(InvalidValueError, match=message):
        list(only([{"id": key}]).elements(None))


def test_the_names_of_the_key_are_what_a_position_depends_on() -> None:
    fetch = table()
    assert Keyset(fetch, key="id", limit=1).definition() == {"key": ["id"]}
    assert Keyset(fetch, key=("at", "id"), limit=9).definition() == {"key": ["at", "id"]}
    assert Keyset(fetch, key=lambda row: row["id"], limit=9).definition() == {}


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"fetch": 5}, TypeError, "Keyset needs a function"),
        ({"key": 5}, TypeError, "key=5 must be the name of a column"),
        ({"key": ()}, TypeError, r"key=\(\)"),
        ({"key": ("id", 5)}, TypeError, "key="),
        ({"limit": 0}, ValueError, "limit=0"),
    ],
)
def test_bad_arguments_are_refused_at_the_call(arguments: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        Keyset(**{"fetch": table(), "key": "id", "limit": 1, **arguments})


def test_an_answer_without_rows_is_named() -> None:
    with pytest.raises(WrongAnswerError, match=r"fetch\(None, 3\) returned None"):
        ids(only(None))


# --- ties, descending order, tables ----------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [1, 2, 3, 4])
def test_a_key_that_repeats_is_noticed_also_at_the_border_of_a_page(limit: int) -> None:
    """`where at > after` would pass over the second 2."""
    rows = [{"at": key, "id": number} for number, key in enumerate([1, 2, 2, 3, 4])]

    def fetch(after: Any, limit: int) -> list[dict[str, Any]]:
        return [row for row in rows if after is None or row["at"] > after][:limit]

    with pytest.raises(RowOrderError, match="the key 2 is not greater than 2"):
        list(Keyset(fetch, key="at", limit=limit).elements(None))


def test_one_row_more_is_asked_for_and_not_delivered_unless_the_key_is_unique() -> None:
    asked: list[int] = []

    def fetch(after: Any, limit: int) -> list[dict[str, Any]]:
        asked.append(limit)
        return table(*range(5))(after, limit)

    assert ids(Keyset(fetch, key="id", limit=2)) == [[0, 1], [2, 3], [4]]
    assert ids(Keyset(fetch, key="id", limit=2, unique=True)) == [[0, 1], [2, 3], [4]]
    assert asked == [3, 3, 3, 3, 2, 2, 2, 2]


def test_an_api_that_gives_less_than_it_is_asked_for_loses_nothing() -> None:
    assert ids(Keyset(lambda after, limit: table(*range(7))(after, min(limit, 3)), key="id", limit=5)) == [
        [0, 1, 2],
        [3, 4, 5],
        [6],
    ]


@given(
    rows=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9)), unique=True, max_size=15),
    limit=st.integers(1, 5),
    descending=st.sampled_from([False, True, ("at",), ("id",), ("at", "id")]),
)
def test_keys_may_decrease_all_of_them_or_some(rows: list[tuple[int, int]], limit: int, descending: Any) -> None:
    down = {"at", "id"} if descending is True else set() if descending is False else set(descending)
    signs = (-1 if "at" in down else 1, -1 if "id" in down else 1)

    def place(row: Any) -> tuple[int, int]:
        return row[0] * signs[0], row[1] * signs[1]

    ordered = sorted(rows, key=place)

    def fetch(after: Any, limit: int) -> list[dict[str, int]]:
        return [{"at": at, "id": key} for at, key in ordered if after is None or place((at, key)) > place(after)][
            :limit
        ]

    source = Keyset(fetch, key=("at", "id"), limit=limit, descending=descending)
    pages = list(source.elements(None))
    assert [(row["at"], row["id"]) for page, _ in pages for row in page.items] == ordered
    for number, (_, position) in enumerate(pages, start=1):
        assert [page.items for page, _ in source.elements(position)] == [page.items for page, _ in pages[number:]]


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        ([1, 2], {"descending": True}, "the key 2 is not less than 1"),
        ([2, 2], {"descending": True}, "the key 2 is not less than 2"),
        ([(1, 1), (1, 2)], {"key": ("id", "x"), "descending": ("x",)}, r"\(1, 2\) is not further than \(1, 1\)"),
    ],
)
def test_a_wrong_order_is_named(rows: Any, options: Any, message: str) -> None:
    pages = iter([[{"id": row[0], "x": row[1]} if isinstance(row, tuple) else {"id": row} for row in rows], []])
    with pytest.raises(RowOrderError, match=message):
        list(Keyset(lambda _after, _limit: next(pages), **{"key": "id", "limit": 5, **options}).elements(None))


def test_the_order_is_what_a_position_depends_on() -> None:
    fetch = table()
    assert Keyset(fetch, key="id", limit=1, descending=True).definition() == {"key": ["id"], "descending": [True]}
    mixed = Keyset(fetch, key=("at", "id"), limit=1, descending=("at",))
    assert mixed.definition() == {"key": ["at", "id"], "descending": [True, False]}
    wrong: list[tuple[Any, Any]] = [("id", ("at",)), (lambda row: row, ("id",)), ("id", "id"), ("id", 1)]
    for key, descending in wrong:
        with pytest.raises(TypeError, match="descending="):
            Keyset(fetch, key=key, limit=1, descending=descending)


def pandas_frame(rows: list[dict[str, Any]]) -> Any:
    return pytest.importorskip("pandas").DataFrame(rows, columns=["id", "at", "x"])


def polars_frame(rows: list[dict[str, Any]]) -> Any:
    return pytest.importorskip("polars").DataFrame(rows, schema=["id", "at", "x"])


def arrow_table(rows: list[dict[str, Any]]) -> Any:
    arrow = pytest.importorskip("pyarrow")
    return arrow.table({name: [row[name] for row in rows] for name in ("id", "at", "x")})


def arrow_batch(rows: list[dict[str, Any]]) -> Any:
    arrow = pytest.importorskip("pyarrow")
    return arrow.record_batch({name: [row[name] for row in rows] for name in ("id", "at", "x")})


TABLES = [pandas_frame, polars_frame, arrow_table, arrow_batch]


@pytest.mark.parametrize("make", TABLES)
@pytest.mark.parametrize("key", ["id", ("at", "id"), lambda row: row["id"]])
def test_a_page_may_be_a_table_whose_rows_are_known_by_their_place(make: Any, key: Any) -> None:
    rows = [{"id": number, "at": NEW_YEAR + timedelta(number // 2), "x": "x"} for number in range(7)]
    asked: list[Any] = []

    def fetch(after: Any, limit: int) -> Any:
        asked.append(after)
        number = after[1] if isinstance(after, tuple) else after
        return make([row for row in rows if after is None or row["id"] > number][:limit])

    source = Keyset(fetch, key=key, limit=3)
    pages = list(source.elements(None))
    assert [type(page.items) for page, _ in pages] == [type(make(rows))] * 3
    assert [len(page.items) for page, _ in pages] == [3, 3, 1]
    assert [type(part) for part in (asked[1] if isinstance(asked[1], tuple) else (asked[1],))][-1] is int
    assert pages[1][1]["rows"] == 6  # type: ignore[index, call-overload]
    if isinstance(key, tuple):
        assert type(asked[1][0]) is datetime
        assert asked[1][0] == NEW_YEAR + timedelta(1)
    assert [len(page.items) for page, _ in source.elements(pages[0][1])] == [3, 1]


@pytest.mark.parametrize("make", TABLES)
def test_a_table_with_ties_without_its_key_or_row_by_row_is_named(make: Any) -> None:
    rows = [{"id": 1, "at": NEW_YEAR, "x": None}, {"id": 1, "at": NEW_YEAR, "x": None}]
    for key, error, message in (
        ("id", RowOrderError, "the key 1 is not greater than 1"),
        ("y", ColumnError, "no column 'y' for the key; it has id, at, x"),
        ("x", ColumnError, "None in the key column 'x'|nan is not greater"),
    ):
        with pytest.raises((error, RowOrderError), match=message):
            list(Keyset(lambda _after, _limit: make(rows), key=key, limit=5).elements(None))
    with pytest.raises(
        WrongAnswerError, match=r"Make it a list of rows, such as (table|frame)\.to_(dict|dicts|pylist)\("
    ):
        list(Each(Keyset(lambda _after, _limit: make(rows[:1]), key="id", limit=5)).elements(None))


def test_keys_of_numpy_and_pandas_are_handed_on_and_kept_as_pythons_own() -> None:
    numpy, pandas = pytest.importorskip("numpy"), pytest.importorskip("pandas")
    for key, kept in (
        (numpy.int64(5), 5),
        (numpy.float64(0.5), 0.5),
        (numpy.str_("a"), "a"),
        (numpy.datetime64("2026-01-01T00:00:00"), datetime(2026, 1, 1)),  # noqa: DTZ001
        (pandas.Timestamp(NEW_YEAR), NEW_YEAR),
        ((pandas.Timestamp(NEW_YEAR), numpy.int64(1)), (NEW_YEAR, 1)),
    ):
        ((page, position),) = only([{"id": key}]).elements(None)
        found = values.decode(position["after"])  # type: ignore[index, call-overload]
        assert (found, type(found)) == (kept, type(kept))
        assert page.items == [{"id": key}], "the rows are delivered as they are"


def test_a_key_that_would_lose_its_nanoseconds_is_refused_with_what_to_write() -> None:
    pandas, numpy = pytest.importorskip("pandas"), pytest.importorskip("numpy")
    for key, line in (
        (pandas.Timestamp("2026-01-01 00:00:00.123456789"), r"value\.isoformat\(\) where its nanoseconds count"),
        (numpy.datetime64("2026-01-01T00:00:00.123456789"), r"str\(value\) where its nanoseconds count"),
        (Level.LOW, "value.value"),
        (Moment(2026, 1, 1, tzinfo=timezone.utc), r"datetime\.fromisoformat\(value\.isoformat\(\)\)"),
    ):
        with pytest.raises(InvalidValueError, match=f"Give key= a function .*such as .*{line}"):
            list(only([{"id": key}]).elements(None))


def test_row_by_row_every_key_must_be_one_that_can_be_kept() -> None:
    for last in ("z\0", "z\ud800"):
        with pytest.raises(InvalidValueError, match=r"the last key|a key of a page"):
            list(Each(only([{"id": "a\0"}, {"id": last}])).elements(None))
    with pytest.raises(InvalidValueError, match="a key of a page has a NUL character"):
        list(Each(only([{"id": "a\0"}, {"id": "b"}])).elements(None))


def autumn_hour() -> list[datetime]:
    """Every twenty minutes while the clock goes back, from 02:00 summer time on."""
    start = datetime(2026, 10, 25, 0, 0, tzinfo=timezone.utc)
    return [(start + timedelta(minutes=20 * number)).astimezone(ZoneInfo("Europe/Berlin")) for number in range(7)]


def by_moment(moments: list[datetime]) -> Callable[[Any, int], list[dict[str, Any]]]:
    """As a database compares them."""

    def fetch(after: Any, limit: int) -> list[dict[str, Any]]:
        return [
            {"at": at, "id": 1}
            for at in moments
            if after is None or at.timestamp() > (after[0] if isinstance(after, tuple) else after).timestamp()
        ][:limit]

    return fetch


@pytest.mark.parametrize("key", ["at", ("at", "id")])
def test_times_of_a_zone_are_compared_as_moments(key: Any) -> None:
    moments, delivered, position = autumn_hour(), [], None
    for _ in range(4):  # a page an attempt
        page, position = next(iter(Keyset(by_moment(moments), key=key, limit=2).elements(position)))
        delivered += [row["at"] for row in page.items]
    assert [at.timestamp() for at in delivered] == [at.timestamp() for at in moments]


def test_times_that_go_back_are_refused_and_can_be_told_apart_in_the_message() -> None:
    summer, winter = autumn_hour()[2], autumn_hour()[3]
    with pytest.raises(RowOrderError, match=r"2026-10-25T02:40:00\+02:00 is not greater than 2026-10-25T02:00:00\+01"):
        list(Keyset(lambda _after, _limit: [{"at": winter}, {"at": summer}], key="at", limit=2).elements(None))


@pytest.mark.parametrize(("most", "limit", "warns"), [(3, 3, True), (3, 5, True), (4, 3, False), (9, 3, False)])
def test_an_api_that_gives_no_row_more_is_said_once(
    most: int,
    limit: int,
    warns: bool,  # noqa: FBT001
    caplog: pytest.LogCaptureFixture,
) -> None:
    rows = table(*range(12))
    pages = ids(Keyset(lambda after, limit: rows(after, min(limit, most)), key="id", limit=limit))
    assert [key for page in pages for key in page] == [*range(12)]
    assert caplog.text.count("unique=True") == warns
    caplog.clear()
    ids(Keyset(lambda after, limit: rows(after, min(limit, most)), key="id", limit=limit, unique=True))
    assert not caplog.records


def test_an_error_of_the_first_fetch_says_that_a_row_more_was_asked_for() -> None:
    def fetch(_after: Any, limit: int) -> list[Any]:
        if limit > 100:
            raise ValueError("limit must be <= 100")
        return []

    with pytest.raises(ValueError, match="limit must be <= 100") as caught:
        ids(Keyset(fetch, key="id", limit=100))
    if hasattr(caught.value, "add_note"):
        notes: Any = getattr(caught.value, "__notes__", [])
        assert "101 rows, one more than limit=100" in notes[0]
    assert ids(Keyset(fetch, key="id", limit=100, unique=True)) == []


def test_row_by_row_a_key_is_read_once() -> None:
    read: list[int] = []

    def key(row: dict[str, Any]) -> Any:
        read.append(row["id"])
        return row["id"]

    rows = table(*range(5))
    assert [row["id"] for row, _ in Each(Keyset(rows, key=key, limit=9)).elements(None)] == [*range(5)]
    assert read == [*range(5)]


@pytest.mark.parametrize("key", ["a\x00b", "\ud800", ("a", "\x00"), "x" * 70_000])
def test_row_by_row_a_text_that_cannot_be_kept_is_refused_before_its_page(key: Any) -> None:
    rows = [{"id": key}, {"id": ("z", "z") if isinstance(key, tuple) else "\U0010ffff"}]
    with pytest.raises((InvalidValueError, ValueTooLargeError)):
        next(Each(Keyset(lambda _after, _limit: rows, key="id", limit=9)).elements(None))
