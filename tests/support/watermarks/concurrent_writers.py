"""Concurrent writers and a loader, and what the loader misses.

A trial has its own empty database with one table. Its writers insert, update and delete in transactions that
stay open for a while, and some are rolled back. Its loader runs meanwhile; its bodies fail now and then and are
retried. When the writers have ended, every row must be in the sink in its last version.
"""

from __future__ import annotations

import os
import random
import secrets
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from threading import Event
from typing import Any

from airflow.sdk import Asset
from sqlalchemy import make_url

from airflow_resume.testing import TaskAttempt, World, task_context
from airflow_resume.watermarks import Watermark, Window
from tests.support.backends.databases import database_on_mysql, schema_on_postgresql

LONGEST_TRANSACTION = timedelta(seconds=1.5)
"""A transaction that takes longer is rolled back, as `transaction_timeout` does, even if only the machine is slow."""
DELAY = timedelta(seconds=3)
SKEW = timedelta(seconds=3)
DAY = 0.5
"""The length of a day, in seconds, for watermarks of days."""
PATIENCE = 60
"""In seconds. Rows that have not arrived by then count as lost."""


class BrokenOffError(Exception):
    """A body failed while it saved."""


# --- databases ------------------------------------------------------------------------------------------------


class Place(ABC):
    """A database of a play.

    Args:
        folder: for a file.
    """

    name: str
    style: Any
    """Of placeholders."""
    table: str
    any_row = "SELECT id FROM orders ORDER BY random() LIMIT 1"
    now: str
    """Its clock, if it stamps rows itself; empty if applications do."""
    begin = "BEGIN"

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.url = ""
        self._reader: Any = None

    @abstractmethod
    def empty(self) -> AbstractContextManager[str]:
        """An empty database, until it is left; its URL."""

    @abstractmethod
    def connect(self) -> Any:
        """A connection on which nothing is committed but by `commit`."""

    @contextmanager
    def opened(self) -> Iterator[None]:
        with self.empty() as self.url:
            self.execute(self.table)
            with closing(self.connect()) as self._reader:
                yield

    def execute(self, *statements: str) -> None:
        with closing(self.connect()) as connection:
            for statement in statements:
                connection.cursor().execute(statement)
            connection.commit()

    def query(self, text: str, parameters: Any = ()) -> list[dict[str, Any]]:
        """The rows of a query, in a transaction of its own."""
        try:
            return query_on(self._reader, text, parameters)
        finally:
            self._reader.rollback()

    def query_one(self, text: str) -> Any:
        (row,) = self.query(text)
        return next(iter(row.values()))

    def clock(self) -> Any:
        """The time by which rows are stamped."""
        return self.query_one(f"SELECT {self.now}") if self.now else datetime.now(tz=timezone.utc)

    def stamp(self, skew: timedelta) -> Any:
        """The time by an application's clock."""
        return datetime.now(tz=timezone.utc) + skew


def query_on(connection: Any, text: str, parameters: Any = ()) -> list[dict[str, Any]]:
    cursor = connection.cursor()
    cursor.execute(text, parameters or ())
    names = [column[0] for column in cursor.description]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


class PostgreSQL(Place):
    name, style, now = "postgresql", "pyformat", "now()"
    any_row = Place.any_row + " FOR UPDATE SKIP LOCKED"
    table = (
        "CREATE TABLE orders (id bigserial PRIMARY KEY, v int NOT NULL, updated_at timestamptz NOT NULL, day date,"
        " code text)"
    )

    def empty(self) -> AbstractContextManager[str]:
        return schema_on_postgresql()

    def connect(self) -> Any:
        import psycopg

        return psycopg.connect(self.url.replace("+psycopg", ""))


class MariaDB(Place):
    name, style, now = "mariadb", "pyformat", "now(6)"
    any_row = "SELECT id FROM orders ORDER BY rand() LIMIT 1 FOR UPDATE SKIP LOCKED"
    table = (
        "CREATE TABLE orders (id bigint AUTO_INCREMENT PRIMARY KEY, v int NOT NULL, updated_at datetime(6) NOT NULL,"
        " day date, code text)"
    )

    def empty(self) -> AbstractContextManager[str]:
        return database_on_mysql()

    def connect(self) -> Any:
        import pymysql

        url = make_url(self.url)
        connection = pymysql.connect(
            host=url.host,
            port=url.port or 3306,
            user=url.username,
            password=url.password or "",
            database=url.database,
            # Of a row that is chosen at random, no more than that row is locked.
            init_command="SET time_zone = '+00:00', tx_isolation = 'READ-COMMITTED'",
        )
        connection.autocommit(False)
        return connection

    def stamp(self, skew: timedelta) -> Any:
        return super().stamp(skew).replace(tzinfo=None)


