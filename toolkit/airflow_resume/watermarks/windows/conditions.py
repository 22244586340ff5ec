"""The conditions of queries for the rows of a window: as text for any driver, or for SQLAlchemy."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic

from typing_extensions import TypeVar

from airflow_resume.shown import get_logger
from airflow_resume.watermarks.sql.column import Columns, SqlColumn, columns_of, parts_of

if TYPE_CHECKING:
    from airflow_resume.watermarks.sql.drivers import Driver, Style
    from airflow_resume.watermarks.sql.predicate import QueryBounds
    from airflow_resume.watermarks.windows.plan import WindowPlan
    from airflow_resume.watermarks.windows.progress import Progress

T = TypeVar("T", default=Any)
log = get_logger(__name__)


class QueryConditions(Generic[T]):
    """The part of `Window` for bodies that query a database."""

    plan: WindowPlan[T]
    progress: Progress[T]
    _refuses_text: bool = False
    """Whether a query has compared numbers by a column of SQLite, which may have text."""
    _checks_form: bool = False
    """Whether a query has compared text as the columns have it."""
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
        """The condition of a query for these rows, and its parameters: a dict if they have names, otherwise a list.

        The names of parameters differ from those of other watermarks and columns, so that conditions can be joined.

        Args:
            column: of the cursor; several for a keyset. It is put into the text as it is; for `%s` and `%(name)s` a
                single `%` in it is doubled.
            on: what runs the query: a DB-API connection or cursor, the driver's module or its name, an SQLAlchemy
                engine, connection or session (for `text()`), or an Airflow `DbApiHook`. The database and the style of
                the placeholders are found from it. By default what `watermark(..., sql=)` says.
            style: of the placeholders, instead of the driver's; without either, `"named"`.
            type: of the column, a list for a keyset: an `SqlColumn` or its type alone, instead of what
                `watermark(..., sql=)` says. The bound is then written with its type and zone, so that the result does
                not depend on the session's time zone or the driver.
            first: the number of the first placeholder, for `"numeric"` and `"numeric_dollar"`.

        Raises:
            CursorTypeError: the column cannot be compared exactly with the cursor, or its database is not known.
            TypeError: `on` is not of a known driver. ValueError: another number of columns, or an unknown style.
        """
        from airflow_resume.watermarks.sql.predicate import found_driver, label_of, predicate

        columns = self._given_columns(type)
        names = (column,) if isinstance(column, str) else tuple(column)
        self._look_at_database(names, columns, found_driver(on, columns))
        return predicate(
            self._for_query(label_of(self.plan.label, names, type)), column, columns, on=on, style=style, first=first
        )

    def where(self, *columns: Any, on: object = None, type: Columns = None) -> Any:  # noqa: A002
        """The condition for these rows on columns of SQLAlchemy: `select(Order).where(window.where(Order.updated_at))`.

        The bounds get the types of the columns. For a `DateTime` without a time zone and a cursor with one, give the
        zone: `type=SqlColumn("timestamp", tz="UTC")`.

        Args:
            columns: of the cursor: a `Column`, an attribute of a mapped class, or an expression; several for a keyset.
            on: the engine, connection or session, if the condition depends on the database, as for a `TIMESTAMP` of
                MySQL that is declared as a plain `DateTime`.
            type: of the columns, as in `sql`.

        Raises:
            CursorTypeError: a column cannot be compared exactly with the cursor, or its zone is not known.
            ValueError: another number of columns.
        """
        from airflow_resume.watermarks.sql.where import condition

        return condition(self._for_query(""), columns, self._given_columns(type), on=on)

    def _look_at_database(self, names: Sequence[str], columns: Sequence[SqlColumn], driver: Driver | None) -> None:
        """Note which text `track` must refuse, and warn once if the driver may leave out the time zones of bounds."""
        from airflow_resume.watermarks.sql.bound_values import is_plain_column

        parts = parts_of(self.plan.cursor)
        self._checks_form = columns == self.plan.columns and all(map(is_plain_column, names))
        dialect = None if driver is None else driver.dialect
        if dialect == "sqlite":
            self._refuses_text = self._refuses_text or any(
                part.sql_values in {"whole numbers", "decimals"} and is_plain_column(name)
                for part, name in zip(parts, names, strict=False)
            )
        if dialect != "mysql" or self._has_warned:
            return
        starts: Any = self.plan.start if len(parts) > 1 else (self.plan.start,)
        for part, start, name, column in zip(parts, starts, names, columns, strict=False):
            bound: Any = part.present(start)
            if column.type is None and isinstance(bound, datetime) and bound.tzinfo is not None:
                self._has_warned = True
                log.warning(
                    "The type of the column %s is not known, and the driver may leave out the time zone of its bounds:"
                    " rows of another zone are then skipped without an error.\n"
                    'Give it, such as watermark(..., sql=SqlColumn("datetime", tz="UTC")).',
                    name,
                )
                return

    def _given_columns(self, columns: Columns) -> tuple[SqlColumn, ...]:
        return self.plan.columns if columns is None else columns_of(columns, self.plan.cursor)

    def _for_query(self, label: str) -> QueryBounds:
        from airflow_resume.watermarks.sql.predicate import QueryBounds

        plan = self.plan
        self.progress.must_track = self.progress.must_track or plan.nulls == "raise"
        return QueryBounds(
            cursor=plan.cursor,
            start=plan.start,
            end=plan.end,
            after=plan.begins_after_start,
            lets_nulls=plan.nulls in {"keep", "raise"},
            refuses_nulls=plan.nulls == "skip",
            label=label,
        )
