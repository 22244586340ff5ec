"""Databases and servers that really are full, too small, read only, or out of connections."""

from __future__ import annotations

import os
import secrets
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import make_url

from tests.support.backends.databases import POSTGRESQL, ask, made, text_of
from tests.support.backends.servers import MariaDBServer, PostgreSQLServer, or_skip


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
    with or_skip(lambda: MariaDBServer(folder / "mariadb", *options)) as server:
        ask(server.url, "CREATE DATABASE state")
        yield server.url.removesuffix("mysql") + "state"


@contextmanager
def postgresql_with_manners(folder: Path) -> Iterator[PostgreSQLServer]:
    """A PostgreSQL server that refuses whom it does not know, speaks TLS only with some, and has a database `state`.

    The users are named for the way in which they are refused; their passwords are `s3cret`.
    """
    tls = ("ssl = on", "ssl_cert_file = 'server.crt'", "ssl_key_file = 'server.key'")
    with or_skip(lambda: PostgreSQLServer(folder / "postgresql")) as server:
        data = server.folder / "data"
        certificate = ["-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=elsewhere"]
        server.run(
            "openssl", "req", *certificate, "-keyout", str(data / "server.key"), "-out", str(data / "server.crt")
        )
        server.run("chmod", "600", "data/server.key")
        for statement in (
            "CREATE ROLE only_tls LOGIN PASSWORD 's3cret'",
            "CREATE ROLE with_password LOGIN PASSWORD 's3cret'",
            "CREATE ROLE with_certificate LOGIN",
            "CREATE ROLE rejected LOGIN",
            "CREATE ROLE late LOGIN PASSWORD 's3cret' VALID UNTIL '2001-01-01'",
            "CREATE ROLE no_login NOLOGIN",
            "CREATE ROLE not_let_in LOGIN",
            "CREATE DATABASE state",
            "CREATE DATABASE private",
            "REVOKE CONNECT ON DATABASE private FROM PUBLIC",
        ):
            ask(server.url, statement)
        server.end(server.in_order)
        with (data / "postgresql.conf").open("a") as configuration:
            configuration.write("".join(f"{line}\n" for line in tls))
        (data / "pg_hba.conf").write_text(
            "host    all postgres         127.0.0.1/32 trust\n"
            "hostssl all only_tls         127.0.0.1/32 scram-sha-256\n"
            "host    all with_password    127.0.0.1/32 scram-sha-256\n"
            "hostssl all with_certificate 127.0.0.1/32 cert\n"
            "host    all rejected         127.0.0.1/32 reject\n"
            "host    all late             127.0.0.1/32 scram-sha-256\n"
            "host    all no_login         127.0.0.1/32 trust\n"
            "host    all not_let_in       127.0.0.1/32 trust\n"
        )
        server.start()
        yield server
