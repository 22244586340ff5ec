"""The versions of the tables, and how an older database becomes a newer one while others use it.

The row in `airflow_resume_meta` names the database by a random id, and has two numbers: the version of the tables, and
the version that a program must know in order to use them. A program may use tables that are newer than it knows, if the
second number allows it. So two versions of the program may run side by side. The second number is in the column
`version`, because the first program knew only that column, and refuses to open a database because of it.

So a step that an older program cannot work with raises `needs`. A program that has the database open checks the row
once a minute, and when a call is refused. Version 1 of the program does not check it, so the tables themselves must
stop it: such a step gives a new name to every table that it changes.

Versions only go up. The first process makes the changes under a lock, because several processes may begin at the same
time. MySQL commits at every change of a table, so a step may be interrupted in the middle. So each change finds out
from the tables whether it was made, and the number is written last.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import Index, Table, insert, inspect, select, update
from sqlalchemy.engine import Connection, Inspector
from sqlalchemy.schema import DDL, CreateIndex, CreateTable
from sqlalchemy.sql.expression import Insert, Update

from airflow_resume.backends.schema.meta import MetaRow, read_meta
from airflow_resume.backends.schema.tables import HISTORY, META, STATE, WITH_PARTIAL_INDEXES
from airflow_resume.backends.span import PassingError
from airflow_resume.backends.urls.shown import shown_url
from airflow_resume.errors import SchemaError

if TYPE_CHECKING:
    from sqlalchemy.schema import ExecutableDDLElement  # SQLAlchemy 1.4 has another name for it


@dataclass(frozen=True, kw_only=True)
class Change:
    """One change of the tables.

    Args:
        ddl: the statement.
        done: whether the tables show that the change was made already. A missing table is made as it is in `tables`,
            which includes later changes of it.
        only: the kinds of databases that need the change; empty for all.
    """

    ddl: ExecutableDDLElement
    done: Callable[[Inspector], bool]
    only: tuple[str, ...] = ()


def in_words(statement: str) -> ExecutableDDLElement:
    """A statement that changes a table."""
    made: ExecutableDDLElement = DDL(statement)  # type: ignore[no-untyped-call]
    return made


@dataclass(frozen=True, kw_only=True)
class Step:
    """The changes from one version to the next; `needs` is the oldest version of the program that can use them."""

    changes: Sequence[Change]
    needs: int = 1


(_MAPPED_INDEX,) = (index for index in STATE.indexes if index.name == "airflow_resume_state_mapped")


def _has_index(found: Inspector, table: str, name: str) -> bool:
    return name in {index["name"] for index in found.get_indexes(table)}


def _has_column(table: str, name: str) -> Callable[[Inspector], bool]:
    return lambda found: not found.has_table(table) or name in {column["name"] for column in found.get_columns(table)}


def _making(table: Table) -> Iterator[Change]:
    """The table and its indexes one by one: it may be interrupted between them."""
    yield Change(ddl=CreateTable(table), done=lambda found: found.has_table(table.name))
    for index in sorted(table.indexes, key=lambda index: str(index.name)):
        yield _making_index(index)


def _making_index(index: Index, *, with_table: bool = False) -> Change:
    """The change that makes an index. If the table is missing: after the table, or together (`with_table`)."""
    table, name = str(index.table.name), str(index.name)  # type: ignore[union-attr]
    return Change(
        ddl=CreateIndex(index),
        done=lambda found: _has_index(found, table, name) if found.has_table(table) else with_table,
        only=index.info.get("only", ()),
    )


MIGRATIONS: Sequence[Step] = (
    Step(changes=[change for table in (STATE, HISTORY, META) for change in _making(table)]),
    # The changes that lock the row that every process reads come last.
    Step(
        changes=[
            _making_index(_MAPPED_INDEX, with_table=True),
            Change(
                ddl=in_words("DROP INDEX airflow_resume_state_family"),
                done=lambda found: (
                    not (found.has_table(STATE.name) and _has_index(found, STATE.name, "airflow_resume_state_family"))
                ),
                only=WITH_PARTIAL_INDEXES,
            ),
            Change(
                ddl=in_words("ALTER TABLE airflow_resume_meta ADD COLUMN former_ids TEXT"),
                done=_has_column(META.name, "former_ids"),
            ),
            Change(
                ddl=in_words("ALTER TABLE airflow_resume_meta ADD COLUMN schema_version INTEGER DEFAULT 1 NOT NULL"),
                done=_has_column(META.name, "schema_version"),
            ),
        ],
    ),
)
"""The steps: step n makes version n from version n - 1."""

NEWEST = len(MIGRATIONS)
"""The version that this program makes."""

OLDEST = 1
"""The oldest version of the tables that this program can use; raised by a step that it depends on."""


_NO_PLACE = "The database"
"""The name of a database in a message whose reader knows which one it is."""


@dataclass(frozen=True, kw_only=True)
class SchemaState(MetaRow):
    """What a database says of its tables; version 0 where there are none."""

    absent: Sequence[str] = ()
    """Tables that should be beside the row, and are not."""

    @property
    def is_missing(self) -> bool:
        """Whether there are no tables."""
        return self.version == 0

    @property
    def may_be_used(self) -> bool:
        """Whether this program can use them."""
        return self.version >= OLDEST and self.needs <= len(MIGRATIONS)

    @property
    def is_older(self) -> bool:
        """Whether the tables are missing or older than ours."""
        return self.version < len(MIGRATIONS)

    @property
    def is_newer(self) -> bool:
        """Whether they are newer than ours, and may be used all the same."""
        return self.version > len(MIGRATIONS)

    @property
    def is_outdated(self) -> bool:
        """Whether `migrate` has something to do."""
        return self.is_older or bool(self.absent)

    def require_whole(self, where: str = _NO_PLACE) -> None:
        """Refuse a database that has lost some of its tables: making them anew would hide that their rows are lost.

        Raises:
            SchemaError: a table is missing.
        """
        if self.absent:
            raise SchemaError(
                f"{where} has no {' and no '.join(self.absent)} any more, beside the other tables: dropped, or not"
                " restored. What was in it is lost.",
                "Restore it from a backup; or have `airflow-resume migrate` make it anew, with nothing in it.",
                problem="damaged",
                where=None if where is _NO_PLACE else where,
            )

    def require_known(self, where: str = _NO_PLACE) -> None:
        """Refuse tables that only a newer program can use.

        Raises:
            SchemaError: this program is too old for them.
        """
        if self.needs > len(MIGRATIONS):
            raise SchemaError(
                f"{where} has version {self.version} of the tables, and this airflow-resume knows {len(MIGRATIONS)}.",
                "Upgrade airflow-resume here, or use another database.",
                problem="newer",
                where=None if where is _NO_PLACE else where,
                version=self.version,
                known=len(MIGRATIONS),
            )


def read_state(connection: Connection) -> SchemaState:
    """What the database says of its tables. Those of version 1 have one number only.

    Raises:
        SchemaError: no program of ours has written what it says.
    """
    found = inspect(connection)
    if not found.has_table(META.name):
        return SchemaState()
    meta = _read_row(connection)
    # Newer tables may have other names.
    is_ours = 0 < meta.version <= len(MIGRATIONS)
    absent = [table.name for table in (STATE, HISTORY) if is_ours and not found.has_table(table.name)]
    return SchemaState(**vars(meta), absent=absent)


def _read_row(connection: Connection) -> MetaRow:
    rows = connection.exec_driver_sql(f"SELECT * FROM {META.name} LIMIT 2").mappings()  # noqa: S608  a constant
    return read_meta([dict(row) for row in rows], shown_url(connection.engine.url), known=len(MIGRATIONS))


class RowMissingError(PassingError):
    """The table for the row that names the database has no row. Opening the database makes one."""


def read_ids(connection: Connection) -> MetaRow:
    """The id of the database, and its former ids: a copy may have got another id, or the tables were made anew.

    Raises:
        RowMissingError: another process is just making the tables, or somebody has deleted the row.
        SchemaError: the stored value is not an id.
    """
    meta = _read_row(connection)
    if meta.store_id is None:
        raise RowMissingError("Another process is making the tables")
    return meta


def change_id(connection: Connection, new: str | None) -> tuple[str, str]:
    """Give the database another id, and keep the present one among its former ids.

    Args:
        connection: in a transaction.
        new: the id; None for the previous id.

    Returns:
        The id before and the id after this.

    Raises:
        SchemaError: there is no previous id, or the stored value is not an id.
        PassingError: another process was faster.
    """
    found = read_ids(connection)
    store_id, former = str(found.store_id), list(found.former_ids)
    if store_id == new and former:  # it was done, and the answer was lost
        return former[-1], store_id
    if new is None and not former:
        raise SchemaError(
            "The database of the state backend has had no other id. Nothing was changed.",
            problem="no former id",
            where=shown_url(connection.engine.url),
        )
    given = former.pop() if new is None else new
    values = {"store_id": given, "former_ids": " ".join([*former, store_id])}
    if connection.execute(update(META).where(META.c.store_id == store_id).values(values)).rowcount != 1:
        raise PassingError("Another process has just changed the id")
    return store_id, given


def migrate(connection: Connection) -> None:
    """Bring the tables up to our version, and make those that are missing. To be called under the lock.

    Raises:
        SchemaError: they need a newer program; or there are values, but no id of their database.
    """
    found = read_state(connection)
    found.require_known()
    if not found.is_outdated:
        return
    if found.is_missing:
        _require_empty(connection)
    for statement in _outstanding(connection, found):
        connection.execute(statement)
    connection.execute(_write_down(found))


def pending_sql(connection: Connection) -> list[str]:
    """The statements that `migrate` would execute, as text. Nothing is changed."""
    found = read_state(connection)
    found.require_known()
    if not found.is_outdated:
        return []
    dialect = connection.dialect
    statements = [str(ddl.compile(dialect=dialect)).strip() for ddl in _outstanding(connection, found)]
    last = _write_down(found)
    return [*statements, str(last.compile(dialect=dialect, compile_kwargs={"literal_binds": True}))]


def _require_empty(connection: Connection) -> None:
    """Refuse values without an id: with a new id, a cleanup would take their references for those of others."""
    if inspect(connection).has_table(STATE.name) and connection.execute(select(STATE.c.id).limit(1)).first():
        raise SchemaError(
            f"{shown_url(connection.engine.url)} has values, and no row in {META.name} that gives it an id.",
            "Restore that table from a backup; or put back its row, with id = 1, version = 1, and as store_id the one"
            " that Airflow's references have (32 hexadecimal digits after airflow-resume:1:).",
            problem="damaged",
            where=shown_url(connection.engine.url),
        )


def _outstanding(connection: Connection, found: SchemaState) -> Iterator[ExecutableDDLElement]:
    """The changes that are needed, each checked after those before it, by an inspector of its own, as it caches."""
    kind = connection.dialect.name
    for step in MIGRATIONS[0 if found.absent else found.version :]:
        for change in step.changes:
            concerned = not change.only or kind in change.only
            if concerned and not change.done(inspect(connection)):
                yield change.ddl


def _write_down(found: SchemaState) -> Insert | Update:
    numbers = {"needs": max(step.needs for step in MIGRATIONS), "schema_version": len(MIGRATIONS)}
    if found.store_id is None:
        return insert(META).values(id=1, store_id=new_id(), **numbers)
    return update(META).values(numbers)


def new_id() -> str:
    """A new id for a database."""
    return secrets.token_hex(16)
