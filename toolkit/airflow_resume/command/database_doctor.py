"""The subcommand `doctor` for a database: whether it is as it should be, and what to do where it is not.

The facts and the findings come first: pure functions of facts, so that tests of findings need no faulty database. Then
the database is asked, and its file looked at. That only reads, and makes neither tables nor a file.
"""

from __future__ import annotations

import argparse
import os
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from sqlalchemy import func, select
from sqlalchemy.engine import Connection

from airflow_resume.attempt import utc_now
from airflow_resume.backends.backend import MAX_VALUE_BYTES
from airflow_resume.backends.database.database import Database
from airflow_resume.backends.dialects.base import Dialect, Journal
from airflow_resume.backends.rows.statements import microseconds
from airflow_resume.backends.schema.manager import HOW_TO_MIGRATE
from airflow_resume.backends.schema.migrations import NEWEST, SchemaState, read_state
from airflow_resume.backends.schema.tables import STATE
from airflow_resume.backends.settings import read_settings
from airflow_resume.backends.urls.shown import shown_url
from airflow_resume.backends.values.codecs import Cipher, Codec
from airflow_resume.command.console import (
    Finding,
    Severity,
    error,
    look_in_the_current_folder,
    ok,
    print_findings,
    warning,
)
from airflow_resume.command.database import exists
from airflow_resume.errors import (
    BackendSettingError,
    SchemaError,
    StoreRefusedError,
    StoreUnavailableError,
    UnwritableStoreError,
)

CLOCK_SECONDS = 5
"""By how many seconds clocks may differ."""

_NETWORK = re.compile(
    r"nfs\d?|cifs|smb\w*|9p|afs|ceph|lustre|gpfs|beegfs|glusterfs|davfs"
    r"|fuse\.(sshfs|s3fs|glusterfs|ceph\S*|rclone|gcsfuse|davfs\S*|smb\S*|nfs\S*|goofys|blobfuse\S*)"
)

PATIENCE_SECONDS = 3.0
"""How long an answer is waited for. It is short, because a person waits for the doctor."""
MOUNTS = Path("/proc/mounts")
"""The list of mounts. Only Linux has it; on other systems the kind of the file system is not known."""


# --- the facts ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class File:
    """The file of a database."""

    path: Path
    exists: bool
    writable: bool
    """Whether it can be written, and its folder too if a log is made beside it."""
    file_system: str | None
    open_to_others: Sequence[str] = ()
    """The names of those of its files that other users may read or write."""


@dataclass(frozen=True, kw_only=True)
class RowCounts:
    """How many values there are."""

    all: int
    expired: int


@dataclass(frozen=True, kw_only=True)
class Answers:
    """What the database said."""

    product: str
    schema: int
    """The version of the tables; 0: there are none."""
    usable: bool = True
    """Whether this program can use them."""
    damage: str | None = None
    """Why they cannot be used, and what to do, where they are not as they were left."""
    remedy: str = ""
    may_create: bool | None = None
    """Whether this user may make tables; None if that was not asked, or is not known."""
    rows: RowCounts | None = None
    """None if the tables are not those that we know."""
    journal: Journal | None = None
    packet_limit: int | None = None
    clock_seconds: float | None = None
    """How far the server's clock is ahead of ours."""


@dataclass(frozen=True, kw_only=True)
class DatabaseFacts:
    """All that the doctor knows."""

    file: File | None = None
    answers: Answers | None = None
    """None if nothing was asked, because there is no file yet, or nothing answered."""
    trouble: str | None = None
    codec: BackendSettingError | None = None
    """Why the codec of the configuration cannot be had."""


# --- the findings ---------------------------------------------------------------------------------------------


def judge(facts: DatabaseFacts) -> list[Finding]:
    """Everything that was looked at, in the order in which one would fix it."""
    found: list[Finding] = []
    if facts.file is not None:
        found += _of_file(facts.file)
    if facts.trouble is not None:
        found.append(error("connection", facts.trouble, "Is the URL right, does the server run, and may you use it?"))
    if facts.answers is not None:
        found += _of_answers(facts.answers)
    if facts.codec is not None:
        found.append(error("codec", facts.codec.message, facts.codec.remedy or ""))
    return found


