"""State in a database of one's own: SQLite, PostgreSQL, MySQL or MariaDB, by SQLAlchemy.

- `SqlStoreBackend`: Airflow's state backend, for `[workers] state_store_backend`.
- `HardenedMetastoreBackend`: for `[state_store] backend`: Airflow's own, in Airflow's tables, hardened.
- `SqlStateStore`: one scope of it as a store, for scripts: `checkpoint(..., store=...)`.

It needs one of the extras `sql` (SQLite), `postgresql` and `mysql`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from airflow_resume.errors import MissingDriverError

try:
    import sqlalchemy as _sqlalchemy  # noqa: F401  looked for, so that its absence is named
except ImportError as error:
    raise MissingDriverError("SQLAlchemy is not installed.", "Install it: pip install 'airflow-resume[sql]'") from error

from airflow_resume.backends.backend import SqlStoreBackend
from airflow_resume.backends.cleanup import CleanupReport, Judged, Reason
from airflow_resume.backends.extras import ComparesAndSets, KeepsHistory, PlansCleanup, Scans, Version
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
    """What needs Airflow's server is loaded when it is first used."""
    if name != "HardenedMetastoreBackend":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = import_module(f"{__name__}.hardened").HardenedMetastoreBackend
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
