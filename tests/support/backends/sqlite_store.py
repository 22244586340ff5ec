"""A small state store in an SQLite file, with every ability that the contract tests."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from airflow_resume.values import check

TABLE = "CREATE TABLE IF NOT EXISTS state (key TEXT PRIMARY KEY, value TEXT, expires REAL, version INTEGER)"
UPSERT = (
    "INSERT INTO state VALUES (:key, :value, :expires, 1) ON CONFLICT DO UPDATE"
    " SET value = :value, expires = :expires, version = version + 1 RETURNING version"
)


class SqliteStore:
    """Connects for each call, so that it may be used in any process and thread."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(self._path, timeout=30, isolation_level=None)) as connection:
            connection.execute("PRAGMA synchronous = OFF")  # a killed process loses nothing by it
            connection.execute("BEGIN IMMEDIATE")
            connection.execute(TABLE)
            yield connection
            connection.execute("COMMIT")

    def _ask(self, statement: str, **values: Any) -> list[tuple[Any, ...]]:
        with self._transaction() as connection:
            return connection.execute(statement, values).fetchall()

    def get(self, key: str, default: Any = None) -> Any:
        rows = self._ask("SELECT value FROM state WHERE key = :key", key=key)
        return json.loads(rows[0][0]) if rows else default

    def set(self, key: str, value: Any, *, retention: timedelta | None = None) -> None:
        check(value)
        expires = None if retention is None else time.time() + retention.total_seconds()
        self._ask(UPSERT, key=key, value=json.dumps(value), expires=expires)

    def delete(self, key: str) -> None:
        self._ask("DELETE FROM state WHERE key = :key", key=key)

    def cleanup(self) -> None:
        self._ask("DELETE FROM state WHERE expires < :now", now=time.time())

    def compare_and_set(self, key: str, expected_version: int, value: Any) -> int | None:
        with self._transaction() as connection:
            rows = connection.execute("SELECT version FROM state WHERE key = ?", [key]).fetchall()
            if (rows[0][0] if rows else 0) != expected_version:
                return None
            values = {"key": key, "value": json.dumps(value), "expires": None}
            return int(connection.execute(UPSERT, values).fetchone()[0])

    def scan(self, prefix: str) -> list[str]:
        return [key for (key,) in self._ask("SELECT key FROM state") if key.startswith(prefix)]
