"""The window of a run: the one that an earlier attempt began, or a new one."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from airflow_resume.attempt import utc_now
from airflow_resume.errors import WatermarkInputError, WatermarkMismatchError
from airflow_resume.record import StoredRecord
from airflow_resume.shown import get_logger
from airflow_resume.watermarks.checks import remarks_on, remarks_on_zone
from airflow_resume.watermarks.marks.mark_record import MarkRecord, Pending, WindowRecord, WindowState
from airflow_resume.watermarks.windows.bounds import Bounds, decide_bounds
from airflow_resume.watermarks.windows.override import override_of
from airflow_resume.watermarks.windows.plan import WindowPlan
from airflow_resume.watermarks.windows.run_stores import RunStores
from airflow_resume.watermarks.windows.window import Keeper, Window

T = TypeVar("T")

log = get_logger(__name__)


class Beginning(Generic[T]):
    """Begins the window of a run.

    Args:
        stores: of the attempt.
        keeper: of the window.
    """

    def __init__(self, stores: RunStores[T], keeper: Keeper, *, has_sink: bool) -> None:
        self._stores, self._keeper, self._has_sink = stores, keeper, has_sink
        self._options, self._cursor = stores.options, stores.options.cursor
        self._mark_key, self._parsed = stores.keys.mark, stores.parsed

    def begin(self, *, again: bool) -> Window[T]:
        """The window, saved as pending.

        Args:
            again: after a deferral; then no new window is begun.
        """
        stores, attempt = self._stores, self._stores.attempt
        task = getattr(stores.context.get("ti"), "task", None)
        of_task = remarks_on(task, self._options.asset, is_partitioned=stores.partition is not None)
        for remark in [*of_task, *remarks_on_zone(task, self._options)]:
            log.warning("%s.", remark)
        begun = stores.slot.read() or self._begun_in_0_1()
        if begun is not None and (begun.state is WindowState.CLAIMED or (not again and stores.mark.is_beyond(begun))):
            begun = None
        if begun is not None:
            window = self._begun_before(begun)
        elif again:  # nothing was new before the deferral, and what is new by now belongs to the next run
            window = self._empty(stores.mark.find(moves=False))
        else:
            window = self._new()
        is_of_this_try = begun is not None and begun.claim.try_number == attempt.try_number
        if window.is_replay and is_of_this_try and not again:
            log.warning(
                "A run loads one window, so this attempt gets the same one again.\n"
                "To load it in parts, iterate window.split()."
            )
        if window.record is not None:
            window.record = stores.slot.write(window.record)
        remarks = {
            ", nothing is new": window.empty,
            ", the first": window.is_initial,
            ", the mark was set back": window.is_reset,
            ", begun by an earlier attempt": window.is_retry,
            ", finished before": window.is_replay,
        }
        shown = "".join(remark for remark, applies in remarks.items() if applies)
        log.info("Window %s of %r, try %d%s", window, self._mark_key, attempt.try_number, shown)
        return window

    # --- a window that was begun before -----------------------------------------------------------------------

    def _begun_in_0_1(self) -> WindowRecord | None:
        """The window under the key of version 0.1, if it is one of this asset: several may have shared the key."""
        stores, old = self._stores, self._stores.keys.old
        if old is None or stores.attempt.try_number == 1:  # nothing was begun before
            return None
        found = StoredRecord(stores.slot.store, old.window, WindowRecord).read()
        if found is None or found.state is WindowState.CLAIMED or not stores.mark.is_of(found.epoch):
            return None
        return found.changed(key=stores.slot.key)

    def _begun_before(self, begun: WindowRecord) -> Window[T]:
        if begun.type != self._cursor.type:
            raise WatermarkMismatchError(
                f"An earlier attempt of this run began a window of type {begun.type!r}, and this watermark is one of"
                f" {self._cursor.type!r}.",
                "Clear the run's state of the task, or put the cursor back.",
                key=self._mark_key,
                asset=self._options.asset.name,
                stored=begun.type,
                expected=self._cursor.type,
            )
        if begun.sink and not self._has_sink:
            self._stores.mark.check_no_sink()
        # A body that starts over on `is_initial`, such as by emptying its table, would lose what was loaded since.
        is_reset = begun.reset is not None and self._stores.mark.is_pending(begun.epoch)
        claim = self._stores.attempt.claim(utc_now())
        record = begun.changed(claim=claim, reset=begun.reset if is_reset else None)
        with self._stores.slot.reading():
            bounds = Bounds(start=self._parsed(begun.start), end=None if begun.end is None else self._parsed(begun.end))
            at = self._parsed(begun.start if begun.at is None else begun.at)
            bounds.check(self._cursor, done=None if begun.done is None else self._parsed(begun.done))
            return self._window(bounds, at=at, record=record, is_retry=begun.state is WindowState.PENDING)

    # --- a new one --------------------------------------------------------------------------------------------

    def _new(self) -> Window[T]:
        override = override_of(self._stores.context, self._options)
        moves = override is None or override.commits
        stored = self._stores.mark
        mark = stored.find(moves=moves)
        if moves:
            stored.check_owner(mark)
        at = self._parsed(mark.at)
        ceiling = self._options.ceiling()
        if override is None and not self._has_sink:
            stored.check_no_sink(mark)
        if override is not None:
            bounds, origin = override.bounds, override.origin
            log.warning("This run loads %s to %s, as its %s says", bounds.start, bounds.end, origin)
            limit = None if ceiling is None else self._cursor.dump(ceiling)
            record = self._record(bounds, mark, origin=origin, commits=moves, limit=limit)
            return self._window(bounds, at=at, record=record)
        lookback, span = self._options.lookback, self._options.max_span
        first = None if mark.pending is not None or lookback is None else stored.first(mark)
        bounds = decide_bounds(
            at=at, first=first, ceiling=ceiling, cursor=self._cursor, lookback=lookback, max_span=span
        )
        if bounds.is_empty:
            self._check_not_ahead(mark, at, ceiling)
            return self._empty(mark)
        # A window that `max_span` cuts off ends in the past, so its rows do not change any more. The mark moves to its
        # end even if the window has no rows.
        settles = span is not None and bounds.end == self._cursor.step(at, span)
        record = self._record(bounds, mark, reset=mark.pending, ties=mark.ties, settles=settles)
        return self._window(bounds, at=at, record=record, reset=mark.pending)

    def _check_not_ahead(self, mark: MarkRecord, at: T, ceiling: T | None) -> None:
        """Refuse a mark that is later than now: no run would load anything until then.

        Raises:
            WatermarkInputError: somebody has set the mark to that time, or has changed its record.
        """
        if ceiling is None:
            return
        delay = self._options.delay
        now = ceiling if delay is None else self._cursor.plus(ceiling, delay)
        if not now < at:  # type: ignore[operator]
            return
        text = f"The mark {self._mark_key!r} stands at {mark.at!r}, and by the watermark's clock it is {now} now"
        if mark.pending in {"rewind", "reset"} or mark.was_edited(at):
            raise WatermarkInputError(
                f"{text}: nothing would be loaded until then.",
                self._stores.mark.by_hand(),
                given="mark",
                key=self._mark_key,
                asset=self._options.asset.name,
            )
        log.warning("%s, so nothing is loaded until then", text)

    def _empty(self, mark: MarkRecord) -> Window[T]:
        at = self._parsed(mark.at)
        window = self._window(Bounds(start=at, end=at), at=at, record=None, reset=mark.pending)
        window.unpublished_in = mark if mark.outbox or mark.untold else None
        return window

    def _record(self, bounds: Bounds[T], mark: MarkRecord, **fields: Any) -> WindowRecord:
        start = self._cursor.dump(bounds.start)
        return WindowRecord(
            key=self._stores.slot.key,
            start=start,
            end=None if bounds.end is None else self._cursor.dump(bounds.end),
            at=None if mark.at == start else mark.at,  # a large value may have no room twice
            type=self._cursor.type,
            base_rev=mark.rev,
            epoch=mark.epoch,
            claim=self._stores.attempt.claim(utc_now()),
            sink=True if self._has_sink else None,
            **fields,
        )

    def _window(
        self,
        bounds: Bounds[T],
        *,
        at: T,
        record: WindowRecord | None,
        reset: Pending | None = None,
        is_retry: bool = False,
    ) -> Window[T]:
        options = self._options
        plan = WindowPlan(
            cursor=self._cursor,
            start=bounds.start,
            end=bounds.end,
            at=at,
            begun=record,
            reset=reset if record is None else record.reset,
            advance=options.advance,
            nulls=options.nulls,
            future=options.future,
            sql=options.sql,
            label=f"{options.asset.uri} {self._mark_key}",
        )
        return Window(plan, keeper=self._keeper, partition=self._stores.partition, is_retry=is_retry)
