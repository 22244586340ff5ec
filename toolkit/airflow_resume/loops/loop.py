"""`checkpoint`, and the loop object it makes: a thin layer over `LoopRun` and the ways of iterating it."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, overload

from airflow_resume.arguments import check_flag, check_function, check_type, check_whole
from airflow_resume.attempt import AnyContext
from airflow_resume.channel import off_the_loop
from airflow_resume.errors import LoopError, SinkUnsafeError
from airflow_resume.loops.open_loop import Element
from airflow_resume.loops.opening import OnChange, OnClear, OnDone, OnUnreadable, OpeningPolicy
from airflow_resume.loops.parallel.in_flight import refuse_what_does_no_work
from airflow_resume.loops.parallel.tasks import amapped
from airflow_resume.loops.parallel.threads import mapped
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
from airflow_resume.loops.run import LoopRun
from airflow_resume.loops.serial.each import Each
from airflow_resume.loops.serial.iterators import AsyncElements, Elements
from airflow_resume.loops.serial.sequence import adelivered, aopen, delivered
from airflow_resume.loops.skip import Skip
from airflow_resume.loops.sources.given import as_source
from airflow_resume.loops.sources.pages import Page
from airflow_resume.loops.sources.source import Source
from airflow_resume.sink_protocol import Sink, append_to
from airflow_resume.store import StateStore

if TYPE_CHECKING:
    from typing_extensions import Required, Self, TypedDict, Unpack

    class LoopOptions(TypedDict, total=False):
        """The keywords of `checkpoint`, but for `each`."""

        name: Required[str]
        durability: Durability
        interval: timedelta
        max_interval: timedelta
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
        sink: Sink | None
        commit_every: int | timedelta


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
    max_interval: timedelta = timedelta(minutes=5),
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
    sink: Sink | None = None,
    commit_every: int | timedelta = 1,
) -> Checkpoint[Any]:
    """Loop over `source`; on a retry, start at the first element whose body had not finished.

    The arguments are checked at the call, and nothing is touched before the first element is asked for. No element is
    ever lost. After a crash, what was acked since the last write and the element in hand are delivered again.

    A task that is told to stop saves and leaves the loop between two elements. When the worker shuts down (a deploy, a
    spot reclaim), it frees its slot by `AirflowRescheduleException`, and the same try continues elsewhere some seconds
    later; no retry is used. Otherwise `LoopStoppedError` is raised. Both are `Exception`s: an `except Exception` around
    the loop must let them pass.

    Args:
        source: a source of `airflow_resume.loops`, an iterable that is the same in every attempt, an object with
            `state_dict` and `load_state_dict`, or a function `resume(position)` that yields pairs of an element and
            the position after it.
        name: of the loop, unique in the task.
        each: deliver the items of pages (or lists) one by one.
        durability: `"async"` (default) writes in the background, at most once per `interval` and at most 5 % of the
            time; `"sync"` before the next element is delivered; `"exit"` only when the loop is left.
        interval: the least time between two writes in `"async"`; 1 s by default.
        max_interval: the loop writes less often while its writes take a multiple of their usual time, because the API
            server is busy. This is the longest interval that it chooses; 5 min by default.
        max_uncommitted: if the store has not completed a write for this long, the loop waits for it; 30 s by default.
        delivery: `"at_least_once"` (default), or `"at_most_once"`: the position is written before each element is
            delivered, so that the element in hand at a crash is not delivered again.
        ack: `"each"` (default): asking for the next element acks the one before. `"manual"`: `ack()` acks all that were
            delivered so far.
        fingerprint: what else the positions depend on (a bucket, a query); after a change `on_change` applies. Only
            short hashes are stored.
        skip: which elements may be skipped: in the body by `with loop.skipping():`, in `map` automatically.
        max_stalls: if so many attempts in a row began at one element and died there without an error, the loop fails
            without a retry (or skips it, `Skip(stalled=True)`); None for no limit.
        on_clear: `"restart"` (default: a cleared task does its work again) or `"resume"`.
        on_change: if the source or the fingerprint has changed: `"restart"` (default), `"fail"` or `"resume"`.
        on_unreadable: if the record cannot be read, or has a damaged position or state: `"fail"` (default) or
            `"restart"`.
        on_done: if an earlier run reached the end: `"nothing"` (default) is delivered, or `"restart"`, for a
            script that does its work again every night and continues where it was after a crash.
        restart: True to ignore what any earlier run has saved, such as `restart=arguments.fresh`. In a task it applies
            to the first try and to the first one after a clear; a retry continues, unless the record is damaged.
        on_store_error: if the store is unavailable for more than a minute, or a store of your own raises an error:
            `"raise"` (default) raises `StoreUnavailableError`, `"continue"` goes on without a commit.
        on_empty: if the source never had an element: `"done"` (default) or `"fail"`, so that a retry asks again.
        on_short: if the source ends before everything that it announced has come (`Page.total`, `Page.pages`), or the
            body took elements out of a list: `"retry"` (default) fails, and the next attempt accepts the end if nothing
            more comes; `"warn"` accepts it at once; `"fail"` never does. In each case the record says so in its field
            `short`.
        on_shutdown: if the worker shuts down while the loop runs: `"reschedule"` (default) continues in the same try,
            `"fail"` raises `LoopStoppedError`, so that a retry continues.
        within: the loop in whose body this one runs; both are kept in one record, with the options of the outer one.
        context: of the task; by default that of the running one.
        store: used instead of the task's, for scripts and tests. It is called in a thread of its own.
        sink: such as `SqlSink(engine)`: the position is kept in the transaction of `loop.connection`, so that each row
            is written exactly once. The record in Airflow's store is then written behind, for people.
        commit_every: with a sink, how many elements (1 by default), or how much time, a transaction contains. After a
            crash the elements since the last commit are done again, and nothing of them was kept.

    Returns:
        An object that can be iterated once, also by `async for`. It is a context manager as well, for bodies that use
        `.state` or `.element`.

    Raises:
        InvalidKeyError, TypeError, ValueError: at once, for invalid arguments.
        NoStateStoreError, SourceChangedError, UnreadableRecordError, StalledError: at the first element, with nothing
            touched.
        IncompleteLoopError: see `on_empty` and `on_short`.
        SupersededError: another attempt has replaced this one; no further element is delivered.
        LoopStoppedError: the task was told to stop, by a person or for an unknown reason.
        AirflowRescheduleException: see `on_shutdown`.
    """
    check_flag("each", each)
    if within is not None:
        check_type("within", within, Checkpoint, "the loop around this one, made by checkpoint(...)")
    try:
        found: Source[Any] = as_source(source)
    except LoopError as error:
        error.loop = name
        raise
    if each:
        found = Each(found)
    plan = Plan(
        name=name,
        source=found,
        fingerprint={} if fingerprint is None else fingerprint,
        policy=OpeningPolicy(
            on_clear=on_clear,
            on_change=on_change,
            on_unreadable=on_unreadable,
            max_stalls=max_stalls,
            skip_stalled=isinstance(skip, Skip) and skip.stalled,
            on_expired=found.on_expired,
            max_age=found.max_age,
            on_done=on_done,
            restart=restart,
        ),
        keeping=Keeping(
            durability=durability,
            interval=interval,
            max_interval=max_interval,
            max_uncommitted=max_uncommitted,
            on_store_error=on_store_error,
            on_shutdown=on_shutdown,
            context=context,
            store=store,
            sink=sink,
            commit_every=commit_every,
        ),
        delivery=delivery,
        ack=ack,
        skip=skip,
        on_empty=on_empty,
        on_short=on_short,
    )
    return Checkpoint(plan, within)


class Checkpoint(Generic[T]):
    """A loop that remembers its position. Made by `checkpoint`.

    It has one method for each way of using it, and so more than most classes.
    """

    def __init__(self, plan: Plan[T], within: Checkpoint[Any] | None = None) -> None:
        self._run: LoopRun[T] = LoopRun(plan, None if within is None else within._run)  # noqa: SLF001  of the same class

    def __repr__(self) -> str:
        return f"<Checkpoint {self._run.plan.name!r} of {self._run.plan.source!r}>"

    def __iter__(self) -> Iterator[T]:
        return Elements.of(self._first_iteration(), delivered)

    def __aiter__(self) -> AsyncIterator[T]:
        return AsyncElements(self._first_iteration(awaited=True), adelivered)

    def map(self, fn: Callable[[T], R], *, workers: int, ordered: bool = False) -> Iterator[R]:
        """What `fn` returns for each element, computed in threads; iterate it to the end.

        An element counts as done when the consumer of its result asks for the next one.

        Args:
            fn: called in a thread, with the element.
            workers: how many at a time.
            ordered: give results in the order of the elements, not as they are ready.

        Raises:
            TypeError: `fn` is a coroutine function (use `amap`) or a generator function: calling it does no work.
        """
        refuse_what_does_no_work(fn)
        check_flag("ordered", ordered)
        work = partial(mapped, work=fn, workers=workers, ordered=ordered)
        return Elements.of(self._first_map(fn, workers), work)

    def amap(self, fn: Callable[[T], Awaitable[R]], *, workers: int, ordered: bool = False) -> AsyncIterator[R]:
        """As `map`, for `async for`: `fn` is a coroutine function, and runs in tasks of the event loop.

        Args:
            fn: awaited with the element.
            workers: how many at a time.
            ordered: hand out results in the order of the elements, not as they come.

        Raises:
            TypeError: `fn` returned something that cannot be awaited.
        """
        check_flag("ordered", ordered)
        work = partial(amapped, work=fn, workers=workers, ordered=ordered)
        return AsyncElements(self._first_map(fn, workers, awaited=True), work)

    def ack(self) -> None:
        """Say that all elements delivered so far are done (`ack="manual"`). `async for` saves it at the next element.

        Raises:
            LoopError: the loop acks by itself.
        """
        run = self._run
        if run.plan.ack != "manual":
            raise LoopError(
                f"The loop {run.plan.name!r} acks every element by itself.",
                "Use ack='manual' for ack().",
                loop=run.plan.name,
            )
        loop = run.loop
        loop.ack_delivered()
        if not run.awaited and loop.deliveries.takes_wanted_flush():
            loop.session.keeper.flush()
        if loop.exhausted and not run.managed:
            run.close(None)

    @contextmanager
    def skipping(self) -> Iterator[None]:
        """Skip the element if the body raises an error that `skip=` allows, and undo the body's changes of `state`.

        Use it as a `with` block around the body.

        Raises:
            LoopError: the loop has no `skip=`.
        """
        if self._run.plan.skip is None:
            raise LoopError(
                f"The loop {self._run.plan.name!r} skips nothing.",
                "Give it skip=Skip(on=(ValueError,)).",
                loop=self._run.plan.name,
            )
        try:
            with self._run.loop.session.keeper.undoing():
                yield
        except Exception as error:
            deliveries = self._run.loop.deliveries
            if not deliveries.may_skip(error):
                raise
            deliveries.fail_in_hand(error)

    def __enter__(self) -> Self:
        self._run.managed = True
        self._run.open()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        self._run.left_by_with()
        self._run.close(error)

    async def __aenter__(self) -> Self:
        self._check_not_awaited_with_sink()
        self._run.managed = self._run.awaited = True
        await aopen(self._run)
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        self._run.left_by_with()
        await off_the_loop(partial(self._run.close, error))

    @property
    def state(self) -> dict[str, Any]:
        """A dict of your own: JSON (or what `values.encode` knows), saved in the same write as the position."""
        return self._run.loop.state

    @state.setter
    def state(self, state: dict[str, Any]) -> None:
        self._run.loop.state = state

    @property
    def connection(self) -> Any:
        """The connection of the sink, in the transaction that is committed together with the position.

        Ask for it in each element, and write with it only: `loop.connection.execute(...)`. Do not commit.

        Raises:
            LoopError: the loop has no `sink=`, is closed, or the caller is a worker of its `map`.
        """
        return self._run.loop.connection

    def append(self, rows: Any) -> None:
        """Append rows to the table of the sink, such as a `DeltaSink`. They are committed together with the position.

        Args:
            rows: a list of dicts, an Arrow table, a record batch, or a data frame of pandas or polars.

        Raises:
            LoopError: the loop has no `sink=`, is closed, or the caller is a worker of its `map`.
            TypeError, ValueError: the sink is none of a table, or the rows do not fit it. Nothing was appended.
        """
        append_to(self.connection, rows)

    @property
    def element(self) -> Element:
        """The element in hand; in the function of a `map`, the one it was called with."""
        return self._run.loop.element()

    @property
    def done(self) -> bool:
        """Whether the source was exhausted, in this attempt or before."""
        return self._run.is_open and self._run.loop.ledger.done

    @property
    def count(self) -> int:
        """Elements done, in all attempts."""
        return self._run.loop.ledger.live_count

    @property
    def skipped(self) -> int:
        """Elements skipped, in all attempts."""
        return self._run.loop.ledger.skipped

    @property
    def progress(self) -> str:
        """How far the loop is, in words, such as `page 183 of 400`; `done, 400 pages` at the end."""
        counted = self._run.loop.ledger.counted()
        return f"done, {counted.finished()}" if self.done else counted.here()

    def _first_iteration(self, *, awaited: bool = False) -> LoopRun[T]:
        run = self._run
        if run.is_begun:
            raise LoopError(
                f"The loop {run.plan.name!r} was iterated already.",
                "Make another one with checkpoint(...).",
                loop=run.plan.name,
            )
        if awaited:
            self._check_not_awaited_with_sink()
        if awaited and run.plan.ack == "manual" and not run.managed:
            raise LoopError(
                f"The loop {run.plan.name!r} has ack='manual', is on an event loop, and is used in no `async with`.",
                "Use `async with checkpoint(...) as loop`.",
                loop=run.plan.name,
            )
        run.is_begun = True
        run.awaited = awaited
        return run

    def _check_not_awaited_with_sink(self) -> None:
        """Refuse an event loop, which a body with a sink would block."""
        if self._run.plan.keeping.sink is not None:
            raise SinkUnsafeError(
                f"The loop {self._run.plan.name!r} has a sink, whose connection would block the event loop.",
                "Use `for` and `with`, in a function that is not async.",
                problem="use",
            )

    def _first_map(self, fn: object, workers: int, *, awaited: bool = False) -> LoopRun[T]:
        check_function("fn", fn, "a function of an element")
        check_whole("workers", workers, least=1)
        if self._run.plan.ack == "manual":
            raise ValueError("ack='manual' means nothing to map(): an element is done when its result was taken")
        return self._first_iteration(awaited=awaited)
