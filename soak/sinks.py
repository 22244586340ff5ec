"""Appends all flights to every kind of sink, by attempts that are killed, frozen, doubled or cut off; counts the rows.

    make soak-sinks      SINKS="--kinds sqlite delta --flights 50000" makes it shorter; --seed 7 repeats its choices

An attempt runs for a second at most. Then its process gets SIGKILL; or it is frozen, wakes when its successor is at
work, and has to end; or another attempt begins beside it; or, on a server, all connections are ended, or the server is
killed or shut down and started again, or the reply of a commit is lost, or the commit. PostgreSQL and MariaDB are
servers of its own. The exit code is 1 if a flight is lost or there twice.
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from random import Random, SystemRandom
from typing import Any

import structlog
from rich.console import Console
from rich.table import Table
from sqlalchemy import create_engine, func, make_url, select
from sqlalchemy.pool import NullPool

from tests.support.backends.databases import kill_connections, text_of
from tests.support.backends.servers import MariaDBServer, PostgreSQLServer
from tests.support.sinks.cutting_proxy import CuttingProxy, cutting
from tests.support.sinks.flights import BROKEN, BUSY, ENDED, SUPERSEDED, Child, Flights
from tests.support.sinks.lake_flights import LakeFlights
from tests.support.sinks.lakes import LAKES
from tests.support.sinks.places import KINDS, ROWS, place_of

ALL_FLIGHTS, PAGE = 336_776, 1_000
SERVERS: dict[str, type[Any]] = {"postgresql": PostgreSQLServer, "mysql": MariaDBServer}
FORMER = {ENDED: "ended", SUPERSEDED: "superseded", BUSY: "busy", BROKEN: "driver's error", -signal.SIGKILL: "killed"}
"""What became of an attempt, by its exit code."""
PATIENCE = 60.0
"""Seconds in which an attempt that was woken has to end."""


@dataclass
class Books:
    """What became of the attempts on one sink, and of the flights."""

    kind: str
    events: Counter[str] = field(default_factory=Counter)
    attempts: int = 0
    rows: int = 0
    distinct: int = 0
    seconds: float = 0.0

    def lost(self, flights: int) -> int:
        return flights - self.distinct

    @property
    def twice(self) -> int:
        return self.rows - self.distinct


class Attempt:
    """A process that appends flights until it ends, or is ended."""

    def __init__(self, child: Any) -> None:
        self._child = child
        self.pid: int = child.pid if isinstance(child, Child) else child.process_id
        self.code: int | None = None

    def at_work(self) -> bool:
        """Wait until it has written its first rows; False if it has ended before."""
        return bool(self._child.wait_for(1))

    def has_ended(self) -> bool:
        if self.code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.code = os.waitstatus_to_exitcode(status) if pid else None
        return self.code is not None

    def end(self, *, by: signal.Signals | None = None) -> int:
        """Wait for its end. What has not ended in time is killed, and counts as killed."""
        deadline = time.monotonic() + PATIENCE
        if by is not None and not self.has_ended():
            os.kill(self.pid, by)
        while not self.has_ended():
            if time.monotonic() > deadline:
                os.kill(self.pid, signal.SIGKILL)
            time.sleep(0.01)
        assert self.code is not None
        return self.code


@dataclass
class Course:
    """Attempts on one sink, one after the other and sometimes two at once.

    Args:
        start: starts an attempt with a number.
        chance: decides what happens.
        books: what happened.
        kinds: what may happen.
        disconnect: ends all connections to the sink.
        restart: kills the server, or shuts it down, and starts it again.
        proxy: in front of the sink.
    """

    start: Callable[[int], Attempt]
    chance: Random
    books: Books
    kinds: list[str]
    disconnect: Callable[[], None] = lambda: None
    restart: Callable[[], None] = lambda: None
    proxy: CuttingProxy | None = None

    def run(self) -> None:
        """Until an attempt has come to the end."""
        while not self._is_done():
            pass

    def _next(self) -> Attempt:
        self.books.attempts += 1
        return self.start(self.books.attempts)

    def _noted(self, code: int, what: str = "") -> bool:
        """Note what became of an attempt. Returns whether it has come to the end."""
        self.books.events[f"{what}{FORMER.get(code, str(code))}"] += 1
        return code == ENDED

    def _is_done(self) -> bool:
        attempt = self._next()
        if not attempt.at_work():
            return self._noted(attempt.end())
        time.sleep(self.chance.uniform(0.1, 1.0))
        if attempt.has_ended():
            return self._noted(attempt.end())
        kind = self.chance.choice(self.kinds)
        return bool(getattr(self, f"_{kind}")(attempt))

    def _kill(self, attempt: Attempt) -> bool:
        return self._noted(attempt.end(by=signal.SIGKILL))

    def _freeze(self, attempt: Attempt) -> bool:
        os.kill(attempt.pid, signal.SIGSTOP)
        successor = self._next()
        if successor.at_work():
            time.sleep(self.chance.uniform(0.1, 0.5))
        ended = self._noted(attempt.end(by=signal.SIGCONT), "frozen, ")
        return self._kill(successor) or ended

    def _double(self, attempt: Attempt) -> bool:
        other = self._next()
        other.at_work()
        time.sleep(self.chance.uniform(0.1, 0.5))
        ended = [self._noted(each.end(by=signal.SIGKILL), "one of two, ") for each in (attempt, other)]
        return any(ended)

    def _cut(self, attempt: Attempt) -> bool:
        assert self.proxy is not None
        lost, self.proxy.lose = self.proxy.lost, self.chance.choice(["reply", "commit"])
        deadline = time.monotonic() + 2
        while self.proxy.lost == lost and not attempt.has_ended() and time.monotonic() < deadline:
            time.sleep(0.01)
        what, self.proxy.lose = f"lost {self.proxy.lose or 'commit or reply'}, ", None
        time.sleep(0.2)
        return self._noted(attempt.end(by=signal.SIGKILL), what)

    def _disconnected(self, attempt: Attempt) -> bool:
        self.disconnect()
        time.sleep(0.2)
        return self._noted(attempt.end(by=signal.SIGKILL), "connections ended, ")

    def _restarted(self, attempt: Attempt) -> bool:
        self.restart()
        time.sleep(0.2)
        return self._noted(attempt.end(by=signal.SIGKILL), "server restarted, ")


@contextmanager
def course_in_lake(kind: str, folder: Path, flights: int, chance: Random) -> Iterator[tuple[Course, Callable[[], Any]]]:
    """A course, and what asks for the number of rows and of distinct flights."""
    lake = LAKES[kind](folder)
    lake.make()

    def start(number: int) -> Attempt:
        task = LakeFlights(kind=kind, folder=str(folder), count=flights, number=number, page=PAGE)
        return Attempt(task.started())

    def found() -> tuple[int, int]:
        ids = lake.ids()
        return len(ids), len(set(ids))

    yield Course(start, chance, Books(kind), ["kill", "kill", "freeze", "double"]), found


@contextmanager
def course_in_file(kind: str, folder: Path, flights: int, chance: Random) -> Iterator[tuple[Course, Callable[[], Any]]]:
    """As `course_in_lake`."""
    # DuckDB lets one process in at a time, and of SQLite a frozen writer keeps the others out.
    kinds = ["kill"] if kind == "duckdb" else ["kill", "kill", "freeze", "double"]
    with place_of(kind, folder) as url:
        course = Course(lambda number: started(number, url, flights, folder), chance, Books(kind), kinds)
        yield course, lambda: counted(url)


@contextmanager
def course_on_server(
    kind: str, folder: Path, flights: int, chance: Random
) -> Iterator[tuple[Course, Callable[[], Any]]]:
    """As `course_in_lake`."""
    folder.chmod(0o711)  # the user of the server has a folder in it
    kinds = ["kill", "kill", "freeze", "double", "cut", "disconnected", "restarted"]
    with SERVERS[kind](folder / "server") as server:
        named = {"application_name": "soak"} if kind == "postgresql" else {}
        url = text_of(make_url(server.url).update_query_dict(named))
        ROWS.create(create_engine(url, poolclass=NullPool))
        with cutting(url) as (proxy, through):
            course = Course(
                lambda number: started(number, through, flights, folder),
                chance,
                Books(kind),
                kinds,
                disconnect=lambda: kill_connections(url),
                restart=lambda: server.restart(chance.choice([signal.SIGKILL, server.in_order])),
                proxy=proxy,
            )
            yield course, lambda: counted(url)


def started(number: int, url: str, flights: int, folder: Path) -> Attempt:
    """An attempt that appends to a table in a database."""
    task = Flights(url=url, count=flights, folder=folder, options={"patience": timedelta(seconds=1)}, page=PAGE)
    return Attempt(Child(lambda tell: task.attempt(number, tell)))


def counted(url: str) -> Any:
    """The number of rows and of distinct flights in a database."""
    engine = create_engine(url, poolclass=NullPool)
    with engine.connect() as connection:
        return tuple(connection.execute(select(func.count(), func.count(ROWS.c.id.distinct()))).one())


def main() -> int:
    """Play, and print the books."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--kinds", nargs="+", choices=[*KINDS, *LAKES], default=[*KINDS, "delta", "iceberg"])
    parser.add_argument("--flights", type=int, default=ALL_FLIGHTS)
    parser.add_argument("--seed", type=int, default=SystemRandom().randrange(1_000_000))
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    console = Console(highlight=False, soft_wrap=True)
    console.print(f"seed {options.seed}")
    all_books = []
    for kind in options.kinds:
        with tempfile.TemporaryDirectory(prefix="airflow-resume-soak-") as folder:
            began = time.monotonic()
            course_on = course_in_lake if kind in LAKES else course_on_server if kind in SERVERS else course_in_file
            with course_on(kind, Path(folder), options.flights, Random(options.seed)) as (course, found):  # noqa: S311
                course.run()
                course.books.rows, course.books.distinct = found()
            course.books.seconds = time.monotonic() - began
        all_books.append(course.books)
        console.print(f"{kind}: {dict(course.books.events)}")
    table = Table("sink", "attempts", "killed", "frozen, doubled, cut off", "rows", "lost", "twice", "seconds")
    for books in all_books:
        killed = books.events["killed"]
        others = books.attempts - killed - books.events["ended"]
        cells = (books.kind, books.attempts, killed, others, books.rows, books.lost(options.flights), books.twice)
        table.add_row(*map(str, cells), f"{books.seconds:.0f}")
    console.print(table)
    return int(any(books.lost(options.flights) or books.twice for books in all_books))


if __name__ == "__main__":
    sys.exit(main())
