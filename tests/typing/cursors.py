"""What type checkers see of the cursors. It is checked, never run."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from typing_extensions import assert_type

from airflow_resume.watermarks.cursors.cursor import Cursor, CursorType, infer_cursor

MOMENT = datetime(2026, 1, 1)  # noqa: DTZ001  only its type counts


def values_have_the_type_of_their_cursor(value: object) -> None:
    assert_type(Cursor.datetime("Europe/Berlin").parse(value, what="v"), datetime)
    assert_type(Cursor.datetime("Europe/Berlin", naive=True).parse(value, what="v"), datetime)
    assert_type(Cursor.date("Europe/Berlin").now(date.today), date)
    assert_type(Cursor.uuid().parse(value, what="v"), UUID)
    assert_type(Cursor.binary().parse(value, what="v"), bytes)
    assert_type(Cursor.int().parse(value, what="v"), int)
    assert_type(Cursor.decimal().parse(value, what="v"), Decimal)
    assert_type(Cursor.text().parse(value, what="v"), str)
    assert_type(Cursor.keyset(Cursor.datetime(), Cursor.int()).parse(value, what="v"), tuple[Any, ...])
    assert_type(infer_cursor(value), CursorType[Any])


def what_is_counted_keeps_its_type(cursor: CursorType[int]) -> None:
    assert_type(cursor.floor(cursor.minus(5, 2)), int)
    assert_type(Cursor.datetime().plus(MOMENT, timedelta(1)), datetime)
    assert_type(Cursor.datetime().dump(MOMENT), str)
