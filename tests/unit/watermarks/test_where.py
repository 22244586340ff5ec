"""The condition for columns of SQLAlchemy: typed by the column, and refused where it cannot be compared exactly."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
import sqlalchemy as sa
from sqlalchemy.dialects import mysql, postgresql, sqlite
from sqlalchemy.types import TypeDecorator

from airflow_resume import watermark
from airflow_resume.errors import CursorTypeError, WindowNotReadError
from airflow_resume.watermarks import Cursor, SqlColumn, Window
from tests.support.kit.raised import having
from tests.support.watermarks.whole_numbers import NUMBERS, Counter, a_try, load, numbers, track

UTC = timezone.utc
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def window_of(**options: Any) -> Window[Any]:
    given = {"initial": NOON, "now": lambda: NOON + timedelta(hours=1), "delay": timedelta(0), **options}
    return watermark(NUMBERS, **given).begin(a_try().context)


SQLITE: Any = sqlite.dialect
MYSQL: Any = mysql.dialect
POSTGRESQL: Any = postgresql.dialect


def written(condition: Any, dialect: Any = None) -> str:
    """The condition with its values."""
    return str(condition.compile(dialect=dialect or SQLITE(), compile_kwargs={"literal_binds": True}))


def values(condition: Any) -> list[Any]:
    return list(condition.compile().params.values())


def test_the_bounds_of_a_column_with_a_zone_are_points_in_time() -> None:
    condition = window_of(cursor=Cursor.datetime("Asia/Tokyo")).where(sa.column("u", sa.DateTime(timezone=True)))
    assert str(condition) == "u >= :u_1 AND u < :u_2"
    assert values(condition) == [NOON, NOON + timedelta(hours=1)]
    assert all(value.tzinfo is UTC for value in values(condition))  # a type that drops the zone keeps the clock of UTC


def test_a_column_without_a_zone_is_refused_until_it_is_told_whose_clock_it_shows() -> None:
    column = sa.column("u", sa.DateTime())
    with pytest.raises(CursorTypeError, match=r'time zone, and none is given\.\nSay which: .*tz="UTC"'):
        window_of().where(column)
    tokyo = window_of().where(column, type=SqlColumn("timestamp", tz="Asia/Tokyo"))
    naive = datetime(2026, 1, 1, 21)  # noqa: DTZ001
    assert values(tokyo)[0] == naive
    assert values(window_of(sql=SqlColumn("timestamp", tz="Asia/Tokyo")).where(column))[0] == naive
    by_itself = window_of(initial=naive, cursor=Cursor.datetime(tz=None), now=lambda: naive + timedelta(hours=1))
    assert values(by_itself.where(column))[0] == naive


@pytest.mark.parametrize(
    ("type_", "options", "words"),
    [
        (sa.Date(), {}, r"no time of day\.\nUse cursor=Cursor\.date"),
        (sa.Integer(), {}, r"does not have times.*\nGive their type"),
        (sa.String(), {}, "does not have times"),
        (
            sa.DateTime(timezone=True),
            {"initial": "2026-01-01T00:00:00", "cursor": Cursor.datetime(tz=None), "now": lambda: "2026-01-02"},
            "no time zone",
        ),
        (
            sa.DateTime(timezone=True),
            {"initial": date(2026, 1, 1), "now": lambda: date(2026, 1, 2)},
            "where a day begins",
        ),
        (
            sa.String(20),
            {"initial": 0, "now": None, "delay": None},
            r"10 before 9.*\nCAST .*cast\(column, BigInteger\)",
        ),
        (sa.Text(), {"initial": Decimal(0), "now": None, "delay": None}, r"10 before 9.*\n.*Numeric"),
        (sa.Float(), {"initial": 0, "now": None, "delay": None}, "float is rounded"),
    ],
)
def test_a_column_that_cannot_be_compared_exactly_is_refused(type_: Any, options: Any, words: str) -> None:
    with pytest.raises(CursorTypeError, match=words):
        window_of(**options).where(sa.column("u", type_))


def test_days_are_compared_with_days_and_with_the_midnights_of_a_clock() -> None:
    window = window_of(initial=date(2026, 1, 1), now=lambda: date(2026, 1, 3))
    assert values(window.where(sa.column("u", sa.Date()))) == [date(2026, 1, 1), date(2026, 1, 3)]
    midnights = [datetime(2026, 1, 1), datetime(2026, 1, 3)]  # noqa: DTZ001
    assert values(window.where(sa.column("u", sa.DateTime()))) == midnights


def test_a_type_of_the_users_own_binds_the_value_itself() -> None:
    class Epoch(TypeDecorator[datetime]):
        impl = sa.BigInteger
        cache_ok = True

        def process_literal_param(self, value: Any, dialect: Any) -> Any:
            return str(int(value.timestamp()))

    assert written(window_of().where(sa.column("u", Epoch()))) == "u >= 1767268800 AND u < 1767272400"


def test_numbers_are_numbers() -> None:
    assert written(numbers(Counter(9)).begin(a_try().context).where(sa.column("n", sa.Integer()))) == "n >= 0 AND n < 9"


def test_the_row_at_the_mark_is_not_asked_for_again() -> None:
    first, mark = a_try(), numbers()
    load(first, mark, track(3, unique=True))
    assert written(mark.begin(first.next_run().context).where(sa.column("n", sa.Integer()))) == "n > 3"


def test_several_columns_are_compared_from_the_first_on() -> None:
    mark = watermark(
        NUMBERS, initial=(2, "b"), cursor=Cursor.keyset(Cursor.int(), Cursor.text()), now=lambda: (4, "b"), nulls="skip"
    )
    condition = mark.begin(a_try().context).where(sa.column("n", sa.Integer()), sa.column("m", sa.String()))
    assert written(condition) == (
        "(n > 2 OR n = 2 AND m >= 'b') AND NOT (n > 4 OR n = 4 AND m >= 'b') AND m IS NOT NULL"
    )
    with pytest.raises(ValueError, match=r"1 columns are given.*has 2\.\nGive"):
        mark.begin(a_try().context).where(sa.column("n"))


@pytest.mark.parametrize(
    ("nulls", "ends"), [(None, "< 9"), ("skip", "< 9"), ("keep", "OR n IS NULL"), ("raise", "OR n IS NULL")]
)
def test_rows_without_a_value_are_let_through_where_they_are_wanted(nulls: Any, ends: str) -> None:
    window = numbers(Counter(9), nulls=nulls).begin(a_try().context)
    assert written(window.where(sa.column("n", sa.Integer()))).endswith(ends)
    if nulls == "raise":
        with pytest.raises(WindowNotReadError, match="nulls='raise'", check=having(problem="unread")):
            window.progress.check_read()


def test_a_timestamp_of_mysql_is_compared_by_its_seconds_and_found_by_its_index() -> None:
    condition = window_of().where(sa.column("u", mysql.TIMESTAMP()))
    text = written(condition, MYSQL())
    assert "unix_timestamp(u) >= 1767268800" in text
    assert "u >= from_unixtime(1767182400)" in text
    plain = window_of().where(sa.column("u", sa.TIMESTAMP()), on="pymysql")
    assert "unix_timestamp" in written(plain, MYSQL())
    early = window_of(initial=datetime(1970, 1, 1, tzinfo=UTC), now=lambda: datetime(2100, 1, 1, tzinfo=UTC))
    assert "from_unixtime" not in written(early.where(sa.column("u", mysql.TIMESTAMP())), MYSQL())


@pytest.mark.parametrize(
    ("dialect", "text"),
    [
        (POSTGRESQL(), "(k COLLATE \"C\") >= 'a'"),
        (SQLITE(), "(k COLLATE BINARY) >= 'a'"),
        (MYSQL(), "CAST(CONVERT(k USING utf8mb4) AS BINARY) >= CAST(CONVERT('a' USING utf8mb4) AS BINARY)"),
    ],
)
def test_the_collation_of_code_points_is_found_when_the_query_is_compiled(dialect: Any, text: str) -> None:
    window = watermark(NUMBERS, initial="a", cursor=Cursor.text(collation="C")).begin(a_try().context)
    condition = window.where(sa.column("k", sa.String()))
    assert written(condition, dialect) == text
    with pytest.raises(CursorTypeError, match="is not known"):
        condition.compile(dialect=sa.engine.default.DefaultDialect())


def test_a_collation_of_another_name_is_written_as_it_is() -> None:
    window = watermark(NUMBERS, initial="a", cursor=Cursor.text(collation="de-x-icu")).begin(a_try().context)
    assert written(window.where(sa.column("k", sa.String())), POSTGRESQL()) == "(k COLLATE \"de-x-icu\") >= 'a'"


@pytest.mark.parametrize(
    ("dialect", "url"), [(MYSQL(), "mysql+pymysql://"), (SQLITE(), "sqlite://")], ids=["mysql", "sqlite"]
)
def test_a_timestamptz_is_refused_where_there_is_none(dialect: Any, url: str) -> None:
    column, told = sa.column("u", sa.DateTime(timezone=True)), SqlColumn("timestamptz")
    with pytest.raises(CursorTypeError, match="no type 'timestamptz'"):
        window_of().where(column, on=sa.create_engine(url), type=told)
    condition = window_of().where(column, type=told)  # and which database it is for, only the query knows
    with pytest.raises(CursorTypeError, match="no type 'timestamptz'"):
        condition.compile(dialect=dialect)
    assert "u >= %(param_1)s" in str(condition.compile(dialect=POSTGRESQL()))


@pytest.mark.parametrize("cursor", [Cursor.datetime(), Cursor.date()], ids=["times", "days"])
def test_a_column_whose_type_is_not_known_is_refused_on_sqlite(cursor: Any) -> None:
    window = window_of(
        cursor=cursor,
        initial=lambda: "2026-01-01T00:00:00Z"[: 20 if cursor.is_aware else 10],
        delay=cursor.no_span,
        now=None,
    )
    engine = sa.create_engine("sqlite://")
    with pytest.raises(CursorTypeError, match="column ts is not known"):
        window.where("ts", on=engine)
    condition = window.where("ts")  # and which database it is for, only the query knows
    with engine.connect() as connection, pytest.raises(CursorTypeError, match=r"column ts is not known.*\nGive it"):
        connection.execute(sa.select(sa.column("ts")).where(condition))
    assert "ts >= %(param_1)s" in str(condition.compile(dialect=POSTGRESQL()))
    wanted = "ts >= CAST(%s AS DATETIME(6))" if cursor.is_aware else "ts >= %s"
    assert wanted in str(condition.compile(dialect=MYSQL()))


@pytest.mark.parametrize("type_", [sa.Numeric(20, 6), sa.Integer(), sa.types.NullType()])
def test_decimals_are_refused_on_sqlite(type_: Any) -> None:
    """SQLAlchemy binds a Numeric as a float there."""
    window = window_of(initial=Decimal("0.1"), now=None, delay=None)
    engine, column = sa.create_engine("sqlite://"), sa.column("amount", type_)
    with pytest.raises(CursorTypeError, match=r"not exact.*\nCompare whole ones"):
        window.where(column, on=engine)
    condition = window.where(column)  # and which database it is for, only the query knows
    with engine.connect() as connection, pytest.raises(CursorTypeError, match=r"not exact.*\nCompare whole ones"):
        connection.execute(sa.select(column).where(condition))
    compiled = condition.compile(dialect=POSTGRESQL())
    assert (str(compiled), list(compiled.params.values())) == ("amount >= %(param_1)s", [Decimal("0.1")])


def test_a_uuid_is_written_as_its_column_keeps_it() -> None:
    first = UUID("01800000-0000-7000-8000-000000000001")
    window = window_of(initial=first, now=None, delay=None)
    kept: list[tuple[Any, object]] = [
        (sa.String(36), str(first)),
        (mysql.BINARY(16), first.bytes),
        (sa.LargeBinary(), first.bytes),
        (sa.Uuid(), first),
    ]
    for type_, bound in kept:
        assert values(window.where(sa.column("id", type_))) == [bound]
    assert values(window.where(sa.column("id"), type="binary")) == [first.bytes]
