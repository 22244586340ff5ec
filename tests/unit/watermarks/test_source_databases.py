"""By every driver, from every type of column, in sessions of three time zones: each row is loaded exactly once."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import sqlalchemy as sa
from sqlalchemy.dialects import mysql
from sqlalchemy.orm import DeclarativeBase, Session, mapped_column

from airflow_resume import watermark
from airflow_resume.watermarks import Cursor, SqlColumn, Window
from airflow_resume.watermarks.cursors.zones import now_on_clock
from tests.support.backends.databases import database_on_mysql, schema_on_postgresql
from tests.support.watermarks import source_tables
from tests.support.watermarks.source_tables import (
    BERLIN,
    MYSQL,
    POSTGRESQL,
    RAW_POSTGRESQL,
    SESSIONS,
    SQLITE,
    Driver,
    filled,
    local,
    nights,
)
from tests.support.watermarks.whole_numbers import NUMBERS, a_try, load

UTC = timezone.utc
FIRST = datetime(2025, 10, 25, 20, tzinfo=UTC)


@dataclass(frozen=True)
class Kept:
    """How a column keeps a point in time: as it is declared, as it is told, and as it is written."""

    declared: str
    told: SqlColumn
    write: Callable[[datetime], object]

    def __str__(self) -> str:
        told = [self.told.type, self.told.tz, self.told.like]
        return f"{self.declared}-{'-'.join(str(part) for part in told if part)}"


def millis(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def epoch(moment: datetime, unit: int) -> int:
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1) * unit // 1_000_000


def second(moment: datetime) -> datetime:
    return moment.replace(microsecond=0)


EVERYWHERE = [
    Kept("BIGINT", SqlColumn("seconds"), lambda t: epoch(t, 1)),
    Kept("BIGINT", SqlColumn("milliseconds"), lambda t: epoch(t, 1_000)),
    Kept("BIGINT", SqlColumn("microseconds"), lambda t: epoch(t, 1_000_000)),
    Kept("VARCHAR(40)", SqlColumn("text", like="2026-01-31 23:59:59", tz="UTC"), lambda t: f"{t:%Y-%m-%d %H:%M:%S}"),
    Kept(
        "VARCHAR(40)",
        SqlColumn("text", like="2026-01-31 23:59:59", tz=BERLIN),
        lambda t: f"{local(t):%Y-%m-%d %H:%M:%S}",
    ),
    Kept("VARCHAR(40)", SqlColumn("text", like="2026-01-31T23:59:59Z"), lambda t: f"{t:%Y-%m-%dT%H:%M:%SZ}"),
    Kept("VARCHAR(40)", SqlColumn("text", like="2026-01-31T23:59:59.999Z"), millis),
    Kept("VARCHAR(40)", SqlColumn("text", like="2026-01-31T23:59:59.999999+00:00"), lambda t: t.isoformat()),
    Kept("VARCHAR(40)", SqlColumn("text", like="2026-01-31 23:59:59.999999+00:00"), lambda t: t.isoformat(sep=" ")),
    Kept(
        "VARCHAR(40)",
        SqlColumn("text", like="2026-01-31T23:59:59.999999+01:00", tz=BERLIN),
        lambda t: t.astimezone(ZoneInfo(BERLIN)).isoformat(),
    ),
]
ON_POSTGRESQL = [
    Kept("timestamptz", SqlColumn("timestamptz"), lambda t: t.isoformat()),
    Kept("timestamptz(0)", SqlColumn("timestamptz", digits=0), lambda t: second(t).isoformat()),
    Kept("timestamp", SqlColumn("timestamp", tz="UTC"), lambda t: str(t.replace(tzinfo=None))),
    Kept("timestamp", SqlColumn("timestamp", tz=BERLIN), lambda t: str(local(t))),
    Kept("timestamp", SqlColumn("timestamp", tz="America/New_York"), lambda t: str(local(t, "America/New_York"))),
    Kept("timestamp(0)", SqlColumn("timestamp", tz=BERLIN, digits=0), lambda t: str(local(second(t)))),
    *EVERYWHERE,
]
ON_MYSQL = [
    Kept("DATETIME(6)", SqlColumn("datetime", tz="UTC"), lambda t: str(t.replace(tzinfo=None))),
    Kept("DATETIME(6)", SqlColumn("datetime", tz=BERLIN), lambda t: str(local(t))),
    Kept("DATETIME", SqlColumn("datetime", tz=BERLIN, digits=0), lambda t: str(local(second(t)))),
    Kept("TIMESTAMP(6)", SqlColumn("timestamp"), lambda t: str(t.replace(tzinfo=None))),
    Kept("TIMESTAMP", SqlColumn("timestamp", digits=0), lambda t: str(second(t).replace(tzinfo=None))),
    *EVERYWHERE,
]
PLACES = {"postgresql": schema_on_postgresql, "mysql": database_on_mysql}


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], str]]:
    """The URL of a place on each kind of database, made when it is first asked for."""
    opened: dict[str, Any] = {}
    urls = {"sqlite": f"sqlite:///{tmp_path_factory.mktemp('source')}/source.db"}

    def place(kind: str) -> str:
        if kind not in urls:
            opened[kind] = PLACES[kind]()
            urls[kind] = opened[kind].__enter__()
        return urls[kind]

    yield place
    for made in opened.values():
        made.__exit__(None, None, None)


class Run:
    """Runs of a watermark while rows come in: each is written when its time has come."""

    def __init__(self, kept: Kept, moments: list[datetime]) -> None:
        self.waiting = sorted(enumerate(moments), key=lambda pair: pair[1])
        self.kept, self.now = kept, FIRST
        self.loaded: Counter[int] = Counter()

    def go(
        self, write: Callable[[dict[int, object]], None], fetch: Callable[[Window[Any]], list[int]], **options: Any
    ) -> None:
        mark = watermark(
            NUMBERS,
            **{"initial": FIRST, "now": lambda: self.now, "delay": timedelta(0), "sql": self.kept.told, **options},
        )
        attempt, chance = a_try(), random.Random(14)  # noqa: S311  the same windows each time
        moments = [moment for _, moment in self.waiting]
        stops = [
            *chance.sample(moments, 8),
            *(moment + timedelta(seconds=chance.randrange(999)) for moment in moments[::4]),
        ]
        for self.now in [*sorted(stops), moments[-1] + timedelta(days=2)]:
            come = [pair for pair in self.waiting if pair[1] <= self.now]
            self.waiting = self.waiting[len(come) :]
            if come:
                write({number: self.kept.write(moment) for number, moment in come})
            load(attempt, mark, lambda window: window.empty or self.loaded.update(fetch(window)))
            attempt = attempt.next_run()

    @property
    def wrong(self) -> dict[int, int]:
        """How often each row was loaded that was not loaded once."""
        return {number: self.loaded[number] for number in range(len(nights())) if self.loaded[number] != 1}


def by_sql(driver: Driver, on: Any) -> Callable[[Window[Any]], list[int]]:
    def fetch(window: Window[Any]) -> list[int]:
        condition, parameters = window.sql("u", on)
        return [row[0] for row in driver.fetch(on, f"SELECT id FROM source WHERE {condition}", parameters)]  # noqa: S608

    return fetch


def by_track(driver: Driver, on: Any) -> Callable[[Window[Any]], list[int]]:
    def fetch(window: Window[Any]) -> list[int]:
        condition, parameters = window.sql("u", on)
        found = driver.fetch(on, f"SELECT id, u FROM source WHERE {condition} ORDER BY id", parameters)  # noqa: S608
        return [row["id"] for row in window.track([{"id": row[0], "u": row[1]} for row in found], "u", unique="id")]

    return fetch


def combinations(kind: str, drivers: list[Driver], columns: list[Kept], zones: list[str]) -> Iterator[Any]:
    for driver in drivers:
        for kept in columns:
            for zone in zones:
                yield pytest.param(kind, driver, kept, zone, id=f"{kind}-{driver}-{kept}-{zone}")


@pytest.mark.parametrize(
    ("kind", "driver", "kept", "zone"),
    [
        *combinations("postgresql", POSTGRESQL, ON_POSTGRESQL, list(SESSIONS)),
        *combinations("mysql", MYSQL, ON_MYSQL, list(SESSIONS)),
        *combinations("sqlite", SQLITE, EVERYWHERE, ["UTC"]),
    ],
)
def test_every_row_is_loaded_exactly_once(
    places: Callable[[str], str], kind: str, driver: Driver, kept: Kept, zone: str
) -> None:
    url = places(kind)
    run, on = Run(kept, nights()), driver.connect(url, zone)
    with filled(url, kept.declared) as write:
        run.go(write, by_sql(driver, on))
    source_tables.close(on)
    assert run.wrong == {}


@pytest.mark.parametrize("kept", ON_POSTGRESQL, ids=str)
def test_numbered_placeholders_that_the_server_itself_fills_in(places: Callable[[str], str], kept: Kept) -> None:
    """As asyncpg has them: the server must find out the types of the parameters."""
    run, driver = Run(kept, nights()), RAW_POSTGRESQL
    on = driver.connect(places("postgresql"), "Asia/Tokyo")
    with filled(places("postgresql"), kept.declared) as write:
        run.go(write, by_sql(driver, on))
    source_tables.close(on)
    assert run.wrong == {}


@pytest.mark.parametrize(("declared", "lost"), [("timestamp", 72), ("timestamptz", 0)])
def test_what_the_driver_writes_loses_rows_of_a_column_without_a_zone(
    places: Callable[[str], str], declared: str, lost: int
) -> None:
    """In a session of Tokyo the bound is nine hours ahead of the column's UTC: nothing is found, without an error."""
    kept = Kept(declared, SqlColumn(), lambda t: t.isoformat())
    run, on = Run(kept, nights()[:36] * 2), POSTGRESQL[0].connect(places("postgresql"), "Asia/Tokyo")
    with filled(places("postgresql"), declared) as write:
        run.go(write, by_sql(POSTGRESQL[0], on))
    source_tables.close(on)
    assert sum(1 for number in range(72) if not run.loaded[number]) == lost


