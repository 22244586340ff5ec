"""Jobs of every kind of job system, under every crash, and under every kill at every moment."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowRescheduleException, TaskDeferred

from airflow_resume import PollPolicy, ResumePolicy, run_job
from airflow_resume.errors import JobError, LostSubmissionError, ResumeError, TaskStoppedError
from airflow_resume.testing import CrashWorld, FakeJobs, TaskAttempt, World, explore_crashes, task_context
from airflow_resume.testing.crashes.outcome import ExplorationOutcome
from airflow_resume.testing.oracles import each_effect_exactly_once, same_result
from airflow_resume_mixins import ResumableJobMixin
from tests.support.jobs.hooks import LookUpHooks, equipped

AT_ONCE = PollPolicy(interval=timedelta(0), max_interval=timedelta(0), jitter=0)
POLICY = ResumePolicy(poll=AT_ONCE)


def numbered(**options: Any) -> FakeJobs:
    """Its ids are 0, 1, ... as Livy's are."""
    return FakeJobs(ids=int, **options)


class TaskWorld(CrashWorld):
    """One task in one Airflow, and a job system."""

    jobs: FakeJobs

    def __init__(self, jobs: FakeJobs) -> None:
        super().__init__(jobs=jobs)
        self.airflow = World()

    def begin(self) -> TaskAttempt:
        """The next attempt, whose store calls are points."""
        attempt = task_context(world=self.airflow, retries=100)
        self.watch(attempt.task_store)
        return attempt


def one_alive(outcome: ExplorationOutcome[TaskWorld]) -> None:
    assert outcome.world.jobs.most_alive == 1


def jobs_submitted(count: int) -> Callable[[ExplorationOutcome[TaskWorld]], None]:
    def so_many_jobs_were_submitted(outcome: ExplorationOutcome[TaskWorld]) -> None:
        assert len(outcome.world.jobs.jobs) == count

    return so_many_jobs_were_submitted


def attempt(world: TaskWorld) -> Any:
    return run_job(world.jobs, policy=POLICY, context=world.begin().context)


DONE = ["RUNNING", "SUCCEEDED"]

SYSTEMS: dict[str, tuple[Callable[[], FakeJobs], int]] = {
    "look-up": (lambda: FakeJobs(scripts=[DONE]), 1),
    "look-up, ids from 0": (lambda: numbered(scripts=[DONE]), 1),
    "tokens are de-duplicated": (lambda: FakeJobs(scripts=[DONE], dedupes=True, can_find=False), 1),
    "tokens are de-duplicated, ids from 0": (lambda: numbered(scripts=[DONE], dedupes=True, can_find=False), 1),
    "no cancelling": (lambda: FakeJobs(scripts=[DONE], can_cancel=False), 1),
    "fails twice": (lambda: FakeJobs(scripts=[["RUNNING", "FAILED"], ["FAILED"], DONE]), 3),
    "is gone": (lambda: FakeJobs(scripts=[["RUNNING", "GONE"], DONE]), 2),
    "is unknown for a while": (lambda: FakeJobs(scripts=[["RUNNING", "?", "?", "SUCCEEDED"]]), 1),
    "is being cancelled by somebody": (lambda: FakeJobs(scripts=[["CANCELLING", "CANCELLING", "CANCELLED"], DONE]), 2),
}


@pytest.mark.parametrize(("jobs", "submitted"), SYSTEMS.values(), ids=SYSTEMS)
def test_one_job_at_a_time_and_one_result_under_one_and_two_crashes(
    jobs: Callable[[], FakeJobs], submitted: int
) -> None:
    report = explore_crashes(
        attempt,
        oracle=[one_alive, jobs_submitted(submitted), same_result],
        world=lambda: TaskWorld(jobs()),
        retry_on=(JobError,),
        max_pairs=400,
    )
    print(report)
    assert report.pairs > 100


