"""The conditions of queries for the rows of a window: as text for any driver, and for columns of SQLAlchemy."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic

from typing_extensions import TypeVar

from airflow_resume.watermarks.cursor import CursorType
from airflow_resume.watermarks.sql_column import Columns, SqlColumn, columns_of, parts_of
from airflow_resume.watermarks.track import THE_ONE, Nulls

if TYPE_CHECKING:
    from airflow_resume.watermarks.drivers import Driver, Style
    from airflow_resume.watermarks.sql import Bounds

T = TypeVar("T", default=Any)
log = logging.getLogger(__name__)


class QueryConditions(Generic[T]):
    """What a `Window` offers to those who query a database."""

    _cursor: CursorType[T]
    _start: T
    _end: T | None
    _at: T
    _known: frozenset[str]
    _nulls: Nulls | None
    _columns: tuple[SqlColumn, ...]
    _label: str
    _must_track: bool
    """A query has let rows without a value through, on which `track` is to raise."""
    _refuses_text: bool = False
    """A query has compared numbers by a column of SQLite, which may be text."""
    _has_warned: bool = False

    def sql(
        self,
        column: str | Sequence[str],
        on: object = None,
        *,
        style: Style | None = None,
        type: Columns = None,  # noqa: A002  it is what a column has
        first: int = 1,
    ) -> tuple[str, dict[str, Any] | list[Any]]:
        """The condition of a query for these rows, and its parameters: a dict where they have names, or a list.

        Names of parameters differ from those of other watermarks and columns, so that conditions can be joined.

        Args:
            column: the cursor's; several for a keyset. It goes into the text as it is; under `%s` and `%(name)s` a
                single `%` in it is doubled.
            on: what the query is run with: a DB-API connection or cursor, the driver's module or its name, an
                SQLAlchemy engine, connection or session (for `text()`), or an Airflow `DbApiHook`. The database and the
                style of the placeholders are found from it. By default what `watermark(..., sql=)` says.
            style: of the placeholders, instead of the driver's; without either, `"named"`.
            type: what the column is, one for each of a keyset's: an `SqlColumn` or its type alone, instead of what
                `watermark(..., sql=)` says. The bound is then written with its type and zone, so that neither the
                session's time zone nor the driver changes what is found.
            first: the number of the first placeholder, for `"numeric"` and `"numeric_dollar"`.

        Raises:
            CursorTypeError: the column cannot be compared exactly with the cursor, or its database is not known.
            TypeError: `on` is nothing of a known driver. ValueError: another number of columns, a style that is none.
        """
        from airflow_resume.watermarks.sql import found_driver, label_of, predicate

        columns = self._told_columns(type)
        names = (column,) if isinstance(column, str) else tuple(column)
        self._look_at_database(names, columns, found_driver(on, columns))
        return predicate(
            self._for_query(label_of(self._label, names, type)), column, columns, on=on, style=style, first=first
        )

    def where(self, *columns: Any, on: object = None, type: Columns = None) -> Any:  # noqa: A002
        """The condition for these rows on columns of SQLAlchemy: `select(Order).where(window.where(Order.updated_at))`.

        The bounds have the types of the columns. A `DateTime` without a zone shows the clock of some zone, so for a
        cursor that has one say which: `type=SqlColumn("timestamp", tz="UTC")`.

        Args:
            columns: the cursor's: a `Column`, an attribute of a mapped class, or an expression; several for a keyset.
            on: the engine, connection or session, where the condition depends on the database, as for a `TIMESTAMP` of
                MySQL that is declared as a plain `DateTime`.
            type: what the columns are, as in `sql`.

        Raises:
            CursorTypeError: a column cannot be compared exactly with the cursor, or its zone is not known.
            ValueError: another number of columns.
        """
        from airflow_resume.watermarks.where import condition

        return condition(self._for_query(""), columns, self._told_columns(type), on=on)

    @property
    def begins_after_start(self) -> bool:
        """Whether the row at the start is loaded already, as with an id that is unique."""
        return self._start == self._at and THE_ONE in self._known

    def _look_at_database(self, names: Sequence[str], columns: Sequence[SqlColumn], driver: Driver | None) -> None:
        """Note what the database would do to values in silence, and warn of it once."""
        from airflow_resume.watermarks.collations import is_plain_column

        parts = parts_of(self._cursor)
        dialect = None if driver is None else driver.dialect
        if dialect == "sqlite":
            self._refuses_text = self._refuses_text or any(
                part.type in {"int", "decimal"} and is_plain_column(name)
                for part, name in zip(parts, names, strict=False)
            )
        if dialect not in {"sqlite", "mysql"} or self._has_warned:
            return
        starts: Any = self._start if len(parts) > 1 else (self._start,)
        for part, start, name, column in zip(parts, starts, names, columns, strict=False):
            bound: Any = part.present(start)
            if column.type is None and isinstance(bound, datetime) and bound.tzinfo is not None:
                self._has_warned = True
                log.warning(
                    "Nothing tells what the column %s is, and the driver may leave the time zone of its bounds out:"
                    " rows of another zone are then skipped without an error.\n"
                    'Tell it, such as watermark(..., sql=SqlColumn(%s, tz="UTC")).',
                    name,
                    '"datetime"' if dialect == "mysql" else '"text", like="2026-01-31 23:59:59"',
                )
                return

    def _told_columns(self, columns: Columns) -> tuple[SqlColumn, ...]:
        return self._columns if columns is None else columns_of(columns, self._cursor)

    def _for_query(self, label: str) -> Bounds:
        from airflow_resume.watermarks.sql import Bounds

        self._must_track = self._must_track or self._nulls == "raise"
        return Bounds(
            cursor=self._cursor,
            start=self._start,
            end=self._end,
            after=self.begins_after_start,
            lets_nulls=self._nulls in {"keep", "raise"},
            refuses_nulls=self._nulls == "skip",
            label=label,
        )
