"""`checkpoint`, and the loop object it makes: a thin face over `LoopRun` and the ways of going through it."""

from __future__ import annotations

import inspect
from asyncio import CancelledError
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, overload

from airflow_resume.arguments import check_whole
from airflow_resume.attempt import AnyContext
from airflow_resume.channel import off_the_loop
from airflow_resume.errors import LoopError
from airflow_resume.loops.each import Each
from airflow_resume.loops.iterators import AsyncElements, Elements
from airflow_resume.loops.opening import OnChange, OnClear, OnDone, OnUnreadable, OpeningPolicy
from airflow_resume.loops.pages import Page
from airflow_resume.loops.plan import (
    Ack,
    Delivery,
    Durability,
    Keeping,
    OnEmpty,
    OnShort,
    OnShutdown,
    OnStoreError,
    Plan,
)
from airflow_resume.loops.run import Element, LoopRun
from airflow_resume.loops.sequence import adelivered, delivered
from airflow_resume.loops.skip import Skip
from airflow_resume.loops.source import Source
from airflow_resume.loops.sources import as_source
from airflow_resume.loops.tasks import amapped
from airflow_resume.loops.threads import mapped
from airflow_resume.store import StateStore

if TYPE_CHECKING:
    from typing_extensions import Required, Self, TypedDict, Unpack

    class LoopOptions(TypedDict, total=False):
        """The keywords of `checkpoint`, but for `each`."""

        name: Required[str]
        durability: Durability
        interval: timedelta
        max_uncommitted: timedelta
        delivery: Delivery
        ack: Ack
        fingerprint: Mapping[str, object] | None
        skip: Skip | None
        max_stalls: int | None
        on_clear: OnClear
        on_change: OnChange
        on_unreadable: OnUnreadable
        on_done: OnDone
        restart: bool
        on_store_error: OnStoreError
        on_empty: OnEmpty
        on_short: OnShort
        on_shutdown: OnShutdown
        within: Checkpoint[Any] | None
        context: AnyContext | None
        store: StateStore | None


T = TypeVar("T")
R = TypeVar("R")


@overload
def checkpoint(
    source: Source[Page[T]] | Source[Sequence[T]] | Iterable[Sequence[T]] | AsyncIterable[Sequence[T]],
    *,
    each: Literal[True],
    **options: Unpack[LoopOptions],
) -> Checkpoint[T]: ...


@overload
def checkpoint(
    source: Source[T] | Iterable[T] | AsyncIterable[T],
    *,
    each: Literal[False] = ...,
    **options: Unpack[LoopOptions],
) -> Checkpoint[T]: ...


@overload
def checkpoint(
    source: Callable[[Any], Iterator[tuple[T, Any]] | AsyncIterator[tuple[T, Any]]],
    *,
    each: Literal[False] = ...,
    **options: Unpack[LoopOptions],
) -> Checkpoint[T]: ...


