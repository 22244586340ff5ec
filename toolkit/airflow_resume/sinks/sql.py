"""A SQL database as a sink. SQLAlchemy is imported when the sink is first used, and not when a Dag file is read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any

from airflow_resume.arguments import check_choice, check_duration, check_type, kind_of
from airflow_resume.errors import SinkUnsafeError
from airflow_resume.shown import short_repr
from airflow_resume.sink_protocol import Claimant
from airflow_resume.sinks.decide import OnContention

if TYPE_CHECKING:
    from pydantic import JsonValue
    from sqlalchemy import Engine, Table
    from sqlalchemy.engine import URL

    from airflow_resume.sinks.transaction import SqlPosition

TABLE = "airflow_resume_positions"


class SqlSink:
    """A SQL database that keeps the position of a loop or a watermark in the transaction of its rows.

        sink = SqlSink("postgresql+psycopg://etl@warehouse/dwh")
        with checkpoint(pages, name="orders", sink=sink) as loop:
            for page in loop:
                loop.connection.execute(insert(orders), page.items)

    The database is PostgreSQL, MySQL or MariaDB (InnoDB), SQLite or DuckDB. It gets one small table of positions, which
    is made at the first use.

    Args:
        database: an engine of SQLAlchemy, or a URL. With a URL the engine is made when it is first needed.
        table: the name of the table of positions. Two deployments that have equal Dags need a table each.
        schema: of this table; by default that of the connection.
        on_contention: what to do if another run without an order holds the position, such as a second run of a script,
            or another Dag run for a watermark. `"take_over"` (default): this run continues, and the other one's next
            commit fails. `"wait"`: until the other one has ended. `"fail"`: with `SinkBusyError`, if it is alive.
            Attempts of one task instance have an order: a later one always takes over.
        patience: how long to wait for a lock on the row, or for a file of DuckDB with `"wait"`; and after which time
            without a commit another run counts as dead, with `"wait"` and `"fail"`. 60 s by default, so it should be
            longer than the work on one element.
        script: the name of the script, for scripts whose `store=` does not outlive them. By default the store tells
            whether a position in the sink belongs to this script. In a task it has no meaning.

    Raises:
        TypeError, ValueError: at once, for invalid arguments.
    """

    def __init__(
        self,
        database: Engine | URL | str,
        *,
        table: str = TABLE,
        schema: str | None = None,
        on_contention: OnContention = "take_over",
        patience: timedelta = timedelta(seconds=60),
        script: str | None = None,
    ) -> None:
        if not isinstance(database, str) and not hasattr(database, "get_backend_name") and not _is_engine(database):
            raise TypeError(
                f"database= was given {kind_of(database)}, and must be an engine of SQLAlchemy or a URL."
                "\nFor an Airflow connection, use SqlSink.from_conn_id, or hook.get_sqlalchemy_engine()."
            )
        for name, text in (("table", table), ("schema", schema), ("script", script)):
            if not (name != "table" and text is None) and not (isinstance(text, str) and text):
                raise TypeError(f"{name}={short_repr(text)} must be a name")
        check_choice("on_contention", on_contention, OnContention)
        check_duration("patience", patience)
        self._make_engine: Callable[[], Engine] = lambda: _engine_of(database)
        self._table, self._schema, self._patience, self.script = table, schema, patience, script
        self._on_contention: OnContention = on_contention

    @classmethod
    def from_conn_id(cls, conn_id: str, **options: Any) -> SqlSink:
        """The database of an Airflow connection, which is looked up when it is first needed.

        Args:
            conn_id: of the connection. Its provider must be installed, as its hook makes the engine.
            options: as for `SqlSink`.
        """
        check_type("conn_id", conn_id, str, "the id of a connection")
        sink = cls("sqlite://", **options)
        sink._make_engine = lambda: _engine_of_connection(conn_id)
        return sink

    def __repr__(self) -> str:
        return f"<SqlSink {self._table!r}>"

    @cached_property
    def engine(self) -> Engine:
        """The engine.

        Raises:
            SinkUnsafeError: the database is not one of those that were tested.
        """
        engine = self._make_engine()
        from airflow_resume.sinks.databases import DATABASES

        if engine.dialect.name not in DATABASES:
            raise SinkUnsafeError(
                f"Whether {engine.dialect.name!r} keeps rows and a position together was not tested.",
                f"Use one of {', '.join(sorted(DATABASES))}; or no sink, and a body that may be repeated.",
                problem="database",
            )
        if engine.dialect.is_async:
            raise SinkUnsafeError(
                f"{engine.dialect.driver!r} is a driver for an event loop, which the connection of a sink would block.",
                "Use an engine made by create_engine, with another driver.",
                problem="database",
            )
        return engine

    @property
    def target(self) -> str:
        """The database without its password, for messages."""
        url = self.engine.url
        return f"{url.get_backend_name()}://{url.host or ''}/{url.database or ''}"

    @cached_property
    def positions(self) -> Table:
        """The table of positions, as SQLAlchemy has tables.

        Raises:
            SinkTableError: the database does not take its name.
        """
        from airflow_resume.sinks.databases import DATABASES
        from airflow_resume.sinks.rows import check_names, table_of

        database = DATABASES[self.engine.dialect.name]
        table = table_of(self._table, self._schema, database)
        check_names(table, self.target, database.longest_name)
        return table

    def ddl(self) -> str:
        """The statement that makes the table of positions, for a user who may make tables."""
        from airflow_resume.sinks.rows import ddl_of

        return ddl_of(self.positions, self.engine.dialect)

    def make_table(self) -> bool:
        """Make the table of positions, unless it is there. The first loop or watermark does that by itself.

        Returns:
            Whether it was made.

        Raises:
            SinkTableError: this user may not make it, or its schema is missing.
            SinkError: the connection was lost.
        """
        from airflow_resume.sinks.databases import DATABASES
        from airflow_resume.sinks.rows import make_table

        with self.engine.connect() as connection:
            return make_table(connection, self.positions, self.target, DATABASES[self.engine.dialect.name])

    def claim(self, identity: Sequence[JsonValue], claimant: Claimant) -> SqlPosition:
        """Claim a position; loops and watermarks do that.

        Args:
            identity: what identifies the position.
            claimant: the running attempt.

        Raises:
            SupersededError: a later attempt has claimed it. Nothing was touched.
            SinkBusyError, SinkTableError, SinkUnsafeError: it cannot be claimed.
        """
        from airflow_resume.sinks.claim import Claim

        claim = Claim(
            self.engine,
            self.positions,
            target=self.target,
            on_contention=self._on_contention,
            patience=self._patience,
        )
        return claim.claimed(identity, claimant)


def _is_engine(database: object) -> bool:
    return hasattr(database, "connect") and hasattr(database, "dialect")


def _engine_of(database: Engine | URL | str) -> Engine:
    from sqlalchemy import create_engine
    from sqlalchemy.engine import URL

    return create_engine(database) if isinstance(database, (str, URL)) else database


def _engine_of_connection(conn_id: str) -> Engine:
    from airflow_resume.compat import BaseHook

    hook: Any = BaseHook.get_hook(conn_id)
    engine: Engine = hook.get_sqlalchemy_engine()
    return engine
