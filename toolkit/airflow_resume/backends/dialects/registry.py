"""The dialects that there are. A new one is added here, and nowhere else."""

from __future__ import annotations

from airflow_resume.backends.dialects.base import Dialect
from airflow_resume.backends.dialects.mysql import MySQL
from airflow_resume.backends.dialects.postgresql import PostgreSQL
from airflow_resume.backends.dialects.sqlite import Sqlite

DIALECTS: tuple[Dialect, ...] = (Sqlite(), PostgreSQL(), MySQL())


def dialect_of(name: str) -> Dialect | None:
    """The dialect with this name in URLs; None for a kind of database that is not supported."""
    return next((dialect for dialect in DIALECTS if name in dialect.names), None)
