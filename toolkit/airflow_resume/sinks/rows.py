"""The table of positions, and the statements on one row of it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
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
from airflow_resume.errors import SinkTableError
from airflow_resume.sink_protocol import Claimant
from airflow_resume.sinks.databases import Database
from airflow_resume.sinks.decide import Held, Stamp
from airflow_resume.sinks.stored_claim import claim_of, held_of

if TYPE_CHECKING:
    from pydantic import JsonValue
    from sqlalchemy import Connection, Dialect

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


def make_table(connection: Connection, table: Table, target: str) -> bool:
    """Make the table, unless it is there. Returns whether it was made.

    Args:
        connection: in no transaction.
        table: of positions.
        target: what the database is called in messages.

    Raises:
        SinkTableError: there is no table, and this user may not make it.
    """
    if _is_there(connection, table):
        return False
    statement = ddl_of(table, connection.dialect)
    try:
        connection.exec_driver_sql(statement)
        connection.commit()
    except DBAPIError as error:
        connection.rollback()
        if _is_there(connection, table):  # another attempt has made it
            return False
        raise SinkTableError(
            f"{target} has no table {table.fullname!r}, and it could not be made ({type(error.orig).__name__}).",
            f"Have it made by a user who may do that:\n{statement};",
            sink=target,
            statement=statement,
        ) from error
    return True


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


class PositionRow:
    """One row of the table. Each method is one statement.

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

    def read(self, connection: Connection, *, lock: bool = False) -> FoundRow | None:
        """The row; None if there is none.

        Args:
            connection: in a transaction.
            lock: whether to lock the row until the end of the transaction, where the database can do that.
        """
        table = self._table.c
        query = select(table.claim, table.nonce, table.version, table.position).where(table.position_key == self._key)
        row = connection.execute(query.with_for_update() if lock and self._database.locks_rows else query).one_or_none()
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
        row = {"position_key": self._key, "identity": self.identity, "claim": claim_of(ours), "nonce": nonce}
        connection.execute(insert(self._table).values(**row, version=0, updated_at=func.current_timestamp()))

    def take_over(self, connection: Connection, before: Stamp, ours: Claimant, nonce: str) -> bool:
        """Write our claim, if the row is still as it was read."""
        return self._hit(connection, self._update("claim", "nonce"), before, claim=claim_of(ours), nonce=nonce)

    def release(self, connection: Connection, before: Stamp, ours: Claimant) -> bool:
        """Note that the claim is given back, if it is still ours."""
        return self._hit(connection, self._update("claim"), before, claim=claim_of(ours, released=True))

    def advance(self, connection: Connection, before: Stamp, position: JsonValue, transaction: int | None) -> bool:
        """Write the position, if the row is still as we left it.

        Args:
            connection: in the transaction of the data.
            before: what our last commit left in the row.
            position: to write.
            transaction: the number that the transaction must have; None where transactions have none.
        """
        if self._advance is None:  # built once, as that takes longer than to execute it
            self._advance = self._update("position", by_number=transaction is not None)
        return self._hit(connection, self._advance, before, position=values.dumps(position), transaction=transaction)

    def _update(self, *columns: str, by_number: bool = False) -> Update:
        """A statement that changes these columns, if the row still has the claim and the version."""
        table = self._table.c
        statement = update(self._table).where(
            table.position_key == self._key,
            table.nonce == bindparam("nonce_before"),
            table.version == bindparam("version_before"),
        )
        if by_number:
            statement = statement.where(literal_column("txid_current()") == bindparam("transaction"))
        changes: dict[str, Any] = {name: bindparam(f"new_{name}") for name in (*columns, "version")}
        return statement.values(**changes, updated_at=func.current_timestamp())

    def _hit(
        self, connection: Connection, statement: Update, before: Stamp, transaction: int | None = None, **new: object
    ) -> bool:
        parameters = {"nonce_before": before.nonce, "version_before": before.version, "new_version": before.version + 1}
        parameters |= {f"new_{name}": value for name, value in new.items()}
        if transaction is not None:
            parameters["transaction"] = transaction
        return connection.execute(statement, parameters).rowcount == 1
