"""The record of a loop in its sink, beside the one in Airflow's store."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeAlias

from airflow_resume.attempt import Attempt, Cleared, how_to_start_over
from airflow_resume.errors import DanglingReferenceError, SinkUnsafeError, UnreadableRecordError
from airflow_resume.loops.loop_record import LoopRecord
from airflow_resume.loops.opening import SavedFacts
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
