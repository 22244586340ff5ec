"""Cursors over identifiers that grow with time: UUIDs of version 6 and 7, and bytes such as a rowversion."""

from __future__ import annotations

import builtins
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar
from uuid import UUID

from airflow_resume.watermarks.cursors.cursor_type import CursorType, SqlValues, refusal

MAX_BYTES = 2_000

_UUID = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
_BYTES = r"(?:0x)?((?:[0-9a-fA-F]{2})*)"
_WITHOUT_ORDER = frozenset({1, 2, 3, 4, 5})


@dataclass(frozen=True)
class UuidCursor(CursorType[UUID]):
    """UUIDs in the order of their 16 bytes, as their text in lower case and PostgreSQL's `uuid` are sorted.

    UUIDs of version 6 and 7 sort by the time at which they were made. Those of version 1 to 5 do not: a new one may be
    smaller than one that was loaded, so they are refused, except as a later part of a keyset, where they only tell rows
    apart. SQL Server sorts a `uniqueidentifier` by other bytes first.

    Args:
        grows: whether later UUIDs must be larger.
    """

    type: ClassVar[str] = "uuid"
    sql_values: ClassVar[SqlValues] = "uuids"

    grows: bool = True

    @classmethod
    def restored(cls, definition: Mapping[str, Any]) -> UuidCursor:  # noqa: ARG003
        """The cursor."""
        return cls()

    @classmethod
    def is_meant_by(cls, initial: object) -> bool:
        """Whether it is a UUID. The text of a UUID does not count, because it may be meant as text."""
        return isinstance(initial, UUID)

    def parse(self, value: object, *, what: str) -> UUID:
        """The value as a plain UUID.

        Raises:
            CursorTypeError: neither a UUID nor its text with hyphens, or of a version that does not grow.
        """
        is_text = isinstance(value, str) and re.fullmatch(_UUID, value.strip())
        if not is_text and not isinstance(value, UUID):
            remedy = "Give a uuid.UUID or its text with hyphens, or use the cursor= that fits."
            raise refusal(value, remedy, what=what)
        uuid = UUID(str(value).strip())
        if self.grows and uuid.version in _WITHOUT_ORDER:
            raise refusal(
                value,
                "Take a time first, and the UUID to tell rows apart: cursor=Cursor.keyset(Cursor.datetime(),"
                " Cursor.uuid()).",
                what=what,
                why=f"UUIDs of version {uuid.version} do not grow with time, so new rows would be skipped.",
            )
        return uuid

    def dump(self, value: UUID) -> str:
        """Its text, in lower case with hyphens."""
        return str(value)

    def as_tie(self) -> UuidCursor:
        """UUIDs of any version."""
        return replace(self, grows=False)


@dataclass(frozen=True)
class BinaryCursor(CursorType[bytes]):
    """Bytes, compared from the first on, as databases compare a `rowversion`, `BINARY` or `bytea`."""

    type: ClassVar[str] = "binary"
    plain: ClassVar[builtins.type] = bytes
    sql_values: ClassVar[SqlValues] = "other"

    @classmethod
    def restored(cls, definition: Mapping[str, Any]) -> BinaryCursor:  # noqa: ARG003
        """The cursor."""
        return cls()

    @classmethod
    def is_meant_by(cls, initial: object) -> bool:
        """Bytes."""
        return isinstance(initial, (bytes, bytearray, memoryview))

    def parse(self, value: object, *, what: str) -> bytes:
        """The value as plain bytes.

        Raises:
            CursorTypeError: neither bytes nor text of hexadecimal digits, or more than 2000 bytes.
        """
        digits = re.fullmatch(_BYTES, value.strip()) if isinstance(value, str) else None
        if digits is not None:
            found = bytes.fromhex(digits[1])
        elif isinstance(value, (bytes, bytearray, memoryview)):
            found = bytes(value)
        else:
            remedy = "Give bytes or their hexadecimal digits, such as 0x00000000000007D1, or use the cursor= that fits."
            raise refusal(value, remedy, what=what)
        if len(found) > MAX_BYTES:
            raise refusal(value, "Use a shorter key.", what=what, why=f"It has more than {MAX_BYTES} bytes.")
        return found

    def dump(self, value: bytes) -> str:
        """Its hexadecimal digits, in lower case."""
        return value.hex()


def looks_like_uuid(text: str) -> bool:
    """Whether the text is written as a UUID."""
    return re.fullmatch(_UUID, text.strip()) is not None
