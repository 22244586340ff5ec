"""A mark for event triggers, which run in the triggerer's event loop and have no task."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from airflow_resume import values
from airflow_resume.arguments import check_store
from airflow_resume.attempt import Attempt
from airflow_resume.errors import StoreUnavailableError
from airflow_resume.patience import Patience, for_seconds, random_growing
from airflow_resume.record import StoredRecord
from airflow_resume.shown import get_logger
from airflow_resume.store import RETRY_SECONDS, MemoryStore, followed
from airflow_resume.watermarks.commit import LoadedRange, Outcome, decide_commit
from airflow_resume.watermarks.cursors.cursor import CursorType, cursor_of
from airflow_resume.watermarks.keys import MARK
from airflow_resume.watermarks.marks.mark_codec import MarkCodec
from airflow_resume.watermarks.marks.mark_record import MarkRecord

if TYPE_CHECKING:
    from pydantic import JsonValue

T = TypeVar("T")
R = TypeVar("R")

log = get_logger(__name__)


class AsyncStore(Protocol):
    """The asset's state, as a trigger has it: `self.asset_state_store`."""

    async def aget(self, key: str, default: JsonValue = None) -> JsonValue:
        """The value, or `default` if there is no value."""
        ...

    async def aset(self, key: str, value: JsonValue) -> None:
        """Write the value."""
        ...


class AsyncWatermark(Generic[T]):
    """How far a trigger has read its source: read it when the trigger starts, and move it after every event.

        mark = AsyncWatermark(self.asset_state_store, initial=0)
        at = await mark.at()
        while True:
            for message in await queue.read(after=at):
                yield TriggerEvent(message)
                at = message.offset
                await mark.advance(at)

    Fire first, and then move: a triggerer that dies in between fires the event again. A trigger cannot read the asset's
    events, so it does not know whether a missing mark was lost: it begins at `initial` again, logs a warning, and fires
    everything after that again. The record is that of a `watermark` of the same name: a task may continue from it.

    Args:
        store: of the asset; `asset_state_store[asset]` where the trigger watches several.
        initial: where to begin the first time.
        name: of the mark; an asset may have several.
        cursor: the type of its values; by default that of `initial`.

    Raises:
        InvalidKeyError, CursorTypeError: for arguments that cannot work, at once.
    """

    def __init__(
        self, store: AsyncStore, *, initial: object, name: str = "watermark", cursor: CursorType[T] | None = None
    ) -> None:
        check_store(store, ("aget", "aset"))
        self._store = store
        self._cursor: CursorType[Any] = cursor_of(cursor, initial)
        self._initial = self._cursor.parse(initial, what="initial")
        self._key = values.make_key(MARK, name)
        self._codec = MarkCodec[Any](key=self._key, cursor=self._cursor)
        self._slot = StoredRecord(MemoryStore(), self._key, MarkRecord)  # only for reading and writing JSON
        self._known: MarkRecord | None = None

    async def at(self) -> T:
        """Where the mark stands: everything before it has been fired.

        Raises:
            UnreadableRecordError, WatermarkMismatchError: the mark cannot be used.
        """
        stored = await self._get()
        if self._codec.is_record(stored):
            record = self._decoded(stored)
        else:  # missing, or a bare value that a person typed
            is_new = stored is None
            at = self._initial if is_new else self._codec.typed(stored)
            record = self._codec.made(at, pending="initial" if is_new else "rewind")
            await self._set(record)
            log.warning("The mark %r was %s; beginning at %r", self._key, "missing" if is_new else "typed", record.at)
        self._known = record
        return self._codec.parsed(record).at  # type: ignore[no-any-return]

    async def advance(self, to: object) -> Outcome:
        """Everything before `to` has been fired. A mark that stands there or beyond stays.

        Args:
            to: a value of the cursor.

        Returns:
            `Outcome.FENCED` when somebody has set the mark since `at()`: call that again, and continue from there.
        """
        new = self._cursor.parse(to, what="advance()")
        if self._known is None:
            await self.at()
        known, found = self._known, await self._get()
        if known is None or not self._codec.is_record(found):
            return Outcome.FENCED
        stored = self._decoded(found)
        # Only this trigger moves the mark, and it sees every event, so there is never a gap.
        start = self._codec.parsed(stored).at
        loaded = LoadedRange(start=start, new=new, epoch=known.epoch, base_rev=stored.rev)
        outcome, mark = decide_commit(self._codec.parsed(stored), loaded, ordered=self._cursor.is_ordered)
        if mark is not None:
            self._known = self._codec.moved(stored, mark, Attempt())
            await self._set(self._known)
        return outcome

    async def _get(self) -> JsonValue:
        return followed(self._key, await self._patiently(lambda: self._store.aget(self._key)))

    async def _set(self, record: MarkRecord) -> None:
        _, stored = self._slot.fitted(record)
        await self._patiently(lambda: self._store.aset(self._key, stored))

    async def _patiently(self, call: Callable[[], Awaitable[R]]) -> R:
        """Repeat the call while a state backend's database is away. In an event loop the backend does not wait."""
        patience = Patience(
            is_passing=lambda error: isinstance(error, StoreUnavailableError),
            is_enough=for_seconds(lambda: RETRY_SECONDS),
            pause=random_growing(0.2, 5),
        )
        return await patience.acall(call, sleep=asyncio.sleep)

    def _decoded(self, stored: JsonValue) -> MarkRecord:
        record = self._codec.decoded(self._slot, stored)
        if not self._codec.is_of_this_cursor(record):
            raise self._codec.mismatch(record, "Give it another name.")
        return record