@pytest.mark.parametrize("policy", ["fail", "resubmit"])
def test_with_neither_look_up_nor_tokens_exactly_the_window_is_left_to_the_policy(policy: Any) -> None:
    """From the intent that was saved to the id that was not: four points, and no other."""

    def left_to_the_policy(world: TaskWorld) -> Any:
        resume = ResumePolicy(on_lost_submission=policy, poll=AT_ONCE)
        return run_job(world.jobs, policy=resume, context=world.begin().context)

    report = explore_crashes(
        left_to_the_policy,
        oracle=jobs_submitted(1),
        world=lambda: TaskWorld(FakeJobs(scripts=[DONE], can_find=False)),
        kinds=["crash"],
        double=False,
        find_all=True,
    )
    found = {finding.where[0].partition(" resume")[0]: finding.problem for finding in report.findings}
    if policy == "fail":
        assert list(found) == ["after set", "before submit", "after submit", "before set"]
        assert all(LostSubmissionError.__name__ in problem for problem in found.values())
    else:  # a second job where there was a first one
        assert list(found) == ["after submit", "before set"]


def test_slots_of_one_task_resume_independently() -> None:
    def two(world: TaskWorld) -> list[Any]:
        context = world.begin().context
        return [run_job(world.jobs, name=name, policy=POLICY, context=context) for name in ("a", "b")]

    explore_crashes(
        two,
        oracle=[each_effect_exactly_once, one_alive, same_result],
        world=lambda: TaskWorld(FakeJobs(scripts=[DONE])),
        max_pairs=200,
    )


class Train(LookUpHooks, ResumableJobMixin, BaseOperator):
    """Deferrable."""

    deferrable = True

    def job_trigger(self, external_id: Any, context: Any) -> Any:
        return external_id


def train(jobs: FakeJobs) -> Train:
    return equipped(Train(task_id="train", resume_policy=POLICY), jobs=jobs)


def test_a_deferred_job_is_one_job_under_one_and_two_crashes() -> None:
    def deferred(world: TaskWorld) -> Any:
        context: Any = world.begin().context
        go_on = partial(train(world.jobs).execute_resumable, context)
        while True:
            try:
                return go_on()
            except TaskDeferred:  # then another process goes on; a trigger may fire before the job has ended
                go_on = partial(train(world.jobs).resume_complete, context, {"event": "done"})

    report = explore_crashes(
        deferred,
        oracle=[each_effect_exactly_once, one_alive, same_result],
        world=lambda: TaskWorld(FakeJobs(scripts=[["RUNNING", "RUNNING", "SUCCEEDED"]])),
        max_pairs=400,
    )
    assert report.pairs > 100


# --- killed at every moment -----------------------------------------------------------------------------------


@dataclass
class KillAt:
    """Calls the task's `on_kill` in the middle of the nth call, as a signal handler does."""

    moment: int
    happens: Callable[[TaskAttempt], object]
    passed: int = 0
    trace: list[str] = field(default_factory=list)
    attempt: TaskAttempt = field(default_factory=lambda: task_context(retries=3))

    def __call__(self, when: str, call: str) -> None:
        self.passed += 1
        self.trace.append(f"{when} {call}")
        if self.passed == self.moment:
            self.happens(self.attempt)
            self.attempt.ti.task.on_kill()


MOMENTS_OF_A_WAIT = 8
"""Before and after each of the four questions for the status."""


def killed_at_every_moment(
    happens: Callable[[TaskAttempt], object], policy: ResumePolicy = POLICY
) -> list[tuple[KillAt, FakeJobs, Any]]:
    """What was left, and what the attempt returned or raised, for a kill at each moment of it."""
    endings: list[tuple[KillAt, FakeJobs, Any]] = []
    while not endings or endings[-1][0].passed >= endings[-1][0].moment:
        kill = KillAt(len(endings) + 1, happens)
        jobs = FakeJobs(scripts=[["RUNNING", "RUNNING", "RUNNING", "SUCCEEDED"]])
        jobs.observer = jobs.read_observer = kill.attempt.task_store.observer = kill
        try:
            ending: Any = run_job(jobs, policy=policy, context=kill.attempt.context)
        except (ResumeError, AirflowRescheduleException) as error:
            ending = error
        endings.append((kill, jobs, ending))
    return endings[:-1]  # the last one was not killed any more


def calls(jobs: FakeJobs, name: str) -> int:
    return sum(event.call == name for event in jobs.events)


@pytest.mark.parametrize("state", ["failed", "success"])
def test_a_person_who_marks_the_task_at_any_moment_leaves_no_job_alive(state: Any) -> None:
    endings = killed_at_every_moment(lambda attempt: attempt.mark(state))
    assert len(endings) >= 8
    for kill, jobs, ending in endings:
        before_the_end = "before set resume.job.job" in kill.trace[-1:] or isinstance(ending, ResumeError)
        assert calls(jobs, "submit") <= 1, kill.trace
        assert calls(jobs, "cancel") <= 1, kill.trace
        assert before_the_end or not jobs.alive(), kill.trace
        if jobs.jobs and jobs.jobs[0].states[-1] != "SUCCEEDED":
            assert calls(jobs, "cancel") == 1, kill.trace


