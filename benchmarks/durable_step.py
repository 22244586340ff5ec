"""A step that is stored before the next one begins: after a crash at most one step is repeated.

All keep it in the same server, or each in a SQLite file of its own in one folder. SQLite waits for the disk at every
commit, whoever writes (synchronous=FULL); ours and the bare driver have the journal in WAL mode, and DBOS leaves it as
it is. The bare driver is the limit: it overwrites one row, in one statement that commits itself.
"""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
from sqlalchemy import make_url

from airflow_resume import checkpoint
from airflow_resume.backends import SqlStateStore, SqlStoreBackend
from airflow_resume.loops.plan import Durability
from benchmarks.databases import found
from benchmarks.environments import DBOS, worker
from benchmarks.harness import Result, Scale, Target, Work, compare, exhaust, ratio_at_most
from tests.support.backends.databases import database_on_postgresql, text_of

STEP, BARE = "DBOS step", "the bare driver"
TEN_TIMES = (ratio_at_most(1 / 10),)
RECORD_BYTES = 330
"""As long as that of a loop."""


def measure(scale: Scale) -> Iterator[Result]:
    with tempfile.TemporaryDirectory() as folder:
        ours, theirs, bare = (Path(folder, f"{name}.db") for name in ("ours", "theirs", "bare"))
        with closing(sqlite3.connect(bare, isolation_level=None)) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            driver = upserts(connection, "?")
            yield from beside("SQLite", f"sqlite:///{ours}", f"sqlite:///{theirs}", driver, scale=scale, targets=())
    with found(database_on_postgresql) as url:
        plain = text_of(make_url(url).set(drivername="postgresql"))  # as others read it
        with closing(psycopg.connect(plain, autocommit=True)) as server:
            yield from beside("PostgreSQL", url, plain, upserts(server, "%s"), scale=scale, targets=TEN_TIMES)


def beside(
    place: str, ours: str, theirs: str, driver: Callable[[int], None], *, scale: Scale, targets: tuple[Target, ...]
) -> Iterator[Result]:
    steps, rounds = scale.size(100, quick=10), scale.rounds(7)
    with closing(SqlStoreBackend(ours)) as backend, worker(DBOS, "dbos_worker.py", scale, theirs) as dbos:
        dbos_steps: dict[str, Work] = {} if dbos is None else {STEP: dbos.work("steps", count=steps)}
        yield from compare(
            f"a durable step on {place}",
            {"checkpoint": looping(backend, steps, "sync"), **dbos_steps, BARE: lambda: driver(steps)},
            per=steps,
            unit="us",
            rounds=rounds,
            targets={STEP: targets},
            headline=True,
        )
        yield from compare(
            f"a step on {place} that is kept within a second",
            {"checkpoint": looping(backend, steps, "async"), **dbos_steps},
            per=steps,
            unit="us",
            rounds=rounds,
        )


def upserts(connection: Any, place: str) -> Callable[[int], None]:
    """A function that writes one row so often."""
    connection.execute("CREATE TABLE bare (name VARCHAR(20) PRIMARY KEY, value TEXT)")
    statement = f"INSERT INTO bare VALUES ('loop', {place}) ON CONFLICT (name) DO UPDATE SET value = excluded.value"  # noqa: S608

    def write(times: int) -> None:
        for number in range(times):  # SQLite does not write what is there already
            connection.execute(statement, (f"{number:{RECORD_BYTES}}",))

    return write


def looping(backend: SqlStoreBackend, steps: int, durability: Durability) -> Callable[[], None]:
    """A loop of a new name every time."""
    names = count()

    def loop() -> None:
        store = SqlStateStore(backend, f"{durability} {next(names)}")
        exhaust(checkpoint(range(steps), name="steps", durability=durability, store=store))

    return loop
