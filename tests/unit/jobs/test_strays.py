"""A missing record proves nothing: live jobs of the slot are looked for before another is submitted."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from airflow.sdk import BaseOperator

from airflow_resume import PollPolicy, ResumePolicy, run_job
from airflow_resume.errors import StrayJobError
from airflow_resume.jobs.token import MOST_LIVES, SubmissionToken
from airflow_resume.testing import FakeClock, FakeJobs, TaskAttempt, World, task_context
from airflow_resume.testing.fakes.clock import START
from airflow_resume_mixins import ResumableJobMixin
from tests.support.jobs.hooks import JobHooks, equipped

KEY = "resume.job.job"
AT_ONCE = PollPolicy(interval=timedelta(0), max_interval=timedelta(0))
GIVES_UP = ResumePolicy(poll=PollPolicy(interval=timedelta(0), max_interval=timedelta(0), timeout=timedelta(0)))
LONG = ["RUNNING"] * 9 + ["SUCCEEDED"]


def policy(**choices: Any) -> ResumePolicy:
    return ResumePolicy(poll=AT_ONCE, **choices)


@pytest.fixture(autouse=True)
def deployment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__AIRFLOW_RESUME__DEPLOYMENT", "production")


def jobs_of(*scripts: list[str], **options: Any) -> FakeJobs:
    return FakeJobs(scripts=scripts or [LONG], **{"can_find_by_slot": True, **options})


def left_alive(jobs: FakeJobs, attempt: TaskAttempt) -> None:
    """The attempt submits, and dies while it waits."""
    with attempt, pytest.raises(Exception, match=r"poll\.timeout"):
        run_job(jobs, policy=GIVES_UP)
    assert len(jobs.alive()) == 1


def calls(jobs: FakeJobs, name: str) -> int:
    return sum(event.call == name for event in jobs.events)


def test_a_run_that_was_made_again_ends_the_job_of_the_deleted_one_before_it_submits_its_own() -> None:
    jobs, first = jobs_of(), task_context()
    left_alive(jobs, first)
    with first.recreate() as again:
        assert run_job(jobs, policy=policy()) == {"job": "job-1"}
        assert again.task_store.values[KEY]["history"][0]["reason"] == "not a job of this run"
    assert (calls(jobs, "cancel"), jobs.most_alive, jobs.jobs[0].state) == (1, 1, "CANCELLED")


def test_it_may_take_that_job_up() -> None:
    jobs, first = jobs_of(), task_context()
    left_alive(jobs, first)
    with first.recreate():
        assert run_job(jobs, policy=policy(on_stray_job="resume")) == {"job": "job-0"}
    assert len(jobs.jobs) == 1


def test_it_may_fail_and_touch_nothing() -> None:
    jobs, first = jobs_of(), task_context()
    left_alive(jobs, first)
    with first.recreate() as again:
        with pytest.raises(StrayJobError, match=r"on_stray_job='fail'.*\nEnd the job"):
            run_job(jobs, policy=policy(on_stray_job="fail"))
        assert again.task_store.values[KEY]["phase"] == "terminal"
    assert (calls(jobs, "cancel"), len(jobs.jobs)) == (0, 1)


@pytest.mark.parametrize("choice", ["resubmit", "resume", "fail"])
def test_without_a_name_of_the_deployment_nothing_is_touched_as_it_may_be_somebody_elses(
    choice: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AIRFLOW__AIRFLOW_RESUME__DEPLOYMENT")
    jobs = jobs_of()
    left_alive(jobs, task_context(world=World()))
    with (
        task_context(world=World(clock=FakeClock(START + timedelta(days=1)))),
        pytest.raises(StrayJobError, match=r"(?s)may belong to another Airflow.*\nGive each"),
    ):
        run_job(jobs, policy=policy(on_stray_job=choice))
    assert (calls(jobs, "cancel"), jobs.alive()) == (0, ["job-0"])


def test_jobs_of_the_slot_that_have_ended_are_never_taken_for_this_runs() -> None:
    jobs, first = jobs_of(["SUCCEEDED"]), task_context()
    with first:
        assert run_job(jobs, policy=policy()) == {"job": "job-0"}
    with first.recreate():
        assert run_job(jobs, policy=policy()) == {"job": "job-1"}


@pytest.mark.parametrize("options", [{}, {"can_find_by_slot": False}], ids=["by slot", "by token"])
def test_a_job_whose_record_was_deleted_is_found_alive(options: dict[str, Any]) -> None:
    jobs, first = jobs_of(**options), task_context()
    left_alive(jobs, first)
    first.task_store.clear()
    with first.retry():
        assert run_job(jobs, policy=policy()) == {"job": "job-0"}
    assert len(jobs.jobs) == 1


@pytest.mark.parametrize("options", [{}, {"can_find_by_slot": False}], ids=["by slot", "by token"])
def test_one_that_has_ended_meanwhile_is_done_again_under_another_token(options: dict[str, Any]) -> None:
    jobs, first = jobs_of(["SUCCEEDED"], **options), task_context()
    with first:
        run_job(jobs, policy=policy())
    first.task_store.clear()
    with first.retry() as second:
        assert run_job(jobs, policy=policy()) == {"job": "job-1"}
        assert second.task_store.values[KEY]["generation"] == 2
    assert jobs.jobs[0].token != jobs.jobs[1].token


def test_a_job_of_a_later_generation_is_found_by_the_slot() -> None:
    jobs, first = jobs_of(["FAILED"], LONG), task_context()
    with first, pytest.raises(Exception, match="ended without success"):
        run_job(jobs, policy=policy())
    left_alive(jobs, second := first.retry())
    second.task_store.clear()
    with second.retry():
        assert run_job(jobs, policy=policy(on_stray_job="resume")) == {"job": "job-1"}
    assert len(jobs.jobs) == 2


BY_TOKEN = {"can_find_by_slot": False}


class Asked(FakeJobs):
    """Notes the tokens that it is asked for."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.asked: set[str] = set()

    def find(self, token: str, /) -> Any:
        """The job with the token."""
        self.asked.add(token)
        return super().find(token)


