"""The claim of an outermost loop: to continue from the position that an earlier attempt saved, or to start over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from airflow_resume.attempt import Attempt, how_to_start_over
from airflow_resume.errors import DanglingReferenceError, UnreadableRecordError
from airflow_resume.loops.keeping.in_sink import (
    Unreadable,
    check_no_sink,
    check_not_lost,
    facts_of_missing,
    origin_of,
    record_in_sink,
)
from airflow_resume.loops.keeping.ledger import Ledger
from airflow_resume.loops.loop_record import Level, LevelChanges, LoopRecord, Opened
from airflow_resume.loops.opening import (
    UNREADABLE,
    Opening,
    SavedFacts,
    decide_opening,
    facts_of,
    opening_error,
    stalls_of,
)
from airflow_resume.loops.plan import Plan
from airflow_resume.loops.progress import in_words
from airflow_resume.loops.sources.source import Source
from airflow_resume.record import StoredRecord
from airflow_resume.shown import get_logger
from airflow_resume.sink_protocol import ClaimedPosition, script_of

if TYPE_CHECKING:
    from pydantic import JsonValue

log = get_logger(__name__)

_UNREADABLE = (UnreadableRecordError, DanglingReferenceError)


@dataclass(frozen=True, kw_only=True)
class Claim:
    """What an attempt writes before it delivers anything.

    Args:
        opening: the decision.
        changes: how the source differs from the source of the earlier attempt.
        record: the record that is written.
        ledger: the elements that are done according to this record.
    """

    opening: Opening
    changes: Sequence[str]
    record: LoopRecord
    ledger: Ledger


def read_record(stored: StoredRecord[LoopRecord]) -> LoopRecord | Unreadable | None:
    """The record under the key of the loop; the error if it cannot be read; None if there is no record."""
    try:
        record = stored.read()
    except _UNREADABLE as error:
        return error
    return record and record.with_age(record.ts)


def prepared_claim(
    stored: StoredRecord[LoopRecord], plan: Plan[Any], attempt: Attempt, sink: ClaimedPosition | None = None
) -> Claim:
    """Read the record, decide, and make the claim. Writes nothing.

    Args:
        stored: the place of the record in the store.
        plan: of the loop.
        attempt: the running attempt.
        sink: the position in the sink, claimed, which is the truth; None if there is no sink.

    Raises:
        LoopError, UnreadableRecordError: the decision is to fail.
        SinkUnsafeError: an earlier attempt kept its position in a sink, and this one has none.
    """
    in_store = read_record(stored)
    found = in_store if sink is None else record_in_sink(stored, in_store, sink)
    origin = _origin(found, in_store, plan, attempt)
    facts = _facts_about(found, plan, attempt, is_in_store=in_store is not None)
    opening = decide_opening(facts, plan.policy)
    if found is None and isinstance(in_store, LoopRecord):
        _check_not_lost(in_store, plan, attempt)
    if isinstance(facts, SavedFacts):
        if facts.damaged is not None and opening in UNREADABLE:
            found = stored.unreadable(facts.damaged)
        elif opening.fails and isinstance(found, LoopRecord):
            raise opening_error(opening, plan.name, found, facts, is_task=attempt.has_identity)
        if sink is None and opening.keeps_position:
            check_no_sink(found, plan.name, is_task=attempt.has_identity)
    if isinstance(found, _UNREADABLE):
        if opening.fails:
            raise found
        log.warning("Loop %r: %s", plan.name, found)
        found = None
    if found is not None and found.set_by_hand is not None:
        log.info("Loop %r goes by what was set by hand: %s", plan.name, found.set_by_hand)
    if opening is Opening.NOTHING_LEFT and plan.keeping.store is not None and found is not None:
        _say_that_nothing_is_left(plan.name, found, attempt)
    record = _claimed(found, opening, plan, attempt)
    record = record.changed(origin=origin)
    take_up_age(record, plan.source)
    ledger = Ledger(plan.key, plan.source, record, now=plan.now)
    text = in_words(
        ledger.counted(),
        done=record.done,
        try_number=record.at.try_number,
        now=record.ts,
        inside=ledger.inner.in_words(),
    )
    record = record.changed(pos_at=ledger.age.received(record.pos), in_words=text)
    changes = facts.changes if isinstance(facts, SavedFacts) else ()
    return Claim(opening=opening, changes=changes, record=record, ledger=ledger)


def _origin(
    found: LoopRecord | Unreadable | None, in_store: LoopRecord | Unreadable | None, plan: Plan[Any], attempt: Attempt
) -> str | None:
    """What tells a script with a sink from others; None for a task, which has its ids, and without a sink.

    Raises:
        SinkUnsafeError: as `origin_of`.
    """
    if plan.keeping.sink is None or attempt.has_identity:
        return None
    in_sink = found if isinstance(found, LoopRecord) else None
    kept = in_store if isinstance(in_store, LoopRecord) else None
    return origin_of(in_sink, kept, plan, script_of(plan.keeping.sink))


def _check_not_lost(in_store: LoopRecord, plan: Plan[Any], attempt: Attempt) -> None:
    facts = facts_of(in_store, plan.source, attempt=attempt, definition=plan.definition, now=plan.now())
    target = "" if plan.keeping.sink is None else plan.keeping.sink.target
    check_not_lost(in_store, decide_opening(facts, plan.policy), plan, target, is_task=attempt.has_identity)


def _facts_about(
    found: LoopRecord | Unreadable | None, plan: Plan[Any], attempt: Attempt, *, is_in_store: bool
) -> SavedFacts | Literal["nothing", "unreadable"]:
    if found is None:
        return "nothing"
    if isinstance(found, _UNREADABLE):
        return "unreadable"
    facts = facts_of(found, plan.source, attempt=attempt, definition=plan.definition, now=plan.now())
    return facts if is_in_store else facts_of_missing(facts, found, attempt)


def _say_that_nothing_is_left(name: str, found: LoopRecord, attempt: Attempt) -> None:
    """In a task it is normal that a retry finds a loop that is done; the author of a script may not expect it."""
    for_once = how_to_start_over(is_task=attempt.has_identity).removeprefix("pass ")
    log.warning(
        "Loop %r delivers nothing: an earlier run was done at %s.\n%s",
        name,
        f"{found.ts:%Y-%m-%d %H:%M} UTC",
        f"To do it all again, pass on_done='restart', or {for_once} for once, or give it another name.",
    )


def _claimed(found: LoopRecord | None, opening: Opening, plan: Plan[Any], attempt: Attempt) -> LoopRecord:
    """The record when this attempt has claimed it."""
    now, definition = plan.now(), plan.definition
    opens, stalls = 1, 0
    if found is None:
        position = plan.source.first()
        plan.source.recall(position, None)
        at = Opened(try_number=attempt.try_number, epoch=attempt.epoch)
        record = LoopRecord(key=plan.key, kind=definition.kind, pos=position, at=at, t0=now, ts=now)
    elif opening.keeps_position:
        opens, stalls = found.at.opens + 1, stalls_of(found, attempt)
        record = found.with_total_of_done()
    else:
        opens = found.at.opens + 1
        record = found.changed(**started_over(plan.source.first()), t0=now)
        plan.source.recall(record.pos, None)
    total = None if record.done else plan.source.total(record.pos)
    return record.changed(
        kind=definition.kind,
        fp=definition.fp,
        total=record.total if total is None else total,
        at=Opened(try_number=attempt.try_number, epoch=attempt.epoch, opens=opens, stalls=stalls, where=record.where()),
        ts=now,
        inner_at=(record.inner_at or record.ts) if record.inner else None,
        sink=True if plan.keeping.sink is not None else None,
        rate=None,
        eta=None,
        by_hand=record.used_by_hand,
    )


def take_up_age(level: Level, source: Source[Any]) -> None:
    """Tell the source when the page token (or the like) of its saved position was received, if that expires."""
    if level.pos_at is not None and source.expires(level.pos):
        source.take_up(level.pos, level.pos_at)


def started_over(position: JsonValue) -> LevelChanges:
    """The fields of a level at which nothing is done."""
    return LevelChanges(
        pos=position,
        pos_at=None,
        ahead=None,
        done=False,
        n=0,
        total=None,
        state={},
        skipped=0,
        skips=None,
        seen=None,
        short=None,
        inner=None,
    )
