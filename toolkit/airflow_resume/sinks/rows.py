"""The table of positions, and the statements on one row of it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from sqlalchemy import (
    BigInteger,
    Column,
    DateTime,
    MetaData,
    String,
    Table,
    Text,
    Update,
    bindparam,
    delete,
    func,
    insert,
    inspect,
    literal_column,
    select,
    update,
)
from sqlalchemy.dialects.mysql import MEDIUMTEXT
from sqlalchemy.exc import DBAPIError
from sqlalchemy.schema import CreateTable

from airflow_resume import values
from airflow_resume.errors import SinkError, SinkTableError
from airflow_resume.sink_protocol import Claimant
from airflow_resume.sinks.databases import OUR_OPTIONS, Database, executed
from airflow_resume.sinks.decide import Held, Stamp
from airflow_resume.sinks.stored_claim import claim_of, held_of

if TYPE_CHECKING:
    from pydantic import JsonValue
    from sqlalchemy import Connection, Dialect, Executable

_LONG = Text().with_variant(MEDIUMTEXT(), "mysql", "mariadb")


def table_of(name: str, schema: str | None, database: Database) -> Table:
    """The table, which has one small row for each loop or watermark."""
    options: dict[str, Any] = dict(database.table_options)
    return Table(
        name,
        MetaData(),
        Column("position_key", String(64), primary_key=True, autoincrement=False),
        Column("identity", Text, nullable=False),
        Column("claim", Text, nullable=False),
        Column("nonce", String(32), nullable=False),
        Column("version", BigInteger, nullable=False),
        Column("position", _LONG),
        Column("updated_at", DateTime(timezone=True), nullable=False),
        schema=schema,
        **options,
    )


def ddl_of(table: Table, dialect: Dialect) -> str:
    """The statement that makes the table, without a semicolon."""
    return str(CreateTable(table, if_not_exists=True).compile(dialect=dialect)).strip()


def check_names(table: Table, target: str, longest: int | None) -> None:
    """Check that the database takes the names of the table and of its schema.

    Args:
        table: of positions.
        target: what the database is called in messages.
        longest: how many characters a name may have; None if there is no limit.

    Raises:
        SinkTableError: one is too long.
    """
    for option, name in (("table", table.name), ("schema", table.schema or "")):
        if longest is not None and len(name) > longest:
            raise SinkTableError(
                f"The name {name!r} is longer than the {longest} characters that {target} allows.",
                f"Give {option}= a shorter name.",
                sink=target,
                statement="",
            )


def make_table(connection: Connection, table: Table, target: str, database: Database) -> bool:
    """Make the table, unless it is there. Returns whether it was made.

    Args:
        connection: in no transaction.
        table: of positions.
        target: what the database is called in messages.
        database: of the connection.

    Raises:
        SinkTableError: there is no table, and this user may not make it, or its schema is missing.
        SinkError: the connection was lost.
        DBAPIError: the database could not make it for another reason, such as a lock.
    """
    statement = ddl_of(table, connection.dialect)
    try:
        if _is_there(connection, table):
            return False
        executed(connection, statement)
        connection.commit()
    except DBAPIError as error:
        connection.rollback()
        if (named := _unmade(error, table, target, database, " ".join(statement.split()))) is not None:
            raise named from error
        if _is_there(connection, table):  # another attempt has made it
            return False
        raise
    return True


def _unmade(error: DBAPIError, table: Table, target: str, database: Database, statement: str) -> SinkError | None:
    """The error for a table that was not made; None if it is not known what the trouble is."""
    if error.connection_invalidated:
        return SinkError(
            f"The connection to {target} was lost while the table {table.fullname!r} was looked for or made.",
            "A retry tries it again.",
            sink=target,
        )
    if database.lacks_schema(error):
        return SinkTableError(
            f"{target} has no schema {table.schema!r} for the table of positions.",
            "Make the schema, or give schema= one that exists, or leave it out.",
            sink=target,
            statement=f"CREATE SCHEMA {table.schema}",
        )
    if database.was_denied(error):
        return SinkTableError(
            f"{target} has no table {table.fullname!r}, and this user may not make it.",
            f"Have it made by a user who may do that: {statement}",
            sink=target,
            statement=statement,
        )
    return None


def _is_there(connection: Connection, table: Table) -> bool:
    try:
        return inspect(connection).has_table(table.name, schema=table.schema)
    finally:
        connection.rollback()


@dataclass(frozen=True, kw_only=True)
class FoundRow:
    """A row as it was read."""

    held: Held
    stamp: Stamp
    position: JsonValue


@dataclass(frozen=True, kw_only=True)
class Unfinished:
    """The note of a transaction that was committed without its position.

    Args:
        key: of its row.
        by: who has run it.
        at: when it began, by the clock of the database.
    """

    key: str
    by: Claimant
    at: datetime


_OF_POSITION, _OF_TRANSACTION = 40, 24
"""Digits of the key of a note: it begins like the key of the position, and the rest tells the transaction."""


class PositionRow:
    """One row of the table. Each method is one statement.

    While a transaction of a body runs, there is a second row in it, the *note*. It is written first, and deleted when
    the position is written. So only a transaction that was committed without the position leaves it in the table.

    Args:
        table: of positions.
        database: that it is in.
        identity: what identifies the position.
    """

    def __init__(self, table: Table, database: Database, identity: Sequence[JsonValue]) -> None:
        self._table, self._database = table, database
        self.identity = values.dumps([*identity])
        self._key = hashlib.sha256(self.identity.encode()).hexdigest()
        self._advance: Update | None = None
        # Built once, as that takes longer than to execute them.
        names = ("position_key", "identity", "claim", "nonce", "version")
        new: dict[str, Any] = {name: bindparam(f"new_{name}") for name in names}
        self._insert = insert(table).values(**new, updated_at=func.current_timestamp())
        self._note = self._insert
        self._forget = delete(table).where(table.c.position_key == bindparam("note_key"))
        if database.numbers:
            is_same = literal_column("txid_current()") == bindparam("transaction")
            self._forget = self._forget.where(is_same)
            self._note = self._insert.returning(literal_column("txid_current()"))

    def read(self, connection: Connection, *, lock: bool = False) -> FoundRow | None:
        """The row; None if there is none.

        Args:
            connection: in a transaction.
            lock: whether to lock the row until the end of the transaction, where the database can do that.
        """
        table = self._table.c
        query = select(table.claim, table.nonce, table.version, table.position).where(table.position_key == self._key)
        row = _result_of(
            connection, query.with_for_update() if lock and self._database.locks_rows else query
        ).one_or_none()
        if row is None:
            return None
        claim, nonce, version, position = row
        return FoundRow(
            held=held_of(claim),
            stamp=Stamp(nonce, version),
            position=None if position is None else json.loads(position),
        )

    def insert(self, connection: Connection, ours: Claimant, nonce: str) -> None:
        """Make the row, without a position."""
        self._insert_as(connection, self._key, self.identity, ours, Stamp(nonce, 0))

    def _insert_as(self, connection: Connection, key: str, identity: str, ours: Claimant, stamp: Stamp) -> None:
        _result_of(connection, self._insert, _new_row(key, identity, ours, stamp))

    def _note_key(self, stamp: Stamp) -> str:
        of_transaction = hashlib.sha256(f"{stamp.nonce} {stamp.version}".encode()).hexdigest()
        return self._key[:_OF_POSITION] + of_transaction[:_OF_TRANSACTION]

    def note(self, connection: Connection, ours: Claimant, before: Stamp) -> int | None:
        """Write the note of a transaction. Returns the number of the transaction, where transactions have one.

        Args:
            connection: in the transaction.
            ours: who runs it.
            before: what our last commit left in the row.
        """
        row = _new_row(self._note_key(before), f"unfinished: {self.identity}", ours, before)
        result = _result_of(connection, self._note, row)
        return int(result.scalar_one()) if self._database.numbers else None

    def forget(self, connection: Connection, before: Stamp, transaction: int | None) -> bool:
        """Delete the note of a transaction. Returns whether it was there, and was written in this transaction.

        Args:
            connection: in the transaction.
            before: what our last commit left in the row.
            transaction: the number of the transaction; None where transactions have none.
        """
        parameters: dict[str, Any] = {"note_key": self._note_key(before)}
        if transaction is not None:
            parameters["transaction"] = transaction
        deleted: int = _result_of(connection, self._forget, parameters).rowcount
        return deleted == 1

    def unfinished(self, connection: Connection) -> Unfinished | None:
        """A note that was committed, so that there are rows without a position; None if there is none."""
        table, start = self._table.c, self._key[:_OF_POSITION]
        query = (
            select(table.position_key, table.claim, table.updated_at)
            .where(table.position_key >= start, table.position_key < f"{start}g", table.position_key != self._key)
            .order_by(table.updated_at)
        )
        row = _result_of(connection, query).first()
        return None if row is None else Unfinished(key=row[0], by=held_of(row[1]).by, at=row[2])

    def settle(self, unfinished: Unfinished) -> str:
        """The statement by which a person deletes a note."""
        return f"DELETE FROM {self._table.fullname} WHERE position_key = '{unfinished.key}'"  # noqa: S608  shown

    def probe(self, connection: Connection, nonce: str) -> bool:
        """Write a row that belongs to nothing, roll back, and look. Returns whether it was kept, and deletes it then.

        Args:
            connection: in a transaction that has just begun.
            nonce: the key of the row.
        """
        table, before = self._table.c, Stamp(nonce, 0)
        self._insert_as(connection, nonce, "probe", Claimant(), before)
        _result_of(connection, update(self._table).where(table.position_key == nonce).values(version=1))
        _result_of(
            connection, delete(self._table).where(table.position_key == "")
        )  # only to see whether that is allowed
        connection.rollback()
        is_kept = _result_of(connection, select(table.nonce).where(table.position_key == nonce)).first() is not None
        if is_kept:
            _result_of(connection, delete(self._table).where(table.position_key == nonce))
            connection.commit()
        return is_kept

    def take_over(self, connection: Connection, before: Stamp, ours: Claimant, nonce: str) -> bool:
        """Write our claim, if the row is still as it was read."""
        return self._hit(connection, self._update("claim", "nonce"), before, claim=claim_of(ours), nonce=nonce)

    def release(self, connection: Connection, before: Stamp, ours: Claimant) -> bool:
        """Note that the claim is given back, if it is still ours."""
        return self._hit(connection, self._update("claim"), before, claim=claim_of(ours, released=True))

    def advance(self, connection: Connection, before: Stamp, position: JsonValue) -> bool:
        """Write the position, if the row is still as we left it.

        Args:
            connection: in the transaction of the data.
            before: what our last commit left in the row.
            position: to write.
        """
        if self._advance is None:
            self._advance = self._update("position")
        return self._hit(connection, self._advance, before, position=values.dumps(position))

    def _update(self, *columns: str) -> Update:
        """A statement that changes these columns, if the row still has the claim and the version."""
        table = self._table.c
        statement = update(self._table).where(
            table.position_key == self._key,
            table.nonce == bindparam("nonce_before"),
            table.version == bindparam("version_before"),
        )
        changes: dict[str, Any] = {name: bindparam(f"new_{name}") for name in (*columns, "version")}
        return statement.values(**changes, updated_at=func.current_timestamp())

    def _hit(self, connection: Connection, statement: Update, before: Stamp, **new: object) -> bool:
        parameters = {"nonce_before": before.nonce, "version_before": before.version, "new_version": before.version + 1}
        parameters |= {f"new_{name}": value for name, value in new.items()}
        hit: int = _result_of(connection, statement, parameters).rowcount
        return hit == 1


def _result_of(connection: Connection, statement: Executable, parameters: dict[str, object] | None = None) -> Any:
    return connection.execute(statement, parameters, execution_options=OUR_OPTIONS)


def _new_row(key: str, identity: str, ours: Claimant, stamp: Stamp) -> dict[str, object]:
    return {
        "new_position_key": key,
        "new_identity": identity,
        "new_claim": claim_of(ours),
        "new_nonce": stamp.nonce,
        "new_version": stamp.version,
    }