# --- conditions of SQLAlchemy ---------------------------------------------------------------------------------


def mapped(type_: Any) -> Any:
    """A mapped class of the source with a column of a type."""
    base: Any = type("Base", (DeclarativeBase,), {})
    names = {"__tablename__": "source", "id": mapped_column(sa.Integer, primary_key=True), "u": mapped_column(type_)}
    return type("Row", (base,), names)


TIMES: dict[str, list[Any]] = {
    "postgresql": [
        (sa.DateTime(timezone=True), ON_POSTGRESQL[0], None),
        (sa.DateTime(), ON_POSTGRESQL[2], ON_POSTGRESQL[2].told),
        (sa.DateTime(), ON_POSTGRESQL[3], ON_POSTGRESQL[3].told),
        (sa.BigInteger(), EVERYWHERE[1], EVERYWHERE[1].told),
        (sa.String(40), EVERYWHERE[6], EVERYWHERE[6].told),
    ],
    "mysql": [
        (mysql.DATETIME(fsp=6), ON_MYSQL[1], ON_MYSQL[1].told),
        (mysql.TIMESTAMP(fsp=6), ON_MYSQL[3], None),
        (mysql.TIMESTAMP(), ON_MYSQL[4], ON_MYSQL[4].told),
        (sa.BigInteger(), EVERYWHERE[1], EVERYWHERE[1].told),
        (sa.String(40), EVERYWHERE[6], EVERYWHERE[6].told),
    ],
    "sqlite": [
        (
            sa.DateTime(),
            Kept("TEXT", SqlColumn(), lambda t: f"{t:%Y-%m-%d %H:%M:%S.%f}"),
            SqlColumn("timestamp", tz="UTC"),
        ),
        (sa.DateTime(timezone=True), Kept("TEXT", SqlColumn(), lambda t: f"{t:%Y-%m-%d %H:%M:%S.%f}"), None),
        (
            sa.DateTime(),
            Kept("TEXT", SqlColumn(), lambda t: f"{local(t):%Y-%m-%d %H:%M:%S.%f}"),
            SqlColumn("timestamp", tz=BERLIN),
        ),
        (sa.Integer(), EVERYWHERE[0], EVERYWHERE[0].told),
    ],
}
ENGINES = {
    "postgresql": ["postgresql+psycopg", "postgresql+psycopg2"],
    "mysql": ["mysql+pymysql"],
    "sqlite": ["sqlite"],
}
WHERE = [
    pytest.param(engine, zone, column, id=f"{engine}-{column[0]!r}-{column[1]}-{zone}")
    for kind, columns in TIMES.items()
    for engine in ENGINES[kind]
    for column in columns
    for zone in (["UTC"] if kind == "sqlite" else SESSIONS)
]


