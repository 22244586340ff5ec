"""A window as a condition of SQLAlchemy, which is imported when the first condition is made."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from datetime import date
from typing import Any
from uuid import UUID

from airflow_resume.errors import CursorTypeError
from airflow_resume.watermarks.cursors.amounts import DecimalCursor
from airflow_resume.watermarks.cursors.cursor import CursorType
from airflow_resume.watermarks.sql.bound_values import (
    AS_TIME_OF_MYSQL,
    BY_CODE_POINTS,
    IN_BYTES,
    Kind,
    bound_for,
    check_described,
    check_number,
    check_pair,
    collation_name,
    is_by_code_points,
    kind_of,
)
from airflow_resume.watermarks.sql.column import SqlColumn, parts_of
from airflow_resume.watermarks.sql.drivers import plain_dialect
from airflow_resume.watermarks.sql.predicate import QueryBounds, bounds_of, check_count, found_driver, wide_bound


def condition(bounds: QueryBounds, given: Sequence[Any], columns: Sequence[SqlColumn], *, on: object = None) -> Any:
    """The condition on the cursor's columns.

    Args:
        bounds: of the window.
        given: the columns, of SQLAlchemy.
        columns: their types.
        on: what runs the query, as for `driver_of`; None: the driver that `columns` name, or one that is not known
            before the query is compiled.

    Raises:
        CursorTypeError: a column cannot be compared exactly with the cursor. ValueError: another number of columns.
    """
    import sqlalchemy as sa

    check_count(given, columns)
    driver = found_driver(on, columns)
    dialect = None if driver is None else driver.dialect
    found = [_MappedColumn(*each, dialect) for each in zip(given, parts_of(bounds.cursor), columns, strict=True)]
    starts, is_exact = bounds_of(found, bounds.start)
    conditions = [
        _at_or_after(found, starts, is_after=bounds.after and is_exact),
        *found[0].wide(starts[0], ahead=False),
    ]
    if bounds.end is not None:
        ends, _ = bounds_of(found, bounds.end)
        conditions.append(
            found[0].left < ends[0] if len(ends) == 1 else sa.not_(_at_or_after(found, ends, is_after=False))
        )
        conditions += found[0].wide(ends[0], ahead=True)
    if bounds.refuses_nulls:
        conditions += [column.given.is_not(None) for column in found[1:]]
    wanted = sa.and_(*conditions)
    return sa.or_(wanted, *(column.given.is_(None) for column in found)) if bounds.lets_nulls else wanted


class _MappedColumn:
    """How a column and its bounds are compared."""

    def __init__(self, given: Any, cursor: CursorType[Any], column: SqlColumn, dialect: str | None) -> None:
        import sqlalchemy as sa

        self.given = given if hasattr(given, "is_") else sa.literal_column(str(given))
        self._cursor = cursor
        self._is_given_instant = column.type == "timestamptz"
        type_ = getattr(self.given, "type", sa.types.NullType())
        is_given = column.type is not None
        self._kind: Kind = _kind_of_given(type_, column, dialect) if is_given else _kind_by(type_, cursor, dialect)
        self._column = column if is_given else _column_by(type_, column)
        check_pair(cursor, self._column, self._kind, dialect)
        self._is_undescribed = self._kind == "as it is" and isinstance(type_, sa.types.NullType)
        if self._is_undescribed:
            check_described(self.given, cursor, dialect)
        self.left = self._left()

    def _left(self) -> Any:
        import sqlalchemy as sa

        if self._kind == "unix":
            return sa.func.unix_timestamp(self.given, type_=sa.Numeric(20, 6))
        if is_by_code_points(self._cursor, self._kind):
            return _code_points()[0](self.given)
        collation = self._cursor.sql_collation
        return self.given if collation is None else sa.collate(self.given, collation)

    def wide(self, bound: Any, *, ahead: bool) -> list[Any]:
        """A condition that is a day wider, without a function over the column, so that an index can be used."""
        import sqlalchemy as sa

        seconds = wide_bound(self._kind, bound, ahead=ahead)
        if seconds is None:
            return []
        limit = sa.func.from_unixtime(seconds)
        return [self.given < limit if ahead else self.given >= limit]

    def bound(self, value: Any) -> tuple[Any, bool]:
        import sqlalchemy as sa
        from sqlalchemy.sql import operators

        # A plain value stays in UTC: a type without a time zone then gets the time in UTC.
        is_plain = self._kind == "as it is"
        bound, is_exact = (value, True) if is_plain else bound_for(self._cursor, self._column, self._kind, value)
        if is_by_code_points(self._cursor, self._kind):
            bound = _code_points()[1](sa.literal(bound, sa.String()))
        elif self._is_undescribed and isinstance(bound, date):
            bound = _undescribed()(sa.literal(bound))
            bound.of = (self.given, self._cursor)
        elif self._is_given_instant:
            bound = _instant()(sa.literal(bound))
        elif self._cursor.sql_values == "decimals":
            # With the type that the column itself would use: compared with an Integer, it stays a Numeric.
            type_ = self.given.type.coerce_compared_value(operators.ge, bound)
            bound = _exact()(sa.literal(bound, type_))
        elif isinstance(bound, UUID) and isinstance(self.given.type, sa.String):
            bound = str(bound)
        return bound, is_exact


def _at_or_after(columns: Sequence[_MappedColumn], bounds: list[Any], *, is_after: bool) -> Any:
    """`(a, b) >= (x, y)`."""
    import sqlalchemy as sa

    last = len(bounds) - 1
    alternatives = []
    for place, (column, bound) in enumerate(zip(columns, bounds, strict=False)):
        same = [columns[i].left == bounds[i] for i in range(place)]
        decides = column.left >= bound if place == last and not is_after else column.left > bound
        alternatives.append(sa.and_(*same, decides))
    return sa.or_(*alternatives)


def _column_by(type_: Any, column: SqlColumn) -> SqlColumn:
    """The description of a column by its SQLAlchemy type."""
    import sqlalchemy as sa

    if isinstance(type_, sa.Date):
        return SqlColumn("date", driver=column.driver)
    if isinstance(type_, sa.DateTime):
        return SqlColumn("timestamptz" if type_.timezone else "timestamp", tz=column.tz, driver=column.driver)
    return column


def _kind_by(kind: Any, cursor: CursorType[Any], dialect: str | None) -> Kind:
    import sqlalchemy as sa

    if cursor.sql_values in {"whole numbers", "decimals"} and isinstance(kind, (sa.String, sa.Float)):
        raise CursorTypeError(
            f"A column of type {kind!r} is not compared as the numbers that {cursor!r} has: text puts 10 before 9, and"
            " a float is rounded.",
            "CAST it in the condition: window.where(cast(column, BigInteger)), or cast(column, Numeric(38, 9)).",
            type_name=str(kind),
        )
    if cursor.sql_values == "uuids" and isinstance(kind, (sa.LargeBinary, sa.BINARY, sa.VARBINARY)):
        return "bytes"
    if cursor.sql_values not in {"times", "days"}:
        return "as it is"
    if isinstance(kind, sa.Date):
        return "day"
    if isinstance(kind, sa.DateTime):
        return "unix" if _is_unix(kind, dialect) else "instant" if kind.timezone else "clock"
    if isinstance(kind, (sa.Integer, sa.Numeric, sa.String)):
        raise CursorTypeError(
            f"A column of type {kind!r} does not have times, as {cursor!r} does.",
            'Give their type, such as type=SqlColumn("seconds") or SqlColumn("text", like="2026-01-31T23:59:59Z").',
            type_name=str(kind),
        )
    return "as it is"  # a type of the user's own, which binds values itself


def _is_unix(kind: Any, dialect: str | None) -> bool:
    """Whether the column is a TIMESTAMP of MySQL, which is shown in the session's time zone."""
    import sqlalchemy as sa
    from sqlalchemy.dialects import mysql

    return isinstance(kind, mysql.TIMESTAMP) or (isinstance(kind, sa.TIMESTAMP) and dialect == "mysql")


