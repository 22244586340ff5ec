"""The types of a watermark's values, and which one an initial value means."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Mapping
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any, Literal, SupportsIndex, overload
from uuid import UUID

from airflow_resume.watermarks.amounts import DecimalCursor, IntCursor
from airflow_resume.watermarks.cursor_type import CursorType, Span, refusal
from airflow_resume.watermarks.days import DateCursor, looks_like_day
from airflow_resume.watermarks.ids import BinaryCursor, UuidCursor, looks_like_uuid
from airflow_resume.watermarks.keysets import KeysetCursor
from airflow_resume.watermarks.local import LocalCursor
from airflow_resume.watermarks.moments import DatetimeCursor, looks_like_moment
from airflow_resume.watermarks.texts import TextCursor, TokenCursor, remedy_for_identifier
from airflow_resume.watermarks.timed import unboxed

__all__ = ["Cursor", "CursorType", "Span", "infer_cursor"]


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
            tz: the name of a time zone. None: times without a zone, and it is not known which they are of.
            granularity: windows end at a multiple of it; a whole day is one of `tz`.
            naive: the column has times without a zone, those that clocks in `tz` show, and a window's bounds are such.
        """
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
        """Days of the zone `tz`: a window ends at today there. Without one, at today in UTC."""
        return DateCursor(tz=tz)

    @staticmethod
    def int(granularity: builtins.int | None = None) -> IntCursor:
        """Whole numbers of any size."""
        return IntCursor(granularity=granularity)

    @staticmethod
    def decimal(granularity: Decimal | builtins.int | None = None) -> DecimalCursor:
        """Numbers with digits after the point, all of them kept."""
        return DecimalCursor(granularity=granularity)

    @staticmethod
    def text(collation: str | None = None) -> TextCursor:
        """Text in the order of its code points; the source must sort so too, as it does by `collation="C"`."""
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
        """Several columns, compared from the first on."""
        return KeysetCursor((first, second, *more))

    @staticmethod
    def token() -> TokenCursor:
        """What a source hands out to go on from, without order."""
        return TokenCursor()


def infer_cursor(initial: object) -> CursorType[Any]:
    """The cursor that an initial value means; a function that gives one is taken to give points in time.

    Raises:
        CursorTypeError: it may mean several, or none; with the `cursor=` to write.
    """
    if callable(initial):
        return Cursor.datetime()
    cursor = _cursor_of(initial)
    cursor.parse(initial, what="initial")
    return cursor


def _cursor_of(initial: object) -> CursorType[Any]:
    if isinstance(initial, str):
        return _cursor_of_text(initial)
    for kind, made in _CURSORS:
        if isinstance(unboxed(initial), kind):
            return made()
    match initial:
        case tuple() | list():
            remedy = "Name the cursor of every column, such as cursor=Cursor.keyset(Cursor.datetime(), Cursor.int())"
        case Mapping() if initial and all(isinstance(offset, SupportsIndex) for offset in initial.values()):
            remedy = (
                "Offsets are in order within a partition only, so give each a mark of its own: initial=0 with"
                " partition=. Or keep the map as it is, with text for keys: cursor=Cursor.token(), and"
                " window.advance(map) in the body"
            )
        case _:
            remedy = "Say what it is with cursor=, such as Cursor.token() for what a source hands out to go on from"
    raise refusal(initial, remedy_for_identifier(initial) or f"{remedy}.", what="initial")


_CURSORS: list[tuple[Any, Callable[[], CursorType[Any]]]] = [
    (datetime, Cursor.datetime),
    (date, Cursor.date),
    (Decimal, Cursor.decimal),
    (UUID, Cursor.uuid),
    ((bytes, bytearray, memoryview), Cursor.binary),
    ((SupportsIndex, float), Cursor.int),  # True and 0.5 are then refused, with the reason
]


def _cursor_of_text(initial: str) -> CursorType[Any]:
    if looks_like_day(initial):
        return Cursor.date()
    if looks_like_moment(initial):
        return Cursor.datetime()
    is_uuid = looks_like_uuid(initial)
    raise refusal(
        initial,
        "Say what it is with cursor=Cursor.text(), Cursor.int(), Cursor.decimal() or Cursor.token()."
        if not is_uuid
        else "Say what the column is: cursor=Cursor.uuid() for UUIDs, or Cursor.text() for their text.",
        what="initial",
        why="It is not a time such as 2026-01-01T00:00:00Z nor a day such as 2026-01-01." if not is_uuid else "",
    )