@pytest.mark.parametrize(("engine", "zone", "column"), WHERE)
def test_by_a_condition_of_sqlalchemy_every_row_is_loaded_exactly_once(
    places: Callable[[str], str], engine: str, zone: str, column: Any
) -> None:
    type_, kept, told = column
    kind = engine.partition("+")[0]
    run, row = Run(kept, nights()), mapped(type_)
    with (
        filled(places(kind), kept.declared) as write,
        source_tables.connected(places(kind), engine, zone) as connection,
    ):

        def fetch(window: Window[Any]) -> list[int]:
            orm = Session(connection).scalars(sa.select(row).where(window.where(row.u))).all()
            core = (
                connection.execute(sa.select(row.__table__.c.id).where(window.where(row.__table__.c.u))).scalars().all()
            )
            assert sorted(each.id for each in orm) == sorted(core)
            return list(core)

        run.go(write, fetch, sql=told)
    assert run.wrong == {}


@pytest.mark.parametrize("driver", MYSQL, ids=str)
def test_iso_text_of_a_column_that_is_not_described_is_read_as_times(
    places: Callable[[str], str], driver: Driver
) -> None:
    """Compared as text, "2026-01-01T00:00:00+00:00" lies after all bounds of its day, which have a space there."""
    kept = Kept("VARCHAR(40)", SqlColumn(), lambda t: t.isoformat())
    run, on = Run(kept, nights()), driver.connect(places("mysql"), "UTC")
    with filled(places("mysql"), kept.declared) as write:
        run.go(write, by_sql(driver, on))
    source_tables.close(on)
    assert run.wrong == {}


