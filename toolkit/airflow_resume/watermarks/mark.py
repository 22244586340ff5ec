"""`watermark`: begin a window, let the body load it, and move the mark once the body has returned.

Theory of operation. The window is fixed and saved with the task as *pending* before the body runs, so that a retry
loads the same rows again and may overwrite them. The mark lives with the asset, whose store takes writes from any
attempt, replaced ones too: so a commit first writes to the task's store, which refuses a replaced attempt, and only
then touches the mark. The asset's store has no compare-and-set: what was written is read back, and merged again when
somebody else won. Whatever is lost in between leads to reading again, never to skipping.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Concatenate, Literal, ParamSpec, TypeVar, overload
from uuid import uuid4

from airflow.sdk.exceptions import AirflowSkipException

from airflow_resume import values
from airflow_resume.arguments import check_choice, check_duration
from airflow_resume.attempt import AnyContext, Attempt, current_attempt, current_context, utc_now
from airflow_resume.channel import off_the_loop
from airflow_resume.errors import (
    PartitionNeededError,
    WatermarkChangedError,
    WatermarkError,
    WatermarkLostError,
)
from airflow_resume.record import Slot
from airflow_resume.store import ask, asset_store, task_store
from airflow_resume.watermarks.commit import Mark, Outcome, decide_commit
from airflow_resume.watermarks.cursor import Cursor
from airflow_resume.watermarks.decorate import with_window
from airflow_resume.watermarks.journal import last_entry, write_entry
from airflow_resume.watermarks.moments import DatetimeCursor
from airflow_resume.watermarks.record import (
    MARK_PREFIX,
    MAX_HISTORY,
    WINDOW_PREFIX,
    MarkRecord,
    Move,
    WindowRecord,
    WindowState,
    Writer,
)
from airflow_resume.watermarks.window import Window

if TYPE_CHECKING:
    from airflow.sdk import Asset

P = ParamSpec("P")
R = TypeVar("R")

log = logging.getLogger(__name__)

OnMissing = Literal["fail", "recover", "initial"]
WhenEmpty = Literal["run", "skip"]

MAX_MERGES = 3


def watermark(
    asset: Asset,
    *,
    initial: datetime | str | Callable[[], datetime | str],
    name: str = "watermark",
    delay: timedelta = timedelta(0),
    lookback: timedelta = timedelta(0),
    now: Callable[[], datetime | str] = utc_now,
    when_empty: WhenEmpty = "run",
    on_missing: OnMissing = "fail",
) -> Watermark:
    """A mark on `asset`: everything before it is loaded.

    Every run loads the window `[mark, now - delay)`, and moves the mark to its end once the body has returned.

    Args:
        asset: what is loaded. The task must have it in both `inlets` and `outlets`.
        initial: where the first run starts: an aware datetime or its ISO 8601 text, or a function that gives one.
        name: of the mark; an asset may have several.
        delay: how long a row may take to become visible after the time it bears. Rows that take longer are missed.
        lookback: how far before the mark a window starts. It widens the reading and never moves the mark back.
        now: the clock that the rows' times come from, such as the source database's; by default this machine's.
        when_empty: nothing is new: `"run"` the body with an empty window, or `"skip"` the task.
        on_missing: the mark is missing though the asset's events say that it was loaded before: `"fail"`, `"recover"`
            it from the newest event, or load again from `"initial"`.

    Raises:
        InvalidKeyError, CursorTypeError, TypeError, ValueError: for arguments that cannot work, at once.
    """
    return Watermark(
        asset,
        initial=initial,
        name=name,
        delay=delay,
        lookback=lookback,
        now=now,
        when_empty=when_empty,
        on_missing=on_missing,
    )


class Watermark:
    """A mark on an asset. Made by `watermark`."""

    def __init__(
        self,
        asset: Asset,
        *,
        initial: datetime | str | Callable[[], datetime | str],
        name: str,
        delay: timedelta,
        lookback: timedelta,
        now: Callable[[], datetime | str],
        when_empty: WhenEmpty,
        on_missing: OnMissing,
    ) -> None:
        if not (getattr(asset, "name", None) and getattr(asset, "uri", None)):
            raise TypeError(f"watermark() needs an Asset, not {asset!r}")
        check_choice("when_empty", when_empty, WhenEmpty)
        check_choice("on_missing", on_missing, OnMissing)
        check_duration("delay", delay)
        check_duration("lookback", lookback)
        self.asset = asset
        self._cursor: DatetimeCursor = Cursor.datetime()
        self._initial = initial
        if not callable(initial):
            self._cursor.parse(initial, what="initial")
        self._mark_key = values.make_key(MARK_PREFIX, name)
        self._window_key = values.make_key(WINDOW_PREFIX, name)
        self._name = name
        self._delay, self._lookback, self._now = delay, lookback, now
        self._when_empty, self._on_missing = when_empty, on_missing

    # --- decorating -------------------------------------------------------------------------------------------

    @overload
    def task(self, function: Callable[..., Any], /) -> Any: ...
    @overload
    def task(self, function: None = None, /, **options: Any) -> Callable[[Callable[..., Any]], Any]: ...
    def task(self, function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
        """`@task` with the asset in `inlets` and `outlets`, one instance at a time, over `@` this watermark.

        Args:
            function: takes a `window`, and whatever else a `@task` function takes.
            options: as for `@task`.
        """
        from airflow.sdk import task

        declared = {name: self._among(options.pop(name, None)) for name in ("inlets", "outlets")}
        options = {"max_active_tis_per_dag": 1, **options, **declared}

        def decorate(function: Callable[..., Any]) -> Any:
            return task(**options)(self(function))

        return decorate if function is None else decorate(function)

    def _among(self, assets: Any) -> list[Any]:
        """The asset and the others that were given: none, one, or several."""
        given = [] if assets is None else assets if isinstance(assets, (list, tuple)) else [assets]
        return [self.asset, *(asset for asset in given if asset != self.asset)]

    @overload
    def __call__(self, function: Callable[Concatenate[Window, P], R]) -> Callable[P, R]: ...
    @overload
    def __call__(self, function: Callable[..., R]) -> Callable[..., R]: ...
    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Call `function` with a `window`, and commit it when the function has returned.

        Raises:
            DecoratorOrderError: `function` is a task already.
            TypeError: it takes no `window`, or is a generator.
        """
        return with_window(function, self.open, self.aopen)

    # --- one window -------------------------------------------------------------------------------------------

    @contextmanager
    def open(self, context: AnyContext | None = None) -> Iterator[Window]:
        """Begin a window, and commit it when the body is left without an exception."""
        context = current_context() if context is None else context
        window = self.begin(context)
        self._skip_if_empty(window)
        yield window
        self.commit(context, window)

    @asynccontextmanager
    async def aopen(self, context: AnyContext | None = None) -> AsyncIterator[Window]:
        """As `open`, for `async with`."""
        context = current_context() if context is None else context
        window = await off_the_loop(functools.partial(self.begin, context))
        self._skip_if_empty(window)
        yield window
        await off_the_loop(functools.partial(self.commit, context, window))

    def _skip_if_empty(self, window: Window) -> None:
        if window.empty and self._when_empty == "skip":
            raise AirflowSkipException(f"Nothing is new since {window.start.isoformat()}")

    def begin(self, context: AnyContext) -> Window:
        """The window of this run: the one an earlier attempt began, or a new one, saved as pending.

        Raises:
            AssetNotDeclaredError, AssetInactiveError: the asset's state cannot be used from this task.
            WatermarkLostError, WatermarkChangedError, UnreadableRecordError: the mark cannot be used.
            SupersededError: another attempt has replaced this one.
        """
        attempt = current_attempt(context)
        if attempt.scope.map_index >= 0:
            raise PartitionNeededError(
                f"The instances of this mapped task would share the one mark {self._mark_key!r}, and skip each other's"
                f" rows. Make a watermark for each, with a name of its own, in tasks that are not mapped."
            )
        slot = self._window_slot(context)
        begun = slot.read()
        if begun is not None and begun.state is not WindowState.CLAIMED:
            window = self._begun(begun.model_copy(update={"claim": attempt.claim(utc_now())}))
        else:
            window = self._new(self._mark(context, slot, attempt), attempt)
        if window.record is not None:
            slot.write(window.record)
        log.info("Window %s of %r, try %d%s", window, self._mark_key, attempt.try_number, _remarks(window))
        return window

    def _begun(self, record: WindowRecord) -> Window:
        return Window(
            start=self._cursor.parse(record.start, what="the window's start"),
            end=self._cursor.parse(record.end, what="the window's end"),
            is_retry=record.state is WindowState.PENDING,
            is_replay=record.state is WindowState.COMMITTED,
            record=record,
        )

    def _new(self, mark: MarkRecord, attempt: Attempt) -> Window:
        at = self._cursor.parse(mark.at, what=self._mark_key)
        end = self._cursor.parse(self._now(), what="now()") - self._delay
        start = at if mark.rev == 0 or not self._lookback else max(at - self._lookback, self._first())
        if at >= end:
            return Window(start=at, end=at, is_initial=mark.rev == 0)
        record = WindowRecord(
            key=self._window_key,
            start=self._cursor.dump(start),
            end=self._cursor.dump(end),
            base_rev=mark.rev,
            epoch=mark.epoch,
            claim=attempt.claim(utc_now()),
        )
        return Window(start=start, end=end, is_initial=mark.rev == 0, record=record)

    def commit(self, context: AnyContext, window: Window) -> Outcome:
        """Move the mark to the window's end, if nothing speaks against it. Call it when the window is loaded.

        Raises:
            SupersededError: another attempt has replaced this one; the mark was not touched.
            WatermarkError: others kept writing the mark; a retry loads the window again.
        """
        if window.record is None:
            return Outcome.EMPTY
        slot = self._window_slot(context)
        slot.write(window.record)  # refused when this attempt was replaced, and then the mark must not be touched
        outcome, mark = self._move(self._mark_slot(context), window, window.record.epoch, current_attempt(context))
        slot.write(window.record.model_copy(update={"state": WindowState.COMMITTED}))
        level = logging.WARNING if outcome in {Outcome.FENCED, Outcome.GAP} else logging.INFO
        log.log(level, "Window %s of %r: %s", window, self._mark_key, _EXPLAINED[outcome])
        if mark is not None:
            write_entry(context, self.asset, self._name, window=window.record, at=mark.at, outcome=outcome)
        return outcome

    def _move(
        self, slot: Slot[MarkRecord], window: Window, epoch: str, attempt: Attempt
    ) -> tuple[Outcome, MarkRecord | None]:
        for _ in range(MAX_MERGES):
            record = slot.read()
            outcome, mark = decide_commit(
                None if record is None else self._parsed(record), epoch=epoch, start=window.start, end=window.end
            )
            if record is None or mark is None:
                return outcome, record
            written = self._moved(record, mark, attempt)
            slot.write(written)
            if slot.read() == written:
                return outcome, written
        raise WatermarkError(f"Other runs kept writing {self._mark_key!r}; a retry loads the window again.")

    # --- the mark ---------------------------------------------------------------------------------------------

    def _mark_slot(self, context: AnyContext) -> Slot[MarkRecord]:
        return Slot(asset_store(context, self.asset), self._mark_key, MarkRecord)

    def _window_slot(self, context: AnyContext) -> Slot[WindowRecord]:
        return Slot(task_store(context), self._window_key, WindowRecord)

    def _mark(self, context: AnyContext, window_slot: Slot[WindowRecord], attempt: Attempt) -> MarkRecord:
        """The mark; a missing one is written, so that a commit can tell a record that was made anew."""
        slot = self._mark_slot(context)
        record = slot.read()
        if record is None:
            window_slot.write(self._claim(attempt))
            slot.write(self._first_mark(slot, context))
            record = slot.read()  # of two first runs, one has written last
        if record is None:
            raise WatermarkError(f"{self._mark_key!r} was deleted while it was made")
        if record.type != self._cursor.type:
            raise WatermarkChangedError(
                f"{self._mark_key!r} is a mark of type {record.type!r}, and this watermark is of type"
                f" {self._cursor.type!r}. Give this watermark another name, or delete the key in Airflow's UI."
            )
        return record

    def _claim(self, attempt: Attempt) -> WindowRecord:
        return WindowRecord(
            key=self._window_key,
            start="",
            end="",
            base_rev=0,
            epoch="",
            state=WindowState.CLAIMED,
            claim=attempt.claim(utc_now()),
        )

    def _first(self) -> datetime:
        initial = self._initial() if callable(self._initial) else self._initial
        return self._cursor.parse(initial, what="initial")

    def _first_mark(self, slot: Slot[MarkRecord], context: AnyContext) -> MarkRecord:
        entry = None
        if self._on_missing != "initial":
            entry = ask(slot.store, lambda: last_entry(context, self.asset, self._name))
        if entry is not None and self._on_missing == "fail":
            raise WatermarkLostError(
                f"{self._mark_key!r} is missing from the state of asset {self.asset.name!r}, although its events say"
                f" that it stood at {entry.get('at')}. Set on_missing='recover' to go on from there, or"
                f" on_missing='initial' to load everything again."
            )
        at = self._first() if entry is None else self._cursor.parse(entry.get("at"), what="the journal's mark")
        return MarkRecord(
            key=self._mark_key,
            type=self._cursor.type,
            at=self._cursor.dump(at),
            rev=0 if entry is None else 1,
            epoch=uuid4().hex[:12],
        )

    def _parsed(self, record: MarkRecord) -> Mark:
        parse = functools.partial(self._cursor.parse, what=self._mark_key)
        return Mark(
            at=parse(record.at),
            epoch=record.epoch,
            islands=tuple((parse(start), parse(end)) for start, end in record.islands),
        )

    def _moved(self, record: MarkRecord, mark: Mark, attempt: Attempt) -> MarkRecord:
        text = self._cursor.dump
        move = Move(to=text(mark.at), run_id=attempt.scope.run_id)
        history = record.history if text(mark.at) == record.at else (*record.history, move)[-MAX_HISTORY:]
        return record.model_copy(
            update={
                "at": text(mark.at),
                "rev": record.rev + 1,
                "islands": tuple((text(start), text(end)) for start, end in mark.islands),
                "by": Writer.of(attempt),
                "history": history,
            }
        )


_EXPLAINED: Mapping[Outcome, str] = {
    Outcome.ADVANCED: "advanced, the mark stands at its end",
    Outcome.NOOP: "noop, the mark stands there or beyond already",
    Outcome.GAP: "gap, something before it is not loaded, so the mark stays and the window is remembered",
    Outcome.FENCED: "fenced, the mark was made anew since the window began, so it stays",
    Outcome.EMPTY: "empty",
}


def _remarks(window: Window) -> str:
    remarks = {
        ", nothing is new": window.empty,
        ", the first": window.is_initial,
        ", begun by an earlier attempt": window.is_retry,
        ", finished before": window.is_replay,
    }
    return "".join(remark for remark, applies in remarks.items() if applies)
