"""Airflow's state backend on a database of your own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Literal, TypeAlias

from airflow_resume.arguments import check_choice, check_function, check_seconds, check_whole
from airflow_resume.attempt import utc_now
from airflow_resume.backends.clearing import may_clear
from airflow_resume.backends.database.database import Database
from airflow_resume.backends.event_loop import sparing_the_event_loop
from airflow_resume.backends.extras import Version
from airflow_resume.backends.rows import statements
from airflow_resume.backends.rows.cleanup import BATCH, SETTLED, CleanupReport, Judged, cleanup_of
from airflow_resume.backends.rows.referenced import keep, resolve
from airflow_resume.backends.rows.rotation import RotationReport, rotate
from airflow_resume.backends.rows.value_table import ValueTable
from airflow_resume.backends.schema.migrations import read_ids
from airflow_resume.backends.settings import read_settings
from airflow_resume.backends.span import PATIENCE_SECONDS
from airflow_resume.backends.values.codecs import Cipher, Codec
from airflow_resume.backends.values.scopes import AnyScope, place_of
from airflow_resume.backends.values.texts import value_in_row
from airflow_resume.compat import AssetScope, BaseStoreBackend, TaskScope
from airflow_resume.errors import BackendSettingError, InvalidValueError
from airflow_resume.shown import get_logger, short_repr

if TYPE_CHECKING:
    from pydantic import JsonValue

log = get_logger(__name__)

OnDangling: TypeAlias = Literal["raise", "missing"]

MAX_PATIENCE_SECONDS = 86_400.0
MAX_VERSION = 2**63 - 1
MAX_VALUE_BYTES = 10 * 2**20
"""The largest value. MySQL's packets, as they are set by default, hold a little more."""


