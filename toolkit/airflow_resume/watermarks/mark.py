"""`watermark`: begin a window, let the body load it, and move the mark once the body has returned.

Theory of operation. The window is fixed and saved with the task as *pending* before the body runs, so that a retry
loads the same rows again and may overwrite them. The mark lives with the asset, whose store takes writes from any
attempt, replaced ones too: so a commit first writes to the task's store, which refuses a replaced attempt, and only
then touches the mark. Whatever is lost in between leads to reading again, never to skipping.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from airflow.sdk.exceptions import AirflowSkipException, TaskDeferred

from airflow_resume.attempt import AnyContext, current_context
from airflow_resume.channel import off_the_loop
from airflow_resume.errors import WindowDeferredError
from airflow_resume.supervisor import dies_with_supervisor
from airflow_resume.watermarks.commit import OnGap, Outcome
from airflow_resume.watermarks.cursor import CursorType, infer_cursor
from airflow_resume.watermarks.decorate import with_window
from airflow_resume.watermarks.loading import Advance
from airflow_resume.watermarks.options import Backfill, OnMissing, Options, WhenEmpty
from airflow_resume.watermarks.partition import Partition, resolve_partition
from airflow_resume.watermarks.run import WindowRun
from airflow_resume.watermarks.sql_column import Columns
from airflow_resume.watermarks.track import Future, Nulls
from airflow_resume.watermarks.window import Window

if TYPE_CHECKING:
    from airflow.sdk import Asset
    from pydantic import JsonValue

R = TypeVar("R")
T = TypeVar("T")

log = logging.getLogger(__name__)


def watermark(
    asset: Asset,
    *,
    initial: Any,
    name: str = "watermark",
    cursor: CursorType[Any] | None = None,
    advance: Advance | None = None,
    delay: Any = None,
    lookback: Any = None,
    max_span: Any = None,
    now: Callable[[], object] | None = None,
    nulls: Nulls | None = None,
    future: Future = "exclude",
    when_empty: WhenEmpty = "run",
    partition: Partition = None,
    backfill: Backfill = "isolated",
    on_gap: OnGap = "hold",
    on_missing: OnMissing = "fail",
    history: int = 10,
    migrate: Callable[[Any], object] | None = None,
    shared: bool = False,
    sql: Columns = None,
) -> Watermark[Any]:
    """A mark on `asset`: everything before it is loaded.

    Every run loads a window from the mark on, and moves the mark once the body has returned.

    Args:
        asset: what is loaded. The task must have it in both `inlets` and `outlets`.
        initial: where the first run starts, or a function that gives it: it is asked once, when the mark is made.
        name: of the mark; an asset may have several.
        cursor: the type of its values, one of `airflow_resume.watermarks.Cursor`; by default what `initial` is.
        advance: `"window"`: to the window's end, `now - delay`; for points in time and days, and where there is a
            `now`, the default. `"observed"`: to the greatest value that went through `window.track`; for other types
            the default. `"explicit"`: to what the body says by `window.advance(value)`; for tokens the default.
        delay: how long a row may take to become visible after the value it bears. Rows that take longer are missed. Of
            several columns it is that of the first. `delay=timedelta(0)`, or 0 for what is not a time, says that rows
            become visible in the order of their values.
        lookback: how far before the mark a window starts. It widens the reading and never moves the mark back.
        max_span: how long a window may be at most: a long way is gone in several runs.
        now: the clock that the rows' values come from, such as the source database's, `sql_now(...)`; by default this
            machine's. For ids, a function that asks for one below which no transaction is open.
        nulls: rows without a value. By default `track` raises on one, and a query by `window.sql` leaves out what SQL
            leaves out. `"raise"`: the query lets them through, and the body must `track` its rows. `"skip"`: passed
            over. `"keep"`: loaded in every run.
        future: rows after the window's end, in `track`: `"exclude"` (default: a later run loads them), `"clamp"`
            (loaded now and later), `"fail"`.
        when_empty: nothing is new: `"run"` the body with an empty window, or `"skip"` the task.
        partition: which part of the asset this task instance loads, each with a mark of its own: JSON, or a function of
            the task function's arguments and the context (`lambda table: table`). Mapped tasks need one.
        backfill: in a backfill run, load its data interval: `"isolated"` (default: the mark stays), `"fill"` (it counts
            as loaded), `"forbid"`.
        on_gap: something before the window is not loaded: `"hold"` (default: remember the window, the mark stays),
            `"fail"`, or `"jump"` over it.
        on_missing: the mark is missing though earlier runs moved it: `"fail"` (default), `"recover"` it from the newest
            asset event, or load again from `"initial"`.
        history: how many of the newest moves are kept in the record.
        migrate: makes a value of this cursor from the kept value of another one.
        shared: several tasks move the mark, as they load one target. Otherwise it is the mark of one task, and another
            that would move it fails: each would skip what the other has read.
        sql: what the column is in the source's database, an `SqlColumn` (a list of them for a keyset): its type and
            time zone, and the driver, for `window.sql`, `window.where` and `window.track`.

    Raises:
        InvalidKeyError, CursorTypeError, PartitionError, TypeError, ValueError: at once, for arguments that cannot
            work.

    Warns:
        WatermarkWarning: times without a `delay`; what is observed, such as ids, without `now`, `delay` and `lookback`;
            days, or naive times, without a zone, on a machine whose zone is not UTC.
    """
    found = infer_cursor(initial) if cursor is None else cursor
    # In a keyset every row counts by itself, so its mark goes to the last one seen.
    has_clock = now is not None or (found.has_clock and found.leading is found)
    natural: Advance = "explicit" if not found.is_ordered else "window" if has_clock else "observed"
    return Watermark(
        Options(
            asset=asset,
            initial=initial,
            cursor=found,
            name=name,
            advance=natural if advance is None else advance,
            delay=delay,
            lookback=lookback,
            max_span=max_span,
            clock=now,
            nulls=nulls,
            future=future,
            when_empty=when_empty,
            partition=partition,
            backfill=backfill,
            on_gap=on_gap,
            on_missing=on_missing,
            history=history,
            migrate=migrate,
            shared=shared,
            sql=sql,
        )
    )


class Watermark(Generic[T]):
    """A mark on an asset. Made by `watermark`."""

    def __init__(self, options: Options[T]) -> None:
        self._options = options
        self.asset = options.asset
        """What is loaded."""

    def __repr__(self) -> str:
        return f"<Watermark {self._options.name!r} of {self.asset.name!r}>"

    # --- decorating -------------------------------------------------------------------------------------------

    @overload
    def task(self, function: Callable[..., Any], /) -> Any: ...
    @overload
    def task(self, function: None = None, /, **options: Any) -> Callable[[Callable[..., Any]], Any]: ...
    def task(self, function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
        """`@task` with the asset in `inlets` and `outlets`, one instance at a time, over `@` this watermark.

        With a `partition` instances may run side by side, as each has a mark of its own.

        Args:
            function: takes a `window`, and whatever else a `@task` function takes.
            options: as for `@task`.
        """
        from airflow.sdk import task

        options = self.task_options(options)

        def decorate(function: Callable[..., Any]) -> Any:
            return task(**options)(self(function))

        return decorate if function is None else decorate(function)

    def task_options(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments of an operator or `@task`, with what this watermark needs of them."""
        declared = {name: self._among(options.get(name)) for name in ("inlets", "outlets")}
        cap = {} if self._options.partition is not None else {"max_active_tis_per_dag": 1}
        return {**cap, **options, **declared}

    def _among(self, assets: Any) -> list[Any]:
        """The asset and the others that were given: none, one, or several."""
        given = [] if assets is None else assets if isinstance(assets, (list, tuple)) else [assets]
        # Airflow compares assets slowly, and it is nearly always this one.
        return [self.asset, *(asset for asset in given if asset is not self.asset and asset != self.asset)]

    def __call__(self, function: Callable[..., R]) -> Callable[..., R]:
        """Call `function` with a `window`, and commit it when the function has returned.

        Raises:
            DecoratorOrderError: `function` is a task already.
            TypeError: it takes no `window`, or is a generator.
        """
        return with_window(function, self._open_for, self._aopen_for)

    # --- one window -------------------------------------------------------------------------------------------

    @contextmanager
    def open(
        self, context: AnyContext | None = None, *, partition: JsonValue = None, deferrable: bool = False
    ) -> Iterator[Window[T]]:
        """Begin a window, and commit it when the body is left without an exception.

        Args:
            context: of the task; by default that of the running one.
            partition: in place of the watermark's.
            deferrable: the body may defer, and the method that goes on takes `reopen`. A deferral leaves the body by an
                exception, so nothing is committed, and without this it is warned of.

        Raises:
            WindowDeferredError: the body defers, and what it has told the window would be lost with its process.
        """
        with self._opened(self._run(context, partition=partition), deferrable=deferrable) as window:
            yield window

    @contextmanager
    def reopen(self, context: AnyContext | None = None, *, partition: JsonValue = None) -> Iterator[Window[T]]:
        """The window in which this run deferred, once more: for the method that goes on when the trigger has fired.

            def execute(self, context):
                with orders.open(context, deferrable=True) as window:
                    self.defer(trigger=..., method_name="loaded")  # leaves the block, and commits nothing

            def loaded(self, context, event=None):
                with orders.reopen(context) as window:  # the same bounds; committed at the end of the block
                    ...

        Where nothing was new before, the window is still empty: what has come since belongs to the next run.

        Args:
            context: of the task, as for `open`.
            partition: likewise.

        Raises:
            WindowDeferredError: as `open`.
        """
        run = self._run(context, partition=partition)
        window = run.begin(again=True)
        with dies_with_supervisor(), _deferral_noticed(window, is_expected=True):
            yield window
        run.commit(window)

    @asynccontextmanager
    async def aopen(
        self, context: AnyContext | None = None, *, partition: JsonValue = None
    ) -> AsyncIterator[Window[T]]:
        """As `open`, for `async with`."""
        async with self._aopened(self._run(context, partition=partition)) as window:
            yield window

    def begin(self, context: AnyContext, *, partition: JsonValue = None) -> Window[T]:
        """The window of this run: the one an earlier attempt began, or a new one, saved as pending.

        Raises:
            AssetNotDeclaredError, AssetInactiveError: the asset's state cannot be used from this task.
            PartitionNeededError: the task is mapped, and its instances would share one mark.
            WatermarkLostError, WatermarkChangedError, UnreadableRecordError: the mark cannot be used.
            WatermarkOwnedError: another task moves it. WatermarkAheadError: it was set to a time that has not come.
            BackfillError, OverrideError: the run wants a window that cannot be.
            SupersededError: another attempt has replaced this one.
        """
        return self._run(context, partition=partition).begin()

    def commit(self, context: AnyContext, loaded: Window[T] | Mapping[str, JsonValue]) -> Outcome:
        """Move the mark over what was loaded, if nothing speaks against it.

        Args:
            context: of the task.
            loaded: the window, or what `window.stage()` returned in an earlier task of the run.

        Raises:
            NothingReadError: the body has not read what the mark would move over.
            WatermarkGapError, WatermarkConflictError: see `Outcome`.
            WatermarkOwnedError: another task moves the mark.
            StageTokenError: the token is not of this run and watermark.
            SupersededError: another attempt has replaced this one; the mark was not touched.
            WatermarkError: others kept writing the mark; a retry loads the window again.
        """
        if isinstance(loaded, Window):
            return self._run(context, partition=loaded.partition).commit(loaded)
        partition = loaded.get("partition") if isinstance(loaded, Mapping) else None
        return self._run(context, partition=partition).commit_staged(loaded)

    def reset(self, context: AnyContext, to: object = None, *, partition: JsonValue = None) -> None:
        """Set the mark back, to `to` or to the initial value: the next run loads from there.

        A reload that fails stays a reload: the record says so until something was loaded.
        """
        self._run(context, partition=partition).reset(to)

    # --- parts ------------------------------------------------------------------------------------------------

    def _run(
        self, context: AnyContext | None, *, partition: JsonValue = None, arguments: Mapping[str, Any] | None = None
    ) -> WindowRun[T]:
        context = current_context() if context is None else context
        wanted = self._options.partition if partition is None else partition
        return WindowRun(self._options, context, resolve_partition(wanted, context, arguments or {}))

    @contextmanager
    def _opened(self, run: WindowRun[T], *, deferrable: bool) -> Iterator[Window[T]]:
        window = run.begin()
        self._skip_if_empty(window)
        with dies_with_supervisor(), _deferral_noticed(window, is_expected=deferrable):
            yield window
        run.commit(window)

    @asynccontextmanager
    async def _aopened(self, run: WindowRun[T]) -> AsyncIterator[Window[T]]:
        window = await off_the_loop(run.begin)
        self._skip_if_empty(window)
        with dies_with_supervisor(), _deferral_noticed(window, is_expected=False):
            yield window
        await off_the_loop(functools.partial(run.commit, window))

    @contextmanager
    def _open_for(self, arguments: Mapping[str, Any]) -> Iterator[Window[T]]:
        with _deferral_refused(), self._opened(self._run(None, arguments=arguments), deferrable=True) as window:
            yield window

    @asynccontextmanager
    async def _aopen_for(self, arguments: Mapping[str, Any]) -> AsyncIterator[Window[T]]:
        with _deferral_refused():
            async with self._aopened(self._run(None, arguments=arguments)) as window:
                yield window

    def _skip_if_empty(self, window: Window[T]) -> None:
        if window.empty and self._options.when_empty == "skip":
            raise AirflowSkipException(f"Nothing is new since {window.start}")


@contextmanager
def _deferral_noticed(window: Window[Any], *, is_expected: bool) -> Iterator[None]:
    try:
        yield
    except TaskDeferred as deferral:
        window.check_deferral(goes_on=bool(deferral.method_name))
        if not is_expected:
            log.warning(
                "The task defers with a window open, which commits nothing. Let %s() go on with reopen(context) of the"
                " watermark, and say open(context, deferrable=True) here; or take WatermarkMixin, which does both.",
                deferral.method_name,
            )
        raise


@contextmanager
def _deferral_refused() -> Iterator[None]:
    try:
        yield
    except TaskDeferred as deferral:
        raise WindowDeferredError(
            "A function with a watermark defers, and has no method in which its window could be committed.",
            "Write an operator with WatermarkMixin, whose execute_window may defer.",
        ) from deferral
