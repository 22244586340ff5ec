"""`checkpoint`: what a Dag file names. What a loop needs is loaded when it is called."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

if TYPE_CHECKING:
    from typing_extensions import Required, TypedDict, Unpack

    from airflow_resume.attempt import AnyContext
    from airflow_resume.loops.loop import Checkpoint
    from airflow_resume.loops.opening import OnChange, OnClear, OnDone, OnUnreadable
    from airflow_resume.loops.plan import (
        Ack,
        Delivery,
        Durability,
        OnEmpty,
        OnShort,
        OnShutdown,
        OnStoreError,
    )
    from airflow_resume.loops.skip import Skip
    from airflow_resume.loops.sources.pages import Page
    from airflow_resume.loops.sources.source import Source
    from airflow_resume.sink_protocol import Sink
    from airflow_resume.store import StateStore

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
        on_change: OnChange | None
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
    on_change: OnChange | None = None,
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
        on_change: if the source or the fingerprint has changed: `"restart"`, `"fail"` or `"resume"`. By default
            `"restart"`, and with a sink `"fail"`, as a loop that starts over appends its rows again.
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
    from airflow_resume.arguments import check_flag, check_type
    from airflow_resume.errors import LoopError
    from airflow_resume.loops.loop import Checkpoint
    from airflow_resume.loops.opening import OpeningPolicy
    from airflow_resume.loops.plan import Keeping, Plan
    from airflow_resume.loops.serial.each import Each
    from airflow_resume.loops.skip import Skip
    from airflow_resume.loops.sources.given import as_source

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
    has_sink = sink is not None or (within is not None and within._run.has_sink)  # noqa: SLF001  of the loop around it
    # A loop that starts over appends its rows to the sink again. So with a sink this must be said.
    over: Literal["restart", "fail"] = "fail" if has_sink else "restart"
    plan = Plan(
        name=name,
        source=found,
        fingerprint={} if fingerprint is None else fingerprint,
        policy=OpeningPolicy(
            on_clear=on_clear,
            on_change=over if on_change is None else on_change,
            on_unreadable=on_unreadable,
            max_stalls=max_stalls,
            skip_stalled=isinstance(skip, Skip) and skip.stalled,
            on_expired=found.on_expired or over,
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
