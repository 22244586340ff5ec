"""What the doctor learns of a database. It asks only: no tables are made, and no file."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from sqlalchemy import Connection, func, select

from airflow_resume.attempt import utc_now
from airflow_resume.backends.database import Database
from airflow_resume.backends.dialects import Dialect
from airflow_resume.backends.rows import microseconds
from airflow_resume.backends.schema import STATE, read_version
from airflow_resume.command.mounts import file_system_of
from airflow_resume.command.places import NEWEST, file_of
from airflow_resume.errors import ReadOnlyStoreError, StoreFullError, StoreRefusedError, StoreUnavailableError

SYNCHRONOUS = ("off", "normal", "full", "extra")
"""The names of SQLite's numbers."""


@dataclass(frozen=True, kw_only=True)
class File:
    """Of a file."""

    path: Path
    exists: bool
    writable: bool
    """As is its folder, where SQLite makes a log beside it."""
    file_system: str | None


@dataclass(frozen=True, kw_only=True)
class Rows:
    """How many values there are."""

    all: int
    expired: int


@dataclass(frozen=True, kw_only=True)
class Answers:
    """What the database said."""

    product: str
    schema: int
    """The version of the tables; 0: there are none."""
    rows: Rows | None = None
    """None where the tables are not those that we know."""
    journal: str | None = None
    synchronous: str | None = None
    packet_limit: int | None = None
    clock_seconds: float | None = None
    """How far the server's clock is ahead of ours."""


@dataclass(frozen=True, kw_only=True)
class Facts:
    """All that there is to know."""

    file: File | None = None
    answers: Answers | None = None
    """None where nothing was asked, as there is no file yet, or where there was trouble."""
    trouble: str | None = None


def gather(database: Database) -> Facts:
    """Ask for everything. That nothing answers is a fact as well."""
    path = file_of(database.url)
    facts = Facts(file=None if path is None else _look_at(path))
    if facts.file is not None and not facts.file.exists:
        return facts
    try:
        return replace(facts, answers=database.as_it_is(partial(_ask, database.dialect)))
    except (ReadOnlyStoreError, StoreFullError, StoreRefusedError, StoreUnavailableError) as error:
        return replace(facts, trouble=" ".join(str(error).split()))


def _look_at(path: Path) -> File:
    exists = path.exists()
    writable = all(os.access(place, os.W_OK) for place in (path if exists else path.parent, path.parent))
    return File(path=path, exists=exists, writable=writable, file_system=file_system_of(path))


def _ask(dialect: Dialect, connection: Connection) -> Answers:
    version = str(connection.exec_driver_sql(dialect.ask_version).scalar_one())
    schema, _ = read_version(connection)
    answers = Answers(
        product=f"{'MariaDB' if 'MariaDB' in version else dialect.product} {version}",
        schema=schema,
        rows=_count(connection) if schema == NEWEST else None,
        packet_limit=dialect.packet_limit(connection),
        clock_seconds=_clock_difference(dialect, connection),
    )
    if dialect.product != "SQLite":
        return answers
    synchronous = SYNCHRONOUS[int(connection.exec_driver_sql("PRAGMA synchronous").scalar_one())]
    journal = connection.exec_driver_sql("PRAGMA journal_mode").scalar_one()
    return replace(answers, journal=journal, synchronous=synchronous)


def _count(connection: Connection) -> Rows:
    expired = STATE.c.expires_us < microseconds(utc_now())
    count = select(func.count())
    return Rows(
        all=connection.execute(count.select_from(STATE)).scalar_one(),
        expired=connection.execute(count.select_from(STATE).where(expired)).scalar_one(),
    )


def _clock_difference(dialect: Dialect, connection: Connection) -> float | None:
    """Between the server's clock and the middle of the question."""
    if dialect.ask_time is None:
        return None
    before = time.time()
    there = float(connection.exec_driver_sql(dialect.ask_time).scalar_one())
    return there - (before + time.time()) / 2