def _kind_of_given(type_: Any, column: SqlColumn, dialect: str | None) -> Kind:
    if column.type == "timestamp" and _is_unix(type_, dialect):
        return "unix"
    # In SQLite, SQLAlchemy itself keeps a DateTime as text, and compares it.
    return kind_of(column, None if dialect == "sqlite" and column.type != "timestamptz" else dialect)


@functools.cache
def _code_points() -> tuple[Any, Any]:
    """Elements for a column and a bound that are compared by code points; how is decided when the query is compiled."""
    import sqlalchemy as sa
    from sqlalchemy.ext.compiler import compiles
    from sqlalchemy.sql.functions import FunctionElement

    class CodePoints(FunctionElement[str]):
        inherit_cache = True
        type = sa.String()

    class Bound(FunctionElement[str]):
        inherit_cache = True
        type = sa.String()

    @compiles(CodePoints)
    def _(element: Any, compiler: Any, **options: Any) -> str:
        inner, dialect = compiler.process(element.clauses, **options), plain_dialect(compiler.dialect.name)
        if dialect == "mysql":
            return IN_BYTES.format(inner)
        return f"({inner} COLLATE {collation_name(BY_CODE_POINTS, dialect)})"

    @compiles(Bound)
    def _(element: Any, compiler: Any, **options: Any) -> str:
        inner: str = compiler.process(element.clauses, **options)
        return IN_BYTES.format(inner) if plain_dialect(compiler.dialect.name) == "mysql" else inner

    return CodePoints, Bound


