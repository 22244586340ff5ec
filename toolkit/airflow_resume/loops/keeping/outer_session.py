"""The session of one attempt with the record of an outermost loop. It claims the record, writes it, and releases it."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from airflow_resume.attempt import Attempt
from airflow_resume.channel import LatestWriter
from airflow_resume.drain import drain_watch
from airflow_resume.errors import ResumeError, SupersededError, UnreadableRecordError
from airflow_resume.given import GivenStore, given
from airflow_resume.killed import kill_listener
from airflow_resume.last_message import before_last_message, end_what_is_abandoned
from airflow_resume.loops.keeping.claim import Claim, prepared_claim, read_record
from airflow_resume.loops.keeping.committing import CommittingKeeper
from airflow_resume.loops.keeping.keeper import Keeper
from airflow_resume.loops.keeping.loop_session import LoopSession
from airflow_resume.loops.keeping.room import check_room
from airflow_resume.loops.keeping.stop_request import StopRequest
from airflow_resume.loops.loop_record import LoopRecord
from airflow_resume.loops.meter import Meter
from airflow_resume.loops.plan import Plan
from airflow_resume.loops.progress import Pace, in_words
from airflow_resume.record import StoredRecord
from airflow_resume.shown import get_logger
from airflow_resume.sink_protocol import Claimant, ClaimedPosition
from airflow_resume.store import channel_of
from airflow_resume.task_stores import open_task_store

if TYPE_CHECKING:
    from typing_extensions import Self

log = get_logger(__name__)


class OuterSession(LoopSession):
    """The session with the record of an outermost loop. Made by `open`.

    It has all attributes of a `LoopSession`, and others from which the record is made and with which it is written.

    Args:
        plan: of the loop.
        stored: the place of the record.
        attempt: the running attempt.
        claim: the claim that was written.
        at_end: closed together with the session.
        sink: the position in the sink, claimed; None if there is no sink.
        claim_seconds: how long the store took to write the claim.
    """

    def __init__(
        self,
        plan: Plan[Any],
        stored: StoredRecord[LoopRecord],
        attempt: Attempt,
        claim: Claim,
        at_end: ExitStack,
        *,
        sink: ClaimedPosition | None = None,
        claim_seconds: float = 0.0,
    ) -> None:
        self._plan, self._stored, self.attempt, self._at_end = plan, stored, attempt, at_end
        self.opening, self.changes, self._record, self.ledger = (
            claim.opening,
            claim.changes,
            claim.record,
            claim.ledger,
        )
        self.ledger.growth.measure_with(self.check_room)
        self.path = [*attempt.scope.identity(), plan.key]
        self.inner_at = claim.record.inner_at
        self.seconds: float | None = None
        self.alarm = plan.alarm()
        self._pid = os.getpid()
        self._meter = Meter({**attempt.stats_tags, "loop": plan.name}, claim.record)
        channel, started = channel_of(stored.store), plan.monotonic()
        self._pace = Pace(n=self.ledger.count, now=started)
        options: dict[str, Any] = {
            "keeping": plan.keeping,
            "writer": LatestWriter(channel, self._write, plan.monotonic, on_failure=self.alarm.wake),
            "record": self._acked,
            "now": started,
            "claim_seconds": claim_seconds,
            "careful": claim.record.at.stalls > 0 and plan.policy.max_stalls is not None,
        }
        self.keeper: Keeper = (
            Keeper(plan.name, **options)
            if sink is None
            else CommittingKeeper(plan.name, sink=sink, encode=stored.encode, committed=claim.record, **options)
        )
        # Airflow is asked on its own channel, whatever store the loop has.
        airflow_channel = None if isinstance(stored.store, GivenStore) else channel
        self.stop_request = StopRequest(
            self.alarm,
            attempt,
            airflow_channel,
            lambda: read_record(stored) is not None,
            drain=drain_watch(attempt, plan.now),
        )

    @classmethod
    def open(cls, plan: Plan[Any], end: Callable[[float], object], is_abandoned: Callable[[], bool]) -> Self:
        """Read the record, check it, and write the claim before anything is delivered: two store calls.

        Args:
            plan: of the loop.
            end: ends the loop when the attempt ends; takes the number of seconds that it may wait for a store.
            is_abandoned: returns whether no code can continue the loop any more.

        Raises:
            LoopError, UnreadableRecordError: the decision is to fail; nothing was changed.
            SupersededError: the claim was refused, so another attempt has replaced this one.
        """
        store, attempt = open_task_store(plan.keeping.context, plan.keeping.store)
        if plan.keeping.store is not None:
            store = given(store)
        end_what_is_abandoned(owner=attempt.process, key=plan.key)
        at_end, claim, stored = ExitStack(), None, StoredRecord(store, plan.key, LoopRecord)
        registered = before_last_message(end, owner=attempt.process, key=plan.key, is_abandoned=is_abandoned)
        at_end.callback(registered.remove)
        sink: ClaimedPosition | None = None
        is_in_sink = False
        try:
            with attempt.using(plan.key):
                if plan.keeping.sink is not None:
                    identity = ["loop", *attempt.scope.identity(), plan.key]
                    sink = plan.keeping.sink.claim(identity, Claimant.of(attempt))
                claim = prepared_claim(stored, plan, attempt, sink)
                if sink is not None and sink.position is None:  # the store may say that there is one only afterwards
                    sink.commit(stored.fitted(claim.record)[1])
                    is_in_sink = True
                began = plan.monotonic()
                written = stored.write(claim.record)
                claim_seconds = plan.monotonic() - began
                if sink is not None and not is_in_sink:
                    sink.commit(stored.encode(written))
            session = cls(plan, stored, attempt, claim, at_end, sink=sink, claim_seconds=claim_seconds)
            session._meter.opened(claim.opening, claim.record.at.stalls)
            at_end.enter_context(kill_listener(session.stop_request.make, plan.keeping.context))
        except BaseException as error:
            at_end.close()
            if sink is not None:
                sink.close()
            if claim is not None and not isinstance(error, ResumeError):
                # It was interrupted. Write the claim with `left=True`, so that this attempt does not count as a death.
                record = claim.record.changed(at=claim.record.at.changed(left=True))
                if sink is not None and sink.position is None and not is_in_sink:
                    record = record.changed(sink=None)
                note = channel_of(store).submit(partial(stored.write, record))
                attempt.give_back(plan.key)
                before_last_message(note.result, owner=attempt.process, key=plan.key, is_abandoned=lambda: True)
            raise
        return session

    def check_room(self, more: int, spare: int, what: str) -> None:
        """Check that the record may grow, as `room.check_room` does."""
        check_room(self._acked(), more, spare, what)

    def unreadable(self, why: str) -> UnreadableRecordError:
        """The error for a record that cannot be read."""
        return self._stored.unreadable(why)

    def finished(self, now: float) -> bool:  # noqa: ARG002
        """Note that the source has no more elements. Returns True: the caller must flush, so that this is saved."""
        self.keeper.is_dirty = True
        return True

    def close(self, error: BaseException | None) -> None:
        """Save what is acked. A write that fails is logged, and its error does not replace the loop's own."""
        self._at_end.close()
        self.alarm.close()
        if os.getpid() != self._pid:  # in a fork, where the loop is a copy
            return
        if error is not None:
            self.attempt.give_back(self._plan.key)
        try:
            if not isinstance(error, SupersededError):
                self._save()
        except Exception as failure:
            if error is None:
                raise
            if failure is not error:
                self._log_unsaved(failure)
        finally:
            self.keeper.release()

    def left_early(self, *, has_work: bool) -> None:  # noqa: ARG002
        """Undo what was not committed."""
        self.keeper.abandon()

    def stop(self, where: str) -> NoReturn:
        """Save, and leave the loop in the way that fits the reason for which the task was told to stop.

        `close` alone would save too late. An outer loop that is iterated without `with` is closed only when nothing
        refers to it any more, and the traceback of an error refers to it for as long as the error exists.

        Args:
            where: the place at which the loop stopped, for messages.

        Raises:
            AirflowRescheduleException, LoopStoppedError: as `StopRequest.leave`.
            SupersededError: another attempt has replaced this one.
        """
        try:
            self._save()
        except SupersededError:
            raise
        except Exception as failure:  # noqa: BLE001  the next process begins at what was saved before
            self._log_unsaved(failure)
        plan = self._plan
        self.stop_request.leave(plan.name, where, on_shutdown=plan.keeping.on_shutdown, now=plan.now)

    def _save(self) -> None:
        self.count_stretch()
        at, level = self._record.at, self.keeper.kept or self.ledger.level()
        if not (level.done or at.left) and level.where() == at.where:
            # This attempt made no progress, but the element in hand has not killed it. So it must not count as a stall.
            self._record = self._record.changed(at=at.changed(left=True))
            self.keeper.is_dirty = True
        self.keeper.flush_rest(self.seconds)

    def _log_unsaved(self, failure: Exception) -> None:
        log.error("The position of the loop %r could not be saved: %r", self._plan.name, failure.__cause__ or failure)

    def _write(self, record: LoopRecord) -> None:
        """Write the record. Called in the channel's thread."""
        started = self._plan.monotonic()
        self._stored.write(record)
        self._meter.written(record, self._plan.monotonic() - started)

    def _acked(self) -> LoopRecord:
        """The record of all that is acked."""
        self.count_stretch()
        if (kept := self.keeper.kept) is not None:
            return kept.changed(at=self._record.at, ts=self._plan.now())
        ledger, now, seconds = self.ledger, self._plan.now(), self._plan.monotonic()
        count, rate = ledger.counted(), self._pace.rate(ledger.count, seconds)
        to_go = None if ledger.done else self._pace.time_to_go(count.n, count.total, seconds)
        eta = None if to_go is None else (now + to_go).replace(microsecond=0)
        text = in_words(
            count,
            done=ledger.done,
            try_number=self._record.at.try_number,
            rate=rate,
            eta=eta,
            now=now,
            inside=ledger.inner.in_words(),
        )
        return self._record.changed(**ledger.fields(), ts=now, rate=rate, eta=eta, in_words=text)
