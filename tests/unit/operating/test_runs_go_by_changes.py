"""Changes by a person, each followed by the attempt that goes by it: after a retry, after a clear, and undone."""

from __future__ import annotations

import logging
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from airflow_resume import checkpoint, run_job
from airflow_resume.errors import ChangeRefusedError, LostSubmissionError
from airflow_resume.jobs.record import JobRecord
from airflow_resume.loops import Offset, Page, PageNumber
from airflow_resume.loops.loop_record import LoopRecord
from airflow_resume.operating import changes, job_changes, loop_changes, mark_changes
from airflow_resume.operating.changes import Change, Person
from airflow_resume.operating.loop_changes import Target
from airflow_resume.operating.mark_rows import next_run
from airflow_resume.testing import FakeJobs, TaskAttempt, task_context
from airflow_resume.testing.points import CrashedError
from airflow_resume.watermarks import Cursor
from airflow_resume.watermarks.marks.mark_record import MarkRecord
from tests.support.watermarks.whole_numbers import MARK, NUMBERS, Counter, a_try, load, marks, numbers

LOOP, JOB = "resume.loop.l", "resume.job.job"
ANA = Person(who="ana", at=datetime(2026, 1, 1, 3, tzinfo=timezone.utc), why="a bad page")
AGAIN = pytest.mark.parametrize("again", ["retry", "clear"])


def put(store: Any, key: str, change: Change) -> None:
    store.set(key, change.record.to_json())


def next_of(attempt: TaskAttempt, again: str) -> TaskAttempt:
    return attempt.retry() if again == "retry" else attempt.clear()


# --- loops ------------------------------------------------------------------------------------------------------------

SOURCES: dict[str, Any] = {
    "list": lambda: list(range(10)),
    "pages": lambda: PageNumber(lambda number: Page([number] * 3 if number < 10 else [], pages=9), start=0),
    "offset": lambda: Offset(lambda offset, limit: list(range(30))[offset : offset + limit], limit=3),
}


def passes(
    attempt: TaskAttempt, make: Any = SOURCES["list"], *, fails_at: int | None = None, **options: Any
) -> list[int]:
    """The numbers of the elements that one attempt delivers."""
    done: list[int] = []
    with attempt, suppress(ZeroDivisionError):
        for element in checkpoint(make(), name="l", **options):
            first = element.items[0] if isinstance(element, Page) else element
            number = first // 3 if isinstance(element, Page) and element.items[-1] != first else first
            if number == fails_at:
                raise ZeroDivisionError
            done.append(number)
    return done


def loop_of(attempt: TaskAttempt) -> LoopRecord:
    return LoopRecord.model_validate({k: v for k, v in attempt.task_store.get(LOOP).items() if k != "summary"})  # type: ignore[union-attr]


