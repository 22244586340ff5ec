"""The condition for a query: the driver's style, the parameters' names, what a column is, rows without a value."""

from __future__ import annotations

import re
import sqlite3
import sys
import types
from contextlib import closing
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

import mysql.connector
import pandas as pd  # type: ignore[import-untyped]
import psycopg
import psycopg2  # type: ignore[import-untyped]
import pymysql  # type: ignore[import-untyped]
import pytest
from airflow.sdk import Asset
from sqlalchemy import create_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from airflow_resume import watermark
from airflow_resume.errors import ColumnError, CursorTypeError, WatermarkWarning, WindowNotReadError
from airflow_resume.testing import task_context
from airflow_resume.watermarks import Cursor, SqlColumn, Window
from airflow_resume.watermarks.sql.drivers import Driver, driver_of
from tests.support.kit.raised import having
from tests.support.watermarks.whole_numbers import Counter, a_try, load, numbers, stands

UTC = timezone.utc
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
TWICE = datetime(2026, 10, 25, 1, 30, tzinfo=UTC)
NO_DELAY = timedelta(0)


def naive(*fields: int) -> datetime:
    return datetime(*fields)  # type: ignore[arg-type]  # noqa: DTZ001


def window_of(asset: str = "numbers", **options: Any) -> Window[Any]:
    mark = watermark(
        Asset(asset), **{"initial": NOON, "now": lambda: NOON + timedelta(hours=1), "delay": NO_DELAY, **options}
    )
    return mark.begin(task_context(assets=[Asset(asset)]).context)


# --- the driver -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("on", "driver"),
    [
        (sqlite3, Driver("sqlite", "qmark")),
        (psycopg, Driver("postgresql", "pyformat")),
        (psycopg2, Driver("postgresql", "pyformat")),
        (pymysql, Driver("mysql", "pyformat")),
        (mysql.connector, Driver("mysql", "pyformat")),
        ("psycopg2", Driver("postgresql", "pyformat")),
        ("MySQLdb", Driver("mysql", "format")),
        ("oracledb", Driver("oracle", "named")),
        ("asyncpg", Driver("postgresql", "numeric_dollar")),
        ("snowflake.connector", Driver("snowflake", "pyformat")),
        ("google.cloud.bigquery.dbapi", Driver("bigquery", "pyformat")),
        ("duckdb", Driver("duckdb", "qmark")),
    ],
    ids=str,
)
def test_a_module_or_its_name_tells_the_driver(on: Any, driver: Driver) -> None:
    assert driver_of(on) == driver


@pytest.mark.parametrize("module", [sqlite3, psycopg, psycopg2, pymysql, mysql.connector])
def test_the_style_is_the_one_that_the_driver_declares(module: Any) -> None:
    assert driver_of(module.__name__).style == module.paramstyle


def made_in(module: str, name: str = "Connection", **attributes: Any) -> Any:
    """An object of a driver that is not installed."""
    return type(name, (), {"__module__": module, **attributes})()


@pytest.mark.parametrize(
    ("on", "driver"),
    [
        (made_in("asyncpg.connection"), Driver("postgresql", "numeric_dollar")),
        (made_in("oracledb.connection"), Driver("oracle", "named")),
        (made_in("google.cloud.bigquery.dbapi.cursor"), Driver("bigquery", "pyformat")),
        (made_in("snowflake.connector.cursor"), Driver("snowflake", "pyformat")),
        (made_in("MySQLdb.cursors", "DictCursor"), Driver("mysql", "format")),
        (made_in("psycopg2.extras", "RealDictCursor"), Driver("postgresql", "pyformat")),
        (made_in("psycopg", "RawCursor"), Driver("postgresql", "numeric_dollar")),
        (made_in("duckdb.duckdb", "DuckDBPyConnection"), Driver("duckdb", "qmark")),
    ],
    ids=lambda each: each.dialect if isinstance(each, Driver) else type(each).__module__,
)
def test_an_object_tells_its_driver_by_the_module_of_its_class(on: Any, driver: Driver) -> None:
    assert driver_of(on) == driver


def test_a_subclass_and_a_cursor_are_of_the_driver_too() -> None:
    class Ours(sqlite3.Connection):
        pass

    with closing(sqlite3.connect(":memory:", factory=Ours)) as connection:
        assert driver_of(connection) == driver_of(connection.cursor()) == Driver("sqlite", "qmark")


def test_sqlalchemy_takes_named_parameters_and_knows_its_database() -> None:
    engine = create_engine("sqlite://")
    with engine.connect() as connection, Session(engine) as session:
        made = [engine, connection, session, scoped_session(sessionmaker(engine))]
        assert {driver_of(on) for on in made} == {Driver("sqlite", "named")}
        assert driver_of(engine.raw_connection()) == Driver("sqlite", "qmark")
    with pytest.raises(TypeError, match=r"bound to no database\.\nGive"):
        driver_of(made_in("sqlalchemy.orm.session", "Session"))
    engine.dispose()


