"""Waiting for a job in the triggerer, and operators that wait in a way of their own."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import TaskDeferralError, TaskDeferralTimeout, TaskDeferred

from airflow_resume import PollPolicy, ResumePolicy
from airflow_resume.errors import JobFailedError
from airflow_resume.jobs import JobStatus, Step
from airflow_resume.testing import FakeJobs, task_context
from airflow_resume_mixins import ResumableJobMixin
from tests.support.jobs.hooks import LookUpHooks, equipped

LONG = ["RUNNING", "RUNNING", "RUNNING", "SUCCEEDED"]


class Train(LookUpHooks, ResumableJobMixin, BaseOperator):
    def cancel_job(self, external_id: Any, context: Any) -> None:
        self.jobs.cancel(external_id)

    def job_trigger(self, external_id: Any, context: Any) -> Any:
        return f"trigger for {external_id}"


FAST = ResumePolicy(poll=PollPolicy(interval=timedelta(0), max_interval=timedelta(0), timeout=timedelta(hours=1)))


def train(jobs: FakeJobs, policy: ResumePolicy = FAST, *, deferrable: bool = True, **options: Any) -> Train:
    return equipped(Train(task_id="train", resume_policy=policy, **options), jobs=jobs, deferrable=deferrable)


def deferred(operator: Train, context: Any) -> TaskDeferred:
    with pytest.raises(TaskDeferred) as raised:
        operator.execute_resumable(context)
    return raised.value


def test_an_attempt_submits_defers_and_returns_the_result_in_the_process_after() -> None:
    jobs, attempt = FakeJobs(scripts=[LONG]), task_context()
    event = deferred(train(jobs), attempt.context)
    assert (event.trigger, event.method_name, event.timeout) == (
        "trigger for job-0",
        "resume_complete",
        timedelta(hours=1),
    )
    jobs.jobs[0].states = ["SUCCEEDED"]
    assert train(jobs).resume_execution("resume_complete", {"event": "done"}, attempt.context) == {"job": "job-0"}  # type: ignore[arg-type]
    assert len(jobs.jobs) == 1


def test_a_trigger_that_fires_early_is_warned_of_and_the_job_waited_for_in_the_triggerer_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    jobs, attempt = FakeJobs(scripts=[["RUNNING", "SUCCEEDED"]]), task_context()
    deferred(train(jobs), attempt.context)
    with pytest.raises(TaskDeferred) as again:
        train(jobs).resume_complete(attempt.context)  # type: ignore[arg-type]
    assert (again.value.trigger, again.value.timeout) == ("trigger for job-0", timedelta(hours=1))
    assert "The trigger fired, but job 'job-0' is still active" in caplog.text
    assert train(jobs).resume_complete(attempt.context) == {"job": "job-0"}  # type: ignore[arg-type]


def test_a_trigger_that_always_fires_early_does_not_do_so_without_a_pause() -> None:
    jobs, attempt = FakeJobs(scripts=[["RUNNING"]]), task_context()
    policy = ResumePolicy(poll=PollPolicy(interval=timedelta(seconds=7), timeout=timedelta(hours=1)))
    deferred(train(jobs, policy), attempt.context)
    before = attempt.world.clock.now()
    with pytest.raises(TaskDeferred):
        train(jobs, policy).resume_complete(attempt.context)  # type: ignore[arg-type]
    assert attempt.world.clock.now() - before == timedelta(seconds=7)


def test_a_job_that_failed_meanwhile_fails_the_attempt_and_the_retry_submits_another() -> None:
    jobs, attempt = FakeJobs(scripts=[["FAILED"], ["RUNNING", "SUCCEEDED"]]), task_context()
    deferred(train(jobs), attempt.context)
    with pytest.raises(JobFailedError):
        train(jobs).resume_complete(attempt.context)  # type: ignore[arg-type]
    deferred(train(jobs), attempt.retry().context)
    assert jobs.most_alive == 1


@pytest.mark.parametrize(
    ("kwargs", "error"),
    [({"error": "Trigger timeout"}, TaskDeferralTimeout), ({"error": "Trigger failure"}, TaskDeferralError)],
)
def test_a_deferral_that_failed_leaves_the_job_to_the_retry(kwargs: dict[str, Any], error: type[Exception]) -> None:
    jobs, attempt = FakeJobs(scripts=[LONG]), task_context()
    deferred(train(jobs), attempt.context)
    with pytest.raises(error):
        train(jobs).resume_execution("__fail__", kwargs, attempt.context)  # type: ignore[arg-type]
    assert deferred(train(jobs), attempt.retry().context).trigger == "trigger for job-0"
    assert len(jobs.jobs) == 1


def test_a_time_out_of_the_deferral_ends_the_job_when_the_policy_says_so() -> None:
    jobs, attempt = FakeJobs(scripts=[LONG]), task_context()
    policy = ResumePolicy(cancel_on={"timeout"}, poll=FAST.poll)
    deferred(train(jobs, policy), attempt.context)
    with pytest.raises(TaskDeferralTimeout):
        train(jobs, policy).resume_execution("__fail__", {"error": "Trigger timeout"}, attempt.context)  # type: ignore[arg-type]
    assert jobs.jobs[0].state == "CANCELLING"


def test_what_goes_wrong_afterwards_does_not_hide_why_the_deferral_failed(caplog: pytest.LogCaptureFixture) -> None:
    jobs, attempt = FakeJobs(scripts=[LONG]), task_context()
    deferred(train(jobs), attempt.context)
    attempt.task_store.outage(10**6)
    with pytest.raises(TaskDeferralError):
        train(jobs).resume_execution("__fail__", {"error": "Trigger failure"}, attempt.context)  # type: ignore[arg-type]
    assert "it is left alone" in caplog.text
    assert jobs.alive() == ["job-0"]


def test_an_attempt_that_fails_while_it_submits_for_itself_follows_the_policy_too() -> None:
    jobs, attempt = FakeJobs(scripts=[LONG]), task_context(retries=0)
    policy = ResumePolicy(cancel_on={"final_failure"}, poll=FAST.poll)
    train(jobs, policy).submit_resumable(attempt.context)  # type: ignore[arg-type]
    jobs.fail_next("status", KeyError("a bug in the hook"))
    with pytest.raises(KeyError):
        train(jobs, policy).submit_resumable(attempt.context)  # type: ignore[arg-type]
    assert jobs.jobs[0].state == "CANCELLING"


def test_a_retry_of_a_job_that_has_ended_does_not_defer() -> None:
    jobs, attempt = FakeJobs(scripts=[["RUNNING", "SUCCEEDED"]]), task_context()
    deferred(train(jobs), attempt.context)
    jobs.status("job-0")
    assert train(jobs).execute_resumable(attempt.retry().context) == {"job": "job-0"}  # type: ignore[arg-type]


def test_without_deferrable_it_waits_in_the_worker() -> None:
    jobs = FakeJobs(scripts=[LONG])
    assert train(jobs, deferrable=False).execute_resumable(task_context().context) == {"job": "job-0"}  # type: ignore[arg-type]


def test_what_is_not_durable_cannot_be_deferred() -> None:
    jobs = FakeJobs()
    with pytest.raises(ValueError, match="durable=True"):
        train(jobs, durable=False).execute_resumable(task_context().context)  # type: ignore[arg-type]
    assert jobs.jobs == []


# --- an operator that defers itself ---------------------------------------------------------------------------


def test_a_decision_submits_nothing_and_does_not_wait() -> None:
    jobs, attempt = FakeJobs(scripts=[LONG]), task_context()
    operator = train(jobs)
    assert operator.resume_decision(attempt.context).step is Step.SUBMIT  # type: ignore[arg-type]
    assert jobs.jobs == []
    submitted = operator.submit_resumable(attempt.context)  # type: ignore[arg-type]
    assert (submitted.step, submitted.external_id, submitted.generation) == (Step.RECONNECT, "job-0", 1)
    second = attempt.retry()
    decision = train(jobs).resume_decision(second.context)  # type: ignore[arg-type]
    assert (decision.step, decision.external_id, decision.status) == (Step.RECONNECT, "job-0", JobStatus.ACTIVE)
    again = train(jobs).submit_resumable(second.context)  # type: ignore[arg-type]
    assert (again.external_id, again.token) == ("job-0", submitted.token)
    assert len(jobs.jobs) == 1


def test_a_decision_about_a_job_that_succeeded_says_so() -> None:
    jobs, attempt = FakeJobs(scripts=[["SUCCEEDED"]]), task_context()
    train(jobs).submit_resumable(attempt.context)  # type: ignore[arg-type]
    assert train(jobs).resume_decision(attempt.retry().context).step is Step.FETCH_RESULT  # type: ignore[arg-type]