@AGAIN
@pytest.mark.parametrize("source", SOURCES)
def test_a_loop_that_was_set_back_continues_there(source: str, again: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    first = task_context()
    assert passes(first, SOURCES[source], fails_at=7) == [0, 1, 2, 3, 4, 5, 6]
    put(first.task_store, LOOP, loop_changes.rewind(loop_of(first), Target(element=4), ANA))
    second = next_of(first, again)
    assert passes(second, SOURCES[source])[:3] == [3, 4, 5]
    assert "set back to element 4 by ana at 2026-01-01 03:00 UTC: a bad page" in caplog.text
    record = loop_of(second)
    assert record.by_hand is not None
    assert (record.by_hand.who, record.by_hand.before, record.by_hand.used) == ("ana", None, True)
    assert record.done


@AGAIN
def test_a_loop_continues_where_it_was_also_after_a_clear(again: str) -> None:
    first = task_context()
    passes(first, fails_at=7)
    before = loop_of(first)
    put(first.task_store, LOOP, loop_changes.resume(before, ANA))
    assert loop_of(first).pos == before.pos
    second = next_of(first, again)
    assert passes(second) == [7, 8, 9]
    with pytest.raises(ChangeRefusedError, match="The loop is done"):
        loop_changes.resume(loop_of(second), ANA)


def test_a_loop_goes_by_it_once_and_a_later_clear_starts_over() -> None:
    first = task_context()
    passes(first, fails_at=7)
    put(first.task_store, LOOP, loop_changes.rewind(loop_of(first), Target(element=4), ANA))
    second = first.clear()
    assert passes(second, fails_at=8) == [3, 4, 5, 6, 7]
    assert passes(second.clear())[0] == 0


@AGAIN
def test_a_loop_that_shall_start_over_does_so_whatever_it_says_of_clears(again: str) -> None:
    first = task_context()
    passes(first, fails_at=7)
    put(first.task_store, LOOP, loop_changes.restart(loop_of(first), ANA))
    assert passes(next_of(first, again), on_clear="resume") == list(range(10))


@AGAIN
@pytest.mark.parametrize("source", SOURCES)
def test_the_element_that_is_next_is_passed_over_and_counted(source: str, again: str) -> None:
    first = task_context()
    passes(first, SOURCES[source], fails_at=7)
    change = loop_changes.skip(loop_of(first), ANA)
    assert change.risks == ("element 8 is not delivered",)
    put(first.task_store, LOOP, change)
    second = next_of(first, again)
    assert passes(second, SOURCES[source])[0] == 8
    record = loop_of(second)
    assert record.skipped == 1
    assert record.skips is not None
    assert record.skips[0].error == "skipped by ana: a bad page"


def test_a_position_of_a_source_without_numbers_is_given_whole() -> None:
    record = loop_after(7).changed(kind="keyset", pos={"after": 7, "rows": 7})
    with pytest.raises(ChangeRefusedError, match="kind 'keyset' cannot be worked out") as refused:
        loop_changes.rewind(record, Target(element=4), ANA)
    assert refused.value.why == "unfit"
    changed = loop_changes.rewind(record, Target(position={"after": 3, "rows": 3}, done=3), ANA).record
    assert isinstance(changed, LoopRecord)
    assert (changed.pos, changed.n) == ({"after": 3, "rows": 3}, 3)


@pytest.mark.parametrize("position", ["x", 7, [], {"after": 3}, {"after": 3, "rows": 3, "x": 1}, True])
def test_a_position_of_another_form_is_refused_before_an_attempt_fails_by_it(position: Any) -> None:
    record = loop_after(7).changed(kind="keyset", pos={"after": 7, "rows": 7})
    with pytest.raises(ChangeRefusedError, match="has another form than that of the record"):
        loop_changes.rewind(record, Target(position=position, done=3), ANA)
    changed = loop_changes.rewind(record, Target(position=None, done=0), ANA).record
    assert isinstance(changed, LoopRecord)
    assert changed.pos is None


def loop_after(number: int) -> LoopRecord:
    first = task_context()
    passes(first, fails_at=number)
    return loop_of(first)


@pytest.mark.parametrize("element", [0, 8, 9])
def test_a_loop_is_set_back_to_an_earlier_element_only(element: int) -> None:
    with pytest.raises(ChangeRefusedError):
        loop_changes.rewind(loop_after(7), Target(element=element), ANA)


def test_a_change_is_undone_until_an_attempt_has_gone_by_it() -> None:
    first = task_context()
    passes(first, fails_at=7)
    before = loop_of(first)
    put(first.task_store, LOOP, loop_changes.rewind(before, Target(element=4), ANA))
    put(first.task_store, LOOP, loop_changes.restart(loop_of(first), ANA))
    put(first.task_store, LOOP, changes.undo(loop_of(first)))
    assert loop_of(first).n == 3
    put(first.task_store, LOOP, changes.undo(loop_of(first)))
    assert loop_of(first) == before
    second = first.retry()
    assert passes(second)[0] == 7
    with pytest.raises(ChangeRefusedError, match="nothing to undo"):
        changes.undo(loop_of(second))


def test_a_loop_that_is_done_is_done_again_from_an_element_on() -> None:
    first = task_context()
    passes(first)
    put(first.task_store, LOOP, loop_changes.rewind(loop_of(first), Target(element=9), ANA))
    assert passes(first.clear()) == [8, 9]


def test_an_attempt_of_an_older_release_that_knows_no_notes_uses_them_up() -> None:
    first = task_context()
    passes(first, fails_at=7)
    put(first.task_store, LOOP, loop_changes.restart(loop_of(first), ANA))
    record: Any = first.task_store.get(LOOP)
    # It keeps the field that it does not know, and opens the loop.
    first.task_store.set(LOOP, {**record, "at": {**record["at"], "opens": record["at"]["opens"] + 1}})
    second = first.retry()
    assert passes(second)[0] == 7


# --- jobs -------------------------------------------------------------------------------------------------------------


def job_of(attempt: TaskAttempt) -> JobRecord:
    return JobRecord.model_validate({k: v for k, v in attempt.task_store.get(JOB).items() if k != "summary"})  # type: ignore[union-attr]


def lost(jobs: FakeJobs) -> TaskAttempt:
    """An attempt that was killed between the submit and the saving of the id; and one that failed for that."""
    first = task_context()
    with first, suppress(CrashedError):
        jobs.fail_next("submit", CrashedError(), applied=True)
        run_job(jobs)
    second = first.retry()
    with second, pytest.raises(LostSubmissionError):
        run_job(jobs)
    return second


@AGAIN
def test_an_adopted_job_is_waited_for_and_no_other_is_submitted(again: str) -> None:
    jobs = FakeJobs(can_find=False)
    attempt = lost(jobs)
    put(attempt.task_store, JOB, job_changes.adopt(job_of(attempt), "job-0", ANA))
    third = next_of(attempt, again)
    with third:
        assert run_job(jobs) == {"job": "job-0"}
    assert len(jobs.jobs) == 1
    assert job_of(third).by_hand is not None


@AGAIN
def test_after_a_lost_submission_was_forgotten_another_job_is_submitted(again: str) -> None:
    jobs = FakeJobs(can_find=False)
    attempt = lost(jobs)
    put(attempt.task_store, JOB, job_changes.forget(job_of(attempt), ANA))
    third = next_of(attempt, again)
    with third:
        assert run_job(jobs) == {"job": "job-1"}
    assert job_of(third).generation == 2
    assert job_of(third).history[0].reason == "forgotten by ana at 2026-01-01 03:00 UTC: a bad page"


def test_a_job_that_may_be_alive_is_forgotten_or_replaced_only_at_a_risk() -> None:
    jobs = FakeJobs(can_find=False)
    attempt = lost(jobs)
    put(attempt.task_store, JOB, job_changes.adopt(job_of(attempt), "job-0", ANA))
    record = job_of(attempt)
    assert job_changes.forget(record, ANA).risks == ("job-0 is on record and may be alive: there would be two",)
    assert job_changes.adopt(record, "job-5", ANA).risks
    assert not job_changes.adopt(record, "job-0", ANA).risks


# --- marks ------------------------------------------------------------------------------------------------------------


def after_three_runs(clock: Counter) -> TaskAttempt:
    attempt = a_try()
    for number in (10, 20, 30):
        clock.number = number
        load(attempt, numbers(clock))
        attempt = attempt.next_run()
    return attempt


def mark_of(attempt: TaskAttempt) -> MarkRecord:
    return MarkRecord.model_validate({k: v for k, v in marks(attempt)[MARK].items() if k != "summary"})


def test_a_mark_that_was_set_back_is_where_the_next_run_begins() -> None:
    clock = Counter()
    attempt = after_three_runs(clock)
    put(attempt.asset_stores[NUMBERS], MARK, mark_changes.set_mark(mark_of(attempt), "15", ANA, backwards=True))
    clock.number = 40
    window = load(attempt, numbers(clock))
    assert (window.start, window.end, window.is_reset) == (15, 40, True)
    record = mark_of(attempt)
    assert [move.to for move in record.history] == ["10", "20", "30", "15", "40"]
    assert record.by_hand is not None
    assert record.by_hand.used
    assert record.owner is not None


def test_a_mark_is_set_back_by_a_distance() -> None:
    attempt = after_three_runs(Counter())
    changed = mark_changes.rewind_mark(mark_of(attempt), 12, ANA).record
    assert isinstance(changed, MarkRecord)
    assert changed.at == "18"
    with pytest.raises(ChangeRefusedError, match="cannot be set back by 1 day"):
        mark_changes.rewind_mark(mark_of(attempt), timedelta(days=1), ANA)


def test_a_mark_that_is_set_further_skips_rows_and_says_so() -> None:
    change = mark_changes.set_mark(mark_of(after_three_runs(Counter())), "50", ANA)
    assert change.risks == ("rows between 30 and 50 that were not loaded are skipped",)


def of_times(**fields: Any) -> MarkRecord:
    record = {
        "v": 1, "key": MARK, "type": "datetime", "definition": {"type": "datetime"}, "epoch": "e",
        "at": "2025-12-01T00:00:00+00:00", **fields,
    }  # fmt: skip
    return MarkRecord.model_validate(record)


def test_a_mark_that_is_set_into_the_future_says_so() -> None:
    change = mark_changes.set_mark(of_times(), "2026-01-02T00:00:00Z", ANA)
    assert change.risks == (
        "rows between 2025-12-01T00:00:00+00:00 and 2026-01-02T00:00:00Z that were not loaded are skipped",
        "2026-01-02T00:00:00Z has not come yet: until then each run is refused",
    )
    assert len(mark_changes.set_mark(of_times(), "2026-01-01T00:00:00Z", ANA).risks) == 1
    assert not mark_changes.set_mark(of_times(at="2027-01-01T00:00:00+00:00"), "2026-01-01T00:00:00Z", ANA).risks


@pytest.mark.parametrize("initial", [0, lambda: 0], ids=["a value", "a function"])
def test_a_reset_says_to_which_value(initial: Any) -> None:
    clock, attempt = Counter(), a_try()
    load(attempt, numbers(clock, initial=initial, cursor=Cursor.int()))
    change = mark_changes.reset_mark(mark_of(attempt), ANA)
    assert (change.risks, change.notes) == ((), ())
    assert next_run(change.record).startswith("sets the mark to its initial value, 0, and loads")  # type: ignore[arg-type]


def test_a_reset_to_a_later_value_skips_rows_and_says_so() -> None:
    clock, attempt = Counter(), a_try()
    load(attempt, numbers(clock))
    load(attempt.next_run(), numbers(Counter(12), initial=50))
    change = mark_changes.reset_mark(mark_of(attempt), ANA)
    assert change.risks == ("rows between 12 and 50 that were not loaded are skipped",)


def test_a_reset_of_a_record_of_an_older_release_says_where_the_value_is() -> None:
    change = mark_changes.reset_mark(of_times(), ANA)
    assert change.notes == ("the initial value is not known here: it is in the code of the Dag",)
    assert "which is in the code of its Dag" in next_run(change.record)  # type: ignore[arg-type]


@pytest.mark.parametrize("to", ["x", "30.5", "2026-01-01"])
def test_a_value_of_another_type_is_refused(to: str) -> None:
    with pytest.raises(ChangeRefusedError, match="is not a value of the mark"):
        mark_changes.set_mark(mark_of(after_three_runs(Counter())), to, ANA)


def test_a_mark_that_is_reset_begins_at_its_initial_value() -> None:
    clock = Counter()
    attempt = after_three_runs(clock)
    put(attempt.asset_stores[NUMBERS], MARK, mark_changes.reset_mark(mark_of(attempt), ANA))
    window = load(attempt, numbers(clock))
    assert (window.start, window.end, window.is_reset) == (0, 30, True)
    to_the_first, to_the_end = mark_of(attempt).history[-2:]
    assert (to_the_first.to, to_the_first.who, to_the_first.why) == ("0", ANA.who, ANA.why)
    assert (to_the_end.to, to_the_end.who, to_the_end.for_person) == ("30", None, None)
    assert load(attempt.next_run(), numbers(clock)).empty


@pytest.mark.parametrize("how", ["set", "reset"])
def test_a_run_that_had_begun_before_the_change_does_not_move_the_mark(how: str) -> None:
    clock = Counter()
    attempt = after_three_runs(clock)
    clock.number = 40
    with suppress(Exception), numbers(clock).open(attempt.context):
        before = mark_of(attempt)
        change = mark_changes.set_mark(before, "15", ANA) if how == "set" else mark_changes.reset_mark(before, ANA)
        put(attempt.asset_stores[NUMBERS], MARK, change)
    assert mark_of(attempt).at == ("15" if how == "set" else "30")
    assert mark_of(attempt).set_by_hand is not None
    window = load(attempt.next_run(), numbers(clock))
    assert (window.start, window.end) == (15 if how == "set" else 0, 40)


def test_a_mark_is_put_back_by_an_undo() -> None:
    attempt = after_three_runs(Counter())
    before = mark_of(attempt)
    put(attempt.asset_stores[NUMBERS], MARK, mark_changes.set_mark(before, "15", ANA))
    put(attempt.asset_stores[NUMBERS], MARK, changes.undo(mark_of(attempt)))
    after = mark_of(attempt)
    assert (after.at, after.epoch, after.history) == (before.at, before.epoch, before.history)
    assert after.rev > before.rev
