"""The types of a watermark's values, and which one an initial value means."""

from __future__ import annotations

import builtins
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any, SupportsIndex

from airflow_resume.watermarks.amounts import DecimalCursor, IntCursor
from airflow_resume.watermarks.cursor_type import CursorType, Span, refusal
from airflow_resume.watermarks.keysets import KeysetCursor
from airflow_resume.watermarks.moments import DateCursor, DatetimeCursor, looks_like_day, looks_like_moment
from airflow_resume.watermarks.texts import TextCursor, TokenCursor

__all__ = ["Cursor", "CursorType", "Span", "infer_cursor"]


class Cursor:
    """The types of a watermark: `cursor=Cursor.int()`."""

    @staticmethod
    def datetime(tz: str | None = "UTC", granularity: timedelta | None = None) -> DatetimeCursor:
        """Points in time; a window's bounds are shown in `tz`. With `tz=None`, times without a zone."""
        return DatetimeCursor(tz=tz, granularity=granularity)

    @staticmethod
    def date() -> DateCursor:
        """Days."""
        return DateCursor()

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
    match initial:
        case str():
            return _cursor_of_text(initial)
        case datetime():
            return Cursor.datetime()
        case date():
            return Cursor.date()
        case Decimal():
            return Cursor.decimal()
        case SupportsIndex() | float():  # True and 0.5 are then refused as ints, with the reason
            return Cursor.int()
        case tuple() | list():
            remedy = "name the cursor of every column, such as cursor=Cursor.keyset(Cursor.datetime(), Cursor.int())"
        case _:
            remedy = "say what it is with cursor=, such as Cursor.token() for what a source hands out to go on from"
    raise refusal(initial, remedy, what="initial")


def _cursor_of_text(initial: str) -> CursorType[Any]:
    if looks_like_day(initial):
        return Cursor.date()
    if looks_like_moment(initial):
        return Cursor.datetime()
    raise refusal(
        initial,
        "Say what it is with cursor=Cursor.text(), Cursor.int(), Cursor.decimal() or Cursor.token().",
        what="initial",
        why="It is not a time such as 2026-01-01T00:00:00Z nor a day such as 2026-01-01.",
    )