def checkpoint(
    source: Source[Any] | Iterable[Any] | AsyncIterable[Any] | Callable[[Any], Any],
    *,
    name: str,
    each: bool = False,
    durability: Durability = "async",
    interval: timedelta = timedelta(seconds=1),
    max_uncommitted: timedelta = timedelta(seconds=30),
    delivery: Delivery = "at_least_once",
    ack: Ack = "each",
    fingerprint: Mapping[str, object] | None = None,
    skip: Skip | None = None,
    max_stalls: int | None = 3,
    on_clear: OnClear = "restart",
    on_change: OnChange = "restart",
    on_unreadable: OnUnreadable = "fail",
    on_done: OnDone = "nothing",
    restart: bool = False,
    on_store_error: OnStoreError = "raise",
    on_empty: OnEmpty = "done",
    on_short: OnShort = "retry",
    on_shutdown: OnShutdown = "reschedule",
    within: Checkpoint[Any] | None = None,
    context: AnyContext | None = None,
    store: StateStore | None = None,
) -> Checkpoint[Any]:
    """Loop over `source`; on a retry, start at the first element whose body had not finished.

    Validates at the call and touches nothing before the first element is asked for. No element is ever skipped. After
    a crash, what was acked since the last write and the element in hand are delivered again.

    A task that is told to stop saves and leaves the loop between two elements. When the worker goes (a deploy, a spot
    reclaim), it gives its slot back by `AirflowRescheduleException`, and the same try goes on elsewhere some seconds
    later; no retry is used. Otherwise `LoopStoppedError` is raised. Both are `Exception`s: an `except Exception` around
    the loop must let them pass.

    Args:
        source: a source of `airflow_resume.loops`, an iterable that is the same in every attempt, an object with
            `state_dict` and `load_state_dict`, or a function `resume(position)` that yields pairs of an element and
            the position after it.
        name: of the loop, unique in the task.
        each: deliver the items of pages (or lists) one by one.
        durability: `"async"` (default) writes in the background, at most once an `interval` and never more than 5 % of
            the time; `"sync"` before the next element is delivered; `"exit"` only when the loop is left.
        interval: between two writes in `"async"`; 1 s by default.
        max_uncommitted: when the store has not taken a write for this long the loop waits for it; 30 s by default.
        delivery: `"at_least_once"` (default), or `"at_most_once"`: the position is written before each element is
            delivered, so that what was in hand at a crash is not delivered again.
        ack: `"each"` (default): asking for the next element acks the one before. `"manual"`: `ack()` does, for all
            that were delivered so far.
        fingerprint: what else the positions depend on (a bucket, a query): a change follows `on_change`. Only short
            hashes are stored.
        skip: elements that may be passed over, in the body by `with loop.skipping():`, in `map` by themselves.
        max_stalls: when so many attempts in a row began at one element and died there without a word, the loop fails
            without a retry (or passes over it, `Skip(stalled=True)`); None for no limit.
        on_clear: `"restart"` (default: a cleared task does its work again) or `"resume"`.
        on_change: of the source or the fingerprint: `"restart"` (default), `"fail"` or `"resume"`.
        on_unreadable: a record that cannot be read, or has a damaged position or state: `"fail"` (default) or
            `"restart"`.
        on_done: an earlier run has come to the end: `"nothing"` (default) is left to do, or `"restart"`, for a script
            that does its work again every night and goes on where it was after a crash.
        restart: True to forget what any earlier run has left, whatever it is; such as `restart=arguments.fresh`. In a
            task it holds for its first try and the first one after a clear; a retry goes on, unless the record is bad.
        on_store_error: the store is away for longer than a minute, or a store of your own raises an error of its own:
            `"raise"` (default, as `StoreUnavailableError`) or `"continue"` uncommitted.
        on_empty: a source that never had an element: `"done"` (default) or `"fail"`, so that a retry asks again.
        on_short: the source ends before all has come that it had announced (`Page.total`, `Page.pages`), or a list had
            elements taken out by the body: `"retry"` (default) fails, and the next attempt takes it for the end if
            nothing more comes; `"warn"` takes it at once; `"fail"` never. Either way the record says so, as `short`.
        on_shutdown: the worker goes while the loop runs: `"reschedule"` (default) goes on in the same try, `"fail"`
            raises `LoopStoppedError`, so that a retry goes on.
        within: the loop in whose body this one runs; both are kept in one record, whose choices are the outer one's.
        context: of the task; by default that of the running one.
        store: used instead of the task's, for scripts and tests. It is called on a thread of its own.

    Returns:
        An iterable, once, also for `async for`; also a context manager, which gives `.state` and `.element` a place to
        be used.

    Raises:
        InvalidKeyError, TypeError, ValueError: at once, for arguments that cannot work.
        NoStateStoreError, SourceChangedError, UnreadableRecordError, StalledError: at the first element, with nothing
            touched.
        EmptySourceError: see `on_empty`.
        ShortSourceError: see `on_short`.
        SupersededError: another attempt has replaced this one; no further element is delivered.
        LoopStoppedError: the task was told to stop, by a person or for a reason that could not be learned.
        AirflowRescheduleException: see `on_shutdown`.
    """
    found: Source[Any] = as_source(source)
    if each:
        found = Each(found)
    plan = Plan(
        name=name,
        source=found,
        fingerprint=fingerprint or {},
        policy=OpeningPolicy(
            on_clear=on_clear,
            on_change=on_change,
            on_unreadable=on_unreadable,
            max_stalls=max_stalls,
            skip_stalled=skip is not None and skip.stalled,
            on_expired=found.on_expired,
            max_age=found.max_age,
            on_done=on_done,
            restart=restart,
        ),
        keeping=Keeping(
            durability=durability,
            interval=interval,
            max_uncommitted=max_uncommitted,
            on_store_error=on_store_error,
            on_shutdown=on_shutdown,
            context=context,
            store=store,
        ),
        delivery=delivery,
        ack=ack,
        skip=skip,
        on_empty=on_empty,
        on_short=on_short,
    )
    return Checkpoint(plan, within)


