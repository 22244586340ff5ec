"""One window in one attempt: its record is kept while the body runs, and it is committed when the body has returned."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from airflow_resume import metrics
from airflow_resume.attempt import AnyContext, utc_now
from airflow_resume.errors import SinkUnsafeError, WatermarkConflictError, WatermarkError, WatermarkGapError
from airflow_resume.shown import get_logger
from airflow_resume.sink_protocol import Sink
from airflow_resume.watermarks.commit import LoadedRange, Outcome
from airflow_resume.watermarks.marks.mark_record import MarkRecord, WindowRecord, WindowState
from airflow_resume.watermarks.marks.outbox import Outbox, entry_for, entry_of_run, outbox_of, published_by
from airflow_resume.watermarks.options import Options
from airflow_resume.watermarks.windows.beginning import Beginning
from airflow_resume.watermarks.windows.in_sink import MarkInSink
from airflow_resume.watermarks.windows.publishing import event_line
from airflow_resume.watermarks.windows.run_stores import RunStores
from airflow_resume.watermarks.windows.staged import StageToken, moved_on, token_of
from airflow_resume.watermarks.windows.window import Window, lag_of

if TYPE_CHECKING:
    from pydantic import JsonValue

T = TypeVar("T")

log = get_logger(__name__)


SEEN = frozenset({"rows", "late", "nulls", "future"})
"""What is reported of the summary of a window."""
EXPECTED = {Outcome.ADVANCED, Outcome.NOOP, Outcome.UNCOMMITTED, Outcome.EMPTY}
"""Outcomes that need no warning."""
EXPLAINED: Mapping[Outcome, str] = {
    Outcome.ADVANCED: "advanced, the mark stands after it",
    Outcome.NOOP: "noop, the mark stays where it is",
    Outcome.GAP: "gap, something before it is not loaded, so the mark stays and the window is remembered",
    Outcome.JUMPED: "jumped, something before it is not loaded, and the mark moved over that",
    Outcome.REFUSED: "refused, something before it is not loaded",
    Outcome.FENCED: "fenced, the mark was made anew since the window began, so it stays",
    Outcome.CONFLICT: "conflict, another run has moved the token",
    Outcome.UNCOMMITTED: "not committed, so the mark stays",
    Outcome.EMPTY: "empty",
}


class WindowRun(Generic[T]):
    """One window in one attempt: keeps its record, and moves the mark for it.

    Args:
        options: of the watermark.
        context: of the task.
        partition: of this task instance; None if the asset has no partitions.
        sink: that keeps the mark together with the rows; None if there is none.

    Raises:
        WatermarkInputError: the task is mapped, and its instances would share one mark.
    """

    def __init__(
        self, options: Options[T], context: AnyContext, partition: JsonValue, sink: Sink | None = None
    ) -> None:
        self._stores = RunStores(options, context, partition)
        self._slot, self._attempt = self._stores.slot, self._stores.attempt
        self._options, self._cursor = options, options.cursor
        self._mark_key = self._stores.keys.mark
        self._in_sink = None if sink is None else MarkInSink(self._stores, sink)

    @property
    def connection(self) -> Any:
        """The connection of the sink, in a transaction.

        Raises:
            WatermarkError: there is no sink.
        """
        if self._in_sink is None:
            raise WatermarkError(
                "The watermark has no sink, and so no connection.",
                "Use .task(sink=SqlSink(engine)), or open(sink=...).",
            )
        return self._in_sink.connection

    def close(self) -> None:
        """Give back what belongs to this window."""
        if self._in_sink is not None:
            self._in_sink.close()

    def begin(self, *, again: bool = False) -> Window[T]:
        """The window of this run: the one an earlier attempt began, or a new one, saved as pending.

        Args:
            again: after a deferral; then no new window is begun.
        """
        if self._in_sink is not None:
            self._in_sink.align()
        return Beginning(self._stores, self, has_sink=self._in_sink is not None).begin(again=again)

    @contextmanager
    def told(self) -> Iterator[None]:
        """Note in an error, such as one of a row, which does not know it, which mark and asset it is about."""
        try:
            yield
        except WatermarkError as error:
            if getattr(error, "loop", None) is None:
                error.key, error.asset = error.key or self._mark_key, error.asset or self._options.asset.name
            raise

    # --- while the body runs ----------------------------------------------------------------------------------

    def check(self, window: Window[T]) -> None:
        """Check that this attempt was not replaced: write the record, which Airflow refuses to a replaced attempt."""
        if window.record is not None:
            self._slot.write(window.record)

    def commit_slice(self, window: Window[T], end: T, reached: T | None) -> None:
        """Commit a slice: everything before `end` is loaded, and the mark may move to `reached` (None: no row seen)."""
        record = window.record
        if record is None:
            return
        token = self._token(window, reached)
        outcome, mark = self._commit(record, token, window, is_slice=True)
        self._raise_if_failed(token, outcome, mark, is_own=True)
        log.info("Slice up to %s of %r: %s", self._cursor.dump(end), self._mark_key, EXPLAINED[outcome])
        window.record = self._slot.write(moved_on(record, token, outcome, done=self._cursor.dump(end)))

    def stage(self, window: Window[T]) -> dict[str, JsonValue]:
        """The token of the loaded window, for the task that commits it.

        Raises:
            SinkUnsafeError: a sink commits it now, and not in another task.
        """
        if self._in_sink is not None:
            raise SinkUnsafeError(
                "A window with a sink is committed with its rows, and cannot be staged.",
                "Leave out stage(), or the sink.",
                problem="use",
            )
        return self._token(window, window.progress.reached()).model_dump(mode="json", by_alias=True)

    # --- when the body has returned ---------------------------------------------------------------------------

    def commit(self, window: Window[T]) -> Outcome:
        """Move the mark over the window, if `decide_commit` allows it."""
        if window.record is None:
            self._count(Outcome.EMPTY, window.plan.at, window)
            return Outcome.EMPTY if window.unpublished_in is None else self._publish_for_others(window.unpublished_in)
        window.progress.check_read()
        token = self._token(window, window.progress.reached())
        outcome, mark = self._commit(window.record, token, window)
        self._count(outcome, self._place_of(mark, token), window)
        self._raise_if_failed(token, outcome, mark, is_own=True)
        self._close(window.record, token, outcome, mark)
        return outcome

    def commit_staged(self, staged: object) -> Outcome:
        """Move the mark over a window that an earlier task of the run loaded."""
        token = StageToken.read(staged, keys=self._stores.keys, scope=self._attempt.scope)
        if token.is_of_nothing:
            return self._publish_for_others()
        claim = self._attempt.claim(utc_now())
        record = token.window(self._slot.read(), key=self._slot.key, type=self._cursor.type, claim=claim)
        outcome, mark = self._commit(record, token)
        self._count(outcome, self._place_of(mark, token))
        self._raise_if_failed(token, outcome, mark, is_own=False)
        self._close(record, token, outcome, mark)
        return outcome

    def _publish_for_others(self, seen: MarkRecord | None = None) -> Outcome:
        """For a run with nothing new: publish the windows of earlier runs that no event has published."""
        mark = self._stores.mark.take_over(seen)
        if mark is not None and published_by(mark.outbox, self._attempt.scope):
            self._publish(mark, published_by(outbox_of(mark), self._attempt.scope), Outcome.EMPTY)
        return Outcome.EMPTY

    def _commit(
        self, record: WindowRecord, token: StageToken, window: Window[T] | None = None, *, is_slice: bool = False
    ) -> tuple[Outcome, MarkRecord | None]:
        # This write is refused if the attempt was replaced; then the mark must not be touched.
        self._slot.write(record)
        if not token.commits:
            return Outcome.UNCOMMITTED, None
        if self._in_sink is not None:
            self._in_sink.commit(token, window)
        loaded = LoadedRange(
            start=self._stores.parsed(token.start),
            new=None if token.new is None else self._stores.parsed(token.new),
            epoch=token.epoch,
            base_rev=token.base_rev,
            ties=token.ties,
        )
        outcome, mark = self._stores.mark.move(
            loaded,
            mover=self._stores.mover(token.task_id),  # a token of version 0.1 has none
            published=token.tells,
            origin=token.origin,
            is_slice=is_slice,
        )
        if outcome is Outcome.CONFLICT and record.state is WindowState.COMMITTED:
            outcome = Outcome.NOOP  # a cleared run has loaded its window again, and others have moved the token since
        return outcome, mark

    def _close(self, record: WindowRecord, token: StageToken, outcome: Outcome, mark: MarkRecord | None) -> None:
        """Write the outcome into the record of the window, the log, the asset event and the XCom."""
        self._slot.write(moved_on(record, token, outcome, state=WindowState.COMMITTED, done=None))
        level = logging.INFO if outcome in EXPECTED else logging.WARNING
        log.log(level, "Window %s of %r: %s", token.bounds, self._mark_key, EXPLAINED[outcome])
        scope = self._attempt.scope
        outbox = () if mark is None else published_by(outbox_of(mark), scope)
        if token.tells is not None and entry_of_run(outbox, token.tells, scope) is None:  # nothing was written for it
            outbox = (*outbox, entry_for(token.tells, scope=scope, outcome=outcome.value, origin=token.origin))
        self._publish(mark, outbox, outcome)

    def _raise_if_failed(self, token: StageToken, outcome: Outcome, mark: MarkRecord | None, *, is_own: bool) -> None:
        """Raise if the outcome is a failure; after a conflict, a retry begins another window."""
        error = failure_of(outcome, token, mark, is_own=is_own)
        if isinstance(error, WatermarkConflictError):
            self._slot.delete()
        if error is not None:
            raise error

    def _publish(self, mark: MarkRecord | None, outbox: Outbox, outcome: Outcome) -> None:
        """Write the line in the asset event, and the XCom.

        Args:
            mark: the present mark; None if it is not known.
            outbox: the windows to publish; the window of this run is the last one.
            outcome: of the window of this run.
        """
        options, scope = self._options, self._attempt.scope
        line = event_line(outbox, mark, options, scope=scope, outcome=outcome, partition=self._stores.partition)
        self._stores.journal.write(line)
        if mark is not None:
            self._stores.journal.note(mark.at, utc_now(), first=mark.first)

    def _token(self, window: Window[T], reached: T | None) -> StageToken:
        return token_of(window, reached, self._cursor, key=self._mark_key, scope=self._attempt.scope)

    def reset(self, to: object) -> None:
        """Set the mark anew."""
        self._stores.claim()
        record = self._stores.mark.reset(None if to is None else self._cursor.parse(to, what="to"))
        log.warning("The mark %r was set to %r; the next run loads from there", self._mark_key, record.at)

    def _place_of(self, mark: MarkRecord | None, token: StageToken) -> T | None:
        """Where the mark stands after a window; None if it is not known, or not one of this cursor any more."""
        return None if mark is None or mark.epoch != token.epoch else self._stores.parsed(mark.at)

    def _count(self, outcome: Outcome, at: T | None, window: Window[T] | None = None) -> None:
        """Report the outcome, how far the mark is behind now, and what the window has seen, if this task loaded it."""
        tags = {**self._attempt.stats_tags, "watermark": self._options.name, "asset": self._options.asset.name}
        metrics.count(f"watermark.{outcome.value}", tags)
        summary = {} if window is None else window.summary()
        for name in SEEN & summary.keys():
            metrics.gauge(f"watermark.{name}", float(str(summary[name])), tags)
        lag = lag_of(at, self._cursor.home)
        if lag is not None:
            metrics.gauge("watermark.lag_seconds", lag, tags)


def failure_of(outcome: Outcome, token: StageToken, mark: MarkRecord | None, *, is_own: bool) -> WatermarkError | None:
    """The error for an outcome that fails the task; None for other outcomes.

    Args:
        outcome: of the window.
        token: the window.
        mark: the present mark.
        is_own: whether this task has loaded the window. Then a retry can begin another window, at the mark.
    """
    stands = None if mark is None else mark.at
    if outcome is Outcome.CONFLICT:
        return WatermarkConflictError(
            f"Another run has moved {token.key!r} since this window began.",
            "A retry begins at the new token."
            if is_own
            else "Clear the task that has loaded it, and this one with it: the window then begins at the new token.",
            key=token.key,
            start=token.start,
            mark=stands,
        )
    if outcome is not Outcome.REFUSED:
        return None
    if is_own and token.origin == "mark":
        return WatermarkConflictError(
            f"This window began at {token.start!r}, where the mark {token.key!r} stood. The mark now stands at"
            f" {stands!r}: another run has overwritten it.",
            "A retry begins at the mark as it stands then.",
            key=token.key,
            start=token.start,
            mark=stands,
        )
    return WatermarkGapError(
        f"The window from {token.start!r} begins after the mark {stands!r} of {token.key!r}, and the rows between"
        " the two are not loaded.",
        "Load them first; or set on_gap='hold', which remembers such windows, or 'jump', which jumps over gaps.",
        key=token.key,
        start=token.start,
        mark=stands,
    )
