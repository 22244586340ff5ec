"""What the doctor says of the facts: pure, so that every word of it can be tested without a sick database."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from airflow_resume.backends.backend import MAX_VALUE_BYTES
from airflow_resume.command.facts import Answers, Facts, File, Rows
from airflow_resume.command.mounts import is_network
from airflow_resume.command.places import NEWEST

CLOCK_SECONDS = 5
"""Clocks may differ by so much."""


class Level(Enum):
    """How bad it is."""

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing that was looked at."""

    level: Level
    about: str
    found: str
    remedy: str = ""
    """What to do; nothing where all is well."""


def judge(facts: Facts) -> list[Finding]:
    """Everything that was looked at, in the order in which it would be mended."""
    return list(_judge(facts))


def _judge(facts: Facts) -> Iterator[Finding]:
    if facts.file is not None:
        yield _file(facts.file)
        yield _file_system(facts.file)
    if facts.trouble is not None:
        yield _error("connection", facts.trouble, "Is the URL right, does the server run, and may you use it?")
    if facts.answers is not None:
        yield _ok("database", facts.answers.product)
        yield _schema(facts.answers.schema)
        yield from _settings(facts.answers)
        if facts.answers.rows is not None:
            yield _rows(facts.answers.rows)


def _file(file: File) -> Finding:
    if not file.writable:
        found = f"{file.path} or its folder cannot be written"
        return _error("file", found, "Give the user that runs the tasks the right to write both.")
    if not file.exists:
        return _warning("file", f"{file.path} does not exist", "Is the URL right? `airflow-resume migrate` makes it.")
    return _ok("file", f"{file.path} can be written")


def _file_system(file: File) -> Finding:
    if file.file_system is None:
        return _ok("file system", "not known")
    if is_network(file.file_system):
        remedy = "SQLite's locks do not work there: use a local disk, or PostgreSQL, MySQL or MariaDB."
        return _warning("file system", f"{file.file_system}, of the network", remedy)
    return _ok("file system", file.file_system)


def _schema(version: int) -> Finding:
    if version > NEWEST:
        found = f"version {version} of the tables, and this airflow-resume knows {NEWEST}"
        return _error("schema", found, "Upgrade airflow-resume here, or use another database.")
    if version == NEWEST:
        return _ok("schema", f"version {version}, the newest")
    found = f"version {version}, and {NEWEST} is the newest" if version else "no tables"
    return _warning("schema", found, "`airflow-resume migrate` makes them, and so does the first use.")


def _settings(answers: Answers) -> Iterator[Finding]:
    """Of the database, as far as its kind has them."""
    if answers.journal is not None:
        yield _journal(answers.journal, answers.synchronous)
    if answers.packet_limit is not None:
        yield _packet(answers.packet_limit)
    if answers.clock_seconds is not None:
        yield _clock(answers.clock_seconds)


def _journal(mode: str, synchronous: str | None) -> Finding:
    found = f"{mode}, synchronous {synchronous}"
    if mode in {"wal", "memory"}:
        return _ok("journal", found)
    return _warning("journal", found, "Readers wait for a writer. Set it once: PRAGMA journal_mode = WAL.")


def _packet(limit: int) -> Finding:
    if limit > MAX_VALUE_BYTES:
        return _ok("max_allowed_packet", f"{limit} bytes")
    found = f"{limit} bytes, and a value may have {MAX_VALUE_BYTES} (max_value_bytes)"
    return _warning("max_allowed_packet", found, "Larger values are refused: raise it on the server.")


def _clock(difference: float) -> Finding:
    found = f"the server's is {abs(difference):.1f} s {'ahead' if difference > 0 else 'behind'}"
    if abs(difference) <= CLOCK_SECONDS:
        return _ok("clock", found)
    return _warning("clock", found, "Set both by NTP: what expires is judged by the clock of whoever cleans up.")


def _rows(rows: Rows) -> Finding:
    remedy = "`airflow-resume cleanup` deletes what has expired." if rows.expired else ""
    return Finding(level=Level.OK, about="values", found=f"{rows.all}, {rows.expired} expired", remedy=remedy)


def _ok(about: str, found: str) -> Finding:
    return Finding(level=Level.OK, about=about, found=found)


def _warning(about: str, found: str, remedy: str) -> Finding:
    return Finding(level=Level.WARNING, about=about, found=found, remedy=remedy)


def _error(about: str, found: str, remedy: str) -> Finding:
    return Finding(level=Level.ERROR, about=about, found=found, remedy=remedy)
