from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from airflow.sdk import BaseOperator
from airflow.sdk import ResumableJobMixin as AirflowResumableJobMixin

from airflow_resume import JobStatus, PollPolicy, ResumePolicy
from airflow_resume.errors import LostSubmissionError, NoStateStoreError
from airflow_resume.testing import CrashWorld, FakeJobs, World, explore_crashes, task_context
from airflow_resume.testing.crashes.outcome import ExplorationOutcome
from airflow_resume.testing.oracles import each_effect_exactly_once, same_result
from airflow_resume.testing.points import CrashedError
from airflow_resume_mixins import ResumableJobMixin
from tests.support.jobs.hooks import JobHooks, LookUpHooks, equipped

KEY = "resume.job.job"


def numbered(*states: str) -> FakeJobs:
    """Jobs whose ids are numbers from 0 on, an id that is no truth; each of them has these states."""
    return FakeJobs(ids=int, scripts=[states or ["SUCCEEDED"]])


class Train(JobHooks, ResumableJobMixin, BaseOperator):
    """The least an operator needs."""

    def submit_job(self, context: Any) -> Any:
        assert self.submission_token is not None
        return super().submit_job(context)


class FindingTrain(LookUpHooks, Train):
    pass


AT_ONCE = ResumePolicy(poll=PollPolicy(interval=timedelta(0), max_interval=timedelta(0), jitter=0))


def operator(kind: type[Train], jobs: FakeJobs, **options: Any) -> Train:
    made = kind(task_id="train", resume_policy=AT_ONCE, **options)
    equipped(made, jobs=jobs)
    return made


def execute(made: Any, context: Any) -> Any:
    return made.execute_resumable(context)


def test_one_job_and_one_result_whenever_the_attempts_die() -> None:
    def make_world() -> CrashWorld:
        return CrashWorld(airflow=World(), jobs=numbered("RUNNING", "SUCCEEDED"))

    def attempt(world: CrashWorld) -> Any:
        return execute(operator(FindingTrain, world.jobs), task_context(world=world.airflow).context)

    def oracle(outcome: ExplorationOutcome[CrashWorld]) -> None:
        assert len(outcome.world.jobs.jobs) == 1
        assert outcome.result == {"job": 0}
        assert task_context(world=outcome.world.airflow).task_store.values["remote_job_id"] == 0

    oracles = [oracle, each_effect_exactly_once, same_result]
    report = explore_crashes(attempt, oracle=oracles, world=make_world, max_pairs=50)
    assert report.ways - report.pairs > len(report.points) > 10
    assert report.pairs > 20


def test_the_attributes_tell_the_job_that_is_really_its_own_on_every_path() -> None:
    world, jobs = World(), numbered()
    for _ in range(2):
        made = operator(FindingTrain, jobs)
        execute(made, task_context(world=world).context)
        assert (made.external_id, made.generation, made.submission_token) == (0, 1, jobs.jobs[0].token)


def test_without_hooks_for_them_the_result_is_the_id_and_a_lost_submission_is_named() -> None:
    jobs = numbered()
    assert execute(operator(Train, jobs), task_context().context) == 0
    first = task_context()
    jobs.fail_next("submit", CrashedError(), applied=True)
    with pytest.raises(CrashedError):
        execute(operator(Train, jobs), first.context)
    with pytest.raises(LostSubmissionError, match="find"):
        execute(operator(Train, jobs), first.retry().context)


def test_an_id_that_airflows_mixin_saved_is_adopted_and_ours_is_left_for_it() -> None:
    jobs, first = numbered(), task_context()
    jobs.submit("by Airflow's mixin")
    first.task_store.set("remote_job_id", 0)
    assert execute(operator(FindingTrain, jobs), first.context)["job"] == 0
    assert len(jobs.jobs) == 1


def test_an_adopted_id_of_a_task_that_was_cleared_is_not_returned_as_its_result() -> None:
    """Deleting our record and clearing the task starts over, although the id is still mirrored."""
    jobs, first = numbered(), task_context()
    execute(operator(FindingTrain, jobs), first.context)
    first.task_store.delete(KEY)
    assert execute(operator(FindingTrain, jobs), first.clear().context)["job"] == 1


def test_not_durable_submits_in_every_attempt_and_leaves_no_record() -> None:
    jobs, first = numbered(), task_context()
    execute(operator(FindingTrain, jobs), first.context)
    second = first.retry()
    execute(operator(FindingTrain, jobs, durable=False), second.context)
    assert len(jobs.jobs) == 2
    assert second.task_store.values == {}


def test_a_context_without_a_store_submits_nothing() -> None:
    jobs = numbered()
    with pytest.raises(NoStateStoreError):
        execute(operator(Train, jobs), {})
    assert jobs.jobs == []


