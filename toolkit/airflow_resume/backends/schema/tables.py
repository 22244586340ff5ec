"""The tables, written once for all databases. The dialect of a database says which types its columns have."""

from __future__ import annotations

from typing import Any

from sqlalchemy import BigInteger, Column, Index, Integer, MetaData, String, Table, Text, UniqueConstraint, text
from sqlalchemy.types import TypeEngine

from airflow_resume.backends.dialects.base import ColumnTypes
from airflow_resume.backends.dialects.registry import DIALECTS
from airflow_resume.backends.schema.meta import TABLE
from airflow_resume.backends.values.scopes import COLUMNS, NO_REGION


def _type(name: str) -> TypeEngine[Any]:
    """A type of column, in all dialects."""
    generic: TypeEngine[Any] = getattr(ColumnTypes(), name)
    for dialect in DIALECTS:
        own = getattr(dialect.column_types, name)
        if own is not getattr(ColumnTypes(), name):
            for database in dialect.sqlalchemy_names:  # one by one, as SQLAlchemy 1.4 takes only one
                generic = generic.with_variant(own, database)
    return generic


def _names(*, partial_indexes: bool) -> tuple[str, ...]:
    """SQLAlchemy's names of the databases that can, or cannot, have an index of some rows only."""
    return tuple(
        name
        for dialect in DIALECTS
        if dialect.has_partial_indexes is partial_indexes
        for name in dialect.sqlalchemy_names
    )


WITH_PARTIAL_INDEXES, WITHOUT_PARTIAL_INDEXES = _names(partial_indexes=True), _names(partial_indexes=False)
_OPTIONS: dict[str, Any] = {
    f"{name}_{option}": value
    for dialect in DIALECTS
    for name in dialect.sqlalchemy_names
    for option, value in dialect.table_options.items()
}
_ID, _DIGEST, _TEXT, _VALUE = _type("id"), _type("digest"), _type("text"), _type("value")
_TYPES_OF_SCOPES: dict[str, TypeEngine[Any]] = {
    "map_index": Integer(),
    "region_id": String(36),
    "asset_id": BigInteger(),
}
"""The types of columns of a scope; the others are texts."""

MAPPED = f"map_index >= 0 OR region_id <> '{NO_REGION}'"
"""True of every row of a mapped task or in a region: its family may have rows in other scopes."""

_WHERE_MAPPED: dict[str, Any] = {f"{name}_where": text(MAPPED) for name in WITH_PARTIAL_INDEXES}

metadata = MetaData()

META = Table(
    TABLE,
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("version", Integer, nullable=False, key="needs"),
    Column("schema_version", Integer, nullable=False, server_default="1"),
    Column("store_id", String(32), nullable=False),
    # Those that it had before, the last one last, with a space between them.
    Column("former_ids", Text),
    **_OPTIONS,
)

STATE = Table(
    "airflow_resume_state",
    metadata,
    Column("id", _ID, primary_key=True, autoincrement=True),
    Column("scope_hash", _DIGEST, nullable=False),
    Column("key_hash", _DIGEST, nullable=False),
    Column("family_hash", _DIGEST, nullable=False),
    # To be read by people; no statement looks for them.
    *(Column(name, _TYPES_OF_SCOPES.get(name, _TEXT)) for name in COLUMNS),
    Column("key", _TEXT, nullable=False),
    Column("value", _VALUE, nullable=False),
    # Another random number with every write: it tells a value from one that was deleted and set again, and a writer
    # whose answer was lost whether the value is its own.
    Column("version", BigInteger, nullable=False),
    Column("expires_us", BigInteger),
    Column("updated_us", BigInteger, nullable=False),
    # Whether Airflow has a reference to it, written by a worker: then nobody here knows when it expires.
    Column("referenced", Integer, nullable=False),
    # The task instance that wrote it, and which attempt of it.
    Column("writer_hash", _DIGEST, nullable=False),
    Column("try_number", Integer, nullable=False),
    Column("attempt_id", String(64), nullable=False),
    UniqueConstraint("scope_hash", "key_hash", name="airflow_resume_state_key"),
    Index("airflow_resume_state_family", "family_hash", info={"only": WITHOUT_PARTIAL_INDEXES}),
    # Rows that are not in this index are found by their scope. Those are nearly all rows, and the index costs them
    # nothing.
    Index(
        "airflow_resume_state_mapped",
        "family_hash",
        **_WHERE_MAPPED,
        info={"only": WITH_PARTIAL_INDEXES},
    ),
    Index("airflow_resume_state_expires", "expires_us"),
    **_OPTIONS,
)

HISTORY = Table(
    "airflow_resume_history",
    metadata,
    Column("id", _ID, primary_key=True, autoincrement=True),
    Column("scope_hash", _DIGEST, nullable=False),
    Column("key_hash", _DIGEST, nullable=False),
    Column("value", _VALUE, nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("updated_us", BigInteger, nullable=False),
    Column("try_number", Integer, nullable=False),
    Index("airflow_resume_history_key", "scope_hash", "key_hash", "id"),
    **_OPTIONS,
)
