"""One window in one attempt: begun, split, committed."""

from __future__ import annotations

import logging
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from airflow_resume import metrics
from airflow_resume.attempt import AnyContext, Scope, current_attempt, state_in_airflow, utc_now
from airflow_resume.errors import (
    PartitionNeededError,
    WatermarkAheadError,
    WatermarkChangedError,
    WatermarkConflictError,
)
from airflow_resume.record import Slot
from airflow_resume.store import ask, asset_store, task_store
from airflow_resume.watermarks.begin import Bounds, decide_bounds
from airflow_resume.watermarks.checks import remarks_on, remarks_on_zone
from airflow_resume.watermarks.commit import Loaded, Outcome
from airflow_resume.watermarks.entry import Outbox
from airflow_resume.watermarks.journal import Journal
from airflow_resume.watermarks.keys import Keys
from airflow_resume.watermarks.marks import Marks
from airflow_resume.watermarks.options import Options
from airflow_resume.watermarks.outbox import entry_of, outbox_of, own_of, told_by
from airflow_resume.watermarks.outcomes import EXPECTED, EXPLAINED, failure_of
from airflow_resume.watermarks.override import override_of
from airflow_resume.watermarks.ownership import Mover
from airflow_resume.watermarks.record import MarkRecord, Pending, WindowRecord, WindowState, owner_of
from airflow_resume.watermarks.staged import StageToken, moved_on, token_of
from airflow_resume.watermarks.told import line_of
from airflow_resume.watermarks.window import Window

if TYPE_CHECKING:
    from pydantic import JsonValue

T = TypeVar("T")

log = logging.getLogger(__name__)