# --- other cursors --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "driver", "kept"),
    [
        ("postgresql", POSTGRESQL[0], ON_POSTGRESQL[0]),
        ("postgresql", POSTGRESQL[1], ON_POSTGRESQL[3]),
        ("mysql", MYSQL[0], ON_MYSQL[1]),
        ("sqlite", SQLITE[0], EVERYWHERE[1]),
        ("sqlite", SQLITE[0], EVERYWHERE[4]),
    ],
    ids=str,
)
def test_what_was_seen_of_a_column_moves_the_mark_exactly(
    places: Callable[[str], str], kind: str, driver: Driver, kept: Kept
) -> None:
    """The rows of one second are in two windows, and told apart by their ids."""
    run, on = Run(kept, nights()), driver.connect(places(kind), "Asia/Tokyo")
    with filled(places(kind), kept.declared) as write:
        run.go(write, by_track(driver, on), advance="observed", delay=timedelta(minutes=1))
    source_tables.close(on)
    assert run.wrong == {}


@pytest.mark.parametrize(
    ("kind", "driver", "kept"),
    [
        (
            "postgresql",
            POSTGRESQL[0],
            Kept("timestamptz", SqlColumn("timestamptz", tz=BERLIN), lambda t: t.isoformat()),
        ),
        ("postgresql", POSTGRESQL[1], ON_POSTGRESQL[3]),
        ("postgresql", POSTGRESQL[0], Kept("date", SqlColumn("date"), lambda t: f"{local(t):%Y-%m-%d}")),
        ("mysql", MYSQL[0], ON_MYSQL[1]),
        ("mysql", MYSQL[1], Kept("TIMESTAMP(6)", SqlColumn("timestamp", tz=BERLIN), ON_MYSQL[3].write)),
        ("mysql", MYSQL[0], Kept("DATE", SqlColumn("date"), lambda t: f"{local(t):%Y-%m-%d}")),
        ("sqlite", SQLITE[0], EVERYWHERE[4]),
        ("sqlite", SQLITE[0], Kept("INTEGER", SqlColumn("seconds", tz=BERLIN), lambda t: epoch(t, 1))),
        ("sqlite", SQLITE[0], Kept("DATE", SqlColumn("date"), lambda t: f"{local(t):%Y-%m-%d}")),
        ("sqlite", SQLITE[0], Kept("TEXT", SqlColumn("text", like="2026-01-31"), lambda t: f"{local(t):%Y-%m-%d}")),
    ],
    ids=str,
)
@pytest.mark.parametrize("zone", SESSIONS)
def test_local_days_are_loaded_exactly_once(
    places: Callable[[str], str], kind: str, driver: Driver, kept: Kept, zone: str
) -> None:
    run, on = Run(kept, nights()), driver.connect(places(kind), zone)
    with filled(places(kind), kept.declared) as write:
        run.go(write, by_sql(driver, on), initial=date(2025, 10, 24), now=lambda: local(run.now).date())
    source_tables.close(on)
    assert run.wrong == {}


