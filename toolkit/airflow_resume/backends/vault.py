"""Values by scope and key in a database: checked before they are written, versioned, and fenced."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from airflow_resume.backends import rows
from airflow_resume.backends.database import Database, Opened, RowExistsError
from airflow_resume.backends.dialects import byte_size
from airflow_resume.backends.rows import NewRow
from airflow_resume.backends.scopes import AnyScope, Place, key_digest, place_of
from airflow_resume.backends.writer import NOBODY, Writer
from airflow_resume.errors import InvalidValueError, SupersededError, ValueTooLargeError

if TYPE_CHECKING:
    from sqlalchemy import Connection

_PACKET_SPARE = 64 * 1024
"""What a statement has beside the value: the names of the scope and the key."""


@dataclass(frozen=True, kw_only=True)
class Vault:
    """The values of all scopes."""

    database: Database
    max_value_bytes: int
    keep_versions: int
    """How many versions of a value are kept, the last one included."""
    now: Callable[[], datetime]

    def row(
        self,
        scope: AnyScope,
        key: str,
        text: str,
        *,
        expires_at: datetime | None = None,
        referenced: bool = False,
        writer: Writer = NOBODY,
    ) -> NewRow:
        """A value to be written, once it was found to be one.

        Raises:
            InvalidKeyError, InvalidValueError, ValueTooLargeError: it is none.
        """
        place, key_hash = place_of(scope), key_digest(key)
        self._check(key, text)
        return NewRow(
            place=place,
            key=key,
            key_hash=key_hash,
            value=text,
            version=rows.new_version(),
            updated_us=rows.microseconds(self.now()),
            expires_us=None if expires_at is None else rows.microseconds(expires_at),
            referenced=referenced,
            writer=writer,
        )

    def _check(self, key: str, text: object) -> None:
        if not isinstance(text, str):
            raise InvalidValueError(f"The value of {key!r} is a {type(text).__name__}; a backend keeps JSON as text")
        if "\x00" in text:
            raise InvalidValueError(f"The value of {key!r} has a NUL in it, which JSON writes as \\u0000")
        try:
            size = byte_size(text)
        except UnicodeEncodeError:
            raise InvalidValueError(
                f"The value of {key!r} has half a surrogate pair in it.", "Decode it first."
            ) from None
        if size > self.max_value_bytes:
            raise ValueTooLargeError(*_too_large(key, size, self.max_value_bytes, "max_value_bytes"))
        if size > _PACKET_SPARE:
            self._check_packet(key, text)

    def _check_packet(self, key: str, text: str) -> None:
        """The limit is asked for again before a value is refused: it may have been raised."""
        weight = self.database.dialect.weight(text)
        if self._fits(weight, self.database.opened()):
            return
        again = self.database.opened_anew()
        if not self._fits(weight, again):
            limit = (again.packet_limit or 0) - _PACKET_SPARE
            raise ValueTooLargeError(*_too_large(key, weight, limit, "the server's max_allowed_packet"))

    @staticmethod
    def _fits(weight: int, opened: Opened) -> bool:
        return opened.packet_limit is None or weight <= opened.packet_limit - _PACKET_SPARE

    def write(self, new: Sequence[NewRow]) -> None:
        """Insert or replace, all of them or none."""
        dialect, keep = self.database.dialect, self.keep_versions

        def write(connection: Connection) -> None:
            rows.write(connection, dialect, new)
            if keep > 1:
                for row in new:
                    rows.remember(connection, row, keep)

        (self.database.alone if len(new) == 1 and keep == 1 else self.database.transaction)(write)

    def write_unless_newer(self, row: NewRow) -> None:
        """Change the row that is there, or insert one; in between another may have done so, and then again.

        Raises:
            SupersededError: it is of a later attempt.
        """
        while not self._history_too(row, lambda connection: rows.write_unless_newer(connection, row)):
            if self._insert(row):
                return
            if self._is_replaced(row):
                raise SupersededError(
                    f"A later attempt of this task has written {row.key!r}, so this one must stop; nothing was changed."
                )

    def write_over(self, row: NewRow, version: int) -> bool:
        """Replace a value of that version (0: insert one where there is none); whether it was done.

        When the answer of the database is lost it is asked again, and finds out that the value is its own; not so if
        somebody has written over it in between.
        """
        if version == 0:
            return self._insert(row) or self._is_ours(row)
        return self._history_too(row, lambda connection: rows.write_over(connection, row, version)) or self._is_ours(
            row
        )

    def versions(self, scope: AnyScope, key: str) -> Sequence[Any]:
        """The rows of the versions that are kept, newest first."""
        where = rows.at(place_of(scope), key)

        def read(connection: Connection) -> list[Any]:
            state = rows.read_state(connection, where)
            if state is None:
                return []
            kept = [] if self.keep_versions == 1 else rows.read_history(connection, where)
            return [state, *(row for row in kept if row.version != state.version)]

        return self.database.alone(read)

    def _insert(self, row: NewRow) -> bool:
        """Whether there was no row yet."""

        def insert(connection: Connection) -> bool:
            rows.write_new(connection, row)
            return True

        try:
            return self._history_too(row, insert)
        except RowExistsError:
            return False

    def _history_too(self, row: NewRow, write: Callable[[Connection], bool]) -> bool:
        """Do a conditional write, and remember the version if one is to be."""
        keep = self.keep_versions
        if keep == 1:
            return self.database.alone(write)

        def both(connection: Connection) -> bool:
            written = write(connection)
            if written:
                rows.remember(connection, row, keep)
            return written

        return self.database.transaction(both)

    def _is_ours(self, row: NewRow) -> bool:
        """Whether it was written, in a call whose answer was lost."""
        found = self.database.alone(lambda connection: rows.read_state(connection, row.at))
        return found is not None and found.version == row.version

    def _is_replaced(self, row: NewRow) -> bool:
        """Whether a later attempt has written. If nobody has, the row was deleted meanwhile."""
        found = self.database.alone(lambda connection: rows.read_state(connection, row.at))
        return found is not None and row.writer.is_replaced_by(
            Writer(identity=found.writer_hash, try_number=found.try_number, attempt_id=found.attempt_id)
        )

    def remove(self, remove: Callable[[Connection], None], place: Place | None) -> None:
        """Delete rows, and their versions with them; the place is that of all of them, if they have one."""
        if self.keep_versions == 1:
            self.database.alone(remove)
            return

        def both(connection: Connection) -> None:
            remove(connection)
            rows.forget(connection, place)

        self.database.transaction(both)


def _too_large(key: str, size: int, limit: int, of: str) -> tuple[str, str]:
    return (
        f"The value of {key!r} has {size:,} bytes and may have {limit:,} ({of}).",
        "Raise the limit, or keep the data elsewhere (object storage, a table) and store where it is.",
    )