def test_a_deploy_at_any_moment_leaves_the_job_alone_and_the_task_comes_back_in_the_same_try_for_its_result() -> None:
    came_back = 0
    for kill, jobs, first in killed_at_every_moment(lambda _attempt: None):
        ending: Any = first
        jobs.observer = jobs.read_observer = kill.attempt.task_store.observer = None
        if isinstance(ending, AirflowRescheduleException):
            came_back += 1
            again = kill.attempt.reschedule()
            assert again.ti.try_number == 1
            ending = run_job(jobs, policy=POLICY, context=again.context)
        assert ending == {"job": "job-0"}, kill.trace
        assert (calls(jobs, "submit"), calls(jobs, "cancel")) == (1, 0), kill.trace
    assert came_back >= MOMENTS_OF_A_WAIT


def test_a_deploy_at_any_moment_may_be_waited_through() -> None:
    waiting = ResumePolicy(on_shutdown="wait", poll=AT_ONCE)
    for kill, jobs, ending in killed_at_every_moment(lambda _attempt: None, waiting):
        assert ending == {"job": "job-0"}, kill.trace
        assert (calls(jobs, "submit"), calls(jobs, "cancel")) == (1, 0), kill.trace


def test_a_deploy_that_ends_the_job_does_so_once_and_leaves_none_alive() -> None:
    """But for the moments in which the attempt has written nothing yet, as then nobody can say why it is killed."""
    ending_it = ResumePolicy(cancel_on={"shutdown"}, poll=AT_ONCE)
    ended = 0
    for kill, jobs, ending in killed_at_every_moment(lambda _attempt: None, ending_it):
        jobs.observer = jobs.read_observer = kill.attempt.task_store.observer = None
        assert calls(jobs, "cancel") <= 1, kill.trace
        assert calls(jobs, "submit") <= 1, kill.trace
        if isinstance(ending, ResumeError):
            ended += 1
            assert jobs.most_alive <= 1
            assert run_job(jobs, policy=POLICY, context=kill.attempt.retry().context)
            assert jobs.most_alive == 1, kill.trace
        else:
            assert ending == {"job": "job-0"}, kill.trace
    assert ended >= MOMENTS_OF_A_WAIT


def test_an_attempt_that_is_replaced_at_any_moment_leaves_its_successor_one_job() -> None:
    successors: list[TaskAttempt] = []
    endings = killed_at_every_moment(lambda attempt: successors.append(attempt.supersede()))
    for (kill, jobs, _), successor in zip(endings, successors, strict=True):
        jobs.observer = jobs.read_observer = successor.task_store.observer = None
        assert run_job(jobs, policy=POLICY, context=successor.context) == {"job": "job-0"}, kill.trace
        assert calls(jobs, "cancel") == 0, kill.trace
        assert calls(jobs, "submit") == 1, kill.trace


def test_a_person_who_clears_the_running_task_at_any_moment_has_never_two_jobs_alive() -> None:
    successors: list[TaskAttempt] = []
    endings = killed_at_every_moment(lambda attempt: successors.append(attempt.clear(while_running=True)))
    for (kill, jobs, _), successor in zip(endings, successors, strict=True):
        jobs.observer = jobs.read_observer = successor.task_store.observer = None
        with successor as cleared:
            result = run_job(jobs, policy=POLICY, context=cleared.context)
        assert result == {"job": f"job-{len(jobs.jobs) - 1}"}, kill.trace
        assert jobs.most_alive == 1, kill.trace
        assert calls(jobs, "cancel") <= 1, kill.trace


# --- a later attempt, killed at every moment ------------------------------------------------------------------

LONG = ["RUNNING"] * 6 + ["SUCCEEDED"]
IMPATIENT = ResumePolicy(poll=PollPolicy(interval=timedelta(0), max_interval=timedelta(0), timeout=timedelta(0)))


def tried(jobs: FakeJobs, attempt: TaskAttempt, policy: ResumePolicy = POLICY) -> Any:
    """What it returned or raised."""
    try:
        return run_job(jobs, policy=policy, context=attempt.context)
    except (ResumeError, AirflowRescheduleException, TimeoutError) as error:
        return error


