from __future__ import annotations

import pytest

from airflow_resume.jobs.protocol import JobSystem
from airflow_resume.testing.fakes.job import JobEvent, UnknownJobError
from airflow_resume.testing.fakes.jobs import FakeJobs


def test_a_job_goes_through_its_script_and_stays_at_the_end() -> None:
    jobs = FakeJobs(scripts=[["PENDING", "RUNNING", "FAILED"], ["SUCCEEDED"]])
    first, second, third = jobs.submit("a"), jobs.submit("b"), jobs.submit("c")
    assert [jobs.status(first) for _ in range(4)] == ["PENDING", "RUNNING", "FAILED", "FAILED"]
    assert [jobs.status(second), jobs.status(third)] == ["SUCCEEDED", "SUCCEEDED"]


def test_live_jobs_and_the_most_at_once_are_counted() -> None:
    jobs = FakeJobs()
    ids = [jobs.submit(), jobs.submit()]
    assert (jobs.alive(), jobs.most_alive) == (ids, 2)
    jobs.status(ids[0])
    jobs.submit()
    assert (jobs.alive(), jobs.most_alive) == ([ids[1], "job-2"], 2)


def test_a_token_is_found_and_recognised_when_the_system_dedupes() -> None:
    jobs = FakeJobs(dedupes=True)
    assert jobs.submit("a") == jobs.submit("a") == jobs.find("a") == "job-0"
    assert jobs.find("b") is None
    twice = FakeJobs()
    assert [twice.submit("a"), twice.submit("a"), twice.find("a")] == ["job-0", "job-1", "job-1"]


def test_a_cancelled_job_ends_and_an_ended_one_stays_as_it_is() -> None:
    jobs = FakeJobs(scripts=[["RUNNING"], ["SUCCEEDED"]])
    running, ended = jobs.submit("a"), jobs.submit("b")
    jobs.cancel(running)
    jobs.cancel(ended)
    assert [jobs.status(running), jobs.status(running), jobs.status(ended)] == ["CANCELLING", "CANCELLED", "SUCCEEDED"]


def test_a_forgotten_job_is_unknown() -> None:
    jobs = FakeJobs()
    forgotten = jobs.submit("a")
    jobs.forget(forgotten)
    assert jobs.find("a") is None
    for call in (jobs.status, jobs.result, jobs.cancel, jobs.forget):
        with pytest.raises(UnknownJobError, match="job-0"):
            call(forgotten)


def test_an_ordered_error_comes_once_before_or_after_the_work() -> None:
    jobs = FakeJobs()
    jobs.fail_next("submit", ConnectionRefusedError("down"))
    jobs.fail_next("submit", TimeoutError("no answer"), applied=True)
    with pytest.raises(ConnectionRefusedError):
        jobs.submit("a")
    assert jobs.jobs == []
    with pytest.raises(TimeoutError):
        jobs.submit("a")
    assert jobs.find("a") == "job-0"


def test_everything_that_was_asked_is_in_the_log() -> None:
    jobs = FakeJobs(results=lambda external_id: f"model of {external_id}")
    external_id = jobs.submit("a")
    jobs.status(external_id)
    assert jobs.result(external_id) == "model of job-0"
    jobs.find("b")
    assert jobs.events == [
        JobEvent("submit", "job-0"),
        JobEvent("status", "job-0"),
        JobEvent("result", "job-0"),
        JobEvent("find", None),
    ]


def test_only_submit_and_cancel_have_points() -> None:
    seen: list[tuple[str, str]] = []
    jobs = FakeJobs(observer=lambda phase, what: seen.append((phase, what)))
    external_id = jobs.submit("a")
    jobs.status(external_id)
    jobs.cancel(external_id)
    assert seen == [("before", "submit"), ("after", "submit"), ("before", "cancel"), ("after", "cancel")]


def test_what_the_system_lacks_is_seen_by_the_engine() -> None:
    full, poor = JobSystem(FakeJobs(dedupes=True)), JobSystem(FakeJobs(can_find=False, can_cancel=False))
    assert (full.can_find, full.can_cancel, full.is_idempotent) == (True, True, True)
    assert (poor.can_find, poor.can_cancel, poor.is_idempotent) == (False, False, False)
