"""A mark for event triggers, which run on the triggerer's event loop and have no task."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from airflow_resume import values
from airflow_resume.attempt import Attempt
from airflow_resume.errors import StoreUnavailableError, WatermarkChangedError
from airflow_resume.record import Slot
from airflow_resume.store import RETRY_SECONDS, MemoryStore, followed
from airflow_resume.watermarks.commit import Loaded, Outcome, decide_commit
from airflow_resume.watermarks.cursor import CursorType, infer_cursor
from airflow_resume.watermarks.keys import MARK
from airflow_resume.watermarks.mark_codec import MarkCodec
from airflow_resume.watermarks.record import MarkRecord

if TYPE_CHECKING:
    from pydantic import JsonValue

T = TypeVar("T")
R = TypeVar("R")

log = logging.getLogger(__name__)


class AsyncStore(Protocol):
    """The asset's state, as a trigger has it: `self.asset_state_store`."""

    async def aget(self, key: str, default: JsonValue = None) -> JsonValue:
        """The value, or `default` when there is none."""
        ...

    async def aset(self, key: str, value: JsonValue) -> None:
        """Write the value."""
        ...


class AsyncWatermark(Generic[T]):
    """How far a trigger has looked: read it when the trigger starts, and move it after every event that was fired.

        mark = AsyncWatermark(self.asset_state_store, initial=0)
        at = await mark.at()
        while True:
            for message in await queue.read(after=at):
                yield TriggerEvent(message)
                at = message.offset
                await mark.advance(at)

    Fire first, and move then: a triggerer that dies in between fires the event again. A trigger cannot see the asset's
    events, so a mark that was lost looks like one that never was: it begins at `initial` again, which the log says, and
    fires again what lies after that. The record is that of a `watermark` of the same name: a task may go on from it.

    Args:
        store: of the asset; `asset_state_store[asset]` where the trigger watches several.
        initial: where to begin the first time.
        name: of the mark; an asset may have several.
        cursor: the type of its values; by default what `initial` is.

    Raises:
        InvalidKeyError, CursorTypeError: for arguments that cannot work, at once.
    """

    def __init__(
        self, store: AsyncStore, *, initial: object, name: str = "watermark", cursor: CursorType[T] | None = None
    ) -> None:
        self._store = store
        self._cursor: CursorType[Any] = infer_cursor(initial) if cursor is None else cursor
        self._initial = self._cursor.parse(initial, what="initial")
        self._key = values.make_key(MARK, name)
        self._codec = MarkCodec[Any](key=self._key, cursor=self._cursor)
        self._slot = Slot(MemoryStore(), self._key, MarkRecord)  # which only reads and writes down
        self._known: MarkRecord | None = None

    async def at(self) -> T:
        """Where the mark stands: everything before it has been fired.

        Raises:
            UnreadableRecordError, WatermarkChangedError: the mark cannot be used.
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

        Returns:
            `Outcome.FENCED` when somebody has set the mark since `at()`: ask it again, and go on from there.
        """
        new = self._cursor.parse(to, what="advance()")
        if self._known is None:
            await self.at()
        known, found = self._known, await self._get()
        if known is None or not self._codec.is_record(found):
            return Outcome.FENCED
        stored = self._decoded(found)
        # A trigger watches alone and sees all that comes, so there is never a gap before it.
        start = self._codec.parsed(stored).at
        loaded = Loaded(start=start, new=new, epoch=known.epoch, base_rev=stored.rev)
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
        """Ask again while the database of a state backend is away: on the event loop it does not wait itself."""
        from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_delay, wait_random_exponential

        async def ask() -> R:
            return await call()

        return await AsyncRetrying(
            retry=retry_if_exception_type(StoreUnavailableError),
            stop=stop_after_delay(RETRY_SECONDS),
            wait=wait_random_exponential(multiplier=0.2, max=5),
            reraise=True,
        )(ask)

    def _decoded(self, stored: JsonValue) -> MarkRecord:
        record = self._slot.decode(stored)
        if record.definition not in ({}, self._cursor.definition()) or record.type != self._cursor.type:
            raise WatermarkChangedError(
                f"{self._key!r} is a mark of {record.definition or record.type!r}, and this one is of"
                f" {self._cursor.definition()!r}.",
                "Give it another name.",
            )
        return record