def _of_file(file: File) -> Iterator[Finding]:
    if not file.writable:
        found = f"{file.path} or its folder cannot be written"
        yield error("file", found, "Give the user that runs the tasks the right to write both.")
    elif not file.exists:
        yield warning("file", f"{file.path} does not exist", "Is the URL right? `airflow-resume migrate` makes it.")
    else:
        yield ok("file", f"{file.path} can be written")
    if file.open_to_others:
        names = ", ".join(file.open_to_others)
        remedy = "These files contain all state. Take the rights of others away (chmod 600), unless they need them."
        yield warning("permissions", f"other users may read or write {names}", remedy)
    if file.file_system is None:
        yield ok("file system", "not known")
    elif is_network(file.file_system):
        remedy = "SQLite's locks do not work there: use a local disk, or PostgreSQL, MySQL or MariaDB."
        yield warning("file system", f"{file.file_system}, of the network", remedy)
    else:
        yield ok("file system", file.file_system)


def is_network(file_system: str) -> bool:
    """Whether other hosts see the same files, so that locks cannot be relied on."""
    return _NETWORK.fullmatch(file_system) is not None


def _of_answers(answers: Answers) -> Iterator[Finding]:
    yield ok("database", answers.product)
    yield _schema(answers) if answers.damage is None else error("schema", answers.damage, answers.remedy)
    if answers.journal is not None:
        found = f"{answers.journal.mode}, synchronous {answers.journal.synchronous}"
        if answers.journal.mode in {"wal", "memory"}:
            yield ok("journal", found)
        else:
            yield warning("journal", found, "Readers wait for a writer. Set it once: PRAGMA journal_mode = WAL.")
    if answers.packet_limit is not None:
        found = f"{answers.packet_limit} bytes"
        if answers.packet_limit > MAX_VALUE_BYTES:
            yield ok("max_allowed_packet", found)
        else:
            found += f", and a value may have {MAX_VALUE_BYTES} (max_value_bytes)"
            yield warning("max_allowed_packet", found, "Larger values are refused: raise it on the server.")
    if answers.clock_seconds is not None:
        ahead = answers.clock_seconds
        found = f"the server's is {abs(ahead):.1f} s {'ahead' if ahead > 0 else 'behind'}"
        if abs(ahead) <= CLOCK_SECONDS:
            yield ok("clock", found)
        else:
            remedy = "Set both by NTP: what expires is judged by the clock of whoever cleans up."
            yield warning("clock", found, remedy)
    if answers.rows is not None:
        remedy = "`airflow-resume cleanup` deletes what has expired." if answers.rows.expired else ""
        found = f"{answers.rows.all}, {answers.rows.expired} expired"
        yield Finding(level=Severity.OK, about="values", found=found, remedy=remedy)


def _schema(answers: Answers) -> Finding:
    version = answers.schema
    if version == NEWEST:
        return ok("schema", f"version {version}, the newest")
    if version > NEWEST:
        found = f"version {version} of the tables, and this airflow-resume knows {NEWEST}"
        if answers.usable:
            return warning("schema", f"{found}; it can use them", "Upgrade airflow-resume here when it is convenient.")
        return error("schema", found, "Upgrade airflow-resume here, or use another database.")
    found = f"version {version}, and {NEWEST} is the newest" if version else "no tables"
    if answers.may_create is not False:
        return warning("schema", found, "`airflow-resume migrate` makes them, and so does the first use.")
    level = Severity.WARNING if version and answers.usable else Severity.ERROR
    found += ", and this user may not make any (no CREATE right)"
    return Finding(level=level, about="schema", found=found, remedy=HOW_TO_MIGRATE)


# --- the questions --------------------------------------------------------------------------------------------


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
