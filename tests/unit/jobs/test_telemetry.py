"""Airflow's counters and its span, told once an attempt. `pytest -s` prints which step moves which counter."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest

from airflow_resume import PollPolicy, ResumePolicy, run_job
from airflow_resume.jobs import Step
from airflow_resume.jobs.telemetry import count, counters_of
from airflow_resume.testing import FakeJobs, TaskAttempt, task_context

TABLE = {
    (Step.SUBMIT, False): ["fresh_submit"],
    (Step.SUBMIT, True): ["reconnect_attempt", "terminal_resubmit"],
    (Step.SUBMIT_AGAIN, False): ["fresh_submit"],
    (Step.RECONNECT, True): ["reconnect_attempt", "reconnect_success"],
    (Step.FETCH_RESULT, True): ["reconnect_attempt", "already_succeeded"],
    (Step.RETURN_SAVED, True): ["reconnect_attempt", "already_succeeded"],
    (Step.WAIT_FOR_END, True): ["reconnect_attempt"],
    (Step.CANCEL, True): ["reconnect_attempt"],
    (Step.FAIL_LOST, False): [],
}


@pytest.mark.parametrize(("step", "had_job"), TABLE)
def test_the_counters_of_a_decision(step: Step, had_job: bool) -> None:  # noqa: FBT001
    print(f"{step.value:25} {'a job' if had_job else 'no job':8} -> {', '.join(counters_of(step, had_job=had_job))}")
    assert counters_of(step, had_job=had_job) == TABLE[step, had_job]


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, dict[str, str]]]:
    """What was counted, with its tags."""
    from airflow.sdk._shared.observability.metrics import stats

    seen: list[tuple[str, dict[str, str]]] = []
    monkeypatch.setattr(stats, "incr", lambda name, tags: seen.append((name, tags)))
    return seen


FAST = PollPolicy(interval=timedelta(0), max_interval=timedelta(0), jitter=0)


def attempts(jobs: FakeJobs) -> Iterator[TaskAttempt]:
    attempt = task_context()
    while True:
        run_job(jobs, policy=ResumePolicy(poll=FAST), context=attempt.context)
        yield attempt
        attempt = attempt.retry()


def test_an_attempt_counts_by_airflows_names_and_tags(counted: list[tuple[str, dict[str, str]]]) -> None:
    tried = attempts(FakeJobs())
    next(tried)
    next(tried)
    assert [name for name, _ in counted] == [
        "resumable_job.fresh_submit",
        "resumable_job.reconnect_attempt",
        "resumable_job.already_succeeded",
    ]
    assert {tuple(tags) for _, tags in counted} == {("operator",)}


def test_the_span_is_around_the_decision_and_ends_before_anything_is_submitted(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []

    class Span:
        def set_attributes(self, attributes: dict[str, Any]) -> None:
            told.extend(f"{name}={value}" for name, value in attributes.items() if name != "operator")

        def set_attribute(self, name: str, value: Any) -> None:
            told.append(f"{name}={value}")

    class Tracer:
        @contextmanager
        def start_as_current_span(self, name: str) -> Iterator[Span]:
            told.append(name)
            yield Span()
            told.append("end of span")

    jobs = FakeJobs()
    jobs.observer = lambda when, call: told.append(f"{when} {call}")
    monkeypatch.setattr("opentelemetry.trace.get_tracer", lambda _name: Tracer())
    tried = attempts(jobs)
    next(tried)
    assert told == [
        "resumable_job.resume_decision",
        "resumable.external_id_key=resume.job.job",
        "resumable.decision=submit",
        "end of span",
        "before submit",
        "after submit",
    ]
    told.clear()
    next(tried)
    assert told[2:5] == [
        "resumable.decision=done",
        "resumable.external_id=job-0",
        "resumable.prior_status=None",
    ]


def test_an_airflow_whose_counters_have_moved_counts_nothing_and_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "airflow.sdk._shared.observability.metrics", None)
    count("fresh_submit", {})