@pytest.mark.parametrize(("placeholder", "style"), [("%s", "format"), ("?", "qmark")])
def test_an_airflow_hook_tells_by_its_class_and_placeholder(placeholder: str, style: Any) -> None:
    hook = made_in("their.hooks", "MySqlHook", get_conn=None, placeholder=placeholder)
    assert driver_of(hook) == Driver("mysql", style)
    other = made_in("their.hooks", "OtherHook", get_conn=None, placeholder=placeholder, dialect_name="postgresql")
    assert driver_of(other) == Driver("postgresql", style)


def test_of_another_driver_its_paramstyle_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("theirdb")
    module.paramstyle = "numeric"  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "theirdb", module)
    assert driver_of(made_in("theirdb.connection")) == Driver(None, "numeric")


def test_what_is_no_connection_is_refused_without_showing_it() -> None:
    with pytest.raises(TypeError, match=r"not a connection of a driver.*\nGive") as raised:
        driver_of(made_in("their.secrets", "Place", __repr__=lambda _: "password"))
    assert "password" not in str(raised.value)
    with pytest.raises(TypeError, match=r"'nodriver'.*\nGive.*'psycopg2'.*'sqlite3'"):
        SqlColumn(driver="nodriver")


@pytest.mark.parametrize("name", ["sqlalchemy", "theirdb", "sys", "PSYCOPG2", "postgresql", ""])
def test_a_name_is_looked_up_among_the_known_ones_alone(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is imported by now: a Dag file is read by processes that have imported other modules."""
    module = types.ModuleType("theirdb")
    module.paramstyle = "numeric"  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "theirdb", module)
    for told in (driver_of, lambda name: SqlColumn(driver=name)):
        with pytest.raises(TypeError, match=r"is not a known driver\.\nGive one of .*'mysql\.connector'"):
            told(name)


# --- styles and names -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("style", "shape"),
    [
        ("named", r"u >= :(\w+) AND u < :(\w+)"),
        ("qmark", r"u >= \? AND u < \?"),
        ("format", r"u >= %s AND u < %s"),
        ("pyformat", r"u >= %\((\w+)\)s AND u < %\((\w+)\)s"),
        ("numeric", r"u >= :1 AND u < :2"),
        ("numeric_dollar", r"u >= \$1 AND u < \$2"),
    ],
)
def test_every_style_of_the_db_api(style: Any, shape: str) -> None:
    window = window_of()
    text, parameters = window.sql("u", style=style)
    found = re.fullmatch(shape, text)
    assert found
    expected: Any = dict(zip(found.groups(), [window.start, window.end], strict=True)) if found.groups() else None
    assert parameters == (expected or [window.start, window.end])


def test_without_anything_the_style_is_named() -> None:
    assert window_of().sql("u") == window_of().sql("u", style="named")


def test_the_definition_says_the_driver_once() -> None:
    window = window_of(sql=SqlColumn(driver="psycopg2"))
    assert window.sql("u") == window_of().sql("u", style="pyformat")
    assert window.sql("u", "duckdb")[0] == "u >= ? AND u < ?"


def test_numbered_placeholders_may_begin_later() -> None:
    assert window_of().sql("u", style="numeric_dollar", first=3)[0] == "u >= $3 AND u < $4"
    with pytest.raises(ValueError, match="first"):
        window_of().sql("u", style="numeric", first=0)


def test_names_do_not_clash_in_a_join() -> None:
    conditions = [
        window_of("orders").sql("o.updated_at"),
        window_of("customers").sql("c.updated_at"),
        window_of("customers").sql("d.updated_at"),
        window_of("orders", name="second").sql("o.updated_at"),
        window_of("orders").sql("o.updated_at", sqlite3, style="named", type="seconds"),
        window_of("orders", partition="a").sql("o.updated_at"),
        window_of("orders", partition="b").sql("o.updated_at"),
    ]
    names = [name for _, parameters in conditions for name in parameters]
    assert len(names) == len(set(names)) == 14
    assert all(re.fullmatch(r"[a-z]\w{0,29}", name) for name in names)  # as every database takes them


def test_two_marks_stand_in_one_query() -> None:
    orders, customers = (
        window_of("orders").sql("o.u", type="seconds"),
        window_of("customers").sql("c.u", type="seconds"),
    )
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("CREATE TABLE o (u INTEGER)")
        connection.execute("CREATE TABLE c (u INTEGER)")
        seconds = int(NOON.timestamp())
        connection.executemany("INSERT INTO o VALUES (?)", [(seconds,), (seconds - 1,)])
        connection.executemany("INSERT INTO c VALUES (?)", [(seconds + 9,), (seconds + 3600,)])
        query = f"SELECT * FROM o, c WHERE {orders[0]} AND {customers[0]}"  # noqa: S608
        found = connection.execute(query, {**dict(orders[1]), **dict(customers[1])}).fetchall()
    assert found == [(seconds, seconds + 9)]


@pytest.mark.parametrize(("style", "column"), [("pyformat", "u %% 7"), ("format", "u %% 7"), ("named", "u % 7")])
def test_a_percent_sign_in_the_column_is_doubled_where_it_would_be_a_placeholder(style: Any, column: str) -> None:
    assert window_of().sql("u % 7", style=style)[0].startswith(f"{column} >= ")
    assert window_of().sql(column, style=style)[0].startswith(f"{column} >= ")


def test_another_number_of_columns_is_refused() -> None:
    with pytest.raises(ValueError, match=r"2 columns are given.*has 1\.\nGive"):
        window_of().sql(["u", "id"])


# --- what a column is -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["float", "real", "julianday", "time", "smalldatetime", 5])
def test_a_type_that_cannot_be_compared_exactly_is_refused_at_once(kind: Any) -> None:
    with pytest.raises(ValueError, match=r"cannot be compared exactly.*\nTake one of 'timestamptz'"):
        SqlColumn(kind)


@pytest.mark.parametrize(
    "options",
    [
        {"type": "text"},
        {"type": "text", "like": "31.01.2026"},
        {"type": "text", "like": "2026-01-31T23:59:59Z", "tz": "Europe/Berlin"},
        {"type": "timestamp", "like": "2026-01-31T23:59:59Z"},
        {"type": "timestamp", "tz": "Europe/Nowhere"},
        {"digits": -1},
        {"digits": 3},
        {"type": "date", "digits": 0},
        {"type": "binary", "digits": 0},
        {"type": "text", "like": "2026-01-31", "digits": 0},
        {"type": "seconds", "digits": 3},
        {"type": "milliseconds", "digits": 6},
        {"type": "date", "tz": "Europe/Berlin"},
        {"type": "binary", "tz": "UTC"},
        {"type": "text", "like": "2026-01-31", "tz": "UTC"},
    ],
)
def test_a_column_that_is_told_badly_is_refused_at_once(options: Any) -> None:
    with pytest.raises(ValueError, match=r"digits.*least|\n(Give|Write|Leave)"):
        SqlColumn(**options)


@pytest.mark.parametrize("like", ["31.01.2026", "2026-01-31 11:59 PM", "2026-01-31T23:59:59.9999999", "20260131"])
def test_text_that_is_written_in_a_way_that_is_not_known_is_refused_with_those_that_are(like: str) -> None:
    with pytest.raises(ValueError, match=r"not one of the known formats.*\nGive one of 2026-01-31 alone"):
        SqlColumn("text", like=like)


NAIVE = Cursor.datetime(tz=None)
OF_BERLIN = Cursor.datetime("Europe/Berlin", naive=True)


@pytest.mark.parametrize(
    ("cursor", "told", "words"),
    [
        (Cursor.datetime(), SqlColumn("date"), r"no time of day.\nUse cursor=Cursor.date\(\)"),
        (Cursor.datetime(), SqlColumn("text", like="2026-01-31"), "no time of day"),
        (Cursor.datetime(), SqlColumn("datetime"), 'none is given.\nSay which: .*tz="UTC"'),
        (Cursor.datetime(), SqlColumn("timestamp", driver="psycopg"), "none is given"),
        (Cursor.datetime(), SqlColumn("text", like="2026-01-31 23:59:59"), "none is given"),
        (NAIVE, SqlColumn("timestamptz"), r"no time zone \(tz=None\).\nUse cursor=Cursor.datetime\(\)"),
        (NAIVE, SqlColumn("seconds"), "no time zone"),
        (NAIVE, SqlColumn("timestamp", tz="UTC"), "the column has a time zone"),
        (OF_BERLIN, SqlColumn("timestamptz"), r"naive=True\).\nUse cursor=Cursor.datetime\(\)"),
        (OF_BERLIN, SqlColumn("timestamp", driver="pymysql"), "no time zone"),
        (OF_BERLIN, SqlColumn("milliseconds"), "no time zone"),
        (OF_BERLIN, SqlColumn("timestamp", tz="UTC"), r"'UTC', and that of .* 'Europe/Berlin'\.\nGive the zone once"),
        (OF_BERLIN, SqlColumn("text", like="2026-01-31T23:59:59Z"), "'UTC', and that of the cursor is 'Europe/Berlin'"),
        (Cursor.date("Asia/Tokyo"), SqlColumn("timestamptz", tz="UTC"), "that of the cursor is 'Asia/Tokyo'"),
        (Cursor.date("Asia/Tokyo"), SqlColumn("seconds", tz="UTC"), "that of the cursor is 'Asia/Tokyo'"),
        (Cursor.date(), SqlColumn("timestamptz"), 'a day begins.*\nGive the time zone of.*tz="Europe/Berlin"'),
        (Cursor.datetime(), SqlColumn("seconds", tz="Europe/Berlin"), r"tz='Europe/Berlin' has no effect\.\nLeave"),
        (Cursor.decimal(), SqlColumn(driver="sqlite3"), r"not exact.*\nCompare whole ones"),
        (Cursor.int(), SqlColumn("seconds"), "it has times"),
        (Cursor.datetime(), SqlColumn("timestamptz", driver="sqlite3"), "SQLite has no type.*\nSay how"),
        (Cursor.datetime(), SqlColumn("timestamptz", driver="pymysql"), 'no type.*\nSay SqlColumn."timestamp"'),
    ],
)
def test_a_column_that_cannot_be_compared_with_the_cursor_is_refused_in_the_definition(
    cursor: Any, told: SqlColumn, words: str
) -> None:
    with pytest.raises(CursorTypeError, match=words):
        watermark(Asset("a"), initial=lambda: None, cursor=cursor, sql=told, now=lambda: 0, delay=cursor.no_span)


def test_for_a_keyset_one_is_told_for_each_column() -> None:
    cursor = Cursor.keyset(Cursor.datetime(), Cursor.int())
    told = [SqlColumn("seconds", driver="sqlite3"), None]
    with pytest.warns(WatermarkWarning, match="no delay="):
        mark = watermark(Asset("a"), initial=(NOON, 5), cursor=cursor, sql=told)
    text, parameters = mark.begin(task_context(assets=[Asset("a")]).context).sql(["u", "id"])
    assert text == "((u > ?) OR (u = ? AND id >= ?))"
    assert parameters == [int(NOON.timestamp()), int(NOON.timestamp()), 5]
    with pytest.raises(ValueError, match=r"the keyset has 2 columns.\nGive a list"):
        watermark(Asset("a"), initial=(NOON, 5), cursor=cursor, sql="seconds")
    with pytest.raises(ValueError, match="1 columns are given"):
        watermark(Asset("a"), initial=(NOON, 5), cursor=cursor, sql=["seconds"])
    with pytest.raises(TypeError, match="does not describe"):
        watermark(Asset("a"), initial=NOON, sql=5, delay=NO_DELAY)  # type: ignore[arg-type]


def test_a_part_that_is_rounded_down_makes_the_parts_after_it_mean_nothing() -> None:
    cursor = Cursor.keyset(Cursor.datetime(), Cursor.int())
    later = NOON + timedelta(milliseconds=700)
    mark = watermark(
        Asset("a"),
        initial=(later, 5),
        cursor=cursor,
        now=lambda: (later + timedelta(hours=1), 7),
        delay=NO_DELAY,
        sql=["seconds", None],
    )
    window = mark.begin(task_context(assets=[Asset("a")]).context)
    assert window.sql(["u", "id"], sqlite3) == (
        "u >= ? AND u < ?",
        [int(NOON.timestamp()), int(NOON.timestamp()) + 3600],
    )


def test_a_zone_without_a_type_is_refused_where_it_would_have_no_effect() -> None:
    with pytest.raises(
        CursorTypeError, match=r'has no type.*\nGive the type too, such as SqlColumn\("timestamp", tz=\'UTC\''
    ):
        window_of(sql=SqlColumn(tz="UTC")).sql("u", psycopg)


def test_columns_of_two_drivers_are_refused() -> None:
    cursor = Cursor.keyset(Cursor.datetime(), Cursor.int())
    columns = [SqlColumn("timestamptz", driver="psycopg"), SqlColumn(driver="pymysql")]
    with pytest.raises(ValueError, match=r"'psycopg' and 'pymysql'.*\nGive one"):
        watermark(Asset("a"), initial=(NOON, 5), cursor=cursor, sql=columns)


def test_a_typed_bound_needs_to_know_the_database() -> None:
    with pytest.raises(CursorTypeError, match=r"its database is not known\.\nGive the connection"):
        window_of().sql("u", type="timestamptz")


def test_another_database_gets_the_value_in_its_zone_as_a_plain_parameter() -> None:
    text, parameters = window_of().sql("u", "oracledb", type=SqlColumn("timestamp", tz="Asia/Tokyo"))
    assert "CAST" not in text
    assert list(dict(parameters).values()) == [naive(2026, 1, 1, 21), naive(2026, 1, 1, 22)]


def test_the_last_years_have_bounds_too() -> None:
    window = window_of(initial=datetime.min.replace(tzinfo=UTC), now=lambda: datetime.max.replace(tzinfo=UTC))
    for zone in ("Asia/Tokyo", "America/New_York"):
        _, parameters = window.sql("u", "oracledb", type=SqlColumn("timestamp", tz=zone))
        assert next(iter(dict(parameters).values())).year == 1


@pytest.mark.parametrize(
    ("told", "value", "read"),
    [
        (SqlColumn("timestamp", tz="Asia/Tokyo"), naive(2026, 1, 1, 21), NOON),
        (SqlColumn("timestamp", tz="Asia/Tokyo"), NOON, NOON),
        (SqlColumn("seconds"), 1767268800, NOON),
        (SqlColumn("seconds"), 1767268800.5, NOON + timedelta(milliseconds=500)),
        (SqlColumn("seconds"), -1.5, datetime(1969, 12, 31, 23, 59, 58, 500_000, tzinfo=UTC)),
        (SqlColumn("seconds"), 1e300, 1e300),
        (SqlColumn("seconds"), Decimal("Infinity"), Decimal("Infinity")),
        (SqlColumn("timestamp", tz="Europe/Berlin"), pd.Timestamp("2026-10-25 02:30"), TWICE),
        (SqlColumn("timestamp", tz="UTC"), pd.NaT, pd.NaT),
        (SqlColumn("milliseconds"), 1767268800001, NOON + timedelta(milliseconds=1)),
        (SqlColumn("text", like="2026-01-31 23:59:59", tz="Asia/Tokyo"), "2026-01-01 21:00:00", NOON),
        (
            SqlColumn("text", like="2026-01-31T23:59:59.9Z"),
            "2026-01-01T12:00:00.5Z",
            NOON + timedelta(milliseconds=500),
        ),
        (SqlColumn("text", like="2026-01-31T23:59:59+0000"), "2026-01-01T13:00:00+0100", NOON),
        (SqlColumn("text", like="2026-01-31T23:59:59Z"), "yesterday", "yesterday"),
        (SqlColumn("text", like="2026-01-31T23:59:59Z"), "2026-13-01T00:00:00Z", "2026-13-01T00:00:00Z"),
        (SqlColumn("timestamptz"), NOON, NOON),
        (SqlColumn(), 5, 5),
    ],
)
def test_a_value_of_the_column_is_read_as_the_cursor_has_it(told: SqlColumn, value: object, read: object) -> None:
    found = told.read(value)
    assert found is read or found == read


@pytest.mark.parametrize(
    ("told", "value"),
    [
        (SqlColumn("timestamp"), naive(2026, 10, 25, 2, 30)),
        (SqlColumn("timestamp", tz="Europe/Berlin"), naive(2026, 10, 25, 2, 30)),
        (SqlColumn("datetime", tz="Europe/Berlin"), naive(2026, 10, 25, 2, 30).replace(fold=1)),
        (SqlColumn("text", like="2026-01-31 23:59:59"), "2026-10-25 02:30:00"),
        (SqlColumn("text", like="2026-01-31T23:59:59+01:00", tz="Europe/Berlin"), "2026-10-25T02:30:00+01:00"),
    ],
)
def test_a_cursor_of_a_zones_clock_has_its_bounds_and_rows_as_the_column_shows_them(
    told: SqlColumn, value: object
) -> None:
    start, end = naive(2026, 10, 25, 1), naive(2026, 10, 25, 4)
    window = window_of(initial=start, now=lambda: end, cursor=OF_BERLIN, sql=told)
    _, bounds = window.sql("u", "oracledb")
    shown = [str(bound).replace("T", " ") for bound in dict(bounds).values()]
    assert shown == ["2026-10-25 01:00:00", "2026-10-25 04:00:00"]
    assert list(window.track([{"u": value}], "u"))
    assert window.tally.top == naive(2026, 10, 25, 2, 30)


def test_what_is_no_time_is_for_the_cursor_to_refuse() -> None:
    window = window_of(sql=SqlColumn("seconds"))
    with pytest.raises(CursorTypeError):
        list(window.track([{"u": float("inf")}], "u"))


def test_track_reads_rows_as_the_column_has_them() -> None:
    mark = watermark(
        Asset("a"),
        initial=NOON,
        advance="observed",
        delay=NO_DELAY,
        now=lambda: NOON + timedelta(hours=9),
        sql=SqlColumn("timestamp", tz="Asia/Tokyo"),
    )
    with task_context(assets=[Asset("a")]) as attempt, mark.open(attempt.context) as window:
        rows = [{"u": naive(2026, 1, 1, 22)}, {"u": naive(2026, 1, 2, 21)}]
        assert list(window.track(rows, "u")) == rows[:1]
    kept: Any = attempt.asset_stores[Asset("a")].get("resume.watermark.watermark")
    assert kept["at"] == "2026-01-01T13:00:00+00:00"


def test_track_reads_the_day_of_a_time() -> None:
    mark = watermark(
        Asset("a"),
        initial=date(2026, 1, 1),
        now=lambda: date(2026, 1, 3),
        delay=NO_DELAY,
        sql=SqlColumn("seconds", tz="Asia/Tokyo"),
    )
    window = mark.begin(task_context(assets=[Asset("a")]).context)
    rows = [{"u": 1767268800}, {"u": 1767268800 + 48 * 3600}]
    assert list(window.track(rows, "u")) == rows[:1]
    assert window.sql("u", sqlite3)[1] == [1767193200, 1767193200 + 48 * 3600]  # midnights of Tokyo


# --- rows without a value -------------------------------------------------------------------------------------


@pytest.fixture
def table() -> Any:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.row_factory = sqlite3.Row
        connection.execute("CREATE TABLE t (n INTEGER, m INTEGER)")
        connection.executemany("INSERT INTO t VALUES (?, ?)", [(1, 1), (2, None), (None, 3)])
        yield connection


def fetched(table: Any, window: Window[Any], column: Any = "n") -> list[Any]:
    condition, parameters = window.sql(column, table)
    return list(table.execute(f"SELECT n, m FROM t WHERE {condition}", parameters))  # noqa: S608


@pytest.mark.parametrize(("nulls", "found"), [(None, 2), ("skip", 2), ("raise", 3), ("keep", 3)])
def test_rows_without_a_value_are_fetched_where_they_are_wanted(table: Any, nulls: Any, found: int) -> None:
    assert len(fetched(table, numbers(Counter(9), nulls=nulls).begin(a_try().context))) == found


@pytest.mark.parametrize(("nulls", "found"), [(None, 2), ("skip", 1), ("raise", 3), ("keep", 3)])
def test_a_part_of_several_columns_without_a_value_is_one(table: Any, nulls: Any, found: int) -> None:
    cursor = Cursor.keyset(Cursor.int(), Cursor.int())
    mark = watermark(Asset("numbers"), initial=(0, 0), cursor=cursor, nulls=nulls)
    assert len(fetched(table, mark.begin(a_try().context), ["n", "m"])) == found


def test_asked_to_raise_a_query_raises_through_track(table: Any) -> None:
    attempt = a_try()
    with pytest.raises(ColumnError, match="no cursor value"):
        load(
            attempt, numbers(Counter(9), nulls="raise"), lambda window: list(window.track(fetched(table, window), "n"))
        )


def test_asked_to_raise_a_body_that_does_not_track_is_refused(table: Any) -> None:
    with pytest.raises(
        WindowNotReadError, match=r"nulls='raise' is given.*\nIterate window\.track", check=having(problem="unread")
    ):
        load(a_try(), numbers(Counter(9), nulls="raise"), lambda window: fetched(table, window))
    with pytest.raises(WindowNotReadError, match="nulls='raise'", check=having(problem="unread")):
        load(
            a_try(),
            numbers(Counter(9), nulls="raise"),
            lambda window: [fetched(table, part) for part in window.split(3)],
        )


def test_by_default_track_raises_and_a_query_needs_none(table: Any) -> None:
    attempt = a_try()
    load(attempt, numbers(Counter(9)), lambda window: fetched(table, window))
    assert stands(attempt) == "9"
    with pytest.raises(ColumnError, match="no cursor value"):
        load(attempt.next_run(), numbers(Counter(12)), lambda window: list(window.track([{"n": None}], "n")))


# --- what a database does in silence --------------------------------------------------------------------------


@pytest.mark.parametrize("on", [sqlite3, create_engine("sqlite://")], ids=["sqlite3", "sqlalchemy"])
def test_text_of_sqlite_that_was_compared_as_text_is_no_number(on: Any) -> None:
    window = window_of(initial=0, now=None, delay=None)
    window.sql("id", on)
    assert list(window.track([{"id": 9}], "id")) == [{"id": 9}]
    for rows in ([{"id": "10"}], pd.DataFrame({"id": ["10"]})):
        with pytest.raises(CursorTypeError, match=r"10 before 9\.\nCAST .*CAST\(id AS INTEGER\)"):
            list(window.track(rows, "id"))


def test_a_part_of_a_keyset_is_no_text_either() -> None:
    window = window_of(initial=["", 0], cursor=Cursor.keyset(Cursor.text(), Cursor.int()), now=None, delay=None)
    window.sql(["name", "id"], sqlite3)
    assert list(window.track([{"name": "9", "id": 9}], ["name", "id"]))
    with pytest.raises(CursorTypeError, match="10 before 9"):
        list(window.track([{"name": "9", "id": "10"}], ["name", "id"]))


@pytest.mark.parametrize(("column", "on"), [("CAST(id AS INTEGER)", sqlite3), ("id", psycopg), ("id", None)])
def test_text_of_numbers_is_read_where_it_was_not_compared_as_text(column: str, on: Any) -> None:
    window = window_of(initial=0, now=None, delay=None)
    window.sql(column, on)
    assert list(window.track([{"id": "10"}], "id")) == [{"id": "10"}]


@pytest.mark.parametrize("on", ["pymysql", "mysql.connector"])
def test_a_bound_whose_zone_the_driver_may_leave_out_is_warned_of_once(on: str, caplog: Any) -> None:
    window = window_of()
    for _ in range(3):
        window.sql("u", on)
    (record,) = [record for record in caplog.records if "zone" in record.getMessage()]
    assert re.search(r"\nGive it, such as watermark\(\.\.\., sql=SqlColumn\(", record.getMessage())


@pytest.mark.parametrize(
    ("options", "on"),
    [
        ({}, "psycopg"),
        ({}, None),
        ({"sql": SqlColumn("datetime", tz="UTC")}, "pymysql"),
        ({"initial": naive(2026, 1, 1), "cursor": NAIVE, "now": lambda: naive(2026, 1, 2)}, "pymysql"),
        ({"initial": naive(2026, 1, 1), "cursor": Cursor.datetime("Europe/Berlin", naive=True)}, "pymysql"),
    ],
)
def test_a_bound_that_keeps_its_meaning_is_not_warned_of(options: Any, on: Any, caplog: Any) -> None:
    window_of(**options).sql("u", on)
    assert not [record for record in caplog.records if "zone" in record.getMessage()]


UNDESCRIBED: list[Any] = [
    (Cursor.datetime(), NOON, r'SqlColumn\("text", like="2026-01-31T23:59:59\+00:00"\)\), or SqlColumn\("seconds"\)'),
    (NAIVE, naive(2026, 1, 1), r'SqlColumn\("text", like="2026-01-31T23:59:59"\)'),
    (OF_BERLIN, naive(2026, 1, 1), r'SqlColumn\("text", like="2026-01-31T23:59:59", tz="Europe/Berlin"\)'),
    (Cursor.date(), date(2026, 1, 1), r'SqlColumn\("date"\) for text such as 2026-01-31'),
]


@pytest.mark.parametrize("on", [sqlite3, "aiosqlite", create_engine("sqlite://")], ids=["sqlite3", "name", "engine"])
@pytest.mark.parametrize(("cursor", "initial", "remedy"), UNDESCRIBED)
def test_a_column_of_sqlite_with_times_must_be_described(cursor: Any, initial: Any, remedy: str, on: Any) -> None:
    """Its text may have any form, such as a T and an offset, and would be compared letter by letter."""
    window = window_of(initial=lambda: initial, cursor=cursor, now=None, advance="observed", delay=cursor.no_span)
    with pytest.raises(CursorTypeError, match=rf"column ts is not known.*lost without an error.\nGive it, .*{remedy}"):
        window.sql("ts", on)


def test_a_part_of_a_keyset_on_sqlite_must_be_described_too() -> None:
    cursor = Cursor.keyset(Cursor.text(), Cursor.datetime())
    window = window_of(initial=("a", NOON), cursor=cursor, now=None, advance="observed", delay=None)
    with pytest.raises(CursorTypeError, match="column ts is not known"):
        window.sql(["name", "ts"], sqlite3)
    assert window.sql(["name", "ts"], sqlite3, type=[None, SqlColumn("seconds")])


def test_iso_text_of_sqlite_is_found_as_the_remedy_says() -> None:
    moments = [NOON + timedelta(minutes=minutes) for minutes in (-1, 0, 30, 60)]
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("CREATE TABLE t (ts TEXT)")
        connection.executemany("INSERT INTO t VALUES (?)", [(moment.isoformat(),) for moment in moments])
        window = window_of(sql=SqlColumn("text", like="2026-01-31T23:59:59+00:00"))
        condition, bounds = window.sql("ts", connection)
        rows = connection.execute(f"SELECT ts FROM t WHERE {condition}", bounds).fetchall()  # noqa: S608
    assert [row[0] for row in window.track(rows, 0)] == [moment.isoformat() for moment in moments[1:3]]


@pytest.mark.parametrize(
    ("like", "value"),
    [
        ("2026-01-31 23:59:59", "2026-01-01T12:30:00"),
        ("2026-01-31T23:59:59", "2026-01-01 12:30:00+00:00"),
        ("2026-01-31T23:59:59Z", "2026-01-01T14:30:00+02:00"),
    ],
)
def test_text_in_another_form_than_was_told_was_compared_wrongly(like: str, value: str) -> None:
    window = window_of(sql=SqlColumn("text", like=like, tz="UTC"))
    window.sql("replace(ts, 'T', ' ')", sqlite3)
    assert list(window.track([{"ts": value}], "ts"))  # what was compared is not what was selected
    window.sql("ts", sqlite3)
    with pytest.raises(CursorTypeError, match=rf"{re.escape(repr(value))}, .*another form than like=.*\nSay which"):
        list(window.track([{"ts": value}], "ts"))


# --- identifiers and exact numbers ----------------------------------------------------------------------------

FIRST, SECOND = UUID("01800000-0000-7000-8000-000000000001"), UUID("01800000-0001-7000-8000-000000000001")


@pytest.mark.parametrize(
    ("on", "bound"),
    [
        *[(on, str(FIRST)) for on in ("psycopg2", "mysql.connector", "sqlite3", "pymysql", "MySQLdb")],
        (create_engine("postgresql+psycopg2://"), str(FIRST)),
        ("psycopg", FIRST),
        (create_engine("postgresql+psycopg://"), FIRST),
        (None, FIRST),
    ],
    ids=str,
)
def test_a_uuid_is_its_text_for_a_driver_that_does_not_know_it(on: Any, bound: object) -> None:
    window = window_of(initial=FIRST, now=None, delay=None)
    _, parameters = window.sql("id", on)
    assert list(parameters.values() if isinstance(parameters, dict) else parameters) == [bound]
    plain = window_of(initial=FIRST, now=None, delay=None, sql=SqlColumn("binary")).sql("id", on)[1]
    assert list(plain.values() if isinstance(plain, dict) else plain) == [FIRST.bytes]


def test_uuids_are_found_by_their_bytes() -> None:
    window = window_of(initial=FIRST, now=None, delay=None, sql=SqlColumn("binary"))
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("CREATE TABLE t (id BLOB)")
        connection.executemany("INSERT INTO t VALUES (?)", [(bytes(16),), (FIRST.bytes,), (SECOND.bytes,)])
        condition, bounds = window.sql("id", connection)
        rows = connection.execute(f"SELECT id FROM t WHERE {condition}", bounds).fetchall()  # noqa: S608
    assert list(window.track(rows, 0, unique=True)) == [(FIRST.bytes,), (SECOND.bytes,)]
    assert SqlColumn("binary").read(memoryview(FIRST.bytes)) == FIRST
    assert SqlColumn("binary").read(b"short") == b"short"  # for the cursor to refuse
    with pytest.raises(CursorTypeError, match=r"bytes of UUIDs\.\nUse cursor=Cursor\.uuid"):
        window_of(initial=0, now=None, delay=None, sql=SqlColumn("binary"))


def test_a_decimal_is_refused_on_sqlite() -> None:
    window = window_of(initial=Decimal(0), now=None, delay=None)
    with pytest.raises(CursorTypeError, match=r"not exact.*\nCompare whole ones: .*Cursor\.int\(\)"):
        window.sql("amount", sqlite3)


# --- text -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("collation", "on", "column"),
    [
        ("C", "psycopg", 'k COLLATE "C"'),
        ("C", "sqlite3", "k COLLATE BINARY"),
        ("C", "pymysql", "CAST(CONVERT(k USING utf8mb4) AS BINARY)"),
        ("utf8mb4_nopad_bin", "pymysql", "k COLLATE utf8mb4_nopad_bin"),
        ("de-x-icu", "psycopg", 'k COLLATE "de-x-icu"'),
        (None, "psycopg", "k"),
    ],
)
def test_a_text_column_is_compared_by_the_collation_that_is_told(collation: Any, on: str, column: str) -> None:
    window = window_of(initial="a", cursor=Cursor.text(collation), now=None, delay=None)
    assert window.sql("k", on)[0].startswith(f"{column} >= ")


def test_the_collation_binds_to_the_whole_column() -> None:
    window = window_of(initial="a", cursor=Cursor.text("C"), now=None, delay=None)
    assert window.sql("a || b", sqlite3)[0].startswith("(a || b) COLLATE BINARY >= ")


def test_the_collation_of_code_points_needs_to_know_the_database() -> None:
    window = window_of(initial="a", cursor=Cursor.text("C"), now=None, delay=None)
    with pytest.raises(CursorTypeError, match=r"is not known\.\nGive the connection"):
        window.sql("k")
    with pytest.raises(ValueError, match=r"not a name of a collation\.\nWrite"):
        Cursor.text('C" OR 1')


def test_a_collation_changes_nothing_of_what_is_kept() -> None:
    assert Cursor.text("C").definition() == Cursor.text().definition() == {"type": "text"}
