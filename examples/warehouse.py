"""A warehouse in one SQLite file, which records what was loaded, how often, and by which batch.

A load is one transaction. With a batch id it first deletes what that batch loaded before, so loading a batch
again replaces it; without one it appends, and loading again duplicates. The difference between the two is
what the demo shows.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_SCHEMA = """
CREATE TABLE IF NOT EXISTS loaded
    (target TEXT NOT NULL, batch TEXT, id INTEGER NOT NULL, time_hour TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS loaded_by_batch ON loaded (target, batch);
"""


@dataclass(frozen=True, kw_only=True)
class Audit:
    """A table of the warehouse compared with its source."""

    rows_loaded: int
    rows_duplicated: int
    rows_lost: int


class Warehouse:
    """Named tables of rows, which have the ids of the source."""

    def __init__(self, database: Path) -> None:
        self._lock = threading.Lock()
        # Its own transactions, and one connection for all threads, one at a time.
        self._connection = sqlite3.connect(database, isolation_level=None, check_same_thread=False)
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.executescript(_SCHEMA)

    def load(self, table: str, rows: Iterable[tuple[int, str]], *, batch: str | None = None) -> int:
        """Load (id, time_hour) pairs in one transaction and return how many."""
        loaded = [(table, batch, row_id, time_hour) for row_id, time_hour in rows]
        with self._lock:
            self._connection.execute("BEGIN IMMEDIATE")
            with self._connection:
                if batch is not None:
                    self._connection.execute("DELETE FROM loaded WHERE target = ? AND batch = ?", (table, batch))
                self._connection.executemany("INSERT INTO loaded VALUES (?, ?, ?, ?)", loaded)
        return len(loaded)

    def audit(self, table: str, expected: Iterable[int]) -> Audit:
        """Compare a table with the ids that the source has; a table nobody loaded is empty."""
        with self._lock:
            ids = [row[0] for row in self._connection.execute("SELECT id FROM loaded WHERE target = ?", (table,))]
        distinct = set(ids)
        return Audit(
            rows_loaded=len(ids),
            rows_duplicated=len(ids) - len(distinct),
            rows_lost=sum(row_id not in distinct for row_id in expected),
        )

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._connection.close()