@functools.cache
def _instant() -> Any:
    """The element for a bound of a `timestamptz`, which is refused for a database without this type."""
    import sqlalchemy as sa
    from sqlalchemy.ext.compiler import compiles
    from sqlalchemy.sql.functions import FunctionElement

    class Instant(FunctionElement[Any]):
        inherit_cache = True
        type = sa.DateTime(timezone=True)

    @compiles(Instant)
    def _(element: Any, compiler: Any, **options: Any) -> str:
        kind_of(SqlColumn("timestamptz"), plain_dialect(compiler.dialect.name))
        inner: str = compiler.process(element.clauses, **options)
        return inner

    return Instant


@functools.cache
def _undescribed() -> Any:
    """The element for a time or day of a column whose type is not known, which is refused on SQLite."""
    import sqlalchemy as sa
    from sqlalchemy.ext.compiler import compiles
    from sqlalchemy.sql.functions import FunctionElement

    class Undescribed(FunctionElement[Any]):
        inherit_cache = True
        type = sa.types.NullType()
        of: tuple[Any, CursorType[Any]]

    @compiles(Undescribed)
    def _(element: Any, compiler: Any, **options: Any) -> str:
        dialect = plain_dialect(compiler.dialect.name)
        name, cursor = element.of
        check_described(name, cursor, dialect)
        inner: str = compiler.process(element.clauses, **options)
        is_time = isinstance(element.clauses.clauses[0].type, sa.DateTime)
        return AS_TIME_OF_MYSQL.format(inner) if dialect == "mysql" and is_time else inner

    return Undescribed


@functools.cache
def _exact() -> Any:
    """The element for a bound of decimals, which is refused for a database that does not keep them exactly."""
    import sqlalchemy as sa
    from sqlalchemy.ext.compiler import compiles
    from sqlalchemy.sql.functions import FunctionElement

    class Exact(FunctionElement[Any]):
        inherit_cache = True
        type = sa.Numeric()

    @compiles(Exact)
    def _(element: Any, compiler: Any, **options: Any) -> str:
        check_number(DecimalCursor(), plain_dialect(compiler.dialect.name))
        inner: str = compiler.process(element.clauses, **options)
        return inner

    return Exact
