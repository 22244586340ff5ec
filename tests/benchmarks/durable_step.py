"""A step that is kept before the next one begins: at most the one in hand is done again after a crash.

Both sides keep it in the same server, or each in a SQLite file of its own in one folder. SQLite waits for the disk at
every commit on both sides (synchronous=FULL); ours has the journal in WAL mode, and DBOS leaves it as it is.
"""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path

import pytest
from environments import DBOS, worker
from harness import NotMeasuredError, Result, Scale, Target, Work, compare, exhaust, ratio_at_most
from sql_places import POSTGRESQL, made, text_of

from airflow_resume import checkpoint
from airflow_resume.backends import SqlStateStore, SqlStoreBackend
from airflow_resume.loops.plan import Durability

BOUNDS: dict[Durability, str] = {"sync": "kept one by one", "async": "kept once a second"}
TEN_TIMES = (ratio_at_most(1 / 10),)


def measure(scale: Scale) -> Iterator[Result]:
    steps = scale.size(200, quick=20)
    with tempfile.TemporaryDirectory() as folder:
        urls = (f"sqlite:///{Path(folder, name)}.db" for name in ("ours", "theirs"))
        yield from beside("SQLite", *urls, steps=steps, scale=scale, targets=())
    with database_on_postgresql() as (ours, theirs):
        yield from beside("PostgreSQL", ours, theirs, steps=steps, scale=scale, targets=TEN_TIMES)


def beside(
    place: str, ours: str, theirs: str, *, steps: int, scale: Scale, targets: tuple[Target, ...]
) -> Iterator[Result]:
    with closing(SqlStoreBackend(ours)) as backend, worker(DBOS, "dbos_worker.py", scale, theirs) as dbos:
        for durability, bound in BOUNDS.items():
            rival = "DBOS step"
            subjects: dict[str, Work] = {"checkpoint": looping(backend, steps, durability)}
            if dbos is not None:
                subjects[rival] = dbos.work("steps", count=steps)
            yield from compare(
                f"a durable step on {place}, {bound}",
                subjects,
                per=steps,
                unit="us",
                rounds=scale.rounds(7),
                targets={rival: targets} if durability == "sync" else {},
            )


def looping(backend: SqlStoreBackend, steps: int, durability: Durability) -> Callable[[], None]:
    """A loop of a new name every time."""
    names = count()

    def loop() -> None:
        store = SqlStateStore(backend, f"{durability} {next(names)}")
        exhaust(checkpoint(range(steps), name="steps", durability=durability, store=store))

    return loop


@contextmanager
def database_on_postgresql() -> Iterator[tuple[str, str]]:
    """The URL of a new database, for us and for others."""
    name = f"airflow_resume_bench_{secrets.token_hex(6)}"
    try:
        server = POSTGRESQL.found()
    except pytest.skip.Exception as error:
        raise NotMeasuredError(str(error)) from error
    with made(server, f"CREATE DATABASE {name}", f"DROP DATABASE {name} WITH (FORCE)"):
        url = server.set(database=name)
        yield text_of(url), text_of(url.set(drivername="postgresql"))
