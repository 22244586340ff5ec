"""Databases for the load test with their faults: a file on a small disk, and servers behind proxies."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from multiprocessing import get_context
from pathlib import Path
from random import Random
from typing import Any, ClassVar

from sqlalchemy import create_engine, make_url
from sqlalchemy.exc import OperationalError

from chaos.stalling_proxy import StallingProxy
from tests.support.backends.databases import ask
from tests.support.backends.servers import HOST, MariaDBServer, PgBouncerServer, PostgreSQLServer, Server, program

TABLE = "airflow_resume_state"
"""The table with the values."""
HELD = "connections held, not new ones"
_FORK = get_context("fork")

Disturbances = Mapping[str, tuple[int, Callable[[], None]]]
"""By name, how often each comes, and what does it."""


class MissedError(Exception):
    """The fault found nothing to disturb."""


class Place(ABC):
    """A database, and the faults that can happen to it while it is used.

    Args:
        folder: of its own.
        random: decides how long things last.
        patience: seconds for which its callers ask again; what lasts longer makes them give up.
    """

    name: ClassVar[str]
    url: str
    """For those who are disturbed."""
    direct_url: str
    """For those who are not."""
    without: str = ""
    """What cannot be done to it here, and why."""

    def __init__(self, folder: Path, random: Random, patience: float) -> None:
        self._folder, self._random, self._patience = folder, random, patience
        self._later: list[tuple[float, Callable[[], None]]] = []

    @abstractmethod
    def start(self) -> None:
        """Make and start everything that it needs.

        Raises:
            NotInstalledError: something is missing.
        """

    @abstractmethod
    def stop(self) -> None:
        """End and remove everything, however much was started."""

    @abstractmethod
    def disturbances(self) -> Disturbances:
        """The faults that are possible here."""

    def undo(self, *, now: float = float("inf")) -> None:
        """Take back what has lasted long enough until now, by default all."""
        due = [act for moment, act in self._later if moment <= now]
        self._later = [(moment, act) for moment, act in self._later if moment > now]
        for act in due:
            act()

    def _seconds(self) -> float:
        """Half of what lasts for some time outlasts the callers' patience."""
        return self._random.choice([0.5, 0.9, 1.2, 1.5]) * self._patience

    def _undo_after(self, seconds: float, act: Callable[[], None]) -> None:
        self._later.append((time.monotonic() + seconds, act))

    def _lock(self, *statements: str) -> None:
        """Have somebody else hold a lock. Not this process: what it has open, those that it forks have too."""
        process = _FORK.Process(target=_hold, args=(self.direct_url, statements, self._seconds()), daemon=True)
        process.start()


def _hold(url: str, statements: Sequence[str], seconds: float) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if make_url(url).get_backend_name() == "sqlite":
        connection = sqlite3.connect(str(make_url(url).database), timeout=seconds, isolation_level=None)
        with suppress(sqlite3.OperationalError):  # all that time others had it
            connection.execute("BEGIN IMMEDIATE")
            time.sleep(seconds)
        connection.close()
        return
    held = create_engine(url, isolation_level="AUTOCOMMIT").connect
    with suppress(OperationalError), held() as connected:  # the server may be killed before
        for statement in statements:
            connected.exec_driver_sql(statement)
        time.sleep(seconds)


class SqliteFile(Place):
    """A file on a small disk of its own, if we may mount one.

    Only here the disk is filled. A server whose log has no room ends or waits, and is one that is away, which is tried
    anyway, and may not start again before there is room. Where only a table has none, it says so by a code, which is
    tried by itself. A file has no server that could be restarted, so this is its trouble.
    """

    name = "sqlite"
    _disk_size = "48m"

    def start(self) -> None:
        self._disk = self._folder / "disk"
        self._disk.mkdir(parents=True)
        mount = ["/bin/mount", "-t", "tmpfs", "-o", f"size={self._disk_size}", "airflow_resume_chaos", str(self._disk)]
        self._mounted = os.geteuid() == 0 and subprocess.run(mount, check=False, capture_output=True).returncode == 0
        self.without = "" if self._mounted else "no full disk: only root may mount a small one, and not everywhere"
        self.url = self.direct_url = f"sqlite:///{self._disk}/state.db"

    def stop(self) -> None:
        if self._mounted:
            subprocess.run(["/bin/umount", "--lazy", str(self._disk)], check=False)

    def disturbances(self) -> Disturbances:
        kinds: dict[str, tuple[int, Callable[[], None]]] = {"write lock held": (2, self._lock)}
        return {**kinds, "disk full": (3, self._fill)} if self._mounted else kinds

    def _fill(self) -> None:
        ballast = self._disk / "ballast"
        if ballast.exists():
            raise MissedError
        with suppress(OSError), ballast.open("wb", buffering=0) as file:
            while True:
                file.write(b"\0" * 64 * 1024)
        self._undo_after(self._random.uniform(0.2, 2), lambda: ballast.unlink(missing_ok=True))