class WindowRun(Generic[T]):
    """One window in one attempt.

    Args:
        options: of the watermark.
        context: of the task.
        partition: of this task instance; None: the asset is one.

    Raises:
        PartitionNeededError: the task is mapped, and its instances would share one mark.
    """

    def __init__(self, options: Options[T], context: AnyContext, partition: JsonValue) -> None:
        self.context, self.partition = context, partition
        self._options, self._cursor = options, options.cursor
        self._attempt = current_attempt(context)
        self._keys = Keys.of(asset=options.asset.name, name=options.name, partition=partition)
        self._mark_key = self._keys.mark
        if self._attempt.scope.map_index >= 0 and partition is None:
            raise PartitionNeededError(
                f"The instances of this mapped task would share the one mark {self._mark_key!r}, and skip each"
                " other's rows.",
                "Say which part each one loads, such as watermark(..., partition=lambda table: table).",
            )
        self._slot = Slot(task_store(context), self._keys.window, WindowRecord)
        self._journal = Journal(
            context=context,
            asset=options.asset,
            keys=self._keys,
            store=self._slot.store,
            name=options.name,
            partition=partition,
        )

    # --- the beginning ----------------------------------------------------------------------------------------

    def begin(self, *, again: bool = False) -> Window[T]:
        """The window of this run: the one an earlier attempt began, or a new one, saved as pending.

        Args:
            again: after a deferral; then there is no new one.
        """
        task = getattr(self.context.get("ti"), "task", None)
        of_task = remarks_on(task, self._options.asset, is_partitioned=self.partition is not None)
        for remark in [*of_task, *remarks_on_zone(task, self._options)]:
            log.warning("%s.", remark)
        begun = self._slot.read() or self._begun_in_0_1()
        if begun is not None and (begun.state is WindowState.CLAIMED or (not again and self._marks.is_beyond(begun))):
            begun = None
        begins = self._nothing if again else self._new
        window = begins() if begun is None else self._again(begun)
        is_of_this_try = begun is not None and begun.claim.try_number == self._attempt.try_number
        if window.is_replay and is_of_this_try and not again:
            log.warning("A run loads one window, and this attempt gets its own again. Let window.split() go on.")
        if window.record is not None:
            window.record = self._slot.write(window.record)
        log.info("Window %s of %r, try %d%s", window, self._mark_key, self._attempt.try_number, window.remarks)
        return window

    def _again(self, begun: WindowRecord) -> Window[T]:
        if begun.type != self._cursor.type:
            raise WatermarkChangedError(
                f"An earlier attempt of this run began a window of type {begun.type!r}, and this watermark is one of"
                f" {self._cursor.type!r}.",
                "Clear the run's state of the task, or put the cursor back.",
            )
        reset = None if begun.reset is None else self._still_pending(begun)
        record = begun.model_copy(update={"claim": self._attempt.claim(utc_now()), "reset": reset})
        bounds = Bounds(start=self._parsed(begun.start), end=None if begun.end is None else self._parsed(begun.end))
        at = self._parsed(begun.start if begun.at is None else begun.at)
        return self._window(bounds, at=at, record=record, is_retry=begun.state is WindowState.PENDING)

    def _begun_in_0_1(self) -> WindowRecord | None:
        """A window under the key that version 0.1 gave it, if it is one of this asset: several may have shared it."""
        old = self._keys.old
        if old is None or self._attempt.try_number == 1:  # nothing was begun before
            return None
        found = Slot(self._slot.store, old.window, WindowRecord).read()
        if found is None or found.state is WindowState.CLAIMED or not self._marks.is_of(found.epoch):
            return None
        return found.model_copy(update={"key": self._slot.key})

    def _still_pending(self, begun: WindowRecord) -> Pending | None:
        """Why the window began at a mark that was set; None if something was loaded since.

        A body that starts over on `is_initial`, such as by emptying its table, would lose that.
        """
        return begun.reset if self._marks.is_pending(begun.epoch) else None

    def _new(self) -> Window[T]:
        override = override_of(self.context, self._options)
        moves = override is None or override.commits
        mark = self._marks.find(moves=moves)
        if moves:
            self._marks.check_owner(mark)
        at = self._parsed(mark.at)
        ceiling = self._options.ceiling()
        if override is not None:
            bounds, origin = override.bounds, override.origin
            log.warning("This run loads %s to %s, as its %s says", bounds.start, bounds.end, origin)
            limit = None if ceiling is None else self._cursor.dump(ceiling)
            record = self._record(bounds, mark, origin=origin, commits=moves, limit=limit)
            return self._window(bounds, at=at, record=record)
        lookback, span = self._options.lookback, self._options.max_span
        first = None if mark.pending is not None or lookback is None else self._marks.first(mark)
        bounds = decide_bounds(
            at=at, first=first, ceiling=ceiling, cursor=self._cursor, lookback=lookback, max_span=span
        )
        if bounds.is_empty:
            self._check_not_ahead(mark, at, ceiling)
            return self._empty(mark)
        # A window that was cut short ends where nothing changes any more: it may be empty, and the mark moves on.
        settles = span is not None and bounds.end == self._cursor.step(at, span)
        record = self._record(bounds, mark, reset=mark.pending, ties=mark.ties, settles=settles)
        return self._window(bounds, at=at, record=record, reset=mark.pending)

    def _check_not_ahead(self, mark: MarkRecord, at: T, ceiling: T | None) -> None:
        """A mark that lies after this moment keeps every run from loading anything, until then.

        Raises:
            WatermarkAheadError: a person has set it there.
        """
        if ceiling is None:
            return
        delay = self._options.delay
        now = ceiling if delay is None else self._cursor.plus(ceiling, delay)
        if not now < at:  # type: ignore[operator]
            return
        text = f"The mark {self._mark_key!r} stands at {mark.at!r}, and by the watermark's clock it is {now} now"
        if mark.pending in {"rewind", "reset"}:
            raise WatermarkAheadError(f"{text}: nothing would be loaded until then.", self._marks.by_hand())
        log.warning("%s, so nothing is loaded until then", text)

    def _nothing(self) -> Window[T]:
        """The empty window of a run that deferred although nothing was new; what is new by now, nobody has loaded."""
        return self._empty(self._marks.find(moves=False))

    def _empty(self, mark: MarkRecord) -> Window[T]:
        at = self._parsed(mark.at)
        window = self._window(Bounds(start=at, end=at), at=at, record=None, reset=mark.pending)
        window.untold_in = mark if mark.outbox or mark.untold else None
        return window

    def _record(self, bounds: Bounds[T], mark: MarkRecord, **fields: Any) -> WindowRecord:
        start = self._cursor.dump(bounds.start)
        return WindowRecord(
            key=self._slot.key,
            start=start,
            end=None if bounds.end is None else self._cursor.dump(bounds.end),
            at=None if mark.at == start else mark.at,  # large values have room once less
            type=self._cursor.type,
            base_rev=mark.rev,
            epoch=mark.epoch,
            claim=self._attempt.claim(utc_now()),
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
        return Window(
            cursor=self._cursor,
            start=bounds.start,
            end=bounds.end,
            at=at,
            record=record,
            advance=self._options.advance,
            nulls=self._options.nulls,
            future=self._options.future,
            sql=self._options.sql,
            label=f"{self._options.asset.uri} {self._mark_key}",
            partition=self.partition,
            is_retry=is_retry,
            reset=reset if record is None else record.reset,
            commit_slice=self._commit_slice,
            stage=self._stage,
            check=self.check,
        )

    def _claim(self) -> None:
        """Before a mark is made, see that this attempt was not replaced: the asset's store would not notice."""
        self._slot.write(
            WindowRecord(
                key=self._slot.key,
                base_rev=0,
                epoch="",
                type=self._cursor.type,
                state=WindowState.CLAIMED,
                claim=self._attempt.claim(utc_now()),
            )
        )

    # --- the end ----------------------------------------------------------------------------------------------

    def commit(self, window: Window[T]) -> Outcome:
        """Move the mark over the window, if nothing speaks against it."""
        if window.record is None:
            return Outcome.EMPTY if window.untold_in is None else self._tell_for_others(window.untold_in)
        window.check_read()
        reached = window.reached()
        token = self._token(window, reached)
        outcome, mark = self._commit(window.record, token)
        self._count(window, outcome)
        self._raise_if_failed(token, outcome, mark, is_own=True)
        self._close(window.record, token, outcome, mark)
        return outcome

    def commit_staged(self, staged: object) -> Outcome:
        """Move the mark over a window that an earlier task of the run loaded."""
        token = StageToken.read(staged, keys=self._keys, scope=self._attempt.scope)
        if token.is_of_nothing:
            return self._tell_for_others()
        claim = self._attempt.claim(utc_now())
        record = token.window(self._slot.read(), key=self._slot.key, type=self._cursor.type, claim=claim)
        outcome, mark = self._commit(record, token)
        self._raise_if_failed(token, outcome, mark, is_own=False)
        self._close(record, token, outcome, mark)
        return outcome

    def _tell_for_others(self, seen: MarkRecord | None = None) -> Outcome:
        """Nothing is new; what earlier runs have loaded and no event tells, that of this run does."""
        mark = self._marks.take_over(seen)
        if mark is not None and told_by(mark.outbox, self._attempt.scope):
            self._tell(mark, told_by(outbox_of(mark), self._attempt.scope), Outcome.EMPTY)
        return Outcome.EMPTY

    def _commit(
        self, record: WindowRecord, token: StageToken, *, is_slice: bool = False
    ) -> tuple[Outcome, MarkRecord | None]:
        # Refused when this attempt was replaced, and then the mark must not be touched.
        self._slot.write(record)
        if not token.commits:
            return Outcome.UNCOMMITTED, None
        loaded = Loaded(
            start=self._parsed(token.start),
            new=None if token.new is None else self._parsed(token.new),
            epoch=token.epoch,
            base_rev=token.base_rev,
            ties=token.ties,
        )
        outcome, mark = self._marks.move(
            loaded,
            mover=self._mover(token.task_id),  # not named in a token of version 0.1
            tells=token.tells,
            origin=token.origin,
            is_slice=is_slice,
        )
        if outcome is Outcome.CONFLICT and record.state is WindowState.COMMITTED:
            outcome = Outcome.NOOP  # a cleared run loads what it loaded before, and others have moved the token since
        return outcome, mark

    def _close(self, record: WindowRecord, token: StageToken, outcome: Outcome, mark: MarkRecord | None) -> None:
        """Write down what became of the window, for the next attempt, for consumers, and for a person."""
        self._slot.write(moved_on(record, token, outcome, state=WindowState.COMMITTED, done=None))
        level = logging.INFO if outcome in EXPECTED else logging.WARNING
        log.log(level, "Window %s of %r: %s", token.bounds, self._mark_key, EXPLAINED[outcome])
        scope = self._attempt.scope
        outbox = () if mark is None else told_by(outbox_of(mark), scope)
        if token.tells is not None and own_of(outbox, token.tells, scope) is None:  # so nothing remembers it
            outbox = (*outbox, entry_of(token.tells, scope=scope, outcome=outcome.value, origin=token.origin))
        self._tell(mark, outbox, outcome)

    def _raise_if_failed(self, token: StageToken, outcome: Outcome, mark: MarkRecord | None, *, is_own: bool) -> None:
        """Fail where the outcome does; a window that this task has loaded from the mark on, a retry begins anew."""
        error = failure_of(outcome, token, mark, is_own=is_own)
        if isinstance(error, WatermarkConflictError):
            self._slot.delete()
        if error is not None:
            raise error

    def _tell(self, mark: MarkRecord | None, outbox: Outbox, outcome: Outcome) -> None:
        """Write the line in the asset event, and the note.

        Args:
            mark: as it stands; None: that is not known.
            outbox: the windows to tell, that of this run last.
            outcome: of the window of this run.
        """
        options, scope = self._options, self._attempt.scope
        line = line_of(outbox, mark, options, scope=scope, outcome=outcome, partition=self.partition)
        self._journal.write(line)
        if mark is not None:
            self._journal.note(mark.at, utc_now(), first=mark.first)

    def _token(self, window: Window[T], reached: T | None) -> StageToken:
        return token_of(window, reached, self._cursor, key=self._mark_key, scope=self._attempt.scope)

    def _stage(self, window: Window[T]) -> dict[str, JsonValue]:
        return self._token(window, window.reached()).model_dump(mode="json", by_alias=True)

    def _commit_slice(self, window: Window[T], stop: T, reached: T | None) -> None:
        """Everything before `stop` is loaded; the mark may move to `reached`, if anything was seen."""
        record = window.record
        if record is None:
            return
        token = self._token(window, reached)
        outcome, mark = self._commit(record, token, is_slice=True)
        self._raise_if_failed(token, outcome, mark, is_own=True)
        log.info("Slice up to %s of %r: %s", self._cursor.dump(stop), self._mark_key, EXPLAINED[outcome])
        window.record = self._slot.write(moved_on(record, token, outcome, done=self._cursor.dump(stop)))

    def check(self, window: Window[T]) -> None:
        """See that this attempt is still the one that loads the window: Airflow takes no write of another."""
        if window.record is not None:
            self._slot.write(window.record)

    def reset(self, to: object) -> None:
        """Set the mark anew."""
        self._claim()
        record = self._marks.reset(None if to is None else self._cursor.parse(to, what="to"))
        log.warning("The mark %r was set to %r; the next run loads from there", self._mark_key, record.at)

    # --- parts ------------------------------------------------------------------------------------------------

    @cached_property
    def _marks(self) -> Marks[T]:
        return Marks(
            asset_store(self.context, self._options.asset),
            self._options,
            attempt=self._attempt,
            mover=self._mover(self._attempt.scope.task_id),
            journal=self._journal,
            before_write=self._claim,
            state_of=self._state_of,
        )

    def _mover(self, task_id: str) -> Mover:
        """The task, as one that moves the mark."""
        dag_id, task_ids = self._attempt.scope.dag_id, getattr(self.context.get("dag"), "task_dict", None)
        return Mover(
            owner=owner_of(dag_id, task_id),
            shared=self._options.shared,
            task_ids=task_ids,
        )

    def _state_of(self, scope: Scope) -> str | None:
        """The state of a task instance, such as `"success"`; None when it cannot be asked."""
        return ask(self._slot.store, lambda: state_in_airflow(self.context.get("ti"), scope))

    def _parsed(self, value: JsonValue) -> T:
        return self._cursor.parse(value, what=self._mark_key)

    def _count(self, window: Window[T], outcome: Outcome) -> None:
        tags = {**self._attempt.stats_tags, "watermark": self._options.name, "asset": self._options.asset.name}
        metrics.count(f"watermark.{outcome.value}", tags)
        summary = window.summary()
        for name in ("rows", "late", "nulls", "future"):
            metrics.gauge(f"watermark.{name}", float(str(summary[name])), tags)
        lag = window.lag()
        if lag is not None:
            metrics.gauge("watermark.lag_seconds", lag, tags)
