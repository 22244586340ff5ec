"""Databases and servers in a bad way, really: full, too small, read only, out of connections."""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sql_places import POSTGRESQL, ask, made, text_of
from sqlalchemy import make_url
from sqlalchemy.exc import OperationalError

STARTED_SECONDS = 30.0


@contextmanager
def mounted(folder: Path, options: str) -> Iterator[Path]:
    """A file system in memory with these options; only root may mount one."""
    folder.mkdir()
    command = ["/bin/mount", "-t", "tmpfs", "-o", options, "airflow_resume_test", str(folder)]
    if os.geteuid() != 0 or subprocess.run(command, check=False, capture_output=True).returncode != 0:
        pytest.skip("only root may mount a file system, and not everywhere: run this as root on a machine of its own")
    try:
        yield folder
    finally:
        subprocess.run(["/bin/umount", "--lazy", str(folder)], check=True)


def remount(folder: Path, options: str) -> None:
    subprocess.run(["/bin/mount", "-o", f"remount,{options}", str(folder)], check=True)


@contextmanager
def user_of_postgresql(url: str) -> Iterator[tuple[str, str]]:
    """The name of a user who may do everything in the schema of the URL, and the URL for it."""
    server, name = POSTGRESQL.found(), f"airflow_resume_test_{secrets.token_hex(6)}"
    place = make_url(url)
    schema = place.query["application_name"]
    with made(server, f"CREATE ROLE {name} LOGIN PASSWORD 'secret'", f"DROP OWNED BY {name}; DROP ROLE {name}"):
        ask(server, f"GRANT ALL ON SCHEMA {schema} TO {name}")
        for things in ("TABLES", "SEQUENCES"):
            ask(server, f"GRANT ALL ON ALL {things} IN SCHEMA {schema} TO {name}")
        yield name, text_of(place.set(username=name, password="secret"))  # noqa: S106  of a user that goes again


@contextmanager
def mariadb_of_our_own(folder: Path, *options: str) -> Iterator[str]:
    """A MariaDB server with these options and an empty database; its URL."""
    server, install = shutil.which("mariadbd", path=_SBIN), shutil.which("mariadb-install-db", path=_SBIN)
    if server is None or install is None:
        pytest.skip("there is no MariaDB to start: install the package mariadb-server")
    user = [] if os.geteuid() else ["--user=root"]
    data = f"--datadir={folder / 'data'}"
    make = [install, "--no-defaults", data, "--auth-root-authentication-method=normal", "--skip-test-db", *user]
    subprocess.run(make, check=True, capture_output=True)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    own = [data, f"--port={port}", "--bind-address=127.0.0.1", f"--socket={folder / 'socket'}"]
    small = ["--innodb-buffer-pool-size=8M", "--innodb-log-file-size=16M", "--skip-log-bin"]
    command = [server, "--no-defaults", *own, *user, *small, *options]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            root = f"mysql+pymysql://root@127.0.0.1:{port}/mysql"
            _wait_for(root, process)
            ask(root, "CREATE DATABASE state")
            yield root.removesuffix("mysql") + "state"
        finally:
            process.kill()


_SBIN = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/usr/local/sbin"


def _wait_for(url: str, process: subprocess.Popen[bytes]) -> None:
    ends = time.monotonic() + STARTED_SECONDS
    while True:
        try:
            ask(url, "SELECT 1")
        except OperationalError:
            if process.poll() is not None or time.monotonic() > ends:
                raise
            time.sleep(0.05)
        else:
            return