def after_a_time_out(jobs: FakeJobs) -> TaskAttempt:
    """Its job is active."""
    first = task_context(retries=9)
    tried(jobs, first, IMPATIENT)
    return first.retry()


def after_a_clear(jobs: FakeJobs) -> TaskAttempt:
    """The job on record is active, and not wanted any more."""
    first = task_context(retries=9)
    tried(jobs, first, IMPATIENT)
    return first.clear()


def after_a_lost_reply(jobs: FakeJobs) -> TaskAttempt:
    """There is a job, and only the job system knows."""
    first = task_context(retries=9)
    jobs.fail_next("submit", TimeoutError(), applied=True)
    tried(jobs, first)
    return first.retry()


def after_a_request_that_never_came_through(jobs: FakeJobs) -> TaskAttempt:
    """There is no job, and only the job system knows."""
    first = task_context(retries=9)
    jobs.fail_next("submit", TimeoutError())
    tried(jobs, first)
    return first.retry()


def after_a_failed_job(jobs: FakeJobs) -> TaskAttempt:
    """The next one is due."""
    jobs.scripts = [["RUNNING", "FAILED"], LONG]
    first = task_context(retries=9)
    tried(jobs, first)
    return first.retry()


BEFORE = [
    after_a_time_out,
    after_a_clear,
    after_a_lost_reply,
    after_a_request_that_never_came_through,
    after_a_failed_job,
]


def marked(attempt: TaskAttempt) -> TaskAttempt:
    attempt.mark("failed")
    return attempt


def left_by_its_worker(attempt: TaskAttempt) -> TaskAttempt:
    return attempt


def replaced(attempt: TaskAttempt) -> TaskAttempt:
    return attempt.supersede()


def cleared(attempt: TaskAttempt) -> TaskAttempt:
    return attempt.clear(while_running=True)


def following(happened: Any, attempt: TaskAttempt, successor: TaskAttempt, ending: Any) -> TaskAttempt:
    """The attempt that comes next."""
    if happened in {replaced, cleared}:
        return successor
    if happened is marked:  # a person clears it later on
        return attempt.clear()
    return attempt.reschedule() if isinstance(ending, AirflowRescheduleException) else attempt.retry()


def _noted(successors: list[TaskAttempt], happens: Callable[[TaskAttempt], TaskAttempt], attempt: TaskAttempt) -> None:
    successors.append(happens(attempt))


@pytest.mark.parametrize("happens", [marked, left_by_its_worker, replaced, cleared])
@pytest.mark.parametrize("before", BEFORE)
def test_a_later_attempt_that_is_killed_at_any_moment_has_never_two_jobs_alive_and_loses_none(
    before: Callable[[FakeJobs], TaskAttempt],
    happens: Callable[[TaskAttempt], TaskAttempt],
) -> None:
    moment, passed = 0, 1
    while passed > moment:
        moment += 1
        jobs = FakeJobs(scripts=[LONG])
        attempt = before(jobs)
        successors: list[TaskAttempt] = []
        kill = KillAt(moment, partial(_noted, successors, happens), attempt=attempt)
        jobs.observer = jobs.read_observer = attempt.task_store.observer = kill
        ending = tried(jobs, attempt)
        jobs.observer = jobs.read_observer = attempt.task_store.observer = None
        passed = kill.passed
        assert jobs.most_alive <= 1, kill.trace
        if not successors:
            break
        submitted = len(jobs.jobs)
        if happens is left_by_its_worker and isinstance(ending, AirflowRescheduleException):
            assert calls(jobs, "cancel") <= (before is after_a_clear), kill.trace
        if happens is marked and isinstance(ending, TaskStoppedError):
            assert not any(job.state == "RUNNING" for job in jobs.jobs), kill.trace
        with following(happens, attempt, successors[0], ending) as last:
            assert tried(jobs, last) == {"job": f"job-{len(jobs.jobs) - 1}"}, kill.trace
        assert jobs.most_alive == 1, kill.trace
        assert jobs.alive() == [], kill.trace
        assert len(jobs.jobs) - submitted <= 1, kill.trace
        assert calls(jobs, "cancel") <= len(jobs.jobs), kill.trace
    assert moment > MOMENTS_OF_A_WAIT
