"""Airflow's state backend, on a database of one's own."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Literal, TypeAlias

from airflow.sdk.state import AssetScope, BaseStoreBackend, TaskScope

from airflow_resume import values
from airflow_resume.arguments import check_choice, check_whole
from airflow_resume.attempt import how_to_delete_a_key, utc_now
from airflow_resume.backends import rows
from airflow_resume.backends.cleanup import BATCH, SETTLED, CleanupReport, Janitor, Judged
from airflow_resume.backends.database import Database
from airflow_resume.backends.dialects import byte_size
from airflow_resume.backends.event_loop import sparing_the_event_loop
from airflow_resume.backends.extras import Version
from airflow_resume.backends.patience import PATIENCE_SECONDS
from airflow_resume.backends.references import Reference, is_inline, parse
from airflow_resume.backends.scopes import AnyScope, key_digest, place_of
from airflow_resume.backends.settings import read_settings
from airflow_resume.backends.vault import Vault
from airflow_resume.backends.writer import current_writer
from airflow_resume.errors import (
    DanglingReferenceError,
    ForeignStoreError,
)

if TYPE_CHECKING:
    from pydantic import JsonValue

log = logging.getLogger(__name__)

OnDangling: TypeAlias = Literal["raise", "missing"]

MAX_VALUE_BYTES = 10 * 2**20
"""The largest value. MySQL's packets, as they are set by default, hold a little more."""


