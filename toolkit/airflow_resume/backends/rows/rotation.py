"""Encrypting all values of a database under the newest key, in small steps.

A row is read, and written again on the condition that nobody has changed it: the write compares its version, which is
another number with every change of the value, and leaves it as it is. So a rotation may run beside writers and beside
another one, be killed at any time and run again; a value that is under the newest key already is left alone. A row that
cannot be decrypted, or that the database refuses, is left as it is, and the rotation goes on with the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any

from sqlalchemy import Table, and_, bindparam, select, update
from sqlalchemy.engine import Connection, Row

from airflow_resume.backends.database.database import Database
from airflow_resume.backends.rows.sweep import read_page
from airflow_resume.backends.rows.value_table import check_packet
from airflow_resume.backends.schema.tables import HISTORY, STATE
from airflow_resume.backends.values.codecs import Cipher, mark_of
from airflow_resume.backends.values.scopes import COLUMNS
from airflow_resume.errors import (
    CodecError,
    InvalidValueError,
    StoreRefusedError,
    ValueTooLargeError,
)
from airflow_resume.shown import short_repr, shown

BATCH = 10
"""Rows that are read at once: each may have 10 MiB and more, and writing it takes longer than reading it."""
OF_ONE_ROW = (CodecError, InvalidValueError, StoreRefusedError, ValueTooLargeError)
"""The errors that the next row may not have."""


@dataclass(frozen=True, kw_only=True)
class RotationReport:
    """What was done."""

    rotated: int
    current: int
    """Values that were under the newest key already."""
    failures: Sequence[str]
    """The key and scope of each value that could not be decrypted or written, and why. It was left as it is."""

    def __str__(self) -> str:
        said = f"Encrypted {self.rotated} values anew, and {self.current} were under the newest key already"
        if not self.failures:
            return said
        left = len(self.failures)
        return (
            f"{said}; {'1 was left as it was' if left == 1 else f'{left} were left as they were'}: {self.failures[0]}"
        )


def rotate(database: Database, cipher: Cipher, *, batch: int = BATCH) -> RotationReport:
    """Encrypt all values, and the versions that are kept of them, under the newest key."""
    rotated, current, failures = 0, 0, list[str]()
    for table, row in chain(_rows(database, STATE, batch), _rows(database, HISTORY, batch)):
        try:
            anew = _anew(cipher, row)
            if anew is None:
                current += 1
                continue
            check_packet(database, row.key or "", anew)
            rotated += database.autocommit(_writing(table, row, anew))
        except OF_ONE_ROW as error:
            failures.append(f"{_name(row)}: {error.message}")
    return RotationReport(rotated=rotated, current=current, failures=failures)


def _rows(database: Database, table: Table, batch: int) -> Iterator[tuple[Table, Row[Any]]]:
    columns = [table.c[name] for name in ("id", "version", "value", "scope_hash", "key_hash")]
    statement = select(*columns, *(STATE.c[name] for name in ("key", *COLUMNS)))
    if table is not STATE:  # a version has no name of its own
        same = and_(STATE.c.scope_hash == table.c.scope_hash, STATE.c.key_hash == table.c.key_hash)
        statement = statement.select_from(table.outerjoin(STATE, same))
    after = 0
    while page := list(database.autocommit(partial(read_page, statement, after, batch))):
        after = page[-1].id
        while page:  # so that finished rows need not stay in memory while the next ones are read
            yield table, page.pop(0)


def _anew(cipher: Cipher, row: Row[Any]) -> str | None:
    """The text to keep instead; None if it may stay. A value under the newest key is checked too."""
    if not isinstance(row.value, str):  # SQLite keeps what it is given, by hand too
        raise InvalidValueError(f"The value is no text but {type(row.value).__name__}")
    mark = mark_of(row.scope_hash, row.key_hash)
    text = cipher.decrypt(row.value, mark, "the value")
    return None if cipher.is_current(row.value) else cipher.encrypt(text, mark)


def _name(row: Row[Any]) -> str:
    """The name of a row for people. The key of a version may be gone."""
    if row.key is None:
        return f"the version {row.id} of a key that is gone"
    scope = " ".join(f"{name}={value}" for name in COLUMNS if (value := getattr(row, name)) is not None)
    return f"{short_repr(row.key)} in {shown(scope)}"


def _writing(table: Table, row: Row[Any], value: str) -> Callable[[Connection], int]:
    mine = (table.c.id == bindparam("at_id")) & (table.c.version == bindparam("at_version"))
    statement = update(table).where(mine).values(value=bindparam("new_value"))
    given = {"at_id": row.id, "at_version": row.version, "new_value": value}
    return lambda connection: connection.execute(statement, given).rowcount
