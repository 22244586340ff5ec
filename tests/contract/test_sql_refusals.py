"""Servers that refuse a connection, really: each refusal is named at once, and tells no secret."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from airflow_resume.backends import SqlStateStore, SqlStoreBackend
from airflow_resume.errors import StoreRefusedError
from tests.support.backends.databases import ask
from tests.support.backends.refusing_servers import mariadb_of_our_own, postgresql_with_manners
from tests.support.backends.servers import PgBouncerServer, PostgreSQLServer, or_skip

PATIENCE = 60.0
"""A refusal that were waited for would take so long."""

REFUSED = [
    ("only_tls:s3cret", "state?sslmode=disable", "no pg_hba.conf entry .*no encryption"),
    ("only_tls:s3cret", "state?sslmode=verify-full&sslrootcert=system", "certificate verify failed|sslrootcert"),
    ("only_tls:s3cret", "state?sslmode=verify-full&sslrootcert={certificate}", "does not match host name"),
    (
        "only_tls:s3cret",
        "state?sslmode=verify-ca&sslrootcert=/nowhere/root.crt",
        "root certificate file .* does not exist",
    ),
    ("with_password:m1staken", "state", "password authentication failed"),
    ("with_password", "state", "no password supplied"),
    ("with_certificate", "state", "certificate"),
    ("rejected", "state", "pg_hba.conf rejects connection"),
    ("late:s3cret", "state", "password authentication failed"),
    ("no_login", "state", "not permitted to log in"),
    ("nobody", "state", "no pg_hba.conf entry"),
    ("not_let_in", "private", "permission denied for database"),
    ("not_let_in", "nowhere", "does not exist"),
]
drivers = pytest.mark.parametrize("driver", ["psycopg", "psycopg2"])


@pytest.fixture(scope="module")
def postgresql() -> Iterator[PostgreSQLServer]:
    with TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        with postgresql_with_manners(folder) as server:
            yield server


def refused_at_once(url: str, words: str) -> None:
    started = time.monotonic()
    with (
        closing(SqlStoreBackend(url, patience=PATIENCE)) as backend,
        pytest.raises(StoreRefusedError, match=words) as caught,
    ):
        SqlStateStore(backend, "scope").get("key")
    assert time.monotonic() - started < PATIENCE / 2, "it was waited for"
    assert "s3cret" not in str(caught.value)
    assert "m1staken" not in str(caught.value)


@drivers
@pytest.mark.parametrize(("user", "place", "words"), REFUSED)
def test_a_refusal_of_postgresql_is_named_at_once(
    postgresql: PostgreSQLServer, driver: str, user: str, place: str, words: str
) -> None:
    place = place.format(certificate=postgresql.folder / "data" / "server.crt")
    refused_at_once(f"postgresql+{driver}://{user}@127.0.0.1:{postgresql.port}/{place}", words)


@drivers
@pytest.mark.parametrize(
    ("user", "place"),
    [
        ("only_tls:s3cret", "state"),
        ("only_tls:s3cret", "state?sslmode=require"),
        ("only_tls:s3cret", "state?sslmode=verify-ca&sslrootcert={certificate}"),
        ("with_password:s3cret", "state?sslmode=disable"),
    ],
)
def test_who_is_let_in_by_the_same_server_keeps_values(
    postgresql: PostgreSQLServer, driver: str, user: str, place: str
) -> None:
    name = user.partition(":")[0]
    ask(postgresql.url.removesuffix("postgres") + "state", f"CREATE SCHEMA IF NOT EXISTS {name} AUTHORIZATION {name}")
    place = place.format(certificate=postgresql.folder / "data" / "server.crt")
    with closing(SqlStoreBackend(f"postgresql+{driver}://{user}@127.0.0.1:{postgresql.port}/{place}")) as backend:
        store = SqlStateStore(backend, "scope")
        store.set("key", {"driver": driver})
        assert store.get("key") == {"driver": driver}


@pytest.mark.parametrize(
    ("mode", "database", "words"),
    [
        ("transaction", "nowhere", "does not exist|no such database"),
        ("statement", "state", "not allowed in statement pooling mode"),
    ],
)
def test_a_refusal_of_a_pooler_is_named_at_once(
    postgresql: PostgreSQLServer, mode: str, database: str, words: str
) -> None:
    with TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        with or_skip(lambda: PgBouncerServer(Path(name) / "pooler", postgresql.port, mode=mode)) as pooler:
            refused_at_once(f"postgresql://postgres@127.0.0.1:{pooler.port}/{database}", words)


@pytest.mark.parametrize(
    ("user", "words"),
    [
        ("with_password:m1staken", "Access denied"),
        ("with_password", "Access denied"),
        ("only_tls:s3cret", "Access denied|secure|SSL"),
        ("nobody:m1staken", "Access denied"),
        ("elsewhere:s3cret", "Access denied"),
        ("locked:s3cret", "Access denied|locked"),
        ("not_let_in:s3cret", "Access denied"),
    ],
)
def test_a_refusal_of_mariadb_is_named_at_once(mariadb: str, user: str, words: str) -> None:
    refused_at_once(mariadb.replace("root@", f"{user}@"), words)


@pytest.fixture(scope="module")
def mariadb() -> Iterator[str]:
    with TemporaryDirectory() as name, mariadb_of_our_own(Path(name)) as url:
        for statement in (
            "CREATE USER with_password IDENTIFIED BY 's3cret'",
            "CREATE USER only_tls IDENTIFIED BY 's3cret' REQUIRE X509",
            "CREATE USER elsewhere@'192.0.2.1' IDENTIFIED BY 's3cret'",
            "CREATE USER locked IDENTIFIED BY 's3cret' ACCOUNT LOCK",
            "CREATE USER not_let_in IDENTIFIED BY 's3cret'",
            "GRANT ALL ON state.* TO with_password, only_tls, locked",
        ):
            ask(url, statement)
        yield url
