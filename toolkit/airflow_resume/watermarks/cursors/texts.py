"""Cursors over text, which has an order, and over tokens, which have none."""

from __future__ import annotations

import builtins
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, cast
from uuid import UUID

from airflow_resume import values
from airflow_resume.errors import CursorTypeError, InvalidValueError
from airflow_resume.watermarks.cursors.cursor_type import CursorType, SqlValues, check_fits, refusal, shown_value

if TYPE_CHECKING:
    from pydantic import JsonValue

_COLLATION = r"[A-Za-z0-9_.@-]+"


@dataclass(frozen=True)
class TextCursor(CursorType[str]):
    """Text in the order of its characters' code points, in which ULIDs and UUIDv7 sort by time.

    A source that sorts by the rules of a language (`a, B, c`, `é` next to `e`) has another order, so rows would be
    skipped. The source must compare and sort by code points. The empty text is the least value.

    Args:
        collation: the collation by which `window.sql` and `window.where` compare. `"C"` means the collation of the
            database that compares by code points: `"C"` of PostgreSQL, `BINARY` of SQLite. On MySQL and MariaDB the
            bytes of the text are compared, for which no index can be used; to use one, give MySQL's
            `"utf8mb4_0900_bin"` or MariaDB's `"utf8mb4_nopad_bin"`, if the column has it. An `ORDER BY` must name the
            collation as well.
    """

    type: ClassVar[str] = "text"
    plain: ClassVar[builtins.type] = str
    sql_values: ClassVar[SqlValues] = "other"

    collation: str | None = None

    def __post_init__(self) -> None:
        """Refuse a collation that cannot be a name."""
        if self.collation is not None and not (
            isinstance(self.collation, str) and re.fullmatch(_COLLATION, self.collation)
        ):
            raise ValueError(
                f"collation={self.collation!r} is not a name of a collation.\n"
                'Write it without quotes, such as collation="C" or "utf8mb4_0900_bin".'
            )

    @classmethod
    def restored(cls, definition: Mapping[str, Any]) -> TextCursor:  # noqa: ARG003
        """The cursor."""
        return cls()

    @property
    def sql_collation(self) -> str | None:
        """The collation that was given."""
        return self.collation

    def parse(self, value: object, *, what: str) -> str:
        """The value as plain text, unchanged.

        Raises:
            CursorTypeError: not text, or text that a state store cannot store.
        """
        if not isinstance(value, str):
            remedy = "Give text, such as str(value), or use the cursor= that fits."
            raise refusal(value, remedy_for_identifier(value) or remedy, what=what)
        text = str.__str__(value)  # an enum of text gives its text
        _check_keepable(text, what=f"{what} ({shown_value(text)})")
        return text

    def dump(self, value: str) -> str:
        """The text itself."""
        return value


@dataclass(frozen=True)
class TokenCursor(CursorType["JsonValue"]):
    """A token from which a source continues, such as a delta link. It has no order, so it is only replaced."""

    type: ClassVar[str] = "token"
    is_ordered: ClassVar[bool] = False
    sql_values: ClassVar[SqlValues] = "other"

    @classmethod
    def restored(cls, definition: Mapping[str, Any]) -> None:
        """None: a token is JSON."""

    def parse(self, value: object, *, what: str) -> JsonValue:
        """A copy of the value.

        Raises:
            CursorTypeError: None, or not JSON that a state store can store.
        """
        if value is None:
            why = "A token is any JSON but None."
            raise refusal(value, 'Use "" or {} if there is none yet.', what=what, why=why)
        _check_keepable(value, what=what)
        return cast("JsonValue", json.loads(json.dumps(value)))

    def dump(self, value: JsonValue) -> JsonValue:
        """The token itself."""
        return value


def remedy_for_identifier(value: object) -> str | None:
    """What to do with an identifier of a known kind that is not text; None for other values."""
    if isinstance(value, UUID):
        return "Use cursor=Cursor.uuid() for a column of UUIDs, and str(value) with Cursor.text() for one of text."
    if isinstance(value, (bytes, bytearray, memoryview)):
        return "Use cursor=Cursor.binary()."
    if type(value).__name__ == "ObjectId":  # of bson
        return (
            "Several writers' ObjectIds of one second do not come in order: use their time, cursor=Cursor.datetime()"
            " with a delay=, rows by lambda row: row['_id'].generation_time, and ObjectId.from_datetime(window.start)"
            " in the query. Where one process writes them, give str(value) with cursor=Cursor.text()."
        )
    return None


def _check_keepable(value: object, *, what: str) -> None:
    try:
        values.check(value, at=what)
    except InvalidValueError as error:
        raise CursorTypeError(error.message, error.remedy, what=error.at) from error
    check_fits(value, what=what)
