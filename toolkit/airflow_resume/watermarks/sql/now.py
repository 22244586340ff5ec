"""The clock of the source's database, in place of this machine's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import datetime, timezone
from typing import Any

from airflow_resume.arguments import check_type
from airflow_resume.errors import WatermarkError
from airflow_resume.watermarks.cursors.moments import read_moment
from airflow_resume.watermarks.cursors.zones import check_zone, now_on_clock

_QUERIES = {
    # As text, which does not depend on the session's time zone or the driver; and the time now, not that of the
    # beginning of the transaction.
    "postgresql": "SELECT to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US')",
    "mysql": "SELECT CAST(UTC_TIMESTAMP(6) AS CHAR)",
    "sqlite": "SELECT strftime('%Y-%m-%d %H:%M:%f', 'now')",
}


def sql_now(source: Any, *, tz: str | None = None, query: str | None = None) -> Callable[[], datetime]:
    """A clock for `watermark(..., now=)` that asks the source's database what time it is, for each window.

    Args:
        source: a function that opens a connection (DB-API or SQLAlchemy), which is closed again, or that returns an
            engine or an Airflow hook; an engine or a hook itself; or the `conn_id` of an Airflow connection. Nothing is
            opened when the Dag file is read.
        tz: for a cursor without a zone (`Cursor.datetime(tz=None)`), the time zone of the column. The result is then
            naive, and not too late in the nights of clock changes: it does not move during the hour that comes twice,
            and is an hour earlier for a day after an hour was skipped. A `delay` may be a day at most.
        query: a query that returns the time in UTC, as a datetime or its text, for a database other than PostgreSQL,
            MySQL, MariaDB and SQLite.

    Returns:
        A function that returns an aware time in UTC; with `tz` a naive one.

    Raises:
        TypeError: `source` is an open connection. ValueError: `tz` is not a time zone.
    """
    is_open = hasattr(source, "cursor") or hasattr(source, "execute")
    if not isinstance(source, str) and not _is_lazy(source) and (is_open or not callable(source)):
        raise TypeError(
            f"source= was given a {type(source).__name__}, which would be opened whenever the Dag file is read.\n"
            "Give a function that opens it, such as sql_now(lambda: psycopg.connect(...)), or a conn_id."
        )
    if query is not None:
        check_type("query", query, str, "a text")
    check_zone(tz, without=", or leave tz= out")

    def now() -> datetime:
        moment = _ask(source, query)
        return moment if tz is None else now_on_clock(moment, tz)

    return now


def _is_lazy(source: object) -> bool:
    """Whether it opens a connection only when it is used: an engine, or a hook."""
    return hasattr(source, "get_conn") or (hasattr(source, "connect") and hasattr(source, "raw_connection"))


def _ask(source: Any, query: str | None) -> datetime:
    from airflow_resume.watermarks.sql.drivers import driver_of

    place = source
    if isinstance(source, str):
        from airflow_resume.compat import BaseHook

        place = BaseHook.get_hook(source)
    elif not _is_lazy(source):
        place = source()
    with _opened(place) as connection:
        dialect = driver_of(connection).dialect if query is None else None
        if query is None and dialect not in _QUERIES:
            raise WatermarkError(
                f"How to ask {dialect or 'this database'} for its time is not known.",
                'Give it: sql_now(..., query="SELECT ..."), a query that gives the time in UTC.',
            )
        found = _first(connection, query or _QUERIES[str(dialect)])
    moment = read_moment(found, "the time of the database")
    return moment.replace(tzinfo=timezone.utc) if moment.tzinfo is None else moment.astimezone(timezone.utc)


@contextmanager
def _opened(place: Any) -> Iterator[Any]:
    if hasattr(place, "get_conn"):
        place = place.get_conn()
    elif _is_lazy(place):
        place = place.connect()
    with closing(place):
        yield place


def _first(connection: Any, query: str) -> object:
    """The first value of a query's answer.

    Raises:
        WatermarkError: the answer has no row.
    """
    if type(connection).__module__.partition(".")[0] == "sqlalchemy":
        driver_connection = connection if hasattr(connection, "exec_driver_sql") else connection.connection()
        row = driver_connection.exec_driver_sql(query).first()
    else:
        with closing(connection.cursor()) as cursor:
            cursor.execute(query)
            row = cursor.fetchone()
    if row is None:
        raise WatermarkError(
            f"The database was asked for its time, and the answer has no row: {query[:200]}",
            "Give sql_now() a query that gives the time in one row.",
        )
    return row[0]
