"""`checkpoint`: the loop itself.

Theory of operation. An element is *delivered* when it is yielded, *acked* when the consumer asks for the next one,
and *committed* when a store write that contains the position after it has returned: committed <= acked <= delivered,
always. A body that is left by `break`, `return` or an exception never acks its element. One write opens the loop (the
claim, which is refused when another attempt has replaced this one), one write finishes it, and between them the
durability decides. In `"async"` the newest acked position is handed to the channel's thread at most once an interval,
so the loop does not wait; whatever was acked is flushed when the loop is left, in whichever way.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from airflow_resume import values
from airflow_resume.arguments import check_choice, check_duration
from airflow_resume.attempt import AnyContext, Attempt, utc_now
from airflow_resume.channel import LatestWriter
from airflow_resume.errors import LoopError, StoreUnavailableError, SupersededError, UnreadableRecordError
from airflow_resume.loops.opening import Definition, OnChange, OnClear, Opening, change_error, decide_opening
from airflow_resume.loops.record import KEY_PREFIX, LoopRecord, Opened
from airflow_resume.loops.source import Source
from airflow_resume.loops.sources import as_source
from airflow_resume.record import Slot
from airflow_resume.store import StateStore, channel_of, open_task_store

if TYPE_CHECKING:
    from pydantic import JsonValue

T = TypeVar("T")

log = logging.getLogger(__name__)

Durability = Literal["async", "sync", "exit"]
OnUnreadable = Literal["fail", "restart"]
OnStoreError = Literal["raise", "continue"]

BUSY_SHARE = 0.05
"""At most this share of the loop's time may be spent writing in `"async"`."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """How a loop is kept; see `checkpoint`."""

    durability: Durability = "async"
    interval: timedelta = timedelta(seconds=1)
    max_uncommitted: timedelta = timedelta(seconds=30)
    on_clear: OnClear = "restart"
    on_change: OnChange = "restart"
    on_unreadable: OnUnreadable = "fail"
    on_store_error: OnStoreError = "raise"

    def __post_init__(self) -> None:
        check_choice("durability", self.durability, Durability)
        check_choice("on_clear", self.on_clear, OnClear)
        check_choice("on_change", self.on_change, OnChange)
        check_choice("on_unreadable", self.on_unreadable, OnUnreadable)
        check_choice("on_store_error", self.on_store_error, OnStoreError)
        check_duration("interval", self.interval)
        check_duration("max_uncommitted", self.max_uncommitted)


@dataclass(frozen=True, kw_only=True)
class Element:
    """The element in hand.

    Args:
        id: 32 hexadecimal digits, the same in every attempt: the key for a sink that can overwrite.
        number: how many elements were done before it, in all attempts.
    """

    id: str
    number: int


def checkpoint(
    source: Source[T] | Iterable[T],
    *,
    name: str,
    durability: Durability = "async",
    interval: timedelta = timedelta(seconds=1),
    max_uncommitted: timedelta = timedelta(seconds=30),
    fingerprint: Mapping[str, object] | None = None,
    on_clear: OnClear = "restart",
    on_change: OnChange = "restart",
    on_unreadable: OnUnreadable = "fail",
    on_store_error: OnStoreError = "raise",
    context: AnyContext | None = None,
    store: StateStore | None = None,
) -> Checkpoint[T]:
    """Loop over `source`; on a retry, start at the first element whose body had not finished.

    Validates at the call and touches nothing before the first element is asked for. No element is ever skipped. After
    a crash, what was acked since the last write and the element in hand are delivered again.

    Args:
        source: a source of `airflow_resume.loops`, or an iterable that is the same in every attempt.
        name: of the loop, unique in the task.
        durability: `"async"` (default) writes in the background, at most once an `interval` and never more than 5 % of
            the time; `"sync"` before the next element is delivered; `"exit"` only when the loop is left.
        interval: between two writes in `"async"`; 1 s by default.
        max_uncommitted: when the store has not taken a write for this long the loop waits for it; 30 s by default.
        fingerprint: what else the positions depend on (a bucket, a query): a change follows `on_change`. Only short
            hashes are stored.
        on_clear: `"restart"` (default: a cleared task does its work again) or `"resume"`.
        on_change: of the source or the fingerprint: `"restart"` (default), `"fail"` or `"resume"`.
        on_unreadable: a record that cannot be read: `"fail"` (default) or `"restart"`.
        on_store_error: the store is away for longer than a minute: `"raise"` (default) or `"continue"` uncommitted.
        context: of the task; by default that of the running one.
        store: used instead of the task's, for scripts and tests.

    Returns:
        An iterable, once; also a context manager, which gives `.state` and `.element` a place to be used.

    Raises:
        InvalidKeyError, TypeError, ValueError: at once, for arguments that cannot work.
        NoStateStoreError, SourceChangedError, UnreadableRecordError: at the first element, with nothing touched.
        SupersededError: another attempt has replaced this one; no further element is delivered.
    """
    return Checkpoint(
        as_source(source),
        key=values.make_key(KEY_PREFIX, name),
        options=Options(
            durability=durability,
            interval=interval,
            max_uncommitted=max_uncommitted,
            on_clear=on_clear,
            on_change=on_change,
            on_unreadable=on_unreadable,
            on_store_error=on_store_error,
        ),
        fingerprint=fingerprint or {},
        context=context,
        store=store,
    )


