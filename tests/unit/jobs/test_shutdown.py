"""The worker goes, in the middle of whatever: the slot is given back soon, and the task goes on in the same try."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowRescheduleException, TaskDeferred

from airflow_resume import PollPolicy, ResumePolicy, run_job
from airflow_resume.errors import TaskStoppedError
from airflow_resume.testing import FakeJobs, TaskAttempt, task_context
from airflow_resume_mixins import ResumableJobMixin
from tests.support.jobs.hooks import LookUpHooks, equipped

MINUTE = timedelta(minutes=1)
SLOWLY = ResumePolicy(poll=PollPolicy(interval=MINUTE, max_interval=MINUTE, jitter=0), confirm_gone=timedelta(hours=1))
SOON_SECONDS = 5.0
"""An attempt that is told to leave sleeps no longer than a second at once; the rest is for a slow machine."""

DONE = ["RUNNING", "SUCCEEDED"]


class Train(LookUpHooks, ResumableJobMixin, BaseOperator):
    def find_jobs(self, slot: str, context: Any) -> Any:
        return self.jobs.find_jobs(slot)

    def find_job(self, token: str, context: Any) -> Any:
        return self.jobs.find(token)

    def cancel_job(self, external_id: Any, context: Any) -> None:
        self.jobs.cancel(external_id)


class Trained:
    """Attempts at the same job, as a function or as an operator."""

    def __init__(self, by: str) -> None:
        self.by = by
        self.jobs = FakeJobs(scripts=[DONE], can_find_by_slot=True)
        self.made: Any = None

    def run(self, attempt: TaskAttempt, policy: ResumePolicy = SLOWLY) -> Any:
        if self.by == "run_job":
            return run_job(self.jobs, policy=policy, context=attempt.context)
        self.made = equipped(Train(task_id="train", resume_policy=policy), jobs=self.jobs)
        return self.made.execute_resumable(attempt.context)

    def kill(self, attempt: TaskAttempt) -> None:
        (attempt.ti.task if self.made is None else self.made).on_kill()

    def calls(self, name: str) -> int:
        return sum(event.call == name for event in self.jobs.events)

    def interrupted(
        self, attempt: TaskAttempt, place: str, policy: ResumePolicy = SLOWLY, *, nth: int = 1
    ) -> type[BaseException]:
        """The worker goes at the nth time at a place, such as "after find" or "sleep"; how the attempt ended."""
        passed: list[str] = []
        since: list[float] = []

        def at(here: str) -> None:
            passed.append(here)
            if here == place and passed.count(here) == nth:
                since.append(attempt.world.clock.monotonic())
                self.kill(attempt)

        def sleep(seconds: float) -> None:
            at("sleep")
            attempt.world.clock.sleep(seconds)

        self.jobs.observer = self.jobs.read_observer = lambda when, call: at(f"{when} {call}")
        attempt.task_store.sleep = sleep  # type: ignore[method-assign]
        try:
            with pytest.raises((AirflowRescheduleException, TaskStoppedError)) as raised:
                self.run(attempt, policy)
        finally:
            self.jobs.observer = self.jobs.read_observer = None
        assert since, passed
        if raised.type is AirflowRescheduleException:
            assert attempt.world.clock.monotonic() - since[0] <= SOON_SECONDS
        return raised.type


@pytest.fixture(params=["run_job", "operator"])
def trained(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Trained:
    monkeypatch.setenv("AIRFLOW__AIRFLOW_RESUME__DEPLOYMENT", "production")
    return Trained(request.param)


def record_of(attempt: TaskAttempt) -> Any:
    return attempt.task_store.get("resume.job.job")


def comes_back(trained: Trained, attempt: TaskAttempt) -> tuple[Any, int]:
    """The result of the same try, and how many jobs there were."""
    again = attempt.reschedule()
    assert again.ti.try_number == attempt.ti.try_number
    return trained.run(again), len(trained.jobs.jobs)


def lost_submission(trained: Trained, *, applied: bool) -> TaskAttempt:
    attempt = task_context()
    trained.jobs.fail_next("submit", TimeoutError("a bad line"), applied=applied)
    with pytest.raises(TimeoutError, match="a bad line"):
        trained.run(attempt)
    return attempt.retry()


# --- in the middle of ... -------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["before find_jobs", "after find_jobs"])
def test_a_claim_that_was_not_sent_is_withdrawn(trained: Trained, place: str) -> None:
    attempt = task_context()
    assert trained.interrupted(attempt, place) is AirflowRescheduleException
    assert trained.calls("submit") == 0
    assert record_of(attempt)["phase"] == "terminal"
    assert "id" not in record_of(attempt)
    assert comes_back(trained, attempt) == ({"job": "job-0"}, 1)


@pytest.mark.parametrize("place", ["before submit", "after submit"])
def test_a_submit_is_finished_and_its_id_saved(trained: Trained, place: str) -> None:
    attempt = task_context()
    assert trained.interrupted(attempt, place) is AirflowRescheduleException
    assert record_of(attempt)["id"] == "job-0"
    assert comes_back(trained, attempt) == ({"job": "job-0"}, 1)


@pytest.mark.parametrize("place", ["before status", "after status", "sleep"])
def test_the_first_wait_is_left(trained: Trained, place: str) -> None:
    trained.jobs.scripts = [["RUNNING"] * 3 + ["SUCCEEDED"]]
    attempt = task_context()
    assert trained.interrupted(attempt, place) is AirflowRescheduleException
    assert comes_back(trained, attempt) == ({"job": "job-0"}, 1)


@pytest.mark.parametrize("place", ["before find", "after find", "sleep"])
def test_a_look_up_that_has_brought_nothing_yet_is_begun_anew_and_nothing_is_submitted(
    trained: Trained, place: str
) -> None:
    attempt = lost_submission(trained, applied=False)
    assert trained.interrupted(attempt, place) is AirflowRescheduleException
    assert trained.calls("submit") == 0
    finds = trained.calls("find")
    assert comes_back(trained, attempt) == ({"job": "job-0"}, 1)
    assert trained.calls("find") - finds >= 2, "nothing that was half confirmed is believed"


def test_a_job_that_a_look_up_has_brought_is_taken_down_first(trained: Trained) -> None:
    attempt = lost_submission(trained, applied=True)
    assert trained.interrupted(attempt, "after find") is AirflowRescheduleException
    assert record_of(attempt)["id"] == "job-0"
    assert comes_back(trained, attempt) == ({"job": "job-0"}, 1)


@pytest.mark.parametrize("word", ["FAILED", "GONE"])
@pytest.mark.parametrize("nth", [1, 2, 30])
def test_a_doubt_is_left_to_whoever_comes_back(trained: Trained, word: str, nth: int) -> None:
    """A job that is said to have failed, or to be gone, while the attempt waits for it; and was not, after all."""
    trained.jobs.scripts = [["RUNNING", word, word, word, *DONE]]
    attempt = task_context()
    naps_of_the_first_pause = 60
    ending = trained.interrupted(attempt, "sleep", nth=naps_of_the_first_pause + nth)
    assert ending is AirflowRescheduleException
    assert record_of(attempt)["phase"] == "submitted"
    trained.jobs.jobs[0].states = DONE
    assert comes_back(trained, attempt) == ({"job": "job-0"}, 1)


@pytest.mark.parametrize("place", ["before cancel", "after cancel"])
def test_a_job_that_is_not_wanted_is_cancelled_once_and_its_end_waited_for_by_whoever_comes_back(
    trained: Trained, place: str
) -> None:
    trained.jobs.scripts = [["RUNNING"] * 99, DONE]
    attempt = task_context()
    trained.interrupted(attempt, "sleep")
    cleared = attempt.clear()
    assert trained.interrupted(cleared, place) is AirflowRescheduleException
    assert (trained.calls("submit"), trained.calls("cancel")) == (1, 1)
    assert comes_back(trained, cleared) == ({"job": "job-1"}, 2)
    assert (trained.calls("cancel"), trained.jobs.most_alive) == (1, 1)


def test_before_anything_is_written_nobody_can_say_why_and_the_attempt_goes_on(
    trained: Trained, caplog: pytest.LogCaptureFixture
) -> None:
    """Then it may as well be an old attempt that was replaced."""
    attempt = task_context()
    killed: list[str] = []

    def at(when: str, call: str) -> None:
        if (when, call) == ("before", "get resume.job.job") and not killed:
            killed.append(call)
            trained.kill(attempt)

    attempt.task_store.observer = at
    with caplog.at_level("INFO"):
        assert trained.run(attempt) == {"job": "job-0"}
    assert killed
    assert "give the slot back" not in caplog.text
    assert (trained.calls("submit"), trained.calls("cancel")) == (1, 0)


def test_with_retries_0_no_try_is_needed(trained: Trained) -> None:
    trained.jobs.scripts = [["RUNNING"] * 3 + ["SUCCEEDED"]]
    attempt = task_context(retries=0)
    assert trained.interrupted(attempt, "sleep") is AirflowRescheduleException
    assert trained.calls("cancel") == 0
    assert comes_back(trained, attempt) == ({"job": "job-0"}, 1)


@pytest.mark.parametrize("place", ["after submit", "after status", "sleep"])
def test_where_the_policy_says_so_the_job_is_cancelled_and_the_attempt_fails_when_it_has_ended(
    trained: Trained, place: str
) -> None:
    policy = ResumePolicy(cancel_on={"shutdown"}, poll=SLOWLY.poll)
    attempt = task_context()
    trained.jobs.scripts = [["RUNNING"] * 9, DONE]
    assert trained.interrupted(attempt, place, policy) is TaskStoppedError
    assert trained.calls("cancel") == 1
    assert trained.run(attempt.retry()) == {"job": "job-1"}
    assert trained.jobs.most_alive == 1


# --- an operator that waits in a way of its own ---------------------------------------------------------------


class WaitsByItself(Train):
    during_own_wait: Callable[[], object]
    own_waits: list[Any]

    def job_trigger(self, external_id: Any, context: Any) -> Any:
        return external_id

    def poll_until_complete(self, external_id: Any, context: Any) -> None:
        self.own_waits.append(external_id)
        self.during_own_wait()
        while self.jobs.status(external_id) == "RUNNING":
            pass


def waiting_by_itself(jobs: FakeJobs, **attributes: Any) -> Any:
    made = WaitsByItself(task_id="train", resume_policy=SLOWLY)
    return equipped(made, jobs=jobs, own_waits=[], during_own_wait=lambda: None, **attributes)


def test_a_wait_of_the_operators_own_cannot_be_left_and_its_result_is_returned_if_there_is_time() -> None:
    jobs, attempt = FakeJobs(scripts=[["RUNNING"] * 5 + ["SUCCEEDED"]], can_find_by_slot=True), task_context()
    made = waiting_by_itself(jobs)
    equipped(made, during_own_wait=made.on_kill)
    assert made.execute_resumable(attempt.context) == {"job": "job-0"}
    assert [event.call for event in jobs.events].count("cancel") == 0


@pytest.mark.parametrize("goes_on_after", [timedelta(0), timedelta(seconds=20)])
def test_a_deferral_that_came_too_early_is_given_back_and_the_own_wait_is_not_begun(goes_on_after: timedelta) -> None:
    jobs, attempt = FakeJobs(scripts=[["RUNNING"] * 5 + ["SUCCEEDED"]], can_find_by_slot=True), task_context()
    with pytest.raises(TaskDeferred):
        waiting_by_itself(jobs, deferrable=True).execute_resumable(attempt.context)
    resumed = waiting_by_itself(jobs, deferrable=True)
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if sum(slept) > goes_on_after.total_seconds():
            resumed.on_kill()

    attempt.task_store.sleep = sleep  # type: ignore[method-assign]
    with pytest.raises(AirflowRescheduleException):
        resumed.resume_complete(attempt.context, {"event": "early"})
    assert sum(slept) - goes_on_after.total_seconds() <= SOON_SECONDS
    assert resumed.own_waits == []
    with pytest.raises(TaskDeferred):
        waiting_by_itself(jobs, deferrable=True).execute_resumable(attempt.reschedule().context)
    assert len(jobs.jobs) == 1