@pytest.mark.parametrize(
    ("said", "status"),
    [
        ("RUNNING", JobStatus.ACTIVE),
        ("SUCCEEDED", JobStatus.SUCCEEDED),
        ("FAILED", JobStatus.FAILED),
        ("Killed", JobStatus.FAILED),
        ("STOPPED", JobStatus.FAILED),
        ("TERMINATED:CANCELED", JobStatus.FAILED),
        ("TERMINATED:MAXIMUM_CONCURRENT_RUNS_REACHED", JobStatus.FAILED),
        ("INTERNAL_ERROR:None", JobStatus.FAILED),
        ("NOT_FOUND:", JobStatus.GONE),
        ("WAITING:NEW_WORD", JobStatus.UNKNOWN),
        (30, JobStatus.UNKNOWN),
        ("recovering", JobStatus.UNKNOWN),
        ("whatever", JobStatus.UNKNOWN),
        (None, JobStatus.UNKNOWN),
    ],
)
def test_a_status_is_failed_only_by_a_word_for_it(said: Any, status: JobStatus) -> None:
    from airflow_resume_mixins.operator_jobs import OperatorJobs

    made = operator(Train, numbered())
    equipped(made, get_job_status=lambda _id, _context: said)
    assert OperatorJobs(made, {}).status(0) is status  # type: ignore[arg-type]


class ProviderOperator(JobHooks, AirflowResumableJobMixin, BaseOperator):
    """Of the shape of a provider operator that uses Airflow's mixin; it has its own way of waiting."""

    external_id_key = "batch_id"
    killed = waited = 0

    def poll_until_complete(self, external_id: Any, context: Any) -> None:
        equipped(self, waited=self.waited + 1)

    def get_job_result(self, external_id: Any, context: Any) -> Any:
        return f"batch {external_id}"

    def on_kill(self) -> None:
        equipped(self, killed=self.killed + 1)


class Wrapped(ResumableJobMixin, ProviderOperator):
    """The one line."""


def test_a_wrapped_provider_operator_keeps_its_own_hooks() -> None:
    made = Wrapped(task_id="batch", resume_policy=AT_ONCE)
    equipped(made, jobs=numbered("RUNNING", "SUCCEEDED"))
    first = task_context()
    assert execute(made, first.context) == "batch 0"
    assert made.waited == 1
    assert first.task_store.values["batch_id"] == 0


def test_batch_id_zero_is_reconnected_with_ours_and_submitted_twice_with_airflows() -> None:
    counts = {}
    for kind in (Wrapped, ProviderOperator):
        world, jobs = World(), numbered()
        for _ in range(2):
            made = kind(task_id="batch")
            equipped(made, jobs=jobs)
            execute(made, task_context(world=world).context)
        counts[kind] = len(jobs.jobs)
    assert counts == {Wrapped: 1, ProviderOperator: 2}


def test_what_a_result_hook_pushes_is_pushed_by_the_attempt_after_the_one_that_was_not_heard_of() -> None:
    """Airflow deletes a task's XComs when it tries again."""

    class Pushing(ProviderOperator):
        def get_job_status(self, external_id: Any, context: Any) -> str:
            context["pushed"].append(("status", external_id))
            return super().get_job_status(external_id, context)

        def get_job_result(self, external_id: Any, context: Any) -> Any:
            context["pushed"].append(("app_id", external_id))
            return super().get_job_result(external_id, context)

    class WrappedPushing(ResumableJobMixin, Pushing):
        pass

    world, jobs = World(), numbered()
    pushed: list[list[Any]] = []
    for _ in range(2):
        made = WrappedPushing(task_id="batch")
        equipped(made, jobs=jobs)
        pushed.append([])
        assert execute(made, {**task_context(world=world).context, "pushed": pushed[-1]}) == "batch 0"
    assert len(jobs.jobs) == 1
    assert pushed[1] == [("status", 0), ("app_id", 0)]


class CompanyMixin(ResumableJobMixin):
    """A class in between, as companies have them."""


class WrappedTwice(CompanyMixin, ProviderOperator):
    """The default of the class in between must not hide the provider's hook."""


def test_a_class_in_between_hides_no_hook_of_the_operator() -> None:
    made = WrappedTwice(task_id="batch")
    equipped(made, jobs=numbered())
    assert execute(made, task_context().context) == "batch 0"
    assert made.waited == 1


def test_declarations_may_be_properties_and_methods() -> None:
    from airflow_resume_mixins.operator_jobs import OperatorJobs

    class Declaring(Train):
        @property
        def submission_is_idempotent(self) -> bool:  # type: ignore[override]
            return False

        def job_not_found(self, error: BaseException) -> bool:  # type: ignore[override]
            return isinstance(error, KeyError)

    from airflow_resume.jobs.protocol import JobSystem

    made = operator(Declaring, numbered())
    system = JobSystem(OperatorJobs(made, {}))  # type: ignore[arg-type]
    assert system.is_idempotent is False
    equipped(made, get_job_status=lambda _id, _context: dict[str, str]()["gone"])
    assert system.status(0) is JobStatus.GONE


def test_not_durable_needs_no_store() -> None:
    assert execute(operator(FindingTrain, numbered(), durable=False), {})["job"] == 0