class Checkpoint(Generic[T]):
    """A loop that remembers how far it has come. Made by `checkpoint`."""

    def __init__(
        self,
        source: Source[T],
        *,
        key: str,
        options: Options,
        fingerprint: Mapping[str, object],
        context: AnyContext | None = None,
        store: StateStore | None = None,
        monotonic: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        self._source = source
        self._key = key
        self._options = options
        self._definition = Definition(kind=source.kind, fp=values.fingerprints({**source.definition(), **fingerprint}))
        self._context, self._given_store = context, store
        self._monotonic, self._now = monotonic, now
        self._iterated = self._managed = self._closed = False
        self._opened: tuple[Slot[LoopRecord], LatestWriter[LoopRecord], Attempt] | None = None
        self._dirty = False
        self._due = 0.0
        self._position: JsonValue = None
        self._count = 0
        self._acked_state: dict[str, JsonValue] = {}
        self.done = False
        """Whether the source was exhausted, in this attempt or before."""
        self.state: dict[str, Any] = {}
        """Yours: JSON that is saved in the same write as the position."""

    # --- what a user touches ----------------------------------------------------------------------------------

    def __enter__(self) -> Checkpoint[T]:
        self._managed = True
        self._open()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        self._close(error)

    def __iter__(self) -> Iterator[T]:
        if self._iterated:
            raise LoopError(f"The loop {self._key!r} was iterated already; make another one with checkpoint(...)")
        self._iterated = True
        return self._deliver()

    @property
    def element(self) -> Element:
        """The element in hand."""
        scope = self._attempt.scope.identity()
        return Element(id=values.fingerprint([*scope, self._key, self._position], length=32), number=self._count)

    # --- the loop ---------------------------------------------------------------------------------------------

    def _deliver(self) -> Iterator[T]:
        self._open()
        try:
            if not self.done:
                for element, after in self._source.elements(self._position):
                    yield element
                    self._ack(after)
                self._finish()
        except BaseException as error:
            # `break` and `return` end the generator here; a `with` around it has an end of its own, where a write
            # that fails can still be raised.
            if not (self._managed and isinstance(error, GeneratorExit)):
                self._close(error)
            raise
        self._close(None)

    def _ack(self, after: JsonValue) -> None:
        """The consumer came back, so the body has finished."""
        if self._writer.failure is not None:
            self._guarded(self._writer.raise_failure)
        if self.state or self._acked_state:
            self._acked_state = self._encoded_state()
        self._position = after
        self._count += 1
        self._dirty = True
        if self._options.durability == "sync":
            self._flush()
        elif self._options.durability == "async" and self._monotonic() >= self._due:
            self._write_soon()

    def _encoded_state(self) -> dict[str, JsonValue]:
        """The state as it is saved, and a copy: what the next body does to it is not acked yet."""
        encoded = {key: values.encode(value) for key, value in self.state.items()}
        values.check(encoded, at=f"{self._key}.state")
        values.check_size(f"{self._key}.state", encoded)
        return encoded

    def _write_soon(self) -> None:
        self._writer.offer(self._acked())
        now = self._monotonic()
        if now - self._writer.written_at > self._options.max_uncommitted.total_seconds():
            self._guarded(self._writer.flush)
        pause = max(self._options.interval.total_seconds(), self._writer.write_seconds / BUSY_SHARE)
        self._due = now + min(pause, self._options.max_uncommitted.total_seconds())

    def _finish(self) -> None:
        self.done = True
        self._dirty = True
        self._flush()
        log.info("The loop %r is done: %d elements", self._key, self._count)

    def _flush(self) -> None:
        self._guarded(self._write_now)

    def _write_now(self) -> None:
        self._writer.offer(self._acked())
        self._writer.flush()
        self._dirty = False

    def _guarded(self, write: Callable[[], None]) -> None:
        """A store that is away may be borne by policy; a refused write never is."""
        try:
            write()
        except StoreUnavailableError:
            if self._options.on_store_error == "raise":
                raise
            log.warning("The position of %r could not be written; going on", self._key, exc_info=True)

    def _close(self, error: BaseException | None) -> None:
        """Save what is acked. A write that fails here is logged, and never takes the place of the body's error."""
        if self._closed or self._opened is None:
            return
        self._closed = True
        if error is not None:
            self._attempt.give_back(self._key)
        if isinstance(error, SupersededError):
            return
        try:
            self._guarded(self._writer.flush)
            if self._dirty:
                self._flush()
        except Exception as failure:
            if error is None:
                raise
            if failure is not error:
                log.error("The position of %r could not be saved: %r", self._key, failure)  # noqa: TRY400

    # --- opening ----------------------------------------------------------------------------------------------

    def _open(self) -> None:
        """Read, check, and claim by a write before anything is delivered."""
        if self._opened is not None:
            return
        store, attempt = open_task_store(self._context, self._given_store)
        slot = Slot(store, self._key, LoopRecord)
        found = self._read(slot)
        opening = decide_opening(
            found,
            epoch=attempt.epoch,
            definition=self._definition,
            on_clear=self._options.on_clear,
            on_change=self._options.on_change,
        )
        if found is not None and opening is Opening.FAIL_CHANGED:
            raise change_error(found, self._definition)
        record = self._claimed(found, opening, attempt)
        with attempt.using(self._key):
            slot.write(record)
        self._record = record
        self._position, self._count, self.done = record.pos, record.n, record.done
        self._acked_state = record.state
        self.state = {key: values.decode(value) for key, value in record.state.items()}
        self._opened = (slot, LatestWriter(channel_of(store), slot.write, self._monotonic), attempt)
        self._due = self._monotonic() + self._options.interval.total_seconds()
        self._say(opening, found)

    def _read(self, slot: Slot[LoopRecord]) -> LoopRecord | None:
        try:
            return slot.read()
        except UnreadableRecordError:
            if self._options.on_unreadable == "fail":
                raise
            log.warning("Starting over, as the record of %r cannot be read", self._key, exc_info=True)
            return None

    def _claimed(self, found: LoopRecord | None, opening: Opening, attempt: Attempt) -> LoopRecord:
        now = self._now()
        opens = 1 if found is None else found.at.opens + 1
        fresh: dict[str, Any] = {
            "kind": self._definition.kind,
            "fp": self._definition.fp,
            "total": self._source.total(),
            "at": Opened(try_number=attempt.try_number, epoch=attempt.epoch, opens=opens),
            "ts": now,
        }
        if found is None:
            return LoopRecord(key=self._key, t0=now, **fresh)
        if not opening.keeps_position:
            fresh |= {"pos": None, "done": False, "n": 0, "state": {}, "skipped": 0, "t0": now}
        return found.model_copy(update=fresh)

    def _say(self, opening: Opening, found: LoopRecord | None) -> None:
        of_total = "" if self._record.total is None else f" of {self._record.total}"
        changed = f" ({', '.join(self._definition.changes(found))})" if found and "changed" in opening.value else ""
        log.info(
            "The loop %r, try %d: %s%s; %d%s elements done",
            self._key,
            self._attempt.try_number,
            opening.value,
            changed,
            self._count,
            of_total,
        )

    def _acked(self) -> LoopRecord:
        """The record of all that is acked."""
        return self._record.model_copy(
            update={
                "pos": self._position,
                "n": self._count,
                "state": self._acked_state,
                "done": self.done,
                "ts": self._now(),
            }
        )

    @property
    def _writer(self) -> LatestWriter[LoopRecord]:
        return self._parts[1]

    @property
    def _attempt(self) -> Attempt:
        return self._parts[2]

    @property
    def _parts(self) -> tuple[Slot[LoopRecord], LatestWriter[LoopRecord], Attempt]:
        if self._opened is None:
            raise LoopError(f"The loop {self._key!r} is not open yet: iterate it, or use it in a `with` statement")
        return self._opened
