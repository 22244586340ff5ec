"""The statements on the rows that hold values. Each is made once and takes its values when it is executed."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from functools import cache, lru_cache
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    CursorResult,
    Delete,
    Executable,
    Row,
    Select,
    Update,
    bindparam,
    delete,
    exists,
    insert,
    not_,
    select,
    update,
)
from sqlalchemy.engine import Dialect as EngineDialect

from airflow_resume.backends.dialects import Dialect
from airflow_resume.backends.schema import HISTORY, STATE
from airflow_resume.backends.scopes import Place, key_digest
from airflow_resume.backends.writer import NOBODY, Writer

_IDENTITY = ["scope_hash", "key_hash"]
_CHANGED = [
    "value",
    "version",
    "expires_us",
    "updated_us",
    "referenced",
    "writer_hash",
    "try_number",
    "attempt_id",
]

_HERE = (STATE.c.scope_hash == bindparam("at_scope")) & (STATE.c.key_hash == bindparam("at_key"))

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MICROSECOND = timedelta(microseconds=1)


def microseconds(moment: datetime) -> int:
    """Since 1970, in UTC: databases drop offsets and fractions of their own types. A naive time is taken as UTC."""
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=timezone.utc)
    return (aware - _EPOCH) // _MICROSECOND


def moment_of(number: int) -> datetime:
    """The time, in UTC."""
    return _EPOCH + number * _MICROSECOND


@dataclass(frozen=True, kw_only=True)
class NewRow:
    """A value to be written."""

    place: Place
    key: str
    key_hash: str
    value: str
    version: int
    updated_us: int
    expires_us: int | None = None
    referenced: bool = False
    writer: Writer = NOBODY

    @property
    def at(self) -> dict[str, Any]:
        """Where it goes."""
        return {"at_scope": self.place.identity, "at_key": self.key_hash}

    def changed(self) -> dict[str, Any]:
        """The columns that every write sets."""
        return {
            "value": self.value,
            "version": self.version,
            "expires_us": self.expires_us,
            "updated_us": self.updated_us,
            "referenced": int(self.referenced),
            "writer_hash": self.writer.identity,
            "try_number": self.writer.try_number,
            "attempt_id": self.writer.attempt_id,
        }

    def columns(self) -> dict[str, Any]:
        """All columns."""
        identity = {"scope_hash": self.place.identity, "key_hash": self.key_hash, "family_hash": self.place.family}
        return {**identity, **self.place.columns, "key": self.key, **self.changed()}


def new_version() -> int:
    """A number that no other write has. It fits into the numbers of JSON's readers."""
    return 1 + secrets.randbits(52)


def at(place: Place, key: str) -> dict[str, Any]:
    """Where the value of a key is.

    Raises:
        InvalidKeyError: there can be none.
    """
    return {"at_scope": place.identity, "at_key": key_digest(key)}


# --- the short way --------------------------------------------------------------------------------------------


def _execute(connection: Connection, statement: Executable, values: Mapping[str, Any]) -> CursorResult[Any]:
    """Have the driver execute a statement that is made over and over again; its types need no conversion.

    Of the time of a call in SQLite, what SQLAlchemy does for a statement and its parameters is the greater part. Only a
    plain get and set go this way; what is conditional comes less often.
    """
    words, order = _compiled(statement, connection.dialect, tuple(values))
    return connection.exec_driver_sql(words, dict(values) if order is None else tuple(map(values.__getitem__, order)))


@lru_cache(maxsize=64)
def _compiled(statement: Any, dialect: EngineDialect, names: tuple[str, ...]) -> tuple[str, Sequence[str] | None]:
    """Its text for the driver, and the order of its parameters where they have no names there."""
    compiled = statement.compile(dialect=dialect, column_keys=names)
    return str(compiled), compiled.positiontup


# --- reading --------------------------------------------------------------------------------------------------


@cache
def _select_value() -> Select[Any]:
    return select(STATE.c.value).where(_HERE)


@cache
def _select_state() -> Select[Any]:
    names = ("value", "version", "updated_us", "writer_hash", "try_number", "attempt_id")
    return select(*(STATE.c[name] for name in names)).where(_HERE)


def read_value(connection: Connection, where: dict[str, Any]) -> str | None:
    """The text, or None."""
    found: str | None = _execute(connection, _select_value(), where).scalar()
    return found


def read_state(connection: Connection, where: dict[str, Any]) -> Row[Any] | None:
    """The text with its version, its time and its writer."""
    return connection.execute(_select_state(), where).first()


