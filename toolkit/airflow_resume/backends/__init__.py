"""State in a database of one's own: SQLite, PostgreSQL, MySQL or MariaDB, by SQLAlchemy.

- `SqlStoreBackend`: Airflow's state backend, for `[workers] state_store_backend`.
- `SqlStateStore`: one scope of it as a store, for scripts: `checkpoint(..., store=...)`.

It needs one of the extras `sql` (SQLite), `postgresql` and `mysql`.
"""

from __future__ import annotations

from airflow_resume.errors import MissingDriverError

try:
    import sqlalchemy as _sqlalchemy  # noqa: F401  looked for, so that its absence is named
except ImportError as error:
    raise MissingDriverError("SQLAlchemy is not installed: pip install 'airflow-resume[sql]'") from error

from airflow_resume.backends.backend import SqlStoreBackend
from airflow_resume.backends.cleanup import CleanupReport, Judged, Reason
from airflow_resume.backends.extras import ComparesAndSets, KeepsHistory, PlansCleanup, Scans, Version
from airflow_resume.backends.state_store import SqlStateStore

__all__ = [
    "CleanupReport",
    "ComparesAndSets",
    "Judged",
    "KeepsHistory",
    "PlansCleanup",
    "Reason",
    "Scans",
    "SqlStateStore",
    "SqlStoreBackend",
    "Version",
]
