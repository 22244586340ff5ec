"""Changes a record: shows what would happen, refuses what is not safe, writes, and looks whether it has arrived.

Theory of operation. Airflow's state has no compare-and-set. So the record is read once more right before the write, and
compared with the one that was shown, and it is read back after the write. While a task runs, or may start at any
moment, its own writes and this one could overwrite each other, so a change is refused then, unless it is forced. In the
few milliseconds between the last look and the write a task may still start: afterwards its state is asked for again,
and if it has started, the change is reported as uncertain. The new record is one write, so a kill leaves the old record
or the new one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar

from airflow_resume import values
from airflow_resume.errors import AirflowApiError, ChangeRefusedError, UsageError
from airflow_resume.operating.api import AirflowApi, path_of
from airflow_resume.operating.changes import Change
from airflow_resume.operating.mark_rows import is_typed
from airflow_resume.operating.places import Entry, Place, TaskPlace, entry_of
from airflow_resume.operating.rows import digest_of, to_be_changed
from airflow_resume.record import Record
from airflow_resume.watermarks.marks.mark_record import MarkRecord, Owner, Writer

if TYPE_CHECKING:
    from pydantic import JsonValue

RecordT = TypeVar("RecordT", bound=Record)

Writers: TypeAlias = Callable[[Place, Record], Sequence[TaskPlace]]
"""Finds the task instances that may write a record."""
AT_WORK = ("running", "deferred", "up_for_reschedule", "restarting", "queued", "scheduled")
"""States in which a task writes its records, or may begin to at any moment."""


@dataclass(frozen=True, kw_only=True)
class AtWork:
    """Who is writing the record now, or may begin to; `what` is None if nobody is."""

    what: str | None = None
    tries: tuple[tuple[str, int], ...] = ()
    """The try of each task instance that could write."""


@dataclass(frozen=True, kw_only=True)
class Plan(Generic[RecordT]):
    """A change that could be made.

    Args:
        entry: the record as it is now.
        before: the same, decoded. `after`: as it would be.
        stored: what would be written.
        change: the risks and notes.
        at_work: who is writing the record.
    """

    entry: Entry
    before: RecordT
    after: RecordT
    stored: JsonValue
    change: Change
    at_work: AtWork

    @property
    def planned(self) -> Entry:
        """The entry as it would be."""
        return replace(self.entry, value=self.stored, text=None)

    def refusal(self, *, force: bool) -> ChangeRefusedError | None:
        """Why it is refused; None if it is not. `force`: the risks are accepted, and so is a task that is at work."""
        if not force and self.at_work.what is not None:
            return ChangeRefusedError(
                f"{self.at_work.what}, and would write over the change. Nothing was changed.",
                "Wait until it has ended, or mark it as failed first.",
                why="running",
            )
        if not force and self.change.risks:
            return ChangeRefusedError(
                f"{'; '.join(self.change.risks)}. Nothing was changed.", "See whether that may be lost.", why="risk"
            )
        return None


def plan(
    writers: Writers,
    found: Entry,
    kind: type[RecordT],
    change: Callable[[RecordT], Change],
    *,
    shown: str | None = None,
) -> Plan[RecordT]:
    """What a change would do to a record. Nothing is written.

    Args:
        writers: finds the task instances that may write the record.
        found: the record.
        kind: of it.
        change: makes the new record.
        shown: the digest of the record that somebody has seen; None if they have seen none before.

    Raises:
        ChangeRefusedError: it is another record than the one that was shown, it is kept in another database, or the
            change does not fit.
        UnreadableRecordError: the record cannot be read.
        UsageError: a person has typed a value in place of a mark.
    """
    if found.is_encrypted:
        raise ChangeRefusedError(
            f"{found.key} of {found.place} is encrypted by the state backend of the workers, and cannot be changed from"
            " here.",
            "Leave out [airflow_resume] backend_codec, so that records stay readable in Airflow.",
            why="unfit",
        )
    if found.reference is not None:
        raise ChangeRefusedError(
            f"{found.key} of {found.place} is in a database of its own, and cannot be changed from here.",
            "Set [airflow_resume] backend_inline_bytes so that records stay in Airflow.",
            why="unfit",
        )
    now = digest_of(found.value)
    if shown not in {None, now}:
        raise ChangeRefusedError(
            f"The record has moved since it was shown: it was {shown}, and is {now}. Nothing was changed.",
            "Look at it again.",
            why="moved",
        )
    if kind is MarkRecord and is_typed(found):
        raise UsageError(
            "A value was typed in place of this mark, and no run has taken it up yet.",
            "Type another value in Airflow's UI, or wait for the next run.",
            name=found.key,
        )
    before = to_be_changed(found, kind)
    made = change(before)
    if not isinstance(made.record, kind):
        raise TypeError(made.record)
    stored = made.record.to_json()
    values.check_sized(stored, at=found.key, key=found.key)
    return Plan(
        entry=found,
        before=before,
        after=made.record,
        stored=stored,
        change=made,
        at_work=at_work(writers(found.place, before)),
    )


def carry_out(api: AirflowApi, planned: Plan[RecordT], *, force: bool) -> None:
    """Make the change. It is saved when this returns.

    Raises:
        ChangeRefusedError: it is refused, or it is not certain that it has arrived and will stay (`why="unknown"`).
        AirflowApiError: Airflow has refused it; nothing was changed.
    """
    refusal = planned.refusal(force=force)
    if refusal is not None:
        raise refusal
    found = planned.entry
    now = entry_of(api, found.place, found.key)
    if now is None or now.value != found.value:
        raise ChangeRefusedError(
            "The record has moved while this command ran. Nothing was changed.", "Look at it again.", why="moved"
        )
    path = f"{found.place.store}{path_of(found.key)}"
    trouble: AirflowApiError | None = None
    try:
        api.change("PUT", path, found.place.body(found.raw(planned.stored)), **found.place.params)
    except AirflowApiError as error:
        if error.status is not None and error.status < 500:  # noqa: PLR2004  the request was understood and refused
            raise
        trouble = error
    _see_that_it_arrived(api, planned, trouble)


def _see_that_it_arrived(api: AirflowApi, planned: Plan[RecordT], trouble: AirflowApiError | None) -> None:
    found = planned.entry
    now = entry_of(api, found.place, found.key)
    if trouble is not None and now is not None and now.value == found.value:
        raise trouble
    if now is None or now.value != planned.stored:
        raise ChangeRefusedError(
            "The record is neither the one before the change nor the one after it: somebody else has written it.",
            "Look at it again.",
            why="unknown",
        ) from trouble
    if at_work(writers_of(api)(found.place, planned.before)).tries != planned.at_work.tries:
        raise ChangeRefusedError(
            "The change was written, and meanwhile its task has started: it may go by the record before the change.",
            "Look at it again when the task has ended.",
            why="unknown",
        ) from trouble


def at_work(writers: Iterable[TaskPlace]) -> AtWork:
    """Which of the task instances that may write a record are at work, or may begin to be."""
    busy = [each for each in writers if each.state in AT_WORK or (each.state is None and each.try_number > 0)]
    what = None if not busy else f"The task {busy[0]} is {busy[0].state or 'about to start'}"
    return AtWork(what=what, tries=tuple((str(each), each.try_number) for each in busy))


def owner_of(record: Record) -> Owner | Writer | None:
    """The task that moves a mark; None for any other record, and if it is not known."""
    return (record.owner or record.by) if isinstance(record, MarkRecord) else None


def writers_of(api: AirflowApi) -> Writers:
    """Finds the writers of a record by Airflow's API: the task instance itself, or those of a mark's owner at work."""

    def found(place: Place, record: Record) -> list[TaskPlace]:
        if isinstance(place, TaskPlace):
            there = api.found(place.instance, **place.region)
            return [] if there is None else [TaskPlace.of(there)]
        owner = owner_of(record)
        if owner is None:
            return []
        path = path_of("dags", owner.dag_id, "dagRuns", "~", "taskInstances")
        answer = api.found(path, task_id=owner.task_id, state=AT_WORK, limit=10)
        return [] if answer is None else [TaskPlace.of(each) for each in answer["task_instances"]]

    return found


def the_one(found: list[Entry], what: str, *, names: Callable[[Entry], str]) -> Entry:
    """The only entry of those that were found.

    Raises:
        UsageError: there is none, or more than one.
    """
    if len(found) == 1:
        return found[0]
    if not found:
        raise UsageError(f"There is no {what} here.", "`list` shows what there is.", name=what)
    several = ", ".join(sorted(names(each) for each in found)[:10])
    raise UsageError(f"There are {len(found)} of {what} here: {several}.", "Say which with --name.", name=what)