class SqlStoreBackend(BaseStoreBackend):
    """Keeps state in SQLite, PostgreSQL, MySQL or MariaDB.

    Airflow makes one without arguments: then the URL and the options come from its configuration, section
    `[airflow_resume]` (`backend_url`, `backend_inline_bytes`, `backend_on_dangling`, `backend_keep_versions`).

    It may be used by several threads, and goes on in a forked child. The `session` of a call is not used: it is one
    of Airflow's database. The async methods wait in a thread, and the hooks for references but briefly on
    an event loop.

    Args:
        url: as SQLAlchemy writes it. A driver need not be named. With `sqlite://` the state lives in this process.
        inline_bytes: a value of fewer bytes of JSON stays in Airflow's database; 0 keeps all of them here.
        on_dangling: what a reference without a value gives: an error, or None.
        max_value_bytes: the largest value that is taken.
        keep_versions: how many versions of a value `history` has, the last one included.
        patience: seconds for which a call is made again while the database is away or busy.
        now: the clock for expiry.

    Raises:
        BackendNotConfiguredError: no URL is given or configured.
        InvalidStoreUrlError: it is that of nothing we know.

    Every method that uses the database:
        StoreUnavailableError: it was away or busy for longer than the patience. Nothing was lost.
        StoreRefusedError, ReadOnlyStoreError, StoreFullError, NewerSchemaError, MissingDriverError: as they say.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        inline_bytes: int | None = None,
        on_dangling: OnDangling | None = None,
        max_value_bytes: int = MAX_VALUE_BYTES,
        keep_versions: int | None = None,
        patience: float = PATIENCE_SECONDS,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        settings = read_settings(url, inline_bytes=inline_bytes, on_dangling=on_dangling, keep_versions=keep_versions)
        check_choice("on_dangling", settings.on_dangling, OnDangling)
        check_whole("inline_bytes", settings.inline_bytes, least=0)
        check_whole("keep_versions", settings.keep_versions, least=1)
        check_whole("max_value_bytes", max_value_bytes, least=1)
        self._settings = settings
        self._now = now
        self._database = Database(settings.url, patience=patience)
        self._vault = Vault(
            database=self._database, max_value_bytes=max_value_bytes, keep_versions=settings.keep_versions, now=now
        )

    def __repr__(self) -> str:
        shown = self._database.url.set(query={})  # a query may have passwords too
        return f"<SqlStoreBackend {shown.render_as_string(hide_password=True)}>"

    @property
    def store_id(self) -> str:
        """The random id of the database, which is in every reference to it."""
        return self._database.opened().store_id

    def close(self) -> None:
        """Close the connection of this process. The backend may be used again afterwards."""
        self._database.close()

    # --- Airflow's contract -----------------------------------------------------------------------------------

    def get(self, scope: AnyScope, key: str, *, session: object = None) -> str | None:  # noqa: ARG002  see the class
        """The text that was set, character by character, or None."""
        where = rows.at(place_of(scope), key)
        return self._database.alone(lambda connection: rows.read_value(connection, where))

    def set(
        self,
        scope: AnyScope,
        key: str,
        value: str,
        *,
        expires_at: datetime | None = None,
        session: object = None,  # noqa: ARG002  see the class
    ) -> None:
        """Keep the text, until the time is over if one is given.

        Raises:
            InvalidKeyError, InvalidValueError, ValueTooLargeError: before anything is written.
        """
        self._vault.write([self._vault.row(scope, key, value, expires_at=expires_at)])

    def set_many(self, scope: AnyScope, texts: Mapping[str, str], *, expires_at: datetime | None = None) -> None:
        """Keep several texts of a scope, all of them or none. It raises as `set` does."""
        self._vault.write([self._vault.row(scope, key, text, expires_at=expires_at) for key, text in texts.items()])

    def delete(self, scope: AnyScope, key: str, *, session: object = None) -> None:  # noqa: ARG002  see the class
        """Remove the text, if there is one."""
        place = place_of(scope)
        where = rows.at(place, key)
        self._vault.remove(lambda connection: rows.remove(connection, where), place)

    def clear(
        self,
        scope: AnyScope,
        *,
        all_map_indices: bool = False,
        session: object = None,  # noqa: ARG002  see the class
    ) -> None:
        """Remove everything in the scope; on demand that of all instances of a mapped task."""
        place = place_of(scope)
        self._vault.remove(
            lambda connection: rows.remove_all(connection, place, family=all_map_indices),
            None if all_map_indices else place,
        )

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
        """The value behind a reference.

        Raises:
            DanglingReferenceError: it is gone, and the policy is not to take that for a missing one.
            ForeignStoreError: it is in another database.
            StateReferenceError: this is no reference that we know.
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
        self, *, live: Collection[str] | None = None, live_as_of: datetime | None = None, settled: timedelta = SETTLED
    ) -> Iterator[Judged]:
        """Every row, with the reason why `clean` with the same arguments would delete or keep it."""
        return self._janitor(live, live_as_of, settled).plan()

    def clean(
        self,
        *,
        live: Collection[str] | None = None,
        live_as_of: datetime | None = None,
        settled: timedelta = SETTLED,
        batch: int = BATCH,
    ) -> CleanupReport:
        """Delete what has expired, and what no reference leads to any more.

        A batch that fails is reported and left out. It may be interrupted at any time, and be run again.

        Args:
            live: every reference that Airflow has now, as this backend returned them. Without it nothing that Airflow
                may have a reference to is deleted.
            live_as_of: when they began to be collected; needed with them.
            settled: a value that was written less than this before `live_as_of` is kept, as its reference may have
                been on its way.
            batch: rows that are deleted in one transaction.
        """
        check_whole("batch", batch, least=1)
        return self._janitor(live, live_as_of, settled).clean(batch)

    def scan(self, scope: AnyScope, prefix: str) -> list[str]:
        """The keys of the scope that begin with it, sorted."""
        place = place_of(scope)
        found = self._database.alone(lambda connection: rows.read_keys(connection, place))
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

        When the answer of the database is lost it is asked again, and finds out that the text is its own; not so if
        somebody has written over it in between.

        Returns:
            The new version, or None when it is another one and nothing was written.
        """
        row = self._vault.row(scope, key, value, expires_at=expires_at)
        return row.version if self._vault.write_over(row, expected_version) else None

    def history(self, scope: AnyScope, key: str) -> Sequence[Version]:
        """The version that is there now, and those before it that were kept, newest first."""
        return [
            Version(
                version=row.version,
                value=json.loads(row.value),
                at=rows.moment_of(row.updated_us),
                try_number=row.try_number,
            )
            for row in self._vault.versions(scope, key)
        ]

    # --- how --------------------------------------------------------------------------------------------------

    @sparing_the_event_loop()
    def _serialize(self, scope: AnyScope, key: str, value: JsonValue) -> str:
        values.check(value)
        text = json.dumps(value, ensure_ascii=False)
        key_digest(key)
        if byte_size(text) < self._settings.inline_bytes:
            return text
        row = self._vault.row(scope, key, text, writer=current_writer(), referenced=True)
        self._vault.write_unless_newer(row)
        return str(Reference(store_id=self.store_id, scope_hash=row.place.identity, key=key))

    @sparing_the_event_loop()
    def _deserialize(self, stored: str) -> JsonValue:
        if is_inline(stored):
            return json.loads(stored)  # type: ignore[no-any-return]
        reference = parse(stored)
        if reference.store_id != self.store_id:
            raise ForeignStoreError(
                f"The value of {reference.key!r} is in the database {reference.store_id}, and {self!r} is"
                f" {self.store_id}.",
                "See whether it is a file of another host, or the URL was changed.",
            )
        where = {"at_scope": reference.scope_hash, "at_key": key_digest(reference.key)}
        text = self._database.alone(lambda connection: rows.read_value(connection, where))
        if text is not None:
            return json.loads(text)  # type: ignore[no-any-return]
        if self._settings.on_dangling == "missing":
            return None
        raise DanglingReferenceError(
            f"Airflow has a reference to the value of {reference.key!r}, and the value is not in {self!r} any more.",
            f"To begin anew, {how_to_delete_a_key()}; where lost values may be taken for missing, set"
            " [airflow_resume] backend_on_dangling = missing.",
        )

    def _janitor(self, live: Collection[str] | None, live_as_of: datetime | None, settled: timedelta) -> Janitor:
        if (live is None) != (live_as_of is None):
            raise ValueError("live and live_as_of go together: the references, and when they began to be collected")
        return Janitor(
            database=self._database,
            now_us=rows.microseconds(self._now()),
            live=live,
            settled_us=None if live_as_of is None else rows.microseconds(live_as_of - settled),
        )
