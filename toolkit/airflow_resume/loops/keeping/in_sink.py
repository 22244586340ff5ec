"""The record of a loop in its sink, beside the one in Airflow's store."""

from __future__ import annotations

import secrets
from dataclasses import replace
from typing import Any, TypeAlias

from airflow_resume.attempt import Attempt, Cleared, how_to_start_over
from airflow_resume.errors import DanglingReferenceError, SinkUnsafeError, UnreadableRecordError
from airflow_resume.loops.loop_record import LoopRecord
from airflow_resume.loops.opening import Opening, SavedFacts
from airflow_resume.loops.plan import Plan
from airflow_resume.record import StoredRecord
from airflow_resume.shown import get_logger
from airflow_resume.sink_protocol import ClaimedPosition

log = get_logger(__name__)

Unreadable: TypeAlias = UnreadableRecordError | DanglingReferenceError
"""The error that is found in place of a record that cannot be read."""


def record_in_sink(
    stored: StoredRecord[LoopRecord], in_store: LoopRecord | Unreadable | None, sink: ClaimedPosition
) -> LoopRecord | Unreadable | None:
    """The record in the sink, which is the truth.

    The record of the store counts only if the sink has none, and no attempt with a sink has written it. Then earlier
    attempts had no sink, and their position is taken over.
    """
    found: LoopRecord | Unreadable | None = None
    try:
        found = None if sink.position is None else stored.decode(sink.position)
    except UnreadableRecordError as error:
        found = error
    if not isinstance(in_store, LoopRecord) or isinstance(found, UnreadableRecordError):
        return in_store if found is None else found
    if found is None and not in_store.sink:
        log.warning("Loop %r: the sink has no position, and takes over that of Airflow's record", stored.key)
        return in_store
    if found is None or found.where() != in_store.where():
        log.warning(
            "Loop %r: the sink stands at %s, and Airflow's record at %d elements done. The sink counts",
            stored.key,
            "its start" if found is None else f"{found.n} elements done",
            in_store.n,
        )
    return found


def facts_of_missing(facts: SavedFacts, found: LoopRecord, attempt: Attempt) -> SavedFacts:
    """The facts about a record that the sink has, and Airflow's store has not.

    If the Dag run has another start, it was deleted and made again, and its task counts as cleared.

    Args:
        facts: those that the record says by itself.
        found: the record in the sink.
        attempt: the running attempt.
    """
    before, now = found.at.epoch.run_started, attempt.epoch.run_started
    was_made_again = None not in {before, now} and before != now
    return replace(facts, cleared=Cleared.YES, retried=False) if was_made_again else facts


def check_no_sink(found: LoopRecord | Unreadable | None, name: str, *, is_task: bool) -> None:
    """Check that the record of a loop without a sink was not written by one with a sink.

    Raises:
        SinkUnsafeError: it was. It may be behind the sink, so that rows would be written twice.
    """
    if isinstance(found, LoopRecord) and found.sink:
        raise SinkUnsafeError(
            f"An earlier attempt of the loop {name!r} kept its position in a sink, and this one has no sink=."
            " Airflow's record may be behind, so that rows would be written twice.",
            f"Give it the sink again, or {how_to_start_over(is_task=is_task)} to start over.",
            problem="option",
        )


def check_not_lost(in_store: LoopRecord, opening: Opening, plan: Plan[Any], target: str, *, is_task: bool) -> None:
    """Check that a sink without a position is not another one than that of an earlier attempt.

    Args:
        in_store: the record in the store, which an attempt with a sink has written.
        opening: what would be done with it.
        plan: of the loop.
        target: what the sink is called in messages.
        is_task: whether there is a task, and not a script.

    Raises:
        SinkUnsafeError: elements are done according to the record, and would be done again.
    """
    if not in_store.has_begun or not (opening.keeps_position or opening.fails):
        return
    raise SinkUnsafeError(
        f"The sink of the loop {plan.name!r} in {target} has no position, and the record in its store says that an"
        f" earlier attempt has kept one, with {in_store.n} elements done. Their rows would be written twice.",
        "Give it the sink of before. If that was restored to before the first commit, or if the loop is to begin anew"
        f" here, {how_to_start_over(is_task=is_task)}.",
        problem="lost",
        sink=target,
    )


def origin_of(found: LoopRecord | None, in_store: LoopRecord | None, plan: Plan[Any], script: str | None) -> str:
    """What tells this script from others, whose loops may have the same name.

    Args:
        found: the record in the sink.
        in_store: the record in the store.
        plan: of the loop.
        script: the name that the script has given to itself.

    Raises:
        SinkUnsafeError: the position belongs to another script, which has written rows.
    """
    kept = None if in_store is None or not in_store.sink else in_store.origin
    ours = script or kept or secrets.token_hex(8)
    if found is None or not found.has_begun:
        return ours
    is_known = script is not None or (in_store is not None and in_store.sink)
    if (found.origin is None and is_known) or (found.origin is not None and found.origin in {script, kept}):
        return ours
    continued = f"script={found.origin or plan.name!r} of the sink"
    raise SinkUnsafeError(
        f"The position of the loop {plan.name!r} in the sink belongs to another script, or to another store than this"
        f" one{'' if found.origin is None else f': it belongs to the script {found.origin!r}'}.",
        f"Give the loop another name. If it is this script, and its store was lost, continue with {continued}.",
        problem="foreign",
    )
