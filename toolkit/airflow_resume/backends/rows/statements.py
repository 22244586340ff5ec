"""The statements on the rows that hold values. Each is built once and gets its values when it is executed."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from functools import cache, lru_cache
from itertools import count
from typing import Any

from sqlalchemy import (
    BigInteger,
    and_,
    bindparam,
    delete,
    exists,
    insert,
    literal_column,
    not_,
    or_,
    select,
    text,
    update,
)
from sqlalchemy.engine import Connection, Row
from sqlalchemy.engine import Dialect as EngineDialect
from sqlalchemy.exc import DBAPIError
from sqlalchemy.sql.expression import ColumnElement, Executable

from airflow_resume.backends.dialects.base import Dialect
from airflow_resume.backends.schema.tables import HISTORY, MAPPED, META, STATE
from airflow_resume.backends.span import WrongReplyError
from airflow_resume.backends.values.scopes import COLUMNS, ScopePlace, key_digest
from airflow_resume.backends.values.writer import NOBODY, WritingAttempt

_IDENTITY = ["scope_hash", "key_hash"]
_UNCHANGED = {"id", "family_hash", "key", *_IDENTITY, *COLUMNS}
"""What a row is, whatever its value: no write to an existing row changes these columns."""
_CHANGED = [column.name for column in STATE.columns if column.name not in _UNCHANGED]
_HISTORY = [column.name for column in HISTORY.columns if column is not HISTORY.c.id]

_HERE = (STATE.c.scope_hash == bindparam("at_scope")) & (STATE.c.key_hash == bindparam("at_key"))
_THERE = (HISTORY.c.scope_hash == bindparam("at_scope")) & (HISTORY.c.key_hash == bindparam("at_key"))

_VALUE = select(STATE.c.value).where(_HERE).scalar_subquery()
_QUESTION = bindparam("question", type_=BigInteger)
_ONE_ID: ColumnElement[str | None] = literal_column("CASE WHEN count(*) = 1 THEN max(store_id) END")

# Always one row, so that a missing answer cannot be taken for a missing value.
_SELECT_VALUE = select(_VALUE, _QUESTION)
# The same, and the id of the database as it is now; no id where there is more than one.
_SELECT_REFERENCED = select(_VALUE, _QUESTION, select(_ONE_ID).select_from(META).scalar_subquery())
_SELECT_STATE = select(
    *(STATE.c[name] for name in ("value", "version", "updated_us", "writer_hash", "try_number", "attempt_id"))
).where(_HERE)
_INSERT = insert(STATE)
_UPDATE = update(STATE).where(_HERE).values({name: bindparam(f"new_{name}") for name in _CHANGED})
_UPDATE_VERSION = _UPDATE.where(STATE.c.version == bindparam("at_version"))
# If the id of the row's attempt or of the writing attempt is not known, the number alone says which is newer.
_NEWER_ID = (STATE.c.attempt_id == "") | (STATE.c.attempt_id > bindparam("new_attempt_id"))
_NEWER = (STATE.c.try_number > bindparam("new_try_number")) & _NEWER_ID
_UPDATE_UNLESS_NEWER = _UPDATE.where(not_((STATE.c.writer_hash == bindparam("new_writer_hash")) & _NEWER))
_DELETE = delete(STATE).where(_HERE)

WITHOUT_VALUE = ~exists().where((STATE.c.scope_hash == HISTORY.c.scope_hash) & (STATE.c.key_hash == HISTORY.c.key_hash))
"""What is true of a version in the history whose key has no value any more."""
_DELETE_VERSIONS = delete(HISTORY).where(_THERE, WITHOUT_VALUE)

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

    place: ScopePlace
    key: str
    key_hash: str
    value: str
    version: int
    updated_us: int
    expires_us: int | None = None
    referenced: bool = False
    writer: WritingAttempt = NOBODY

    @property
    def at(self) -> dict[str, Any]:
        """Where the value is written."""
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


def at(place: ScopePlace, key: str) -> dict[str, Any]:
    """Where the value of a key is.

    Raises:
        InvalidKeyError: there can be no such key.
    """
    return {"at_scope": place.identity, "at_key": key_digest(key)}


# --- past SQLAlchemy --------------------------------------------------------------------------------------------


def _execute(connection: Connection, statement: Executable, values: Mapping[str, Any]) -> tuple[Any, bool]:
    """Have the driver execute a statement that is used over and over again; its types need no conversion.

    Most of the time of a call in SQLite is what SQLAlchemy does for a statement, its parameters and its result. Only a
    plain get and set bypass that; conditional statements are rarer. It is not bypassed where somebody listens to its
    events, as a tracer does.

    Returns:
        The first row, None if there is none; and whether there could be some.
    """
    words, order = _compiled(statement, connection.dialect, tuple(values))
    given: Any = dict(values) if order is None else tuple(map(values.__getitem__, order))
    events = connection.engine.dispatch
    if events.before_cursor_execute or events.after_cursor_execute:
        result = connection.exec_driver_sql(words, given)
        return (result.first(), True) if result.returns_rows else (None, False)
    driver: Any = connection.connection.dbapi_connection
    dialect: Any = connection.dialect
    cursor: Any = None
    try:
        cursor = driver.cursor()  # a connection that was lost says so here already
        cursor.execute(words, given)
        return (cursor.fetchone(), True) if cursor.description is not None else (None, False)
    except dialect.dbapi.Error as error:  # wrapped as SQLAlchemy does it
        lost = dialect.is_disconnect(error, driver, None)
        wrapped: Any = DBAPIError.instance(
            words,
            given,
            error,
            dialect.dbapi.Error,
            hide_parameters=True,
            connection_invalidated=lost,
            dialect=dialect,
        )
        raise wrapped from error
    finally:
        if cursor is not None:
            try:  # noqa: SIM105  a context manager would cost as much as all of this
                cursor.close()
            except Exception:  # noqa: BLE001, S110  its error would hide why the connection was lost
                pass


@lru_cache(maxsize=64)
def _compiled(statement: Any, dialect: EngineDialect, names: tuple[str, ...]) -> tuple[str, Sequence[str] | None]:
    """Its text for the driver, and the order of its parameters where they have no names there."""
    compiled = statement.compile(dialect=dialect, column_keys=names)
    return str(compiled), compiled.positiontup


# --- reading --------------------------------------------------------------------------------------------------


_questions = count()
_first_question = secrets.randbits(48)
"""Every read has a number of its own, which comes back with the answer."""


def read_value(connection: Connection, where: Mapping[str, Any]) -> str | None:
    """The text, or None.

    Raises:
        WrongReplyError: the answer is that to another question, as from a pooler that mixes up connections.
    """
    value, _ = _answer(connection, _SELECT_VALUE, where, 2)
    return None if value is None else str(value)


def read_referenced(connection: Connection, where: Mapping[str, Any]) -> tuple[str | None, str]:
    """The text, or None, and the id of the database. It raises as `read_value` does."""
    value, _, store_id = _answer(connection, _SELECT_REFERENCED, where, 3)
    return None if value is None else str(value), str(store_id)


def _answer(connection: Connection, statement: Executable, where: Mapping[str, Any], columns: int) -> Sequence[Any]:
    # A child of a fork may have the numbers of its parent, but no connection of it.
    question = _first_question + next(_questions)
    row, _ = _execute(connection, statement, {**where, "question": question})
    if row is None or len(row) != columns or row[1] != question:
        raise WrongReplyError("It answered another question than it was asked")
    answer: Sequence[Any] = row
    return answer


def read_state(connection: Connection, where: dict[str, Any]) -> Row[Any] | None:
    """The text with its version, its time and its writer."""
    return connection.execute(_SELECT_STATE, where).first()


def read_keys(connection: Connection, place: ScopePlace) -> Sequence[str]:
    """All keys of a scope."""
    return connection.execute(select(STATE.c.key).where(STATE.c.scope_hash == place.identity)).scalars().all()


# --- writing --------------------------------------------------------------------------------------------------


@cache
def _upsert(dialect: Dialect) -> Executable:
    return dialect.upsert(STATE, _IDENTITY, _CHANGED)


def write(connection: Connection, dialect: Dialect, rows: Sequence[NewRow]) -> None:
    """Insert or replace. Everybody takes the rows in the same order, so that no two wait for each other."""
    for row in sorted(rows, key=lambda row: (row.place.identity, row.key_hash)):
        _, has_rows = _execute(connection, _upsert(dialect), row.columns())
        if has_rows:
            raise WrongReplyError("It answered a write with rows")


def write_new(connection: Connection, row: NewRow) -> None:
    """Insert the row. If there is a row already, the database raises an error."""
    connection.execute(_INSERT, row.columns())


def write_over(connection: Connection, row: NewRow, version: int) -> bool:
    """Replace a row of that version. Returns whether there was one."""
    done = connection.execute(_UPDATE_VERSION, {**row.at, **_new(row), "at_version": version})
    return bool(done.rowcount)


def write_unless_newer(connection: Connection, row: NewRow) -> bool:
    """Replace a row that no later attempt of the same task instance wrote. Returns whether there was one."""
    return bool(connection.execute(_UPDATE_UNLESS_NEWER, {**row.at, **_new(row)}).rowcount)


def _new(row: NewRow) -> dict[str, Any]:
    return {f"new_{name}": value for name, value in row.changed().items()}


# --- deleting -------------------------------------------------------------------------------------------------


def remove(connection: Connection, where: dict[str, Any]) -> None:
    """Delete a row, if it is there, and then its versions: another backend may keep some."""
    connection.execute(_DELETE, where)
    connection.execute(_DELETE_VERSIONS, where)


def remove_all(connection: Connection, place: ScopePlace, *, family: bool) -> None:
    """Delete the rows of a scope, or of all instances of a mapped task, and their versions.

    With `family`, the versions are deleted first, because only the rows tell whose versions they are. A version that is
    written in between stays until a cleanup, unless this is in a transaction that keeps writers out.
    """
    if family:
        scopes = select(STATE.c.scope_hash).where(_of_family(place))
        connection.execute(delete(HISTORY).where(HISTORY.c.scope_hash.in_(scopes)))
        connection.execute(delete(STATE).where(_of_family(place)))
        return
    connection.execute(delete(STATE).where(STATE.c.scope_hash == place.identity))
    connection.execute(delete(HISTORY).where(HISTORY.c.scope_hash == place.identity, WITHOUT_VALUE))


def _of_family(place: ScopePlace) -> ColumnElement[bool]:
    """The rows of a family. Each part has an index. The one on families has only mapped rows, where possible."""
    mapped = and_(STATE.c.family_hash == place.family, text(f"({MAPPED})"))
    return or_(STATE.c.scope_hash.in_([place.identity, place.unmapped]), mapped)


# --- history --------------------------------------------------------------------------------------------------


def write_version(connection: Connection, row: NewRow, keep: int) -> None:
    """Add a version to the history of its key, which keeps the last `keep` of them."""
    written = row.columns()
    connection.execute(insert(HISTORY), {name: written[name] for name in _HISTORY})
    old = select(HISTORY.c.id).where(_THERE).order_by(HISTORY.c.id.desc()).offset(keep).limit(keep)
    ids = connection.execute(old, row.at).scalars().all()
    if ids:
        connection.execute(delete(HISTORY).where(HISTORY.c.id.in_(ids)))


def read_history(connection: Connection, where: dict[str, Any]) -> Sequence[Row[Any]]:
    """The versions of a key in the history, newest first."""
    names = ("value", "version", "updated_us", "try_number")
    statement = select(*(HISTORY.c[name] for name in names)).where(_THERE).order_by(HISTORY.c.id.desc())
    return connection.execute(statement, where).all()
