"""The tables, and how an older database becomes a newer one.

One row in `airflow_resume_meta` says which version the tables have, and names the database by a random id. Versions
only go up. Whoever comes first makes the tables, under a lock, as eight processes may come first at once; a step that
was interrupted is made again, so each step can be.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    insert,
    inspect,
    select,
    update,
)
from sqlalchemy.dialects import mysql

from airflow_resume.errors import NewerSchemaError

_MYSQL = ("mysql", "mariadb")
_DIGEST = String(64).with_variant(mysql.CHAR(64, charset="ascii", collation="ascii_bin"), *_MYSQL)
_TEXT = Text().with_variant(mysql.TEXT(charset="utf8mb4", collation="utf8mb4_bin"), *_MYSQL)
_VALUE = Text().with_variant(mysql.MEDIUMTEXT(charset="utf8mb4", collation="utf8mb4_bin"), *_MYSQL)
_ID = BigInteger().with_variant(Integer, "sqlite")  # SQLite counts up an INTEGER only

metadata = MetaData()

META = Table(
    "airflow_resume_meta",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("version", Integer, nullable=False),
    Column("store_id", String(32), nullable=False),
    mysql_engine="InnoDB",
    mariadb_engine="InnoDB",
)

STATE = Table(
    "airflow_resume_state",
    metadata,
    Column("id", _ID, primary_key=True, autoincrement=True),
    Column("scope_hash", _DIGEST, nullable=False),
    Column("key_hash", _DIGEST, nullable=False),
    Column("family_hash", _DIGEST, nullable=False),
    # To be read by people; no statement looks for them.
    Column("dag_id", _TEXT),
    Column("run_id", _TEXT),
    Column("task_id", _TEXT),
    Column("map_index", Integer),
    Column("region_id", String(36)),
    Column("asset_id", BigInteger),
    Column("asset_name", _TEXT),
    Column("asset_uri", _TEXT),
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
    Index("airflow_resume_state_family", "family_hash"),
    Index("airflow_resume_state_expires", "expires_us"),
    mysql_engine="InnoDB",
    mariadb_engine="InnoDB",
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
    mysql_engine="InnoDB",
    mariadb_engine="InnoDB",
)

MIGRATIONS: Sequence[Callable[[Connection], None]] = (metadata.create_all,)
"""What makes version 1 of nothing, version 2 of 1, and so on. Each can be made again after it was interrupted."""


def read_store_id(connection: Connection) -> str | None:
    """The id of the database; None when its tables are missing or older than ours.

    Raises:
        NewerSchemaError: they are newer.
    """
    version, store_id = read_version(connection)
    if version > len(MIGRATIONS):
        raise NewerSchemaError(
            f"The database has version {version} of the tables, and this airflow-resume knows {len(MIGRATIONS)}.",
            "Upgrade airflow-resume here, or use another database.",
        )
    return store_id if version == len(MIGRATIONS) else None


def migrate(connection: Connection) -> str:
    """Bring the tables up to our version, and return the id of the database. To be called under the lock."""
    version, store_id = read_version(connection)
    for number, step in enumerate(MIGRATIONS[version:], version + 1):
        step(connection)
        if number == 1:
            store_id = secrets.token_hex(16)
            connection.execute(insert(META).values(id=1, version=1, store_id=store_id))
        else:
            connection.execute(update(META).values(version=number))
    return str(store_id)


def read_version(connection: Connection) -> tuple[int, str | None]:
    """The version of the tables, 0 where there are none, and the id of the database."""
    if not inspect(connection).has_table(META.name):
        return 0, None
    found = connection.execute(select(META.c.version, META.c.store_id)).first()
    return (0, None) if found is None else (found.version, found.store_id)
