"""The types of cursors, and which of them an initial value means."""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from datetime import timedelta
from decimal import Decimal
from typing import Any, Literal, SupportsIndex, overload

from airflow_resume.arguments import check_flag, check_type
from airflow_resume.watermarks.cursors.amounts import DecimalCursor, IntCursor
from airflow_resume.watermarks.cursors.cursor_type import CursorType, Span, refusal
from airflow_resume.watermarks.cursors.days import DateCursor
from airflow_resume.watermarks.cursors.ids import BinaryCursor, UuidCursor, looks_like_uuid
from airflow_resume.watermarks.cursors.keysets import KeysetCursor
from airflow_resume.watermarks.cursors.local import LocalCursor
from airflow_resume.watermarks.cursors.moments import DatetimeCursor
from airflow_resume.watermarks.cursors.texts import TextCursor, TokenCursor, remedy_for_identifier

__all__ = ["CURSOR_TYPES", "Cursor", "CursorType", "Span", "cursor_of", "infer_cursor", "restored_cursor"]


class Cursor:
    """The types of a watermark: `cursor=Cursor.int()`."""

    @overload
    @staticmethod
    def datetime(
        tz: str | None = "UTC", granularity: timedelta | None = None, *, naive: Literal[False] = False
    ) -> DatetimeCursor: ...
    @overload
    @staticmethod
    def datetime(tz: str = "UTC", granularity: timedelta | None = None, *, naive: Literal[True]) -> LocalCursor: ...
    @staticmethod
    def datetime(
        tz: str | None = "UTC", granularity: timedelta | None = None, *, naive: bool = False
    ) -> DatetimeCursor | LocalCursor:
        """Points in time; a window's bounds are shown in `tz`.

        Args:
            tz: the name of a time zone. None: times without a zone, whose zone is not known.
            granularity: windows end at a multiple of it. Whole days are days of `tz`.
            naive: the column has times without a zone, as clocks in `tz` show them. The bounds of a window then have no
                zone either.

        Raises:
            ValueError: `naive` without a time zone, or an unknown time zone.
        """
        check_flag("naive", naive)
        if not naive:
            return DatetimeCursor(tz=tz, granularity=granularity)
        if tz is None:
            raise ValueError(
                "naive=True needs the time zone of the column.\n"
                'Give it, such as Cursor.datetime("Europe/Berlin", naive=True), or leave naive=True out.'
            )
        return LocalCursor(tz=tz, granularity=granularity)

    @staticmethod
    def date(tz: str | None = None) -> DateCursor:
        """Days in the time zone `tz`. A window ends at the current day there; without `tz`, at the current day in UTC.

        Args:
            tz: the name of a time zone, such as `Europe/Berlin`.
        """
        return DateCursor(tz=tz)

    @staticmethod
    def int(granularity: builtins.int | None = None) -> IntCursor:
        """Whole numbers of any size.

        Args:
            granularity: windows end at a multiple of it.
        """
        return IntCursor(granularity=granularity)

    @staticmethod
    def decimal(granularity: Decimal | builtins.int | None = None) -> DecimalCursor:
        """Numbers with digits after the point, all of them kept.

        Args:
            granularity: windows end at a multiple of it.
        """
        return DecimalCursor(granularity=granularity)

    @staticmethod
    def text(collation: str | None = None) -> TextCursor:
        """Text in the order of its code points; the source must sort so too, as it does by `collation="C"`.

        Args:
            collation: the collation by which the source compares text, see docs/watermark-databases.md. By default, the
                source is assumed to compare by code points.
        """
        return TextCursor(collation)

    @staticmethod
    def uuid() -> UuidCursor:
        """UUIDs of version 6 or 7, which grow with time; as a later part of a keyset, of any version."""
        return UuidCursor()

    @staticmethod
    def binary() -> BinaryCursor:
        """Bytes, compared from the first on, such as a `rowversion`."""
        return BinaryCursor()

    @staticmethod
    def keyset(first: CursorType[Any], second: CursorType[Any], *more: CursorType[Any]) -> KeysetCursor:
        """Several columns, compared from the first on.

        Args:
            first: the cursor of the first column.
            second: the cursor of the next column, which is compared where the first values are equal.
            more: the cursors of further columns.
        """
        return KeysetCursor((first, second, *more))

    @staticmethod
    def token() -> TokenCursor:
        """Tokens from which a source continues, such as a delta link; they have no order."""
        return TokenCursor()


def cursor_of(cursor: CursorType[Any] | None, initial: object) -> CursorType[Any]:
    """The cursor that was given, or the one that the initial value means.

    Raises:
        TypeError: it is no cursor. CursorTypeError: as `infer_cursor`.
    """
    if cursor is None:
        return infer_cursor(initial)
    check_type("cursor", cursor, CursorType, "a cursor, such as Cursor.int()")
    return cursor


def infer_cursor(initial: object) -> CursorType[Any]:
    """The cursor that fits an initial value. A function is assumed to return points in time.

    Raises:
        CursorTypeError: it fits several types, or none. The message says which `cursor=` to write.
    """
    if callable(initial):
        return Cursor.datetime()
    cursor = _cursor_of(initial)
    cursor.parse(initial, what="initial")
    return cursor


CURSOR_TYPES: tuple[type[CursorType[Any]], ...] = (
    DatetimeCursor,
    DateCursor,
    DecimalCursor,
    UuidCursor,
    BinaryCursor,
    IntCursor,
    TextCursor,
    TokenCursor,
    KeysetCursor,
    LocalCursor,
)
"""All types. If an initial value, or the `type` in an asset event, fits several, the first one is taken."""


def restored_cursor(definition: Mapping[str, Any]) -> CursorType[Any] | None:
    """The cursor that reads values from an asset event. None if they stay JSON, such as values of an unknown type.

    Args:
        definition: the definition of the cursor that wrote the event, with its `type`.
    """
    kind = next((kind for kind in CURSOR_TYPES if kind.type == definition.get("type")), None)
    return None if kind is None else kind.restored(definition)


def _cursor_of(initial: object) -> CursorType[Any]:
    kind = next((kind for kind in CURSOR_TYPES if kind.is_meant_by(initial)), None)
    if kind is not None:
        return kind()
    remedy, why = "Give cursor=, such as Cursor.token() for a token from which a source continues.", ""
    match initial:
        case str() if looks_like_uuid(initial):
            remedy = "Give the type of the column: cursor=Cursor.uuid() for UUIDs, or Cursor.text() for their text."
        case str():
            remedy = "Give its type with cursor=Cursor.text(), Cursor.int(), Cursor.decimal() or Cursor.token()."
            why = "It is not a time such as 2026-01-01T00:00:00Z nor a day such as 2026-01-01."
        case tuple() | list():
            remedy = "Name the cursor of every column, such as cursor=Cursor.keyset(Cursor.datetime(), Cursor.int())."
        case Mapping() if initial and all(isinstance(offset, SupportsIndex) for offset in initial.values()):
            remedy = (
                "Offsets are in order within a partition only, so give each a mark of its own: initial=0 with"
                " partition=. Or keep the map as it is, with text for keys: cursor=Cursor.token(), and"
                " window.advance(map) in the body."
            )
    raise refusal(initial, remedy_for_identifier(initial) or remedy, what="initial", why=why)
