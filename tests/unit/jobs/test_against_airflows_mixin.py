"""What Airflow's own mixin gets wrong, one line each, on both. `pytest -s` prints the table that docs/jobs.md has."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import BaseOperator
from airflow.sdk import ResumableJobMixin as AirflowResumableJobMixin
from airflow.sdk.exceptions import TaskDeferred

from airflow_resume import PollPolicy, ResumePolicy, run_job
from airflow_resume.testing import FakeJobs, TaskAttempt, task_context
from airflow_resume.testing.fakes.job import UnknownJobError
from airflow_resume_mixins import ResumableJobMixin
from tests.support.jobs.hooks import JobHooks, equipped

FAST = ResumePolicy(poll=PollPolicy(interval=timedelta(0), max_interval=timedelta(0), jitter=0))
LONG = ["RUNNING"] * 4 + ["SUCCEEDED"]


class DiedError(BaseException):
    """The process is gone."""


class UnavailableError(Exception):
    """HTTP 503."""

    status_code = 503


class Hooks(JobHooks):
    """The hooks of one operator, on both mixins."""

    attempt: TaskAttempt
    first_id: Any = None
    die_after: str = ""
    deferrable = False

    def submit_job(self, context: Any) -> Any:
        external_id = super().submit_job(context)
        self.dies("submit")
        return external_id if self.first_id is None else self.first_id

    def get_job_status(self, external_id: Any, context: Any) -> str:
        return super().get_job_status("job-0" if external_id == self.first_id else external_id, context)

    def poll_until_complete(self, external_id: Any, context: Any) -> None:
        self.dies("poll")
        while self.is_job_active(status := self.get_job_status(external_id, context)):
            pass
        if not self.is_job_succeeded(status):
            raise RuntimeError(status)

    def get_job_result(self, external_id: Any, context: Any) -> Any:
        return {"job": external_id}

    def on_kill(self) -> None:
        self.jobs.cancel(self.jobs.jobs[-1].id)

    def dies(self, where: str) -> None:
        if self.die_after == where:
            raise DiedError


class Airflows(Hooks, AirflowResumableJobMixin, BaseOperator):
    def execute(self, context: Any) -> Any:
        if self.deferrable:  # as provider operators do
            raise TaskDeferred(trigger=self.jobs.submit(), method_name="execute_complete")
        return self.execute_resumable(context)


class Ours(Hooks, ResumableJobMixin, BaseOperator):
    job_not_found = UnknownJobError  # type: ignore[assignment]

    def on_kill(self) -> None:
        super().on_kill()

    def find_job(self, token: str, context: Any) -> Any:
        found = self.jobs.find(token)
        return found if self.first_id is None or found is None else self.first_id

    def job_trigger(self, external_id: Any, context: Any) -> Any:
        return external_id


def operator(kind: type[Any], jobs: FakeJobs, **attributes: Any) -> Any:
    return equipped(kind(task_id="train"), jobs=jobs, resume_policy=FAST, **attributes)


def run(kind: type[Any], jobs: FakeJobs, attempt: TaskAttempt, **attributes: Any) -> Any:
    """What an attempt returns; None when it fails, or dies."""
    try:
        return operator(kind, jobs, **attributes).execute(attempt.context)
    except (DiedError, Exception) as error:  # noqa: BLE001  the second attempt is what counts
        print(f"    {kind.__name__}: {error!r}")
        return None


def twice(kind: type[Any], jobs: FakeJobs, *, between: Callable[[], object] = lambda: None, **attributes: Any) -> Any:
    """What the second attempt returns when the first one died."""
    attempt = task_context()
    run(kind, jobs, attempt, **{"die_after": "poll", **attributes})
    between()
    return run(kind, jobs, attempt.retry(), **{**attributes, "die_after": ""})


def counted(jobs: FakeJobs) -> str:
    return f"{len(jobs.jobs)} job{'s' if len(jobs.jobs) > 1 else ''}"


def reconnect(kind: type[Any]) -> str:
    return f"result {twice(kind, FakeJobs(scripts=[LONG]))}"


def falsy_id(kind: type[Any]) -> str:
    twice(kind, jobs := FakeJobs(scripts=[LONG]), first_id=0)
    return counted(jobs)


def forgotten(kind: type[Any]) -> str:
    jobs = FakeJobs(scripts=[LONG])
    result = twice(kind, jobs, between=lambda: jobs.forget("job-0"))
    return "a new job" if result == {"job": "job-1"} else "the retry fails"


def unknown_status(kind: type[Any]) -> str:
    jobs = FakeJobs(scripts=[["RECOVERING", "RUNNING", "SUCCEEDED"]])
    twice(kind, jobs)
    return counted(jobs)


def submit_persist(kind: type[Any]) -> str:
    twice(kind, jobs := FakeJobs(scripts=[LONG]), die_after="submit")
    return counted(jobs)


def failed_persist(kind: type[Any]) -> str:
    jobs, attempt = FakeJobs(scripts=[LONG]), task_context()

    def goes_away(when: str, call: str) -> None:
        if (when, call) == ("after", "submit"):
            attempt.task_store.outage(100)

    jobs.observer = goes_away
    run(kind, jobs, attempt)
    jobs.observer = None
    attempt.task_store.outage(0)
    run(kind, jobs, attempt.retry())
    return counted(jobs)


def two_jobs(kind: type[Any]) -> str:
    """The jobs `a` and `b` of one task: what the retry returns for each."""
    jobs, attempt = FakeJobs(scripts=[["RUNNING", "SUCCEEDED"]]), task_context()

    def both(context: Any) -> list[Any]:
        if kind is Ours:
            return [run_job(jobs, name=name, policy=FAST, context=context)["job"] for name in ("a", "b")]
        return [operator(kind, jobs).execute(context)["job"] for _ in range(2)]

    both(attempt.context)
    return "two results" if len(set(both(attempt.retry().context))) == len("ab") else "one result, twice"


def cleared(kind: type[Any]) -> str:
    jobs, attempt = FakeJobs(scripts=[LONG]), task_context()
    run(kind, jobs, attempt)
    return "done again" if run(kind, jobs, attempt.clear()) == {"job": "job-1"} else "the old result"


def expired(kind: type[Any]) -> str:
    jobs, attempt = FakeJobs(scripts=[LONG]), task_context()
    run(kind, jobs, attempt, die_after="poll")
    attempt.expire()
    run(kind, jobs, attempt.retry())
    return counted(jobs)


def killed(kind: type[Any], happens: Callable[[TaskAttempt], object]) -> str:
    """Whether the job is cancelled when something happens to the task that waits, and it is killed."""
    jobs, attempt = FakeJobs(scripts=[LONG]), task_context()
    made = operator(kind, jobs)

    def event(external_id: Any, context: Any) -> str:
        if jobs.jobs[0].is_alive and jobs.events[-1].call != "cancel":
            happens(attempt)
            made.on_kill()
        return jobs.status(external_id)

    equipped(made, get_job_status=event)
    with suppress(Exception):
        made.execute_resumable(attempt.context)
    return "cancelled" if "cancel" in {event.call for event in jobs.events} else "left alone"


def deferral(kind: type[Any]) -> str:
    """A deferral that fails, and the retry."""
    jobs, attempt = FakeJobs(scripts=[LONG]), task_context()
    for following in (attempt, attempt.retry):
        now = following if isinstance(following, TaskAttempt) else following()
        with pytest.raises(TaskDeferred):
            operator(kind, jobs, deferrable=True).execute(now.context)
    return counted(jobs)


def one_503(kind: type[Any]) -> str:
    jobs = FakeJobs(scripts=[LONG])
    result = twice(kind, jobs, between=lambda: jobs.fail_next("status", UnavailableError()))
    return "the retry fails" if result is None and kind is Airflows else f"result {result}"


FAULTS: dict[str, tuple[Callable[[type[Any]], str], str, str]] = {
    "a retry reconnects to its job": (reconnect, "result None", "result {'job': 'job-0'}"),
    "the id is 0": (falsy_id, "2 jobs", "1 job"),
    "the job system has forgotten the job": (forgotten, "the retry fails", "a new job"),
    "a status that no hook knows": (unknown_status, "2 jobs", "1 job"),
    "a crash between submit and save": (submit_persist, "2 jobs", "1 job"),
    "the id cannot be saved": (failed_persist, "2 jobs", "1 job"),
    "two jobs in one task": (two_jobs, "one result, twice", "two results"),
    "the task is cleared": (cleared, "the old result", "done again"),
    "a job of more than 30 days": (expired, "2 jobs", "1 job"),
    "a deploy": (lambda kind: killed(kind, lambda _: None), "cancelled", "left alone"),
    "marked failed": (lambda kind: killed(kind, lambda attempt: attempt.mark("failed")), "cancelled", "cancelled"),
    "an old attempt wakes": (lambda kind: killed(kind, TaskAttempt.supersede), "cancelled", "left alone"),
    "a deferral fails": (deferral, "2 jobs", "1 job"),
    "one 503 when a retry asks": (one_503, "the retry fails", "result {'job': 'job-0'}"),
}


@pytest.mark.parametrize("what", FAULTS)
def test_airflows_mixin_fails_and_ours_does_not(what: str) -> None:
    scenario, airflows, ours = FAULTS[what]
    seen = scenario(Airflows), scenario(Ours)
    print(f"| {what} | {seen[0]} | {seen[1]} |")
    assert seen == (airflows, ours)


def test_the_page_has_this_table() -> None:
    page = (Path(__file__).parents[3] / "docs" / "jobs.md").read_text()
    lines = [f"| {what} | {airflows} | {ours} |" for what, (_, airflows, ours) in FAULTS.items()]
    assert "\n".join(lines) in page
