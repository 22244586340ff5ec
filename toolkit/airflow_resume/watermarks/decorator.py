"""`watermark`: begin a window, let the body load it, and move the mark when the body has returned.

Theory of operation. Before the body runs, the window is fixed, and saved in the task's store as *pending*. So a retry
loads the same rows again and may overwrite them. The mark is in the asset's store, which accepts writes even from a
replaced attempt. So a commit first writes to the task's store, which refuses a replaced attempt, and only then moves
the mark. If an attempt dies in between, rows are read again, and no row is skipped.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, closing, contextmanager
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from airflow_resume.channel import off_the_loop
from airflow_resume.compat import AirflowSkipException, TaskDeferred
from airflow_resume.errors import SinkUnsafeError, WindowNotReadError
from airflow_resume.shown import get_logger
from airflow_resume.supervisor import dies_with_supervisor
from airflow_resume.watermarks.commit import Advance, OnGap, Outcome
from airflow_resume.watermarks.cursors.cursor import CursorType, cursor_of
from airflow_resume.watermarks.options import Backfill, OnMissing, Options, WhenEmpty
from airflow_resume.watermarks.partition import Partition, resolve_partition
from airflow_resume.watermarks.rows.track import Future, Nulls
from airflow_resume.watermarks.sql.column import Columns
from airflow_resume.watermarks.taskflow import with_window
from airflow_resume.watermarks.windows.window import Window

if TYPE_CHECKING:
    from airflow.sdk import Asset
    from pydantic import JsonValue

    from airflow_resume.attempt import AnyContext
    from airflow_resume.sink_protocol import Sink
    from airflow_resume.watermarks.windows.window_run import WindowRun

R = TypeVar("R")
T = TypeVar("T")

log = get_logger(__name__)


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
        asset: that is loaded. The task must have it in both `inlets` and `outlets`.
        initial: where the first run starts, or a function that returns it: it is called once, when the mark is made.
        name: of the mark; an asset may have several.
        cursor: the type of its values, one of `airflow_resume.watermarks.Cursor`; by default that of `initial`.
        advance: how far the mark moves. `"window"`: to the window's end, `now - delay`; the default for points in time
            and days, and if `now` is given. `"observed"`: to the greatest value that went through `window.track`; the
            default for other types. `"explicit"`: to what the body says by `window.advance(value)`; the default for
            tokens.
        delay: how long after its own value a row may become visible. Rows that take longer are missed. For a keyset it
            is the delay of the first column. `delay=timedelta(0)`, or 0 for values that are not times, says that rows
            become visible in the order of their values.
        lookback: how far before the mark a window starts. More rows are read; the mark never moves back.
        max_span: how long a window may be at most: a longer one is loaded in several runs.
        now: the clock that the rows' values come from, such as that of the source database, `sql_now(...)`; by default
            this machine's. For ids, a function that returns an id below which no transaction is open.
        nulls: rows without a value. By default `track` raises on one, and a query by `window.sql` leaves them out as
            SQL does. `"raise"`: the query lets them through, and the body must `track` its rows. `"skip"`: they are
            left out. `"keep"`: they are loaded in every run.
        future: rows after the window's end, in `track`: `"exclude"` (default: a later run loads them), `"clamp"`
            (loaded now and later), `"fail"`.
        when_empty: if nothing is new: `"run"` the body with an empty window, or `"skip"` the task.
        partition: the part of the asset that this task instance loads; each part has a mark of its own. JSON, or a
            function of the task function's arguments and the context (`lambda table: table`). Mapped tasks need one.
        backfill: in a backfill run, load its data interval: `"isolated"` (default: the mark stays), `"fill"` (it counts
            as loaded), `"forbid"`.
        on_gap: if something before the window is not loaded: `"hold"` (default: the window is remembered, and the mark
            stays), `"fail"`, or `"jump"` over it.
        on_missing: if the mark is missing although earlier runs moved it: `"fail"` (default), `"recover"` it from the
            newest asset event, or load again from `"initial"`.
        history: how many of the newest moves are kept in the record.
        migrate: a function that makes a value of this cursor from a stored value of another one.
        shared: whether several tasks load one target, and all of them move the mark. Otherwise only one task may move
            it, and another task fails, because each would skip the rows that the other has read.
        sql: the type, time zone and driver of the column in the source's database: an `SqlColumn` (a list of them for a
            keyset), for `window.sql`, `window.where` and `window.track`.

    Raises:
        InvalidKeyError, CursorTypeError, WatermarkInputError, TypeError, ValueError: at once, for arguments that cannot
            work.

    Warns:
        WatermarkWarning: times without a `delay`; observed values, such as ids, without `now`, `delay` and `lookback`;
            days or naive times without a zone, on a machine whose zone is not UTC.
    """
    found = cursor_of(cursor, initial)
    # For a keyset, the mark moves to the last row that was seen.
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
        """The asset that is loaded."""

    def __repr__(self) -> str:
        return f"<Watermark {self._options.name!r} of {self.asset.name!r}>"

    # --- decorating -------------------------------------------------------------------------------------------

    @overload
    def task(self, function: Callable[..., Any], /) -> Any: ...
    @overload
    def task(
        self, function: None = None, /, *, sink: Sink | None = None, **options: Any
    ) -> Callable[[Callable[..., Any]], Any]: ...
    def task(self, function: Callable[..., Any] | None = None, /, *, sink: Sink | None = None, **options: Any) -> Any:
        """`@task` with the asset in `inlets` and `outlets` and one instance at a time, on top of this watermark.

        With a `partition`, instances may run at the same time, as each has a mark of its own.

        Args:
            function: takes a `window`, and whatever else a `@task` function takes.
            sink: such as `SqlSink(engine)`: the mark is kept in the transaction of `window.connection`, so that each
                row is written exactly once. Airflow's mark follows it.
            options: as for `@task`.

        Raises:
            SinkUnsafeError: with this watermark or function, a row could be written twice.
        """
        from airflow.sdk import task

        options = self.task_options(options)

        def decorate(function: Callable[..., Any]) -> Any:
            return task(**options)(self._decorated(function, sink))

        return decorate if function is None else decorate(function)

    def task_options(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments of an operator or `@task`, with those added that this watermark needs.

        Args:
            options: as they were given, by name.
        """
        declared = {name: self._among(options.get(name)) for name in ("inlets", "outlets")}
        cap = {} if self._options.partition is not None else {"max_active_tis_per_dag": 1}
        return {**cap, **options, **declared}

    def _among(self, assets: Any) -> list[Any]:
        """The asset, together with the assets that were given: None, one, or several."""
        given = [] if assets is None else assets if isinstance(assets, (list, tuple)) else [assets]
        # Airflow compares assets slowly, and it is nearly always this one.
        return [self.asset, *(asset for asset in given if asset is not self.asset and asset != self.asset)]

    def __call__(self, function: Callable[..., R]) -> Callable[..., R]:
        """Call `function` with a `window`, and commit it when the function has returned.

        Raises:
            UsageError: `function` is a task already.
            TypeError: it takes no `window`, or is a generator.
        """
        return self._decorated(function, None)

    def _decorated(self, function: Callable[..., R], sink: Sink | None) -> Callable[..., R]:
        if sink is not None:
            from airflow_resume.watermarks.windows.in_sink import check_options  # few watermarks have a sink

            check_options(self._options)
            if inspect.iscoroutinefunction(function):
                raise SinkUnsafeError(
                    "The function is async, and the connection of a sink would block its event loop.",
                    "Use a function that is not async.",
                    problem="use",
                )
        return with_window(function, functools.partial(self._open_for, sink=sink), self._aopen_for)

    # --- one window -------------------------------------------------------------------------------------------

    @contextmanager
    def open(
        self,
        context: AnyContext | None = None,
        *,
        partition: JsonValue = None,
        deferrable: bool = False,
        sink: Sink | None = None,
    ) -> Iterator[Window[T]]:
        """Begin a window, and commit it when the body is left without an exception.

        Args:
            context: of the task; by default that of the running one.
            partition: in place of the watermark's.
            deferrable: the body may defer, and the method that continues uses `reopen`. A deferral leaves the body by
                an exception, so nothing is committed; without this flag a warning is logged.
            sink: as for `task`.

        Raises:
            WindowNotReadError: the body defers, and what it has read or said would be lost with its process.
        """
        with self._opened(self._run(context, partition=partition, sink=sink), deferrable=deferrable) as window:
            yield window

    @contextmanager
    def reopen(self, context: AnyContext | None = None, *, partition: JsonValue = None) -> Iterator[Window[T]]:
        """The window in which this run deferred, again: for the method that continues when the trigger has fired.

            def execute(self, context):
                with orders.open(context, deferrable=True) as window:
                    self.defer(trigger=..., method_name="loaded")  # leaves the block, and commits nothing

            def loaded(self, context, event=None):
                with orders.reopen(context) as window:  # the same bounds; committed at the end of the block
                    ...

        If nothing was new before, the window is still empty: newer rows belong to the next run.

        Args:
            context: of the task, as for `open`.
            partition: in place of the watermark's, as for `open`.

        Raises:
            WindowNotReadError: as `open`.
        """
        run = self._run(context, partition=partition)
        with run.told():
            window = run.begin(again=True)
            with dies_with_supervisor(), _deferral_noticed(window, is_expected=True):
                yield window
            run.commit(window)

    @asynccontextmanager
    async def aopen(
        self, context: AnyContext | None = None, *, partition: JsonValue = None
    ) -> AsyncIterator[Window[T]]:
        """As `open`, for `async with`.

        Args:
            context: as for `open`.
            partition: as for `open`.
        """
        async with self._aopened(self._run(context, partition=partition)) as window:
            yield window

    def begin(self, context: AnyContext, *, partition: JsonValue = None) -> Window[T]:
        """The window of this run: the one an earlier attempt began, or a new one, saved as pending.

        Args:
            context: of the task.
            partition: in place of the watermark's.

        Raises:
            AssetNotDeclaredError, StoreRefusedError: the asset's state cannot be used from this task.
            WatermarkInputError: the task is mapped, and its instances would share one mark.
            WatermarkLostError, WatermarkMismatchError, UnreadableRecordError: the mark cannot be used.
            WatermarkMismatchError: another task moves the mark.
            WatermarkInputError: the mark was set to a time that has not come, or the run asks for an impossible window.
            SupersededError: another attempt has replaced this one.
        """
        run = self._run(context, partition=partition)
        with run.told():
            return run.begin()

    def commit(self, context: AnyContext, loaded: Window[T] | Mapping[str, JsonValue]) -> Outcome:
        """Move the mark over what was loaded, if the rules allow it; see `Outcome`.

        Args:
            context: of the task.
            loaded: the window, or what `window.stage()` returned in an earlier task of the run.

        Raises:
            WindowNotReadError: the body has not read what the mark would move over.
            WatermarkGapError, WatermarkConflictError: see `Outcome`.
            WatermarkMismatchError: another task moves the mark.
            WatermarkInputError: the token is not of this run and watermark.
            SupersededError: another attempt has replaced this one; the mark was not touched.
            WatermarkError: others kept writing the mark; a retry loads the window again.
        """
        if isinstance(loaded, Window):
            run = self._run(context, partition=loaded.partition)
            with run.told():
                return run.commit(loaded)
        run = self._run(context, partition=loaded.get("partition") if isinstance(loaded, Mapping) else None)
        with run.told():
            return run.commit_staged(loaded)

    def reset(self, context: AnyContext, to: object = None, *, partition: JsonValue = None) -> None:
        """Set the mark back, to `to` or to the initial value: the next run loads from there.

        If that run fails, the next one still starts there, because the record says so until something was loaded.

        Args:
            context: of the task, which must declare the asset.
            to: a value of the cursor; None for the initial value.
            partition: in place of the watermark's.
        """
        run = self._run(context, partition=partition)
        with run.told():
            run.reset(to)

    # --- parts ------------------------------------------------------------------------------------------------

    def _run(
        self,
        context: AnyContext | None,
        *,
        partition: JsonValue = None,
        arguments: Mapping[str, Any] | None = None,
        sink: Sink | None = None,
    ) -> WindowRun[T]:
        from airflow_resume.attempt import current_context  # neither is needed before the task runs
        from airflow_resume.watermarks.windows.window_run import WindowRun

        context = current_context() if context is None else context
        wanted = self._options.partition if partition is None else partition
        return WindowRun(self._options, context, resolve_partition(wanted, context, arguments or {}), sink)

    @contextmanager
    def _opened(self, run: WindowRun[T], *, deferrable: bool) -> Iterator[Window[T]]:
        with closing(run), run.told():
            window = run.begin()
            self._skip_if_empty(window)
            with dies_with_supervisor(), _deferral_noticed(window, is_expected=deferrable):
                yield window
            run.commit(window)

    @asynccontextmanager
    async def _aopened(self, run: WindowRun[T]) -> AsyncIterator[Window[T]]:
        with run.told():
            window = await off_the_loop(run.begin)
            self._skip_if_empty(window)
            with dies_with_supervisor(), _deferral_noticed(window, is_expected=False):
                yield window
            await off_the_loop(functools.partial(run.commit, window))

    @contextmanager
    def _open_for(self, arguments: Mapping[str, Any], sink: Sink | None) -> Iterator[Window[T]]:
        run = self._run(None, arguments=arguments, sink=sink)
        with _deferral_refused(), self._opened(run, deferrable=True) as window:
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
        window.progress.check_deferral(goes_on=bool(deferral.method_name))
        if not is_expected:
            log.warning(
                "The task defers with a window open, which commits nothing. Continue in %s() with reopen(context) of"
                " the watermark, and call open(context, deferrable=True) here; or use WatermarkMixin, which does both.",
                deferral.method_name,
            )
        raise


@contextmanager
def _deferral_refused() -> Iterator[None]:
    try:
        yield
    except TaskDeferred as deferral:
        raise WindowNotReadError(
            "A function with a watermark defers, and has no method in which its window could be committed.",
            "Write an operator with WatermarkMixin, whose execute_window may defer.",
            problem="deferred",
        ) from deferral
