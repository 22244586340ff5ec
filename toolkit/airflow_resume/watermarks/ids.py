"""Cursors over identifiers that grow: UUIDs of version 6 and 7, and binary ones such as a rowversion."""

from __future__ import annotations

import builtins
import re
from dataclasses import dataclass, replace
from typing import ClassVar
from uuid import UUID

from airflow_resume.watermarks.cursor_type import CursorType, refusal

MAX_BYTES = 2_000

_UUID = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
_BYTES = r"(?:0x)?((?:[0-9a-fA-F]{2})*)"
_WITHOUT_ORDER = frozenset({1, 2, 3, 4, 5})


@dataclass(frozen=True)
class UuidCursor(CursorType[UUID]):
    """UUIDs in the order of their 16 bytes, which is that of their text in small letters, and of PostgreSQL's `uuid`.

    In it those of version 6 and 7 sort by the time at which they were made. Those of version 1 to 5 do not, so a new
    one may be smaller than any that was loaded: they are refused, but as a later part of a keyset, where they only tell
    rows apart. SQL Server sorts a `uniqueidentifier` by other bytes first.

    Args:
        grows: later ones are larger.
    """

    type: ClassVar[str] = "uuid"

    grows: bool = True

    def parse(self, value: object, *, what: str) -> UUID:
        """The value as a plain UUID.

        Raises:
            CursorTypeError: not a UUID or its text with hyphens, or one of a version that does not grow.
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
        """Its text, in small letters with hyphens."""
        return str(value)

    def as_tie(self) -> UuidCursor:
        """UUIDs of any version."""
        return replace(self, grows=False)


@dataclass(frozen=True)
class BinaryCursor(CursorType[bytes]):
    """Bytes, compared from the first on, as SQL Server does a `rowversion`, and others a `BINARY` or `bytea`."""

    type: ClassVar[str] = "binary"
    plain: ClassVar[builtins.type] = bytes

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
        """Its hexadecimal digits, in small letters."""
        return value.hex()


def looks_like_uuid(text: str) -> bool:
    """Whether the text is written as a UUID."""
    return re.fullmatch(_UUID, text.strip()) is not None
