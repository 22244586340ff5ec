"""The subcommand `doctor` for a database: whether it is as it should be, and what to do where it is not.

This module asks the database and looks at its file. It only reads, and makes neither tables nor a file. `findings` says
what the answers mean.
"""

from __future__ import annotations

import argparse
import os
import re
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from sqlalchemy import func, select
from sqlalchemy.engine import Connection

from airflow_resume.attempt import utc_now
from airflow_resume.backends.database.database import Database
from airflow_resume.backends.dialects.base import Dialect
from airflow_resume.backends.rows.statements import microseconds
from airflow_resume.backends.schema.migrations import SchemaState, read_state
from airflow_resume.backends.schema.tables import STATE
from airflow_resume.backends.settings import read_settings
from airflow_resume.backends.urls.shown import shown_url
from airflow_resume.backends.values.codecs import Cipher, Codec
from airflow_resume.command.console import look_in_the_current_folder
from airflow_resume.command.database import exists
from airflow_resume.command.finding import print_findings
from airflow_resume.command.findings import Answers, DatabaseFacts, File, RowCounts, judge
from airflow_resume.errors import (
    BackendSettingError,
    SchemaError,
    StoreRefusedError,
    StoreUnavailableError,
    UnwritableStoreError,
)

PATIENCE_SECONDS = 3.0
"""How long an answer is waited for. It is short, because a person waits for the doctor."""
MOUNTS = Path("/proc/mounts")
"""The list of mounts. Only Linux has it; on other systems the kind of the file system is not known."""


def look(options: argparse.Namespace) -> int:
    """Ask the database, and print what was found."""
    settings = read_settings(options.url)
    with closing(Database(settings.url, patience=PATIENCE_SECONDS)) as database:
        findings = judge(replace(gather(database), codec=_why_no_codec(settings.codec)))
        name = shown_url(database.url)
    return print_findings("database", name, findings, options.output)


def gather(database: Database) -> DatabaseFacts:
    """Ask for everything. That nothing answers is a fact as well."""
    dialect, path = database.dialect, database.dialect.file_of(database.url)
    facts = DatabaseFacts(file=None if path is None else _look_at(path, dialect.files_of(path)))
    if facts.file is not None and not facts.file.exists:
        return facts
    try:
        return replace(facts, answers=database.as_it_is(partial(_ask, dialect)))
    except (UnwritableStoreError, StoreRefusedError, StoreUnavailableError) as error:
        return replace(facts, trouble=" ".join(str(error).split()))


def _why_no_codec(codec: Codec | str | None) -> BackendSettingError | None:
    look_in_the_current_folder()
    try:
        Cipher(codec).check()
    except BackendSettingError as error:
        return error
    return None


def _ask(dialect: Dialect, connection: Connection) -> Answers:
    version = str(connection.exec_driver_sql(dialect.ask_version).scalar_one())
    found, damage, rows, ahead = SchemaState(), None, None, None
    try:
        found = read_state(connection)
        found.require_whole()
    except SchemaError as error:
        damage = error
    if found.may_be_used and damage is None:
        count = select(func.count()).select_from(STATE)
        expired = count.where(STATE.c.expires_us < microseconds(utc_now()))
        rows = RowCounts(all=connection.execute(count).scalar_one(), expired=connection.execute(expired).scalar_one())
    if dialect.ask_time is not None:
        before = time.time()
        there = float(connection.exec_driver_sql(dialect.ask_time).scalar_one())
        ahead = there - (before + time.time()) / 2  # the middle of the question
    return Answers(
        product=f"{dialect.product_of(version)} {version}",
        schema=found.version,
        usable=found.may_be_used,
        damage=None if damage is None else damage.message,
        remedy="" if damage is None else damage.remedy or "",
        may_create=dialect.may_create(connection) if found.is_outdated else None,
        rows=rows,
        packet_limit=dialect.packet_limit(connection),
        clock_seconds=ahead,
        journal=dialect.journal(connection),
    )


# --- the file -------------------------------------------------------------------------------------------------


def _look_at(path: Path, files: Sequence[Path]) -> File:
    is_there = exists(path)
    open_to_others = []
    for file in files:
        with suppress(OSError):
            if file.stat().st_mode & 0o077:
                open_to_others.append(file.name)
    return File(
        path=path,
        exists=is_there,
        writable=all(os.access(place, os.W_OK) for place in (path if is_there else path.parent, path.parent)),
        file_system=file_system_of(path),
        open_to_others=open_to_others,
    )


def file_system_of(path: Path) -> str | None:
    """The kind of file system that a file lies on, as `mount` names it, or None when it cannot be found out."""
    try:
        mounts = MOUNTS.read_text(errors="surrogateescape")
    except OSError:
        return None
    return innermost_mount(path.resolve(), mounts)


def innermost_mount(path: Path, mounts: str) -> str | None:
    """The kind of the innermost mount that has the path; of two at one place the later covers the other."""
    found: tuple[int, str] | None = None
    for line in mounts.splitlines():
        _, escaped, kind, *_ = line.split(" ")
        point = re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), escaped)  # spaces and the like
        depth = len(Path(point).parts)
        if path.is_relative_to(point) and (found is None or depth >= found[0]):
            found = (depth, kind)
    return None if found is None else found[1]