class Checkpoint(Generic[T]):
    """A loop that remembers how far it has come. Made by `checkpoint`."""

    def __init__(self, plan: Plan[T], within: Checkpoint[Any] | None = None) -> None:
        if within is not None and (chosen := plan.keeping.chosen()):
            raise ValueError(
                f"{', '.join(chosen)} cannot be chosen for {plan.name!r}, which is kept in the record of the loop"
                f" around it.\nChoose it there."
            )
        self._run: LoopRun[T] = LoopRun(plan, None if within is None else within._run)  # noqa: SLF001  of the same class
        self._iterated = False

    def __repr__(self) -> str:
        return f"<Checkpoint {self._run.plan.name!r} of {self._run.plan.source!r}>"

    # --- iterating --------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[T]:
        return Elements.of(self._first_iteration(), delivered)

    def __aiter__(self) -> AsyncIterator[T]:
        return AsyncElements(self._first_iteration(awaited=True), adelivered)

    def map(self, fn: Callable[[T], R], *, workers: int, ordered: bool = False) -> Iterator[R]:
        """What `fn` returns for each element, worked out in threads; iterate it to the end.

        An element counts as done when its result was handed out and the next one is asked for.

        Args:
            fn: called in a thread, with the element.
            workers: how many at a time.
            ordered: hand out results in the order of the elements, not as they come.

        Raises:
            TypeError: `fn` is a coroutine function, for `amap`, or a generator function: calling it does no work.
        """
        _refuse_what_does_no_work(fn)
        work = partial(mapped, work=fn, workers=workers, ordered=ordered)
        return Elements.of(self._first_map(fn, workers), work)

    def amap(self, fn: Callable[[T], Awaitable[R]], *, workers: int, ordered: bool = False) -> AsyncIterator[R]:
        """The same with `async for`, in tasks of the event loop; `fn` is a coroutine function.

        Raises:
            TypeError: `fn` returned nothing that can be awaited.
        """
        work = partial(amapped, work=fn, workers=workers, ordered=ordered)
        return AsyncElements(self._first_map(fn, workers, awaited=True), work)

    def ack(self) -> None:
        """All elements delivered so far are done (`ack="manual"`). In `async for` it is saved at the next element.

        Raises:
            LoopError: the loop acks by itself.
        """
        run = self._run
        run.ack_delivered()
        if not run.awaited:
            run.flush_if_wanted()
        if run.exhausted and not run.managed:
            run.close(None)

    @contextmanager
    def skipping(self) -> Iterator[None]:
        """Around the body: an error that `skip=` allows passes over the element, and undoes what it did to `state`.

        Raises:
            LoopError: the loop has no `skip=`.
        """
        if self._run.plan.skip is None:
            raise LoopError(f"The loop {self._run.plan.name!r} skips nothing.", "Give it skip=Skip(on=(ValueError,)).")
        try:
            yield
        except Exception as error:
            if not self._run.may_skip(error):
                raise
            self._run.fail_in_hand(error)

    # --- with -------------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        self._run.managed = True
        self._run.open()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        self._run.leaves_with()
        self._run.close(error)

    async def __aenter__(self) -> Self:
        self._run.managed = self._run.awaited = True
        try:
            await off_the_loop(self._run.open)
        except CancelledError as error:
            # The thread goes on. What it opens is closed, before the name may be used again.
            await off_the_loop(partial(self._run.leave, error))
            raise
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        self._run.leaves_with()
        await off_the_loop(partial(self._run.close, error))

    # --- what there is to see ---------------------------------------------------------------------------------

    @property
    def state(self) -> dict[str, Any]:
        """Yours: JSON (and what `values.encode` knows) that is saved in the same write as the position."""
        return self._run.use_state()

    @state.setter
    def state(self, state: dict[str, Any]) -> None:
        self._run.set_state(state)

    @property
    def element(self) -> Element:
        """The element in hand; in the function of a `map`, the one it was called with."""
        return self._run.element()

    @property
    def done(self) -> bool:
        """Whether the source was exhausted, in this attempt or before."""
        return self._run.is_open and self._run.ledger.done

    @property
    def count(self) -> int:
        """Elements done, in all attempts."""
        return self._run.count

    @property
    def skipped(self) -> int:
        """Elements passed over, in all attempts."""
        return self._run.ledger.skipped

    @property
    def progress(self) -> str:
        """How far it is, in words, such as `page 183 of 400`; `done, 400 pages` at the end."""
        counted = self._run.ledger.counted()
        return f"done, {counted.finished()}" if self.done else counted.here()

    # --- parts ------------------------------------------------------------------------------------------------

    def _first_iteration(self, *, awaited: bool = False) -> LoopRun[T]:
        run = self._run
        if self._iterated:
            raise LoopError(
                f"The loop {run.plan.name!r} was iterated already.", "Make another one with checkpoint(...)."
            )
        if awaited and run.plan.ack == "manual" and not run.managed:
            raise LoopError(
                f"The loop {run.plan.name!r} has ack='manual', is on an event loop, and stands in no `async with`.",
                "Use `async with checkpoint(...) as loop`.",
            )
        self._iterated = run.is_begun = True
        run.awaited = awaited
        return run

    def _first_map(self, fn: object, workers: int, *, awaited: bool = False) -> LoopRun[T]:
        if not callable(fn):
            raise TypeError(f"map() needs a function, not {type(fn).__name__}")
        check_whole("workers", workers, least=1)
        if self._run.plan.ack == "manual":
            raise ValueError("ack='manual' means nothing to map(): each element is done when its result was taken")
        return self._first_iteration(awaited=awaited)


def _refuse_what_does_no_work(fn: object) -> None:
    """A call of such a function only makes an object, and every element would count as done."""
    inner: Any = fn
    while isinstance(inner, partial):
        inner = inner.func
    for function in (inner, getattr(type(inner), "__call__", None)):  # noqa: B004  its function is looked at
        if inspect.iscoroutinefunction(function):
            raise TypeError(f"map() runs no coroutine function, such as {fn!r}.\nUse `async for` and loop.amap(...).")
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise TypeError(f"map() runs no generator function, such as {fn!r}.\nReturn a list.")
