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
import source_tables
from numbered import NUMBERS, a_try, load
from source_tables import BERLIN, MYSQL, POSTGRESQL, SESSIONS, SQLITE, Driver, filled, local, nights
from sql_places import database_on_mysql, schema_on_postgresql

from airflow_resume import watermark
from airflow_resume.watermarks import Cursor, SqlColumn, Window

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
    Kept("VARCHAR(40)", SqlColumn("text", like="2026-01-31 23:59:59", tz=BERLIN), lambda t: f"{local(t):%Y-%m-%d %H:%M:%S}"),
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

    def go(self, write: Callable[[dict[int, object]], None], fetch: Callable[[Window[Any]], list[int]], **options: Any) -> None:
        mark = watermark(
            NUMBERS, **{"initial": FIRST, "now": lambda: self.now, "delay": timedelta(0), "sql": self.kept.told, **options}
        )
        attempt, chance = a_try(), random.Random(14)
        moments = [moment for _, moment in self.waiting]
        stops = [*chance.sample(moments, 8), *(moment + timedelta(seconds=chance.randrange(999)) for moment in moments[::4])]
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
