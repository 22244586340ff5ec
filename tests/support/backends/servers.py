"""Database servers that are started for a test, killed and started again."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import pytest
from sqlalchemy.exc import DBAPIError

from tests.support.backends.databases import ask

HOST = "127.0.0.1"
PGBOUNCER = "AIRFLOW_RESUME_TEST_PGBOUNCER"
"""Environment variables that name another program than the one on the path."""
STARTED_SECONDS = 60.0
ENDED_SECONDS = 10.0
if TYPE_CHECKING:
    from typing_extensions import Self

S = TypeVar("S", bound="Server")
_SBIN = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/usr/local/sbin"


class NotInstalledError(Exception):
    """A program is missing; the message says which."""


def or_skip(make: Callable[[], S]) -> S:
    """A server, for a test that is skipped where its program is missing."""
    try:
        return make()
    except NotInstalledError as error:
        pytest.skip(str(error))


# --- servers --------------------------------------------------------------------------------------------------


def program(name: str, package: str, *folders: Path) -> str:
    """Where it is.

    Raises:
        NotInstalledError: nowhere.
    """
    found = shutil.which(name, path=":".join([*map(str, folders), _SBIN]))
    if found is None:
        raise NotInstalledError(f"{name} is not installed: see the package {package}")
    return found


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


def ordinary_user() -> dict[str, Any]:
    """Options of `Popen` that change the user, as the servers refuse to run as root."""
    if os.geteuid() != 0:
        return {}
    user = next(entry for name in ("postgres", "nobody") for entry in pwd.getpwall() if entry.pw_name == name)
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


class Server(ABC):
    """A server that runs as a child process.

    Args:
        folder: for its data, used by nothing else.
    """

    may_be_root: ClassVar[bool] = False

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder, self.port = folder, free_port()
        self._process: subprocess.Popen[Any] | None = None
        self.user = {} if self.may_be_root else ordinary_user()
        if user := self.user:
            os.chown(folder, user["user"], user["group"])
        self.make()

    @property
    @abstractmethod
    def command(self) -> Sequence[str]:
        """The command that runs it in the foreground."""

    def make(self) -> None:  # noqa: B027  most need nothing
        """Make its data directory."""

    @abstractmethod
    def answer(self) -> None:
        """Raise the error of a client if it does not answer."""

    def start(self) -> None:
        """Start it, and once more if it ends at once: a killed server may leave something for a moment."""
        ends = time.monotonic() + STARTED_SECONDS
        while True:
            if self._process is None or self._process.poll() is not None:
                with (self.folder / "log").open("ab") as log:
                    self._process = subprocess.Popen(
                        self.command, stdout=log, stderr=log, start_new_session=True, cwd=self.folder, **self.user
                    )
            try:
                self.answer()
            except (DBAPIError, OSError) as error:
                if time.monotonic() > ends:
                    written = (self.folder / "log").read_text(errors="replace")[-2_000:]
                    raise RuntimeError(f"{self.command[0]} does not start:\n{written}") from error
                time.sleep(0.05)
            else:
                return

    def tell(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)

    def end(self, number: signal.Signals = signal.SIGKILL) -> None:
        """End it with a signal, and with SIGKILL if that is not enough."""
        self.tell(number)
        if self._process is None:
            return
        try:
            self._process.wait(ENDED_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def restart(self, number: signal.Signals) -> None:
        self.end(number)
        self.start()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    def run(self, *command: str) -> None:
        """A program that makes its data."""
        subprocess.run(command, check=True, capture_output=True, cwd=self.folder, **self.user)


class PostgreSQLServer(Server):
    """PostgreSQL without extensions.

    Args:
        settings: lines of `postgresql.conf`.
    """

    at_once, in_order = signal.SIGQUIT, signal.SIGINT

    def __init__(self, folder: Path, *settings: str) -> None:
        self._settings = settings
        super().__init__(folder)

    def make(self) -> None:
        folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
        self._program = program("postgres", "postgresql", *folders)
        initdb = program("initdb", "postgresql", *folders)
        self.run(initdb, "-D", "data", "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync")
        with (self.folder / "data" / "postgresql.conf").open("a") as configuration:
            configuration.write("".join(f"{line}\n" for line in self._settings))

    @property
    def command(self) -> Sequence[str]:
        own = ["-c", f"listen_addresses={HOST}", "-c", "shared_buffers=32MB", "-c", "max_connections=60"]
        # In its folder, as a server that is killed leaves it behind.
        own += ["-c", "dynamic_shared_memory_type=mmap"]
        return [self._program, "-D", "data", "-p", str(self.port), "-k", "", *own]

    @property
    def url(self) -> str:
        return f"postgresql+psycopg://postgres@{HOST}:{self.port}/postgres"

    def answer(self) -> None:
        ask(self.url, "SELECT 1")


class MariaDBServer(Server):
    """MariaDB without plugins.

    Args:
        options: of its command.
    """

    may_be_root = True
    in_order = signal.SIGTERM

    def __init__(self, folder: Path, *options: str) -> None:
        self._options = options
        super().__init__(folder)

    def make(self) -> None:
        self._program = program("mariadbd", "mariadb-server")
        install = program("mariadb-install-db", "mariadb-server")
        # Two that are made at once in the usual folder for temporary files delete each other's.
        self._own = ["--no-defaults", f"--datadir={self.folder / 'data'}", f"--tmpdir={self.folder}"]
        self._own += [] if os.geteuid() else ["--user=root"]
        self.run(install, *self._own, "--auth-root-authentication-method=normal", "--skip-test-db")

    @property
    def command(self) -> Sequence[str]:
        place = [f"--port={self.port}", f"--bind-address={HOST}", f"--socket={self.folder / 'socket'}"]
        small = ["--innodb-buffer-pool-size=16M", "--innodb-log-file-size=32M", "--skip-log-bin"]
        return [self._program, *self._own, *place, *small, *self._options]

    @property
    def url(self) -> str:
        return f"mysql+pymysql://root@{HOST}:{self.port}/mysql"

    def answer(self) -> None:
        ask(self.url, "SELECT 1")


class PgBouncerServer(Server):
    """PgBouncer, with fewer connections to the server than there are clients.

    Args:
        server_port: of PostgreSQL.
        user: as whom it connects to PostgreSQL, for every client.
        mode: its `pool_mode`.
        size: how many connections it has to PostgreSQL.
    """

    def __init__(
        self, folder: Path, server_port: int, *, user: str = "postgres", mode: str = "transaction", size: int = 4
    ) -> None:
        self._databases = f"* = host={HOST} port={server_port} user={user}"
        self._pool = f"pool_mode = {mode}\ndefault_pool_size = {size}"
        super().__init__(folder)

    def make(self) -> None:
        self._program = os.environ.get(PGBOUNCER) or program("pgbouncer", "pgbouncer")
        (self.folder / "pgbouncer.ini").write_text(
            f"[databases]\n{self._databases}\n"
            f"[pgbouncer]\nlisten_addr = {HOST}\nlisten_port = {self.port}\nunix_socket_dir =\nauth_type = any\n"
            f"{self._pool}\nserver_login_retry = 1\nignore_startup_parameters = extra_float_digits\n"
        )

    @property
    def command(self) -> Sequence[str]:
        return [self._program, "-q", "pgbouncer.ini"]

    def answer(self) -> None:
        socket.create_connection((HOST, self.port), timeout=5).close()