@pytest.mark.parametrize("name", ["production", ""], ids=["with a deployment", "without one"])
@pytest.mark.parametrize("options", [{}, BY_TOKEN], ids=["by slot", "by token"])
@pytest.mark.parametrize("clears", [1, 2])
@pytest.mark.parametrize("retries", [0, 3])
def test_a_clear_that_discards_the_record_has_the_job_ended_before_another_is_submitted(
    monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], clears: int, name: str, retries: int
) -> None:
    """Airflow 3.4 does so unless it is told otherwise."""
    monkeypatch.setenv("AIRFLOW__AIRFLOW_RESUME__DEPLOYMENT", name)
    jobs, attempt = jobs_of(*[LONG] * 5, **options), task_context(airflow="3.4", retries=retries)
    left_alive(jobs, attempt)
    for _ in range(clears):
        attempt = attempt.clear(while_running=True)
        with attempt:
            assert not attempt.task_store.values
    with attempt:
        assert run_job(jobs, policy=policy()) == {"job": "job-1"}
    assert [job.state for job in jobs.jobs] == ["CANCELLED", "SUCCEEDED"]
    assert jobs.most_alive == 1


@pytest.mark.parametrize(("choice", "job"), [("resume", "job-0"), ("resubmit", "job-1")])
def test_what_becomes_of_it_is_the_same_as_of_any_stray_job(choice: Any, job: str) -> None:
    jobs, first = jobs_of(LONG, LONG, **BY_TOKEN), task_context(airflow="3.4")
    left_alive(jobs, first)
    with first.clear(while_running=True):
        assert run_job(jobs, policy=policy(on_stray_job=choice)) == {"job": job}


def test_a_job_of_a_later_generation_from_before_the_clear_is_found_too() -> None:
    jobs, first = jobs_of(["FAILED"], ["FAILED"], LONG, LONG, **BY_TOKEN), task_context(airflow="3.4", retries=5)
    attempt = first
    for _ in range(2):
        with attempt, pytest.raises(Exception, match="ended without success"):
            run_job(jobs, policy=policy())
        attempt = attempt.retry()
    left_alive(jobs, attempt)
    with attempt.clear(while_running=True):
        assert run_job(jobs, policy=policy()) == {"job": "job-3"}
    assert [job.state for job in jobs.jobs] == ["FAILED", "FAILED", "CANCELLED", "SUCCEEDED"]


def test_what_was_never_cleared_asks_for_no_token_but_its_own() -> None:
    jobs = Asked(scripts=[["SUCCEEDED"]], can_find_by_slot=False)
    with task_context(retries=5).retry().retry():
        assert run_job(jobs, policy=policy()) == {"job": "job-0"}
    assert jobs.asked == {str(jobs.jobs[0].token)}