@pytest.mark.parametrize(
    ("kind", "driver", "kept"),
    [
        ("postgresql", POSTGRESQL[0], Kept("timestamp", SqlColumn("timestamp"), lambda t: str(local(t)))),
        ("postgresql", POSTGRESQL[1], Kept("timestamp", SqlColumn(), lambda t: str(local(t)))),
        ("mysql", MYSQL[0], Kept("DATETIME(6)", SqlColumn("datetime"), lambda t: str(local(t)))),
        ("sqlite", SQLITE[0], Kept("TEXT", SqlColumn("text", like="2026-01-31 23:59:59"), EVERYWHERE[4].write)),
    ],
    ids=str,
)
@pytest.mark.parametrize("zone", SESSIONS)
def test_naive_local_times_are_loaded_exactly_once(
    places: Callable[[str], str], kind: str, driver: Driver, kept: Kept, zone: str
) -> None:
    """With the clock of `sql_now(..., tz=)`, which waits in the nights of clock changes."""
    run, on = Run(kept, nights()), driver.connect(places(kind), zone)
    with filled(places(kind), kept.declared) as write:
        run.go(
            write,
            by_sql(driver, on),
            initial=local(FIRST),
            cursor=Cursor.datetime(tz=None),
            now=lambda: now_on_clock(run.now, BERLIN),
            delay=timedelta(minutes=2),
        )
    source_tables.close(on)
    assert run.wrong == {}


LOCAL_COLUMNS = [
    ("postgresql", POSTGRESQL[0], Kept("timestamp", SqlColumn("timestamp"), lambda t: str(local(t)))),
    ("postgresql", POSTGRESQL[1], ON_POSTGRESQL[3]),
    ("postgresql", POSTGRESQL[2], ON_POSTGRESQL[3]),
    ("postgresql", POSTGRESQL[0], ON_POSTGRESQL[5]),
    ("mysql", MYSQL[0], Kept("DATETIME(6)", SqlColumn("datetime"), lambda t: str(local(t)))),
    ("mysql", MYSQL[1], ON_MYSQL[1]),
    ("mysql", MYSQL[2], ON_MYSQL[2]),
    ("sqlite", SQLITE[0], Kept("TEXT", SqlColumn("text", like="2026-01-31 23:59:59"), EVERYWHERE[4].write)),
    ("sqlite", SQLITE[0], EVERYWHERE[4]),
    ("sqlite", SQLITE[0], EVERYWHERE[9]),
    ("sqlite", SQLITE[1], EVERYWHERE[4]),
]
"""Columns that show the clock of Berlin, with the zone and without."""


