"""What the doctor says of a database: pure functions of facts, so that tests of findings need no faulty database."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from airflow_resume.backends.backend import MAX_VALUE_BYTES
from airflow_resume.backends.dialects.base import Journal
from airflow_resume.backends.schema.manager import HOW_TO_MIGRATE
from airflow_resume.backends.schema.migrations import NEWEST
from airflow_resume.command.finding import Finding, Severity, error, ok, warning
from airflow_resume.errors import BackendSettingError

CLOCK_SECONDS = 5
"""By how many seconds clocks may differ."""

_NETWORK = re.compile(
    r"nfs\d?|cifs|smb\w*|9p|afs|ceph|lustre|gpfs|beegfs|glusterfs|davfs"
    r"|fuse\.(sshfs|s3fs|glusterfs|ceph\S*|rclone|gcsfuse|davfs\S*|smb\S*|nfs\S*|goofys|blobfuse\S*)"
)


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