def test_how_many_tokens_are_asked_for_is_bounded() -> None:
    jobs, attempt = Asked(scripts=[["SUCCEEDED"]], can_find_by_slot=False), task_context(airflow="3.4", retries=500)
    for _ in range(100):
        attempt = attempt.retry()
    with attempt.clear():
        assert run_job(jobs, policy=policy()) == {"job": "job-0"}
    assert len(jobs.asked) == 1 + MOST_LIVES


def test_several_strays_end_one_after_the_other() -> None:
    jobs, first = jobs_of(), task_context()
    left_alive(jobs, first)
    slot = str(jobs.jobs[0].token)[:16]
    jobs.submit(slot + "f" * 16)
    assert len(jobs.alive()) == 2
    with first.recreate():
        assert run_job(jobs, policy=policy()) == {"job": "job-2"}
    assert [job.state for job in jobs.jobs] == ["CANCELLED", "CANCELLED", "SUCCEEDED"]


def test_a_stray_that_was_taken_down_is_ended_by_the_next_attempt_if_this_one_dies() -> None:
    jobs, first = jobs_of(), task_context()
    left_alive(jobs, first)
    jobs.fail_next("cancel", KeyError("a bug"))
    with first.recreate() as second, pytest.raises(KeyError):
        run_job(jobs, policy=policy())
    with second.retry():
        assert run_job(jobs, policy=policy()) == {"job": "job-1"}
    assert jobs.most_alive == 1


def test_an_attempt_that_should_have_a_record_believes_an_empty_index_only_when_it_says_so_twice() -> None:
    class Late(FakeJobs):
        misses = 1

        def find_jobs(self, slot: str, /) -> Any:
            if self.misses:
                self.misses -= 1
                return {}
            return {str(job.token): job.id for job in self.jobs if str(job.token).startswith(slot)}

    jobs, first = Late(scripts=[LONG], can_find_by_slot=True), task_context()
    jobs.misses = 1
    with first, pytest.raises(Exception, match=r"poll\.timeout"):
        run_job(jobs, policy=GIVES_UP)
    first.task_store.clear()
    jobs.misses = 1
    with first.retry():
        assert run_job(jobs, policy=policy()) == {"job": "job-0"}


def test_a_script_has_no_slot_and_searches_for_nothing() -> None:
    from airflow_resume.store import MemoryStore

    jobs = jobs_of(["SUCCEEDED"])
    run_job(jobs, policy=policy(), store=MemoryStore())
    assert calls(jobs, "find_jobs") == 0


class Searching(JobHooks, ResumableJobMixin, BaseOperator):
    def find_jobs(self, slot: str, context: Any) -> Any:
        assert slot == self.submission_slot
        return self.jobs.find_jobs(slot)

    def cancel_job(self, external_id: Any, context: Any) -> None:
        self.jobs.cancel(external_id)


def test_an_operator_that_can_only_search_by_slot_finds_its_lost_submission_too() -> None:
    jobs, first = jobs_of(), task_context()
    jobs.fail_next("submit", TimeoutError(), applied=True)
    made = equipped(Searching(task_id="t", resume_policy=policy()), jobs=jobs)
    with pytest.raises(TimeoutError):
        made.execute(first.context)
    assert made.execute(first.retry().context) == "job-0"
    assert len(jobs.jobs) == 1


def test_what_is_no_dict_is_refused_with_what_to_write() -> None:
    class Wrong(FakeJobs):
        def find_jobs(self, slot: str, /) -> Any:
            return ["job-0"]

    with task_context(), pytest.raises(TypeError, match=r"returned list\.\nReturn a dict"):
        run_job(Wrong(can_find_by_slot=True), policy=policy())


@pytest.mark.parametrize("digits", [16, 24, 32, 64])
def test_live_jobs_of_other_slots_are_left_alone_though_the_search_brings_them(digits: int) -> None:
    class All(FakeJobs):
        """Answers with the jobs of every slot, and spells tokens as job systems do."""

        def find_jobs(self, slot: str, /) -> Any:
            return {SubmissionToken(job.token).of_length(digits).upper(): job.id for job in self.jobs}

    jobs = All(scripts=[LONG, ["SUCCEEDED"], LONG], can_find_by_slot=True)
    with task_context(task_id="another"), pytest.raises(Exception, match=r"poll\.timeout"):
        run_job(jobs, policy=GIVES_UP)
    with task_context(task_id="ours"):
        assert run_job(jobs, policy=policy()) == {"job": "job-1"}
    assert calls(jobs, "cancel") == 0