class SqlStoreBackend(BaseStoreBackend):
    """Keeps state in SQLite, PostgreSQL, MySQL or MariaDB.

    Airflow makes one without arguments: then the URL and the options come from its configuration, section
    `[airflow_resume]`: `backend_url` or `backend_conn_id`, `backend_inline_bytes`, `backend_on_dangling`,
    `backend_keep_versions`, `backend_codec`.

    Several threads may use it, and it works in a forked child. The `session` of a call is not used: it belongs to
    Airflow's database. The async methods wait in a thread. Airflow calls the methods that write and read references
    (`serialize_..._to_ref`, `deserialize_..._from_ref`) on an event loop too, where they wait only briefly.

    It has more methods than other classes, because Airflow's contract asks for fourteen of them.

    Args:
        url: in SQLAlchemy's form. It need not name a driver. With `sqlite://` the state is only in this process.
        conn_id: the id of one of Airflow's connections, instead of a URL. It is looked up when it is first needed.
        inline_bytes: a value with fewer bytes of JSON stays in Airflow's database; with 0 no value stays there.
        on_dangling: what a read gives if the value of a reference is missing: an error (`raise`), or None (`missing`).
        max_value_bytes: the largest value that is accepted.
        keep_versions: how many versions of a value `history` has, including the current one.
        codec: what encrypts the values: `fernet`, with Airflow's keys, or an object with the methods `encode` and
            `decode`, or the path to import one from.
        patience: for how many seconds a call is repeated while the database is away or busy.
        now: the clock for expiry.

    Raises:
        BackendSettingError: no URL or connection is given or configured, or both are; or the URL cannot be right, or is
            for an unsupported database.

    Every method that uses the database:
        StoreUnavailableError: it was away or busy for longer than the patience. Nothing was lost.
        StoreRefusedError, UnwritableStoreError, SchemaError, MissingDriverError: see each of them.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        conn_id: str | None = None,
        inline_bytes: int | None = None,
        on_dangling: OnDangling | None = None,
        max_value_bytes: int = MAX_VALUE_BYTES,
        keep_versions: int | None = None,
        codec: Codec | str | None = None,
        patience: float = PATIENCE_SECONDS,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        settings = read_settings(
            url,
            conn_id,
            inline_bytes=inline_bytes,
            on_dangling=on_dangling,
            keep_versions=keep_versions,
            codec=codec,
        )
        check_choice("on_dangling", settings.on_dangling, OnDangling)
        check_whole("inline_bytes", settings.inline_bytes, least=0)
        check_whole("keep_versions", settings.keep_versions, least=1)
        check_whole("max_value_bytes", max_value_bytes, least=1)
        check_seconds("patience", patience, most=MAX_PATIENCE_SECONDS)
        check_function("now", now)
        self._settings = settings
        self._now = now
        cipher = Cipher(settings.codec)
        self._database = Database(settings.url, patience=patience, erases=cipher.encrypts)
        self._values = ValueTable(
            database=self._database,
            max_value_bytes=max_value_bytes,
            keep_versions=settings.keep_versions,
            now=now,
            cipher=cipher,
        )

    def __repr__(self) -> str:
        return f"<SqlStoreBackend {self._database}>"

    @property
    def store_id(self) -> str:
        """The random id of the database, which all references to it contain. It may change, so it is always read."""
        return str(self._database.autocommit(read_ids).store_id)

    def close(self) -> None:
        """Close the connection of this process. The backend may be used again afterwards."""
        self._database.close()

    # --- Airflow's contract -----------------------------------------------------------------------------------

    def get(self, scope: AnyScope, key: str, *, session: object = None) -> str | None:  # noqa: ARG002  see the class
        """The text that was set, character by character, or None.

        Raises:
            CodecError: it cannot be decrypted.
        """
        return self._values.read(statements.at(place_of(scope), key), key)

    def set(
        self,
        scope: AnyScope,
        key: str,
        value: str,
        *,
        expires_at: datetime | None = None,
        session: object = None,  # noqa: ARG002  see the class
    ) -> None:
        """Keep the text for ever; or, with `expires_at`, until a cleanup after that time.

        Raises:
            InvalidKeyError, InvalidValueError, ValueTooLargeError: before anything is written.
        """
        self._values.write([self._values.row(scope, key, value, expires_at=expires_at)])

    def set_many(self, scope: AnyScope, texts: Mapping[str, str], *, expires_at: datetime | None = None) -> None:
        """Keep several texts of a scope, all of them or none. It raises as `set` does.

        Args:
            scope: of a task or an asset.
            texts: JSON as text, by key.
            expires_at: when a cleanup may delete them, with its zone; None: never.
        """
        self._values.write([self._values.row(scope, key, text, expires_at=expires_at) for key, text in texts.items()])

    def delete(self, scope: AnyScope, key: str, *, session: object = None) -> None:  # noqa: ARG002  see the class
        """Remove the text, if there is one."""
        where = statements.at(place_of(scope), key)
        self._values.remove(lambda connection: statements.remove(connection, where))

    def clear(
        self,
        scope: AnyScope,
        *,
        all_map_indices: bool = False,
        session: object = None,  # noqa: ARG002  see the class
    ) -> None:
        """Remove everything in the scope; with `all_map_indices`, everything of all instances of a mapped task.

        Raises:
            SupersededError: the task has succeeded in an attempt that was replaced. Nothing was removed.
        """
        place = place_of(scope)
        if not may_clear():
            return
        self._values.remove(lambda connection: statements.remove_all(connection, place, family=all_map_indices))

    async def aget(self, scope: AnyScope, key: str, *, session: object = None) -> str | None:  # noqa: ARG002
        """As `get`."""
        return await asyncio.to_thread(self.get, scope, key)

    async def aset(
        self,
        scope: AnyScope,
        key: str,
        value: str,
        *,
        expires_at: datetime | None = None,
        session: object = None,  # noqa: ARG002  see the class
    ) -> None:
        """As `set`."""
        await asyncio.to_thread(self.set, scope, key, value, expires_at=expires_at)

    async def adelete(self, scope: AnyScope, key: str, *, session: object = None) -> None:  # noqa: ARG002
        """As `delete`."""
        await asyncio.to_thread(self.delete, scope, key)

    async def aclear(
        self,
        scope: AnyScope,
        *,
        all_map_indices: bool = False,
        session: object = None,  # noqa: ARG002  see the class
    ) -> None:
        """As `clear`."""
        await asyncio.to_thread(self.clear, scope, all_map_indices=all_map_indices)

    def serialize_task_state_store_to_ref(self, *, value: JsonValue, key: str, scope: TaskScope) -> str:
        """Keep a large value here and return a reference to it; return a small one as JSON.

        Raises:
            SupersededError: a later attempt of this task instance has written the value. Nothing was changed.
            InvalidKeyError, InvalidValueError, ValueTooLargeError: before anything is written.
        """
        return self._serialize(scope, key, value)

    def serialize_asset_state_store_to_ref(self, *, value: JsonValue, key: str, scope: AssetScope) -> str:
        """As for a task."""
        return self._serialize(scope, key, value)

    def deserialize_task_state_store_from_ref(self, stored: str) -> JsonValue:
        """The value that a reference leads to.

        Raises:
            DanglingReferenceError: it is gone, and `on_dangling` is not `missing`.
            StateReferenceError: it is in another database, or this is neither a reference that we know nor a value.
            UnreadableRecordError: the text of the value is not JSON.
            CodecError: the value cannot be decrypted.
        """
        return self._deserialize(stored)

    def deserialize_asset_state_store_from_ref(self, stored: str) -> JsonValue:
        """As for a task."""
        return self._deserialize(stored)

    def cleanup(self) -> None:
        """Delete what has expired. What a worker wrote has no expiry here: see `clean`."""
        log.info("%s", self.clean())

    # --- beyond it --------------------------------------------------------------------------------------------

    def plan_cleanup(
        self, *, live: Iterable[object] | None = None, live_as_of: datetime | None = None, settled: timedelta = SETTLED
    ) -> Iterator[Judged]:
        """Every row, and why `clean` with the same arguments would delete or keep it. It raises as `clean` does.

        Args:
            live: as for `clean`.
            live_as_of: as for `clean`.
            settled: as for `clean`.
        """
        return cleanup_of(self._database, self._now(), live, live_as_of, settled).plan()

    def clean(
        self,
        *,
        live: Iterable[object] | None = None,
        live_as_of: datetime | None = None,
        settled: timedelta = SETTLED,
        batch: int = BATCH,
    ) -> CleanupReport:
        """Delete what has expired, and what no reference leads to any more.

        A batch that fails is reported and left out. A cleanup may be interrupted at any time, and run again.

        Args:
            live: every reference that Airflow has now, as this backend returned them, or as Airflow's API shows them.
                An iterator is read once, before anything is deleted. Values that are kept inline are skipped.
                Without `live`, nothing that Airflow may have a reference to is deleted. If `live` is empty, all of that
                is deleted.
            live_as_of: when the collection of the references began, with a time zone. It is needed if `live` is given.
            settled: a value that was written less than this before `live_as_of` is kept, as its reference may not have
                arrived yet.
            batch: rows that are deleted in one transaction.

        Raises:
            TypeError, ValueError, StateReferenceError: an argument makes no sense. Nothing was deleted.
            StateReferenceError: all references lead to other databases. Nothing was deleted.
        """
        check_whole("batch", batch, least=1)
        return cleanup_of(self._database, self._now(), live, live_as_of, settled).clean(batch)

    def scan(self, scope: AnyScope, prefix: str) -> list[str]:
        """The keys of the scope that begin with `prefix`, sorted.

        Args:
            scope: of a task or an asset.
            prefix: of the keys; an empty one gives all.
        """
        place = place_of(scope)
        found = self._database.autocommit(lambda connection: statements.read_keys(connection, place))
        return sorted(key for key in found if key.startswith(prefix))

    def compare_and_set(
        self,
        scope: AnyScope,
        key: str,
        expected_version: int,
        value: str,
        *,
        expires_at: datetime | None = None,
    ) -> int | None:
        """Keep the text if the key has that version (0: if there is no such key).

        If the answer of the database is lost, the call is repeated and recognises the text as its own, unless
        somebody else has written in between.

        Args:
            scope: of a task or an asset.
            key: of the text.
            expected_version: the version that the key must have; 0: there must be no such key.
            value: JSON as text.
            expires_at: when a cleanup may delete it, with its zone; None: never.

        Returns:
            The new version; None if the key has another version, so that nothing was written.

        Raises:
            InvalidValueError: the version is no whole number of 64 bits. Nothing was written.
        """
        is_whole = isinstance(expected_version, int) and not isinstance(expected_version, bool)
        if not is_whole or not 0 <= expected_version <= MAX_VERSION:
            raise InvalidValueError(
                f"expected_version={short_repr(expected_version)} is no version.",
                "Give one that compare_and_set or history has returned, or 0 for a key that is not there.",
            )
        row = self._values.row(scope, key, value, expires_at=expires_at)
        return row.version if self._values.write_over(row, expected_version) else None

    def history(self, scope: AnyScope, key: str) -> Sequence[Version]:
        """The current version and the older ones that were kept, newest first.

        Args:
            scope: of a task or an asset.
            key: of the value.

        Raises:
            UnreadableRecordError: the text of one of them is not JSON.
        """
        where = statements.at(place_of(scope), key)
        return [
            Version(
                version=row.version,
                value=self.value_of(self._values.decrypted(row.value, where, key), key),
                at=statements.moment_of(row.updated_us),
                try_number=row.try_number,
            )
            for row in self._values.versions(scope, key)
        ]

    def rotate(self) -> RotationReport:
        """Encrypt all values here under the newest key, also plain text. It may be interrupted and called again.

        Raises:
            BackendSettingError: there is no codec, or no key for it.
        """
        if not self._values.cipher.encrypts:
            raise BackendSettingError(
                "There is no codec to encrypt with.", "Pass codec=, such as 'fernet'.", setting="backend_codec"
            )
        return rotate(self._database, self._values.cipher)

    def value_of(self, text: str, key: str) -> JsonValue:
        """The value of a key, from its text.

        Args:
            text: as `get` returned it.
            key: the key under which it was kept, for the message.

        Raises:
            UnreadableRecordError: the text is not JSON; the message shows it, unless values are encrypted.
        """
        return value_in_row(text, key, self, is_secret=self._values.cipher.encrypts)

    # --- what the methods share -------------------------------------------------------------------------------

    @sparing_the_event_loop()
    def _serialize(self, scope: AnyScope, key: str, value: JsonValue) -> str:
        return keep(self._values, scope, key, value, inline_bytes=self._settings.inline_bytes)

    @sparing_the_event_loop()
    def _deserialize(self, stored: str) -> JsonValue:
        return resolve(self._values, stored, self, on_dangling=self._settings.on_dangling)
