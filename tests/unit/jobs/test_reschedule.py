"""A job that is waited for by reschedule: one process after the other in the same try, and none between them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowRescheduleException

from airflow_resume import PollPolicy, ResumePolicy, arun_job, run_job
from airflow_resume.errors import (
    JobError,
    JobFailedError,
    JobStatusUnknownError,
    JobWaitTimeoutError,
    TaskStoppedError,
    UsageError,
)
from airflow_resume.reschedule import RESCHEDULE_AFTER
from airflow_resume.store import MemoryStore
from airflow_resume.testing import FakeJobs, TaskAttempt, task_context
from airflow_resume_mixins import ResumableJobMixin
from tests.support.jobs.hooks import LookUpHooks, equipped

MINUTE = timedelta(minutes=1)
EACH_MINUTE = PollPolicy(interval=MINUTE, max_interval=MINUTE, jitter=0, max_consecutive_errors=3)
POLICY = ResumePolicy(wait="reschedule", poll=EACH_MINUTE)
JOB = "resume.job.job"


class Train(LookUpHooks, ResumableJobMixin, BaseOperator):
    def cancel_job(self, external_id: Any, context: Any) -> None:
        self.jobs.cancel(external_id)


Run = Callable[[FakeJobs, TaskAttempt, ResumePolicy], Any]


def by_function(jobs: FakeJobs, attempt: TaskAttempt, policy: ResumePolicy) -> Any:
    return run_job(jobs, policy=policy, context=attempt.context)


def by_coroutine(jobs: FakeJobs, attempt: TaskAttempt, policy: ResumePolicy) -> Any:
    return asyncio.run(arun_job(jobs, policy=policy, context=attempt.context))


def by_operator(jobs: FakeJobs, attempt: TaskAttempt, policy: ResumePolicy) -> Any:
    context: Any = attempt.context
    return equipped(Train(task_id="train", resume_policy=policy), jobs=jobs).execute_resumable(context)


@pytest.fixture(params=[by_function, by_coroutine, by_operator])
def run(request: pytest.FixtureRequest) -> Run:
    way: Run = request.param
    return way


class Looks:
    """A try, from look to look."""

    def __init__(self, run: Run, jobs: FakeJobs, policy: ResumePolicy = POLICY, **options: Any) -> None:
        self.run, self.jobs, self.policy = run, jobs, policy
        self.attempt = task_context(**options)
        self.count = 0
        self.pauses: list[float] = []

    def look(self) -> None:
        """One process, which must reschedule itself; time passes until the next one."""
        self.count += 1
        clock = self.attempt.world.clock
        with pytest.raises(AirflowRescheduleException) as raised:
            self.run(self.jobs, self.attempt, self.policy)
        self.pauses.append((raised.value.reschedule_date - clock.now()).total_seconds())
        self.attempt.world.come_back(raised.value.reschedule_date)
        self.attempt = self.attempt.reschedule()

    def last(self) -> Any:
        """The process that does not reschedule itself."""
        return self.run(self.jobs, self.attempt, self.policy)

    def to_the_end(self) -> Any:
        while self.jobs.jobs == [] or self.jobs.jobs[-1].state == "RUNNING":
            self.look()
        return self.last()

    @property
    def record(self) -> Any:
        return self.attempt.task_store.get(JOB)


def running(looks: int, *then: str) -> FakeJobs:
    return FakeJobs(scripts=[["RUNNING"] * looks + list(then or ["SUCCEEDED"])])


def calls(jobs: FakeJobs, name: str) -> int:
    return sum(event.call == name for event in jobs.events)


# --- the way of a job that succeeds ---------------------------------------------------------------------------


def test_the_worker_is_left_after_the_submit_and_each_look_and_the_result_is_that_of_the_one_job(
    run: Run,
) -> None:
    looks = Looks(run, running(3), retries=0)
    assert looks.to_the_end() == {"job": "job-0"}
    assert looks.count == 4  # the one that submits asks for nothing
    assert (calls(looks.jobs, "submit"), calls(looks.jobs, "status")) == (1, 4)
    assert looks.attempt.ti.try_number == 1
    assert looks.attempt.world.clock.monotonic() == 4 * 60
    assert looks.jobs.alive() == []


def test_pauses_grow_over_the_processes_and_none_is_so_short_that_airflow_mistakes_its_end() -> None:
    looks = Looks(by_function, running(9), ResumePolicy(wait="reschedule", poll=PollPolicy(jitter=0)))
    looks.to_the_end()
    assert looks.pauses[:5] == [15, 15, 20, 30, 45]
    assert looks.pauses[5:] == [60] * 5
    assert RESCHEDULE_AFTER.total_seconds() == looks.pauses[0]


def test_by_default_a_job_is_waited_for_in_its_worker(run: Run) -> None:
    assert run(running(3), task_context(), ResumePolicy(poll=EACH_MINUTE)) == {"job": "job-0"}


def test_each_look_writes_one_line_to_the_log(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    looks = Looks(run, running(3), retries=0)
    looks.look()
    caplog.clear()
    with caplog.at_level(logging.INFO):
        looks.look()
    said = "Job 'job-0' is active. The task frees its worker slot, and the same try looks again in 60 s;"
    assert [record.getMessage() for record in caplog.records if record.name.startswith("airflow_resume")] == [
        f"{said} it has waited for 0:01:00"
    ]


def test_a_task_beside_one_that_was_cleared_says_so_once(caplog: pytest.LogCaptureFixture) -> None:
    looks = Looks(by_function, running(9))
    looks.look()
    looks.attempt.clear_another_task()
    looks.attempt = looks.attempt.retry()
    with caplog.at_level(logging.INFO):
        looks.look()
        looks.look()
    assert caplog.text.count("A task of this run was cleared since try 1") == 1


def test_a_task_whose_policy_is_changed_between_two_looks_goes_on_in_its_worker(
    caplog: pytest.LogCaptureFixture,
) -> None:
    looks = Looks(by_function, FakeJobs(scripts=[["RUNNING", "RUNNING", "FAILED"]]))
    looks.look()
    looks.policy = ResumePolicy(poll=EACH_MINUTE)
    with caplog.at_level(logging.INFO), pytest.raises(JobFailedError):
        looks.last()
    assert "wait (slot 'job', job 'job-0'" in caplog.text


def test_two_jobs_of_one_task_are_waited_for_one_after_the_other() -> None:
    def two(jobs: FakeJobs, attempt: TaskAttempt, policy: ResumePolicy) -> list[Any]:
        return [run_job(jobs, name=name, policy=policy, context=attempt.context) for name in ("a", "b")]

    looks = Looks(two, running(1))
    for _ in range(4):
        looks.look()
    assert looks.last() == [{"job": "job-0"}, {"job": "job-1"}]
    assert looks.jobs.most_alive == 1


def test_coroutines_of_one_task_are_all_submitted_if_the_task_waits_for_all_of_them() -> None:
    async def both(jobs: FakeJobs, attempt: TaskAttempt, policy: ResumePolicy) -> list[Any]:
        waits = [arun_job(jobs, name=name, policy=policy, context=attempt.context) for name in ("a", "b")]
        results = await asyncio.gather(*waits, return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result
        return results

    looks = Looks(lambda *given: asyncio.run(both(*given)), running(1))
    looks.look()
    assert len(looks.jobs.jobs) == 2
    looks.look()
    assert looks.last() == [{"job": "job-0"}, {"job": "job-1"}]


# --- a job that does not --------------------------------------------------------------------------------------


def test_a_job_that_fails_between_two_looks_fails_the_attempt_and_the_retry_submits_another(run: Run) -> None:
    """If the same try submitted it, a job that always fails would be submitted without end."""
    jobs = FakeJobs(scripts=[["RUNNING", "FAILED"], ["RUNNING", "SUCCEEDED"]])
    looks = Looks(run, jobs)
    looks.look()
    looks.look()
    with pytest.raises(JobFailedError):
        looks.last()
    assert len(jobs.jobs) == 1
    looks.attempt = looks.attempt.retry()
    looks.look()
    assert looks.to_the_end() == {"job": "job-1"}
    assert looks.attempt.ti.try_number == 2


def test_a_job_of_an_earlier_try_that_has_failed_is_replaced_in_the_next_one(run: Run) -> None:
    looks = Looks(run, FakeJobs(scripts=[["RUNNING", "FAILED"], ["SUCCEEDED"]]))
    looks.look()
    looks.look()
    looks.attempt = looks.attempt.retry()  # its process was killed right before it could look
    looks.look()
    assert looks.last() == {"job": "job-1"}


def test_a_time_out_counts_over_all_looks_of_a_try_and_the_next_try_waits_as_long(run: Run) -> None:
    timed = PollPolicy(interval=MINUTE, max_interval=MINUTE, jitter=0, timeout=3 * MINUTE)
    looks = Looks(run, running(99), ResumePolicy(wait="reschedule", poll=timed))
    for _ in range(2):
        for _ in range(3):
            looks.look()
        with pytest.raises(JobWaitTimeoutError, match=r"poll\.timeout=0:03:00"):
            looks.last()
        looks.attempt = looks.attempt.retry()
    assert (calls(looks.jobs, "submit"), calls(looks.jobs, "cancel")) == (1, 0)


def test_the_time_out_may_cancel_the_job(run: Run) -> None:
    timed = PollPolicy(interval=MINUTE, max_interval=MINUTE, jitter=0, timeout=MINUTE)
    looks = Looks(run, running(99), ResumePolicy(wait="reschedule", poll=timed, cancel_on={"timeout"}))
    looks.look()
    with pytest.raises(JobWaitTimeoutError):
        looks.last()
    assert calls(looks.jobs, "cancel") == 1


def test_a_status_that_is_unknown_is_asked_again_for_as_long_as_the_policy_says(run: Run) -> None:
    policy = ResumePolicy(wait="reschedule", poll=EACH_MINUTE, unknown_timeout=2 * MINUTE)
    looks = Looks(run, FakeJobs(scripts=[["RUNNING", "?", "?", "RUNNING", "?", "?", "?"]]), policy)
    for _ in range(7):
        looks.look()
    with pytest.raises(JobStatusUnknownError):
        looks.last()
    assert len(looks.jobs.jobs) == 1


def test_a_question_that_fails_is_asked_by_the_next_process_and_counted_over_all_of_them(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    looks = Looks(run, running(9))
    looks.look()

    def unanswered() -> None:
        looks.jobs.fail_next("status", ConnectionResetError("a bad line"))

    for _ in range(2):
        for _ in range(2):
            unanswered()
            looks.look()
        assert looks.record["waiting"]["unanswered"] == 2
        looks.look()  # an answer begins the count anew
        assert "unanswered" not in looks.record["waiting"]
    assert "could not be asked about (ConnectionResetError('a bad line'); 2 of 3 times in a row)" in caplog.text
    for _ in range(2):
        unanswered()
        looks.look()
    unanswered()
    with pytest.raises(ConnectionResetError):
        looks.last()
    looks.attempt = looks.attempt.retry()
    unanswered()
    looks.look()
    assert looks.to_the_end() == {"job": "job-0"}
    assert set(looks.pauses) == {60}


def test_an_error_that_does_not_pass_fails_the_attempt_at_once(run: Run) -> None:
    looks = Looks(run, running(9))
    looks.look()
    looks.jobs.fail_next("status", KeyError("no such project"))
    with pytest.raises(KeyError):
        looks.last()


def test_a_look_without_a_change_writes_nothing_but_its_claim() -> None:
    looks = Looks(by_function, running(9))
    looks.look()
    looks.look()
    looks.attempt.task_store.log.clear()
    store = looks.attempt.task_store
    looks.look()
    assert [operation.name for operation in store.log] == ["get", "set"]


@pytest.mark.parametrize("then", ["FAILED", "GONE"])
def test_a_slot_is_not_held_for_an_hour_by_a_pause_within_a_look(run: Run, then: str) -> None:
    hour = timedelta(hours=1)
    looks = Looks(
        run, running(1, then), ResumePolicy(wait="reschedule", poll=PollPolicy(interval=hour, max_interval=hour))
    )
    looks.look()
    looks.look()
    clock = looks.attempt.world.clock
    before = clock.monotonic()
    with pytest.raises(JobError):
        looks.last()
    assert clock.monotonic() - before <= 60


# --- cleared --------------------------------------------------------------------------------------------------


def test_a_task_that_is_cleared_between_two_looks_cancels_its_job_and_submits_another(run: Run) -> None:
    looks = Looks(run, FakeJobs(scripts=[["RUNNING"] * 9, ["RUNNING", "SUCCEEDED"]]))
    looks.look()
    looks.look()
    looks.attempt = looks.attempt.clear()
    assert looks.to_the_end() == {"job": "job-1"}
    assert (calls(looks.jobs, "cancel"), looks.jobs.most_alive) == (1, 1)


def test_a_task_that_is_cleared_may_keep_its_job(run: Run) -> None:
    looks = Looks(run, running(3), ResumePolicy(wait="reschedule", poll=EACH_MINUTE, on_clear="resume"))
    looks.look()
    looks.attempt = looks.attempt.clear()
    assert looks.to_the_end() == {"job": "job-0"}
    assert len(looks.jobs.jobs) == 1


def test_an_unwanted_job_that_cannot_be_cancelled_is_waited_for_without_a_worker_too() -> None:
    jobs = FakeJobs(scripts=[["RUNNING"] * 4 + ["SUCCEEDED"], ["SUCCEEDED"]], can_cancel=False)
    looks = Looks(by_function, jobs)
    looks.look()
    looks.attempt = looks.attempt.clear()
    jobs.fail_next("status", ConnectionResetError())
    for _ in range(5):
        looks.look()
        assert len(jobs.jobs) == 1
    looks.look()
    assert looks.last() == {"job": "job-1"}
    assert jobs.most_alive == 1


# --- what ends a look -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["after status", "before set"])
def test_a_person_who_marks_the_task_during_a_look_ends_its_job(place: str) -> None:
    looks = Looks(by_function, running(9))
    if place == "after status":
        looks.look()
    attempt, store = looks.attempt, looks.attempt.task_store

    def at(when: str, call: str) -> None:
        if f"{when} {call}".startswith(place) and (place != "before set" or looks.jobs.jobs):
            looks.jobs.read_observer = store.observer = None
            attempt.mark("failed")
            attempt.ti.task.on_kill()

    looks.jobs.read_observer = store.observer = at
    looks.jobs.observer = lambda _when, _call: None
    with pytest.raises((TaskStoppedError, AirflowRescheduleException)):
        looks.last()
    assert looks.jobs.jobs[0].state == "CANCELLING"
    assert calls(looks.jobs, "cancel") == 1


def test_a_worker_that_goes_during_a_look_is_left_as_after_one_and_the_job_still_decides_about_the_attempt() -> None:
    looks = Looks(by_function, FakeJobs(scripts=[["RUNNING", "RUNNING", "FAILED"]]))
    looks.look()
    looks.jobs.observer = lambda _when, _call: None

    def at(when: str, call: str) -> None:
        if f"{when} {call}" == "after status":
            looks.jobs.read_observer = None
            looks.attempt.ti.task.on_kill()

    looks.jobs.read_observer = at
    looks.look()
    assert looks.pauses == [60, 15]
    looks.look()
    with pytest.raises(JobFailedError):
        looks.last()
    assert len(looks.jobs.jobs) == 1


# --- what cannot work -----------------------------------------------------------------------------------------


class WaitsByItself(Train):
    def poll_until_complete(self, external_id: Any, context: Any) -> None:
        raise AssertionError


class Deferrable(Train):
    deferrable = True

    def job_trigger(self, external_id: Any, context: Any) -> Any:
        raise AssertionError


def test_an_operator_that_waits_in_its_own_way_is_refused_in_the_dag_file() -> None:
    with pytest.raises(ValueError, match=r"WaitsByItself waits in a way of its own.*\n.*poll_until_complete"):
        WaitsByItself(task_id="train", resume_policy=POLICY)


def test_an_operator_that_defers_is_refused_before_it_submits() -> None:
    jobs = FakeJobs()
    train = equipped(Deferrable(task_id="train", resume_policy=POLICY), jobs=jobs)
    with pytest.raises(UsageError, match="deferrable=True has Deferrable wait in the triggerer"):
        train.execute(task_context().context)
    assert jobs.events == []


def test_an_operator_that_keeps_nothing_is_refused_in_the_dag_file() -> None:
    with pytest.raises(ValueError, match="the record of the job of Train is lost"):
        Train(task_id="train", resume_policy=POLICY, durable=False)


def test_a_client_that_waits_by_itself_or_a_store_that_dies_is_refused() -> None:
    class Waits(FakeJobs):
        def wait(self, external_id: Any) -> None:
            raise AssertionError

    with pytest.raises(UsageError, match="Waits waits in a way of its own"):
        run_job(Waits(), policy=POLICY, context=task_context().context)
    with pytest.raises(UsageError, match="MemoryStore"):
        run_job(FakeJobs(), policy=POLICY, context=task_context().context, store=MemoryStore())


def test_a_script_waits_itself_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    at_once = PollPolicy(interval=timedelta(0), max_interval=timedelta(0))
    with caplog.at_level(logging.INFO):
        assert run_job(running(3), policy=ResumePolicy(wait="reschedule", poll=at_once), store=MemoryStore())
    assert "wait='reschedule' needs a task: this script waits for slot 'job' itself" in caplog.text