class BehindProxy(Place):
    """A server, with a proxy before it."""

    server: Any
    _proxy: StallingProxy | None = None
    _servers: Sequence[Server] = ()

    def start(self) -> None:
        self._folder.mkdir()
        self._folder.chmod(0o711)
        self.start_servers()

    @abstractmethod
    def start_servers(self) -> None: ...

    def stop(self) -> None:
        if self._proxy is not None:
            self._proxy.close()
        for server in self._servers:
            server.end(getattr(server, "at_once", signal.SIGKILL))

    def _added(self, server: Any) -> Any:
        """The server, started, and ended when all ends."""
        self._servers = [server, *self._servers]
        server.start()
        return server

    def disturbances(self) -> Disturbances:
        return {
            "connections ended by the server": (4, self._end_connections),
            "statements cancelled": (3, self._cancel),
            "replies cut off": (3, lambda: self._front().cut(self._random.randint(1, 4))),
            "network stalled": (2, lambda: self._front().stall(self._seconds())),
            HELD: (3, lambda: self._front().hold(self._seconds())),
            "server restarted": (1, lambda: self.server.restart(self.server.in_order)),
            "server killed": (1, lambda: self.server.restart(signal.SIGKILL)),
            "table locked": (1, self._lock_table),
        }

    def _front(self) -> StallingProxy:
        assert self._proxy is not None
        return self._proxy

    @abstractmethod
    def _end_connections(self) -> None: ...

    @abstractmethod
    def _cancel(self) -> None: ...

    @abstractmethod
    def _lock_table(self) -> None: ...


class PostgreSQL(BehindProxy):
    """A PostgreSQL server."""

    name = "postgresql"

    def start_servers(self) -> None:
        self.server = self._added(PostgreSQLServer(self._folder / "postgresql"))
        ask(self.server.url, "CREATE DATABASE state")
        self.direct_url = self.server.url.removesuffix("postgres") + "state"
        self._proxy = StallingProxy(self.server.port)
        self.url = f"postgresql://postgres@{HOST}:{self._proxy.port}/state"

    def _end_connections(self) -> None:
        self._to_some("pg_terminate_backend", "true")

    def _cancel(self) -> None:
        self._to_some("pg_cancel_backend", "state = 'active'")

    def _to_some(self, function: str, which: str) -> None:
        others = f"datname = 'state' AND {which} ORDER BY random() LIMIT {self._random.randint(1, 4)}"
        some = f"SELECT pid FROM pg_stat_activity WHERE {others}"  # noqa: S608
        rows: Any = ask(self.server.url, f"SELECT count({function}(pid)) FROM ({some}) AS picked")  # noqa: S608
        if rows == [(0,)]:
            raise MissedError

    def _lock_table(self) -> None:
        self._lock("BEGIN", f"LOCK TABLE {TABLE} IN ACCESS EXCLUSIVE MODE")


class PgBouncer(PostgreSQL):
    """A PostgreSQL server behind PgBouncer, with a proxy before each of the two."""

    name = "pgbouncer"
    _behind: StallingProxy | None = None

    def start_servers(self) -> None:
        program("pgbouncer", "pgbouncer")
        super().start_servers()
        self._behind, self._proxy = self._proxy, None
        assert self._behind is not None
        self._pooler = self._added(PgBouncerServer(self._folder / "pgbouncer", self._behind.port))
        self._proxy = StallingProxy(self._pooler.port)
        self.url = f"postgresql://postgres@{HOST}:{self._proxy.port}/state"

    def stop(self) -> None:
        super().stop()
        if self._behind is not None:
            self._behind.close()

    def disturbances(self) -> Disturbances:
        assert self._behind is not None
        behind = self._behind
        # A pooler hides the server's session, so a statement that is held there can be applied after a later one.
        known = {name: kind for name, kind in super().disturbances().items() if name != HELD}
        return {
            **known,
            "pooler killed": (1, lambda: self._pooler.restart(signal.SIGKILL)),
            "pooler paused": (1, self._pause),
            "pooler's network stalled": (1, lambda: behind.stall(self._seconds())),
            "pooler's replies cut off": (2, lambda: behind.cut(self._random.randint(1, 3))),
        }

    def _pause(self) -> None:
        """As its commands PAUSE and RESUME do."""
        self._pooler.tell(signal.SIGUSR1)
        self._undo_after(self._seconds(), lambda: self._pooler.tell(signal.SIGUSR2))


class MariaDB(BehindProxy):
    """A MariaDB server."""

    name = "mariadb"

    def start_servers(self) -> None:
        self.server = self._added(MariaDBServer(self._folder / "mariadb"))
        ask(self.server.url, "CREATE DATABASE state")
        self.direct_url = self.server.url.removesuffix("mysql") + "state"
        self._proxy = StallingProxy(self.server.port)
        self.url = f"mysql://root@{HOST}:{self._proxy.port}/state"

    def _end_connections(self) -> None:
        self._to_some("KILL CONNECTION", "true")

    def _cancel(self) -> None:
        self._to_some("KILL QUERY", "command = 'Query'")

    def _to_some(self, statement: str, which: str) -> None:
        others = f"db = 'state' AND {which} ORDER BY rand() LIMIT {self._random.randint(1, 4)}"
        rows: Any = ask(self.server.url, f"SELECT id FROM information_schema.processlist WHERE {others}")  # noqa: S608
        if not rows:
            raise MissedError
        for (number,) in rows:
            with suppress(OperationalError):  # it has ended by itself
                ask(self.server.url, f"{statement} {number}")

    def _lock_table(self) -> None:
        self._lock(f"LOCK TABLES {TABLE} WRITE")


PLACES: Mapping[str, type[Place]] = {place.name: place for place in (SqliteFile, PostgreSQL, PgBouncer, MariaDB)}