def read_keys(connection: Connection, place: Place) -> Sequence[str]:
    """All keys of a scope."""
    return connection.execute(select(STATE.c.key).where(STATE.c.scope_hash == place.identity)).scalars().all()


# --- writing --------------------------------------------------------------------------------------------------


@cache
def _upsert(dialect: Dialect) -> Executable:
    return dialect.upsert(STATE, _IDENTITY, _CHANGED)


def write(connection: Connection, dialect: Dialect, rows: Sequence[NewRow]) -> None:
    """Insert or replace. Everybody takes the rows in the same order, so that no two wait for each other."""
    for row in sorted(rows, key=lambda row: (row.place.identity, row.key_hash)):
        _execute(connection, _upsert(dialect), row.columns())


@cache
def _insert() -> Executable:
    return insert(STATE)


def write_new(connection: Connection, row: NewRow) -> None:
    """Insert; that there is a row already is an error of the database."""
    connection.execute(_insert(), row.columns())


@cache
def _update() -> Update:
    return update(STATE).where(_HERE).values({name: bindparam(f"new_{name}") for name in _CHANGED})


@cache
def _update_version() -> Update:
    return _update().where(STATE.c.version == bindparam("at_version"))


@cache
def _update_unless_newer() -> Update:
    # A row of an unknown id is newer by its number alone; and so is any row to a writer of an unknown id.
    newer_id = (STATE.c.attempt_id == "") | (STATE.c.attempt_id > bindparam("new_attempt_id"))
    newer = (STATE.c.try_number > bindparam("new_try_number")) & newer_id
    return _update().where(not_((STATE.c.writer_hash == bindparam("new_writer_hash")) & newer))


def write_over(connection: Connection, row: NewRow, version: int) -> bool:
    """Replace a row of that version; whether there was one."""
    done = connection.execute(_update_version(), {**row.at, **_new(row), "at_version": version})
    return bool(done.rowcount)


def write_unless_newer(connection: Connection, row: NewRow) -> bool:
    """Replace a row that no later attempt of the same task instance wrote; whether there was one."""
    return bool(connection.execute(_update_unless_newer(), {**row.at, **_new(row)}).rowcount)


def _new(row: NewRow) -> dict[str, Any]:
    return {f"new_{name}": value for name, value in row.changed().items()}


# --- deleting -------------------------------------------------------------------------------------------------


@cache
def _delete() -> Delete:
    return delete(STATE).where(_HERE)


def remove(connection: Connection, where: dict[str, Any]) -> None:
    """Delete a row, if it is there."""
    connection.execute(_delete(), where)


def remove_all(connection: Connection, place: Place, *, family: bool) -> None:
    """Delete the rows of a scope, or of all instances of a mapped task."""
    mine = STATE.c.family_hash == place.family if family else STATE.c.scope_hash == place.identity
    connection.execute(delete(STATE).where(mine))


# --- history --------------------------------------------------------------------------------------------------

_THERE = (HISTORY.c.scope_hash == bindparam("at_scope")) & (HISTORY.c.key_hash == bindparam("at_key"))


def remember(connection: Connection, row: NewRow, keep: int) -> None:
    """Keep a version beside those before it, and no more than so many."""
    columns = ("scope_hash", "key_hash", "value", "version", "updated_us", "try_number")
    written = row.columns()
    connection.execute(insert(HISTORY), {name: written[name] for name in columns})
    old = select(HISTORY.c.id).where(_THERE).order_by(HISTORY.c.id.desc()).offset(keep).limit(keep)
    ids = connection.execute(old, row.at).scalars().all()
    if ids:
        connection.execute(delete(HISTORY).where(HISTORY.c.id.in_(ids)))


def read_history(connection: Connection, where: dict[str, Any]) -> Sequence[Row[Any]]:
    """What is remembered of a key, newest first."""
    names = ("value", "version", "updated_us", "try_number")
    statement = select(*(HISTORY.c[name] for name in names)).where(_THERE).order_by(HISTORY.c.id.desc())
    return connection.execute(statement, where).all()


def forgotten() -> ColumnElement[bool]:
    """Whether what a version belongs to is not there any more."""
    same = (STATE.c.scope_hash == HISTORY.c.scope_hash) & (STATE.c.key_hash == HISTORY.c.key_hash)
    return ~exists().where(same)


def forget(connection: Connection, place: Place | None = None) -> None:
    """Delete the history of what is not there any more, in a scope or in all."""
    here = forgotten() if place is None else forgotten() & (HISTORY.c.scope_hash == place.identity)
    connection.execute(delete(HISTORY).where(here))
