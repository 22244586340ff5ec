"""Values by scope and key in a database: checked before they are written, versioned, and fenced."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from airflow_resume.backends.database.database import Database, RowExistsError
from airflow_resume.backends.database.process_connection import OpenDatabase
from airflow_resume.backends.dialects.base import byte_size
from airflow_resume.backends.rows import statements
from airflow_resume.backends.rows.statements import NewRow
from airflow_resume.backends.values.codecs import PREFIX, Cipher, mark_of
from airflow_resume.backends.values.scopes import AnyScope, key_digest, place_of
from airflow_resume.backends.values.writer import NOBODY, WritingAttempt
from airflow_resume.errors import InvalidValueError, SupersededError, ValueTooLargeError

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

_PACKET_SPARE = 64 * 1024
"""The most bytes of a statement besides the value: the names of the scope and the key."""


@dataclass(frozen=True, kw_only=True)
class ValueTable:
    """The values of all scopes."""

    database: Database
    max_value_bytes: int
    keep_versions: int
    """How many versions of a value are kept, including the current one."""
    now: Callable[[], datetime]
    cipher: Cipher = field(default_factory=lambda: Cipher(None))

    def __post_init__(self) -> None:
        """Have errors of the codec name the database."""
        self.cipher.of = self.database

    def row(
        self,
        scope: AnyScope,
        key: str,
        text: str,
        *,
        expires_at: datetime | None = None,
        referenced: bool = False,
        writer: WritingAttempt = NOBODY,
    ) -> NewRow:
        """Validate a value, and build the row to be written.

        Raises:
            InvalidKeyError, InvalidValueError, ValueTooLargeError: it cannot be kept.
            CodecError: it cannot be encrypted.
        """
        place, key_hash = place_of(scope), key_digest(key)
        self._check(key, text)
        kept = self.cipher.encrypt(text, mark_of(place.identity, key_hash) if self.cipher.encrypts else "")
        check_packet(self.database, key, kept)
        return NewRow(
            place=place,
            key=key,
            key_hash=key_hash,
            value=kept,
            version=statements.new_version(),
            updated_us=statements.microseconds(self.now()),
            expires_us=None if expires_at is None else statements.microseconds(expires_at),
            referenced=referenced,
            writer=writer,
        )

    def _check(self, key: str, text: object) -> None:
        if not isinstance(text, str):
            raise InvalidValueError(
                f"The value of {key!r} is a {type(text).__name__}; a backend keeps JSON as text", key=key
            )
        if "\x00" in text:
            raise InvalidValueError(f"The value of {key!r} has a NUL in it, which JSON writes as \\u0000", key=key)
        try:
            size = byte_size(text)
        except UnicodeEncodeError:
            raise InvalidValueError(
                f"The value of {key!r} has half a surrogate pair in it.", "Decode it first.", key=key
            ) from None
        if size > self.max_value_bytes:
            raise ValueTooLargeError(
                *_too_large(key, size, self.max_value_bytes, "max_value_bytes"),
                key=key,
                size=size,
                limit=self.max_value_bytes,
            )

    def read(self, where: Mapping[str, Any], key: str) -> str | None:
        """The text at a place (`statements.at`), as it was given to `row`, or None.

        Raises:
            CodecError: it cannot be decrypted.
        """
        kept = self.database.autocommit(lambda connection: statements.read_value(connection, where), only_reads=True)
        return None if kept is None else self.decrypted(kept, where, key)

    def decrypted(self, kept: str, where: Mapping[str, Any], key: str) -> str:
        """As `read`, of what a row has."""
        if not kept.startswith(PREFIX):
            return kept
        return self.cipher.decrypt(kept, mark_of(where["at_scope"], where["at_key"]), f"The value of {key!r}")

    def write(self, new: Sequence[NewRow]) -> None:
        """Insert or replace, all of them or none."""
        dialect, keep = self.database.dialect, self.keep_versions

        def write(connection: Connection) -> None:
            statements.write(connection, dialect, new)
            if keep > 1:
                for row in new:
                    statements.write_version(connection, row, keep)

        (self.database.autocommit if len(new) == 1 and keep == 1 else self.database.transaction)(write)

    def write_unless_newer(self, row: NewRow) -> None:
        """Change the row, or insert it if there is no row. Try again while others insert and delete it in between.

        Raises:
            SupersededError: a later attempt has written the row.
        """
        while not self._with_version(row, lambda connection: statements.write_unless_newer(connection, row)):
            if self._insert(row):
                return
            found = self.database.autocommit(lambda connection: statements.read_state(connection, row.at))
            if found is None:  # it was deleted meanwhile
                continue
            other = WritingAttempt(identity=found.writer_hash, try_number=found.try_number, attempt_id=found.attempt_id)
            if row.writer.is_replaced_by(other):
                raise SupersededError(
                    f"A later attempt of this task has written {row.key!r}, so this one must stop; nothing was"
                    " changed.",
                    key=row.key,
                )

    def write_over(self, row: NewRow, version: int) -> bool:
        """Replace the value if it has this version (0: insert it if there is no row). Returns whether that was done.

        If the answer of the database is lost, the call is repeated and recognises the value as its own, unless
        somebody else has written in between.
        """
        if version == 0:
            return self._insert(row) or self._is_ours(row)
        written = self._with_version(row, lambda connection: statements.write_over(connection, row, version))
        return written or self._is_ours(row)

    def versions(self, scope: AnyScope, key: str) -> Sequence[Any]:
        """The rows of the versions that are kept, newest first."""
        where = statements.at(place_of(scope), key)

        def read(connection: Connection) -> list[Any]:
            state = statements.read_state(connection, where)
            if state is None:
                return []
            kept = [] if self.keep_versions == 1 else statements.read_history(connection, where)
            return [state, *(row for row in kept if row.version != state.version)]

        return self.database.autocommit(read)

    def _insert(self, row: NewRow) -> bool:
        """Insert the row. Returns whether it was inserted; False if there is a row already."""

        def insert(connection: Connection) -> bool:
            statements.write_new(connection, row)
            return True

        try:
            return self._with_version(row, insert)
        except RowExistsError:
            return False

    def _with_version(self, row: NewRow, write: Callable[[Connection], bool]) -> bool:
        """Do a conditional write. If it was done, and versions are kept, keep this version too."""
        keep = self.keep_versions
        if keep == 1:
            return self.database.autocommit(write)

        def both(connection: Connection) -> bool:
            written = write(connection)
            if written:
                statements.write_version(connection, row, keep)
            return written

        return self.database.transaction(both)

    def _is_ours(self, row: NewRow) -> bool:
        """Whether the row in the table is this one, written by an earlier call whose answer was lost."""
        found = self.database.autocommit(lambda connection: statements.read_state(connection, row.at))
        return found is not None and found.version == row.version

    def remove(self, remove: Callable[[Connection], None]) -> None:
        """Delete rows and their versions; in autocommit if `keep_versions` is 1."""
        (self.database.autocommit if self.keep_versions == 1 else self.database.transaction)(remove)


def check_packet(database: Database, key: str, text: str) -> None:
    """Refuse a value if its statement would be too large for the server.

    The server is asked again before the refusal, because its limit may have been raised.

    Raises:
        ValueTooLargeError: it is too large.
    """
    if byte_size(text) <= _PACKET_SPARE:
        return
    weight = database.dialect.weight(text)
    if _fits(weight, database.opened()):
        return
    again = database.opened_anew()
    if not _fits(weight, again):
        limit = (again.packet_limit or 0) - _PACKET_SPARE
        raise ValueTooLargeError(
            *_too_large(key, weight, limit, "the server's max_allowed_packet"), key=key, size=weight, limit=limit
        )


def _fits(weight: int, opened: OpenDatabase) -> bool:
    return opened.packet_limit is None or weight <= opened.packet_limit - _PACKET_SPARE


def _too_large(key: str, size: int, limit: int, of: str) -> tuple[str, str]:
    return (
        f"The value of {key!r} has {size:,} bytes and may have {limit:,} ({of}).",
        "Raise the limit, or keep the data elsewhere (object storage, a table) and store its address.",
    )
