"""What people found who had only the documentation: each is one fault, and the right outcome."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowRescheduleException

from airflow_resume import PollPolicy, ResumePolicy, arun_job, run_job
from airflow_resume.errors import JobFailedError, StrayJobError, SupersededError, TaskStoppedError
from airflow_resume.jobs import JobStatus, SubmissionToken
from airflow_resume.jobs.transport import is_passing
from airflow_resume.testing import CrashWorld, FakeJobs, World, explore_crashes, task_context
from airflow_resume.testing.crashes.outcome import ExplorationOutcome
from airflow_resume_mixins import ResumableJobMixin
from tests.support.jobs.hooks import JobHooks, LookUpHooks, equipped

AT_ONCE = PollPolicy(interval=timedelta(0), max_interval=timedelta(0), jitter=0)
POLICY = ResumePolicy(poll=AT_ONCE)
GIVES_UP = ResumePolicy(poll=PollPolicy(interval=timedelta(0), max_interval=timedelta(0), timeout=timedelta(0)))
LONG = ["RUNNING"] * 9 + ["SUCCEEDED"]


def calls(jobs: FakeJobs, name: str) -> int:
    return sum(event.call == name for event in jobs.events)


# --- the search before a submit ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["production", None])
def test_a_search_that_failed_is_made_again_by_the_retry(name: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    if name is not None:
        monkeypatch.setenv("AIRFLOW__AIRFLOW_RESUME__DEPLOYMENT", name)
    jobs, first = FakeJobs(can_find_by_slot=True, scripts=[LONG]), task_context()
    with first, pytest.raises(Exception, match=r"poll\.timeout"):
        run_job(jobs, policy=GIVES_UP)
    again = first.recreate()
    jobs.fail_next("find_jobs", KeyError("items"))
    with again, pytest.raises(KeyError):
        run_job(jobs, policy=POLICY)
    with again.retry():
        if name is None:
            with pytest.raises(StrayJobError):
                run_job(jobs, policy=POLICY)
        else:
            assert run_job(jobs, policy=POLICY) == {"job": "job-1"}
    assert jobs.most_alive == 1


def one_alive(outcome: ExplorationOutcome[CrashWorld]) -> None:
    assert outcome.world.jobs.most_alive_in_a_life <= 1, "two jobs alive"


# By token alone a later generation cannot be found, which is named in docs/jobs.md.
@pytest.mark.parametrize(
    ("options", "script"),
    [
        ({"can_find_by_slot": True}, [LONG]),
        ({"can_find_by_slot": True}, [["FAILED"], LONG]),
        ({}, [LONG]),
    ],
    ids=["by slot", "by slot, after a failure", "by token"],
)
def test_a_record_that_is_lost_and_whatever_else_happens_leaves_one_job(
    options: dict[str, Any], script: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__AIRFLOW_RESUME__DEPLOYMENT", "production")

    def attempt(world: CrashWorld) -> Any:
        with task_context(world=world.airflow, retries=100):
            return run_job(world.jobs, policy=POLICY)

    explore_crashes(
        attempt,
        oracle=one_alive,
        world=lambda: CrashWorld(airflow=World(), jobs=FakeJobs(scripts=script, **options)),
        kinds=["state_cleared", "crash", "refused", "wrong_once failed"],
        retry_on=(JobFailedError,),
        max_pairs=400,
    )


@pytest.mark.parametrize("digits", [24, 64])
def test_a_token_in_another_form_is_found_among_the_jobs_of_the_slot(digits: int) -> None:
    class Api(FakeJobs):
        """It keeps tokens of a length of its own."""

        def submit(self, token: str | None = None, /) -> Any:
            return super().submit(SubmissionToken(token or "").of_length(digits))

        def find_jobs(self, slot: str, /) -> Any:
            return {job.token: job.id for job in self.jobs if str(job.token).startswith(slot[: digits // 2])}

    jobs, first = Api(can_find=False, can_find_by_slot=True, scripts=[LONG]), task_context()
    jobs.fail_next("submit", ConnectionError("the reply is lost"), applied=True)
    with first, pytest.raises(ConnectionError):
        run_job(jobs, policy=POLICY)
    with first.retry() as second, pytest.raises(Exception, match=r"poll\.timeout"):
        run_job(jobs, policy=GIVES_UP)
    second.task_store.clear()
    with second.retry():
        assert run_job(jobs, policy=POLICY) == {"job": "job-0"}
    assert (len(jobs.jobs), calls(jobs, "cancel")) == (1, 0)


@pytest.mark.parametrize("nothing", [[], {}, False])
def test_a_find_that_returns_an_empty_answer_is_told_to_return_none(nothing: Any) -> None:
    class Slip(FakeJobs):
        def find(self, token: str, /) -> Any:
            return nothing

    jobs = Slip()
    with task_context(), pytest.raises(TypeError, match=r"find\('[0-9a-f]{32}'\) returned .*\nReturn the id"):
        run_job(jobs)
    assert jobs.jobs == []


# --- ended in the middle ----------------------------------------------------------------------------------------


class Interrupted(FakeJobs):
    """Something happens in the middle of a look-up."""

    happens: Callable[[], object] = staticmethod(lambda: None)

    def find(self, token: str, /) -> Any:
        happens, self.happens = self.happens, lambda: None  # type: ignore[method-assign]
        happens()
        return super().find(token)


def test_an_attempt_that_learns_in_its_look_up_that_it_was_replaced_submits_nothing() -> None:
    jobs, first = Interrupted(scripts=[["SUCCEEDED"]]), task_context()

    def replaced() -> None:
        successor = first.supersede()
        run_job(jobs, policy=POLICY, context=successor.context)
        first.ti.task.on_kill()

    jobs.happens = replaced  # type: ignore[method-assign]
    with first, pytest.raises(SupersededError):
        run_job(jobs, policy=POLICY)
    assert len(jobs.jobs) == 1


@pytest.mark.parametrize("state", ["failed", "success"])
def test_a_job_that_is_found_while_the_task_is_marked_is_cancelled(state: Any) -> None:
    jobs, first = Interrupted(scripts=[LONG]), task_context()
    jobs.fail_next("submit", TimeoutError(), applied=True)
    with first, pytest.raises(TimeoutError):
        run_job(jobs, policy=POLICY)
    second = first.retry()

    def marked() -> None:
        second.mark(state)
        second.ti.task.on_kill()

    jobs.happens = marked  # type: ignore[method-assign]
    with second, pytest.raises(TaskStoppedError):
        run_job(jobs, policy=POLICY)
    assert (calls(jobs, "cancel"), jobs.jobs[0].state) == (1, "CANCELLING")


def test_a_deploy_while_the_job_system_is_away_gives_the_slot_back() -> None:
    class Away(FakeJobs):
        def status(self, external_id: Any, /) -> str:
            attempt.ti.task.on_kill()
            raise ConnectionError("away")

    jobs, attempt = Away(), task_context()
    with attempt, pytest.raises(AirflowRescheduleException):
        run_job(jobs)
    assert jobs.alive() == ["job-0"]


def test_an_id_that_is_a_number_here_and_text_there_is_the_same_and_the_successors_job_is_left_alone() -> None:
    class Tagged(FakeJobs):
        def find(self, token: str, /) -> Any:
            found = super().find(token)
            return None if found is None else str(found)

    jobs, first = Tagged(ids=int, scripts=[LONG], can_find=True), task_context()

    class Slow(Tagged):
        """It is replaced while it submits."""

    submit = jobs.submit

    def submit_and_be_replaced(token: str) -> Any:
        job = submit(token)
        first.supersede()
        return job

    jobs.submit = submit_and_be_replaced  # type: ignore[method-assign, assignment]
    with first, pytest.raises(SupersededError):
        run_job(jobs, policy=POLICY)
    assert (calls(jobs, "cancel"), jobs.alive()) == (0, [0])


# --- coroutines -------------------------------------------------------------------------------------------------


def test_a_method_that_raises_stop_iteration_ends_the_coroutine() -> None:
    class Slip(FakeJobs):
        def status(self, external_id: Any, /) -> str:
            raise StopIteration

    with task_context(), pytest.raises(RuntimeError, match="StopIteration"):
        asyncio.run(asyncio.wait_for(arun_job(Slip(), policy=POLICY), timeout=20))


def test_a_coroutine_that_is_cancelled_in_its_look_up_submits_nothing_afterwards() -> None:
    class Slow(FakeJobs):
        async def find(self, token: str, /) -> Any:  # type: ignore[override]
            await asyncio.sleep(0.3)

    jobs = Slow()

    async def task() -> None:
        await asyncio.wait_for(arun_job(jobs, policy=POLICY), timeout=0.1)

    with task_context(), pytest.raises(asyncio.TimeoutError):
        asyncio.run(task())
    assert jobs.jobs == []


def test_a_second_cancellation_waits_for_the_submit_as_well() -> None:
    class Slow(FakeJobs):
        async def submit(self, token: str | None = None, /) -> Any:  # type: ignore[override]
            await asyncio.sleep(0.3)
            return super().submit(token)

    jobs, attempt = Slow(can_find=False), task_context()

    async def task() -> None:
        running = asyncio.create_task(arun_job(jobs, policy=POLICY))
        for _ in range(2):
            await asyncio.sleep(0.05)
            running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    with attempt:
        asyncio.run(task())
    assert attempt.task_store.values["resume.job.job"]["id"] == "job-0"


# --- slips of authors are refused before anything is claimed ------------------------------------------------------


class NoStatus:
    def submit(self, token: str) -> str:
        return "job"


class Coroutine(FakeJobs):
    async def status(self, external_id: Any, /) -> str:  # type: ignore[override]
        return "RUNNING"


class ListOfErrors(FakeJobs):
    job_not_found = [KeyError]  # type: ignore[assignment]  # noqa: RUF012


class Method(FakeJobs):
    def submission_is_idempotent(self) -> bool:  # type: ignore[override]
        return False


@pytest.mark.parametrize(
    ("jobs", "said"),
    [
        (object(), "object has no method 'submit'"),
        (FakeJobs, "FakeJobs is a class"),
        (NoStatus(), "NoStatus has no method 'status'"),
        (Coroutine(), "Coroutine.status is a coroutine function"),
        (ListOfErrors(), "job_not_found is"),
        (Method(), "submission_is_idempotent is a function"),
    ],
    ids=["nothing", "a class", "no status", "a coroutine", "a list", "a method"],
)
def test_what_could_not_work_is_refused_before_anything_is_claimed(jobs: Any, said: str) -> None:
    with task_context() as attempt, pytest.raises(TypeError, match=f"{said}.*\n"):
        run_job(jobs)
    assert attempt.task_store.values == {}


# --- operators --------------------------------------------------------------------------------------------------


def test_classify_job_status_is_asked_only_about_what_is_neither_active_nor_succeeded() -> None:
    class Classifying(LookUpHooks, ResumableJobMixin, BaseOperator):
        def classify_job_status(self, status: str) -> Any:
            return JobStatus.FAILED if status == "EVICTED" else None

    jobs, attempt = FakeJobs(scripts=[["RUNNING", "EVICTED"], ["RUNNING", "SUCCEEDED"]]), task_context()
    made = equipped(Classifying(task_id="t", resume_policy=POLICY), jobs=jobs)
    with pytest.raises(JobFailedError):
        made.execute(attempt.context)
    assert made.execute(attempt.retry().context) == {"job": "job-1"}


def test_a_job_that_is_not_durable_is_never_taken_up_by_its_token() -> None:
    class Find(LookUpHooks, ResumableJobMixin, BaseOperator):
        def cancel_job(self, external_id: Any, context: Any) -> None:
            self.jobs.cancel(external_id)

    jobs, attempt = FakeJobs(scripts=[["SUCCEEDED"]]), task_context()
    equipped(Find(task_id="t", resume_policy=POLICY, durable=False), jobs=jobs).execute(attempt.context)
    equipped(Find(task_id="t", resume_policy=POLICY, durable=False), jobs=jobs).execute(attempt.retry().context)
    assert len(jobs.jobs) == 2


def test_a_hook_that_is_a_coroutine_function_and_an_on_kill_that_is_no_method_are_refused_with_the_class() -> None:
    with pytest.raises(TypeError, match=r"cancel_job is a coroutine function\.\nMake it a plain method"):

        class Async(JobHooks, ResumableJobMixin, BaseOperator):
            async def cancel_job(self, external_id: Any, context: Any) -> None: ...

    with pytest.raises(TypeError, match=r"on_kill is not a plain method\.\nWrite it as"):

        class OnKill(JobHooks, ResumableJobMixin, BaseOperator):
            on_kill = classmethod(lambda cls: None)  # type: ignore[assignment]


def test_an_operator_that_has_run_can_be_copied() -> None:
    class Train(LookUpHooks, ResumableJobMixin, BaseOperator): ...

    made = equipped(Train(task_id="t", resume_policy=POLICY), jobs=FakeJobs(scripts=[["SUCCEEDED"]]))
    made.execute(task_context().context)
    equipped(made, jobs=None)  # the stand-in cannot be copied
    assert copy.deepcopy(made).task_id == "t"


def test_a_throttled_question_is_asked_again() -> None:
    class ClientError(Exception):
        response = {"Error": {"Code": "ThrottlingException"}, "ResponseMetadata": {"HTTPStatusCode": 400}}  # noqa: RUF012

    assert is_passing(ClientError())


def test_what_an_operator_declares_is_looked_at_for_each_operator() -> None:
    class Slip(LookUpHooks, ResumableJobMixin, BaseOperator):
        job_not_found = [KeyError]  # type: ignore[assignment]  # noqa: RUF012

    class Right(LookUpHooks, ResumableJobMixin, BaseOperator): ...

    jobs = FakeJobs(scripts=[["SUCCEEDED"]])
    equipped(Right(task_id="t", resume_policy=POLICY), jobs=jobs).execute(task_context().context)
    with pytest.raises(TypeError, match="job_not_found is"):
        equipped(Slip(task_id="t", resume_policy=POLICY), jobs=jobs).execute(task_context().context)
    assert len(jobs.jobs) == 1