class SQLite(Place):
    name, style, now, begin = "sqlite", "qmark", "", "BEGIN IMMEDIATE"
    table = (
        "CREATE TABLE orders (id integer PRIMARY KEY AUTOINCREMENT, v int NOT NULL, updated_at text NOT NULL, day text,"
        " code text)"
    )

    @contextmanager
    def empty(self) -> Iterator[str]:
        file = self.folder / f"{secrets.token_hex(6)}.db"
        with closing(self._open(str(file))) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
        yield str(file)

    def connect(self) -> Any:
        return self._open(self.url)

    def _open(self, file: str) -> Any:
        import sqlite3

        # Writers wait for each other; transactions are begun and ended in words.
        return sqlite3.connect(file, timeout=PATIENCE, isolation_level=None)

    def stamp(self, skew: timedelta) -> Any:
        return super().stamp(skew).isoformat(" ", "microseconds")


PLACES = {place.name: place for place in (PostgreSQL, MariaDB, SQLite)}

# --- plays ----------------------------------------------------------------------------------------------------

Make = Callable[["Play"], tuple[Watermark[Any], Callable[[Window[Any]], Any]]]
"""Makes a watermark and a body, which saves by `play.save`."""


@dataclass(kw_only=True)
class Play:
    """A source with its writers and its loader.

    Args:
        make: of the loader. setup: statements before anything is written.
        updates: old rows are updated too. skews: of the clocks by which writers stamp, in place of the database's.
        columns: what goes into further columns of a row, as it is inserted.
        loses: the settings are known to, so what is missing is not waited for.
        breaks: how often a body breaks off while it saves.
        seconds: for which there is writing. rest: of a writer between two transactions, at most.
    """

    name: str
    place: Place
    make: Make
    seed: int
    setup: tuple[str, ...] = ()
    updates: bool = True
    skews: tuple[timedelta, ...] = ()
    loses: bool = False
    breaks: float = 0.25
    seconds: float = 4
    rest: float = 0.1
    sink: dict[int, int] = field(default_factory=dict)
    runs: int = 0
    failures: int = 0
    transactions: int = 0
    given_up: int = 0

    def __post_init__(self) -> None:
        self._stop = Event()
        self._random = random.Random(self.seed)  # noqa: S311
        self._began = time.monotonic()
        self.asset = Asset("orders")

    # --- writing ----------------------------------------------------------------------------------------------

    def today(self) -> date:
        """On a calendar whose days pass quickly."""
        return date(2026, 1, 1) + timedelta(days=int((time.monotonic() - self._began) / DAY))

    def _write(self, number: int) -> None:
        chance = random.Random(f"{self.seed}/{number}")  # noqa: S311
        skew = self.skews[number % len(self.skews)] if self.skews else None
        with closing(self.place.connect()) as connection:
            while not self._stop.is_set():
                self._transaction(connection, chance, skew)
                time.sleep(chance.random() * self.rest)

    def _transaction(self, connection: Any, chance: random.Random, skew: timedelta | None) -> None:
        cursor = connection.cursor()
        started = time.monotonic()
        try:
            cursor.execute(self.place.begin)
            started = started if self.place.now else time.monotonic()  # SQLite has waited for the others
            self.insert(cursor, skew)
            if self.updates and chance.random() < 0.4:
                self._update(cursor, skew)
            if chance.random() < 0.1:
                cursor.execute(f"DELETE FROM orders WHERE id IN (SELECT id FROM ({self.place.any_row}) AS any_row)")  # noqa: S608
            time.sleep(chance.random() ** 3 * (0.6 if self.place.now else 0.1))
            if chance.random() < 0.5:
                self.insert(cursor, skew)
            is_too_long = time.monotonic() - started > LONGEST_TRANSACTION.total_seconds()
            cursor.execute("ROLLBACK" if is_too_long or chance.random() < 0.05 else "COMMIT")
            self.transactions += 1
        except Exception as error:
            if "deadlock" not in str(error).lower():
                raise
            cursor.execute("ROLLBACK")

    def _stamp(self, skew: timedelta | None) -> tuple[str, list[Any]]:
        """An expression, and its parameters."""
        if self.place.now and skew is None:
            return self.place.now, []
        return ("%s" if self.place.now else "?"), [self.place.stamp(skew or timedelta(0))]

    def insert(self, cursor: Any, skew: timedelta | None = None) -> None:
        stamp, parameters = self._stamp(skew)
        mark = "%s" if self.place.now else "?"
        more = [self.today().isoformat(), f"{time.time_ns():020}"]
        cursor.execute(
            f"INSERT INTO orders (v, updated_at, day, code) VALUES (1, {stamp}, {mark}, {mark})",  # noqa: S608
            [*parameters, *more],
        )

    def _update(self, cursor: Any, skew: timedelta | None) -> None:
        stamp, parameters = self._stamp(skew)
        mark = "%s" if self.place.now else "?"
        cursor.execute(self.place.any_row)
        if found := cursor.fetchone():
            cursor.execute(
                f"UPDATE orders SET v = v + 1, updated_at = {stamp}, day = {mark} WHERE id = {found[0]}",  # noqa: S608
                [*parameters, self.today().isoformat()],
            )

    # --- loading ----------------------------------------------------------------------------------------------

    def save(self, rows: Iterable[dict[str, Any]]) -> None:
        """Write the rows to the sink, or write some of them and fail."""
        breaks_off = self._random.randrange(8) if self._random.random() < self.breaks else None
        for place, row in enumerate(rows):
            if place == breaks_off:
                raise BrokenOffError
            self.sink[row["id"]] = row["v"]
        if breaks_off is not None and self._random.random() < 0.5:
            raise BrokenOffError

    def load(self, mark: Watermark[Any], body: Callable[[Window[Any]], Any], world: World) -> None:
        """A run of up to three tries."""
        self.runs += 1
        attempt = task_context(assets=[mark.asset], world=world, run_id=f"run {self.runs}")
        for number in range(3):
            if self._succeeds(attempt, mark, body):
                return
            attempt = attempt.retry() if number < 2 else attempt
        self.given_up += 1

    def load_the_rest(
        self, mark: Watermark[Any], body: Callable[[Window[Any]], Any], world: World, *, seconds: float = PATIENCE
    ) -> None:
        """Run until nothing is missing, or for this long: a bound may wait for other databases of the server."""
        end = time.monotonic() + seconds
        while any(self.missed()) and time.monotonic() < end:
            self.load(mark, body, world)
            time.sleep(0.2)

    def _succeeds(self, attempt: TaskAttempt, mark: Watermark[Any], body: Callable[[Window[Any]], Any]) -> bool:
        try:
            with mark.open(attempt.context) as window:
                if not window.empty:
                    body(window)
        except Exception as error:
            if not isinstance(error, BrokenOffError) and "lock" not in str(error).lower():
                raise  # of the two, the other is a lock that was not granted in time
            self.failures += 1
            return False
        attempt.succeed()
        return True

    # --- all of it --------------------------------------------------------------------------------------------

    def run(self) -> Play:
        """Write and load, then load until nothing is missing."""
        with self.place.opened(), ThreadPoolExecutor(3) as writers:
            self.place.execute(*self.setup)
            mark, body = self.make(self)
            world = World()
            writing = [writers.submit(self._write, number) for number in range(3)]
            end = time.monotonic() + self.seconds
            try:
                while time.monotonic() < end:
                    self.load(mark, body, world)
                    time.sleep(self._random.random() * 0.3)
            finally:
                self._stop.set()
            for one in writing:
                one.result()
            self.load_the_rest(mark, body, world, seconds=2 * DELAY.total_seconds() if self.loses else PATIENCE)
            self.lost, self.stale = self.missed()
            self.rows, self.gone = self.place.query_one("SELECT count(*) FROM orders"), self._gone()
        return self

    def _there(self) -> dict[int, int]:
        return {row["id"]: row["v"] for row in self.place.query("SELECT id, v FROM orders")}

    def missed(self) -> tuple[int, int]:
        """How many rows are not in the sink, and how many are there in an older version."""
        there = self._there()
        lost = sum(number not in self.sink for number in there)
        return lost, sum(self.sink.get(number, version) != version for number, version in there.items())

    def _gone(self) -> int:
        return len(self.sink.keys() - self._there().keys())

    def __str__(self) -> str:
        return (
            f"{self.place.name:10} {self.name:32} rows={self.rows:<4} lost={self.lost:<3} stale={self.stale:<3}"
            f" deleted={self.gone:<3} transactions={self.transactions:<4} runs={self.runs:<3}"
            f" failures={self.failures:<3} given up={self.given_up:<2} seed={self.seed}"
        )


def side_by_side(plays: Iterable[Play]) -> list[Play]:
    """Run the trials at the same time, and print their results."""
    plays = list(plays)
    with ThreadPoolExecutor(len(plays)) as pool:
        done = list(pool.map(Play.run, plays))
    for play in done:
        print(play)
    return done


def a_seed() -> int:
    """Given by AIRFLOW_RESUME_TEST_SEED, or any."""
    return int(os.environ.get("AIRFLOW_RESUME_TEST_SEED") or secrets.randbelow(10**6))
