"""The database that a subcommand is about."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import URL

from airflow_resume.backends.database import Database
from airflow_resume.backends.schema import MIGRATIONS, read_version
from airflow_resume.errors import NoTablesError

NEWEST = len(MIGRATIONS)


def name_of(url: URL) -> str:
    """How it is called in what is printed."""
    return url.render_as_string(hide_password=True)


def file_of(url: URL) -> Path | None:
    """The file of SQLite; None where there is none, in memory or on a server."""
    name = url.database or ""
    if url.get_backend_name() != "sqlite" or not name or ":memory:" in name or url.query.get("mode") == "memory":
        return None
    return Path(name.removeprefix("file:"))


def version_of(database: Database) -> int:
    """The version of the tables, 0 where there are none. Nothing is made, no file either."""
    file = file_of(database.url)
    if file is not None and not file.exists():
        return 0
    return database.as_it_is(read_version)[0]


def require_tables(database: Database) -> None:
    """Refuse a database that is not in use: it is likelier a mistyped URL than one with nothing in it.

    Raises:
        NoTablesError: it has no tables of ours, or older ones.
    """
    version = version_of(database)
    if version < NEWEST:
        found = f"has version {version} of the tables, and {NEWEST} is needed" if version else "has no tables of ours"
        raise NoTablesError(
            f"{name_of(database.url)} {found}.",
            "See whether the URL is right; `airflow-resume migrate` makes the tables.",
        )