@pytest.mark.parametrize("source", LOCAL_COLUMNS, ids=lambda source: "-".join(map(str, source)))
@pytest.mark.parametrize("zone", SESSIONS)
@pytest.mark.parametrize("advance", ["window", "observed"])
def test_by_a_cursor_of_a_clock_every_row_of_a_told_column_is_loaded_once(
    places: Callable[[str], str], source: tuple[str, Driver, Kept], zone: str, advance: str
) -> None:
    """The values are those of the clock already: neither the bounds nor the rows are shown in the zone once more."""
    kind, driver, kept = source
    run, on = Run(kept, nights()), driver.connect(places(kind), zone)
    with filled(places(kind), kept.declared) as write:
        run.go(
            write,
            by_track(driver, on),
            initial=local(FIRST),
            cursor=Cursor.datetime(BERLIN, naive=True),
            advance=advance,
            delay=timedelta(minutes=2),
        )
    source_tables.close(on)
    assert run.wrong == {}


# --- text -----------------------------------------------------------------------------------------------------

WORDS = ["a", "B", "ä", "A2", "b2", "C", "é", "e", "Z", "z", "a\t", "foo", "foo\nbar", "foo ", "ÿ", "ÿ\t"]


@pytest.mark.parametrize(
    ("kind", "driver", "declared"),
    [
        ("postgresql", POSTGRESQL[0], 'text COLLATE "en-x-icu"'),
        ("postgresql", POSTGRESQL[2], 'text COLLATE "en-x-icu"'),
        ("mysql", MYSQL[0], "VARCHAR(20) COLLATE utf8mb4_unicode_ci"),
        ("mysql", MYSQL[1], "VARCHAR(20) COLLATE utf8mb4_unicode_ci"),
        ("mysql", MYSQL[0], "VARCHAR(20) CHARACTER SET latin1"),
        ("mysql", MYSQL[1], "VARCHAR(20) CHARACTER SET utf16"),
        ("sqlite", SQLITE[0], "TEXT COLLATE NOCASE"),
    ],
    ids=str,
)
@pytest.mark.parametrize("way", ["sql", "where"])
def test_text_of_any_collation_is_loaded_exactly_once_in_the_order_of_code_points(
    places: Callable[[str], str], kind: str, driver: Driver, declared: str, way: str
) -> None:
    mark = watermark(NUMBERS, initial="", cursor=Cursor.text(collation="C"))
    on, attempt, loaded = driver.connect(places(kind), "UTC"), a_try(), list[str]()
    table = sa.table("source", sa.column("u", sa.String()))

    def body(window: Window[Any]) -> None:
        condition, parameters = window.sql("u", on)
        if way == "where":
            engine = sa.create_engine(places(kind))
            compiled = sa.select(table.c.u).where(window.where(table.c.u))
            with engine.connect() as connection:
                found: Any = connection.execute(compiled).all()
            engine.dispose()
        else:
            found = driver.fetch(on, f"SELECT u FROM source WHERE {condition}", parameters)  # noqa: S608
        loaded.extend(row["u"] for row in window.track([{"u": row[0]} for row in found], "u", unique=True))

    with filled(places(kind), declared) as write:
        for number, word in enumerate(sorted(WORDS)):
            write({number: word})
            load(attempt, mark, body)
            attempt = attempt.next_run()
    source_tables.close(on)
    assert loaded == sorted(WORDS)
