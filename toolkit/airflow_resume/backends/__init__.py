"""State in a database of your own: SQLite, PostgreSQL, MySQL or MariaDB, by SQLAlchemy.

- `SqlStoreBackend`: Airflow's state backend, for `[workers] state_store_backend`.
- `HardenedMetastoreBackend`: for `[state_store] backend`: Airflow's own backend, with the same tables, hardened.
- `SqlStateStore`: one scope of a backend as a store, for scripts: `checkpoint(..., store=...)`.

It needs one of the extras `sql` (SQLite), `postgresql` and `mysql`.

The parts, each of which imports only those below it:

| | |
|---|---|
| `backend`, `state_store`, `settings` | what users see |
| `rows` | reading, writing, cleaning up and encrypting the rows |
| `database` | the connection of a process: turns, time limits, calls that are repeated |
| `schema` | the tables, and their upgrade |
| `urls` | URLs, and what may be shown of them |
| `dialects` | one module for each kind of database |
| `values` | scopes, keys, texts, references and encryption, without a database |
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from airflow_resume.errors import MissingDriverError

try:
    import sqlalchemy as _sqlalchemy  # noqa: F401  so that its absence is named
except ImportError as error:
    raise MissingDriverError(
        "SQLAlchemy is not installed.", "Install it: pip install 'airflow-resume[sql]'", extra="sql"
    ) from error

from airflow_resume.backends.backend import SqlStoreBackend
from airflow_resume.backends.extras import ComparesAndSets, KeepsHistory, PlansCleanup, Scans, Version
from airflow_resume.backends.rows.cleanup import CleanupReport, Judged, Reason
from airflow_resume.backends.state_store import SqlStateStore

if TYPE_CHECKING:
    from airflow_resume.backends.hardened import HardenedMetastoreBackend

__all__ = [
    "CleanupReport",
    "ComparesAndSets",
    "HardenedMetastoreBackend",
    "Judged",
    "KeepsHistory",
    "PlansCleanup",
    "Reason",
    "Scans",
    "SqlStateStore",
    "SqlStoreBackend",
    "Version",
]


def __getattr__(name: str) -> object:
    """Load what needs Airflow's server when it is first used."""
    if name != "HardenedMetastoreBackend":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = import_module(f"{__name__}.hardened").HardenedMetastoreBackend
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
