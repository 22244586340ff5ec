from __future__ import annotations

import asyncio
import logging
import subprocess
import urllib.error
from collections import OrderedDict
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta, timezone
from email.message import Message
from enum import Enum
from typing import Any
from uuid import UUID

import httpx
import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException

from airflow_resume import ResumePolicy, run_job
from airflow_resume.errors import (
    JobError,
    JobFailedError,
    JobFailedForGoodError,
    JobHookError,
    JobInputsChangedError,
    JobStatusUnknownError,
    JobWaitTimeoutError,
    LostSubmissionError,
    NoStateStoreError,
    SupersededError,
    UnreadableRecordError,
    UsageError,
)
from airflow_resume.jobs import JobRun, JobStatus, PollPolicy
from airflow_resume.jobs.poll import Clock
from airflow_resume.store import MemoryStore
from airflow_resume.testing import (
    CrashWorld,
    FakeJobs,
    FakeTaskStore,
    TaskAttempt,
    World,
    explore_crashes,
    task_context,
)
from airflow_resume.testing.crashes.outcome import ExplorationOutcome
from airflow_resume.testing.oracles import each_effect_exactly_once, same_result
from airflow_resume.testing.points import CrashedError
from tests.support.kit.raised import having

KEY = "resume.job.job"


class FastClock:
    """Seconds that pass by sleeping."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds

    def clock(self) -> Clock:
        return Clock(monotonic=lambda: self.seconds, sleep=self.sleep, random=lambda: 0.0)


def run(jobs: Any, context: Any = None, **options: Any) -> Any:
    options.setdefault("clock", FastClock().clock())
    return JobRun(jobs, context=context, **options).run()


def next_try(world: World) -> Any:
    """The context of the next attempt of the task."""
    return task_context(world=world).context


def cleared(world: World) -> Any:
    """Another attempt comes to nothing, and a person clears the task: the context of the next one."""
    return task_context(world=world).clear().context


def kept(world: World) -> dict[str, Any]:
    """What the task has in its store."""
    (task,) = world.instances.values()
    return task.rows.values_by_key()


class PlainJobs(FakeJobs):
    """Ids from 0 on, which is no truth; without look-up and cancel, unless they are asked for."""

    def __init__(self, *, active_for: int = 1, ends: Sequence[str] = ("SUCCEEDED",), **options: Any) -> None:
        scripts = [["RUNNING"] * active_for + [end] for end in ends]
        super().__init__(**{"ids": int, "can_find": False, "can_cancel": False, "scripts": scripts, **options})

    def lose_the_reply(self) -> PlainJobs:
        """The process dies when the first job is there, and before it knows its id."""
        self.fail_next("submit", CrashedError(), applied=True)
        return self


AT_ONCE = ResumePolicy(poll=PollPolicy(timeout=timedelta(0)))
"""Submits, and gives up waiting."""

ENDLESS = 10**4


# --- every crash ----------------------------------------------------------------------------------------------


def a_task(**options: Any) -> Callable[[], CrashWorld]:
    return lambda: CrashWorld(airflow=World(), jobs=PlainJobs(**options))


def one_attempt(world: CrashWorld) -> Any:
    return run(world.jobs, next_try(world.airflow))


def one_job_one_result(outcome: ExplorationOutcome[CrashWorld]) -> None:
    assert len(outcome.world.jobs.jobs) == 1
    assert outcome.result == {"job": 0}


@pytest.mark.parametrize("offers", [{"can_find": True}, {"dedupes": True}], ids=["find", "dedupes"])
@pytest.mark.parametrize("active_for", [0, 2])
def test_one_job_and_one_result_whenever_the_attempts_die(offers: Any, active_for: int) -> None:
    make_world = a_task(active_for=active_for, **offers)
    report = explore_crashes(one_attempt, oracle=one_job_one_result, world=make_world, max_pairs=100)
    assert report.ways - report.pairs > len(report.points) >= 10
    assert report.pairs > 50


def test_a_job_that_fails_twice_has_two_successors_and_never_two_live_jobs() -> None:
    def oracle(outcome: ExplorationOutcome[CrashWorld]) -> None:
        jobs = outcome.world.jobs
        assert jobs.most_alive == 1
        assert len(jobs.jobs) == 3
        assert outcome.result == {"job": 2}

    explore_crashes(
        one_attempt,
        oracle=[oracle, each_effect_exactly_once, same_result],
        world=a_task(can_find=True, ends=["FAILED", "FAILED", "SUCCEEDED"]),
        double=False,
        retry_on=(JobFailedError,),
    )


def test_a_cleared_task_cancels_the_old_job_before_it_submits_another() -> None:
    def cleared_in_between() -> CrashWorld:
        scripts = [["RUNNING"] * ENDLESS, ["RUNNING", "SUCCEEDED"]]
        airflow, jobs = World(), PlainJobs(can_find=True, can_cancel=True, scripts=scripts)
        first = task_context(world=airflow)
        with pytest.raises(JobWaitTimeoutError):
            run(jobs, first.context, policy=AT_ONCE)
        first.clear()
        return CrashWorld(airflow=airflow, jobs=jobs)

    def oracle(outcome: ExplorationOutcome[CrashWorld]) -> None:
        jobs = outcome.world.jobs
        assert jobs.most_alive == 1
        assert len(jobs.jobs) == 2
        assert outcome.result["job"] == 1
        assert [line["status"] for line in kept(outcome.world.airflow)[KEY]["history"]] == ["failed"]

    report = explore_crashes(one_attempt, oracle=oracle, world=cleared_in_between, max_pairs=100)
    assert report.ways - report.pairs > len(report.points) > 10


def test_without_look_up_the_one_window_is_named_and_no_second_job_is_submitted() -> None:
    """Dying between the submit and the save cannot be closed without help: then it is said, not guessed."""

    def names_the_token(world: CrashWorld) -> Any:
        try:
            return one_attempt(world)
        except LostSubmissionError as error:
            assert kept(world.airflow)[KEY]["token"] in str(error)
            assert len(world.jobs.jobs) <= 1
            raise

    report = explore_crashes(
        names_the_token, oracle=one_job_one_result, world=a_task(), double=False, find_all=True, kinds=["crash"]
    )
    assert all("LostSubmissionError" in finding.problem for finding in report.findings)
    assert [finding.where for finding in report.findings] == [
        [f"after set {KEY}"],
        ["before submit"],
        ["after submit"],
        [f"before set {KEY}"],
    ]


def test_a_lost_submission_is_submitted_again_when_a_second_job_is_accepted() -> None:
    world, jobs = World(), PlainJobs().lose_the_reply()
    policy = ResumePolicy(on_lost_submission="resubmit")
    with pytest.raises(CrashedError):
        run(jobs, next_try(world), policy=policy)
    result = run(jobs, next_try(world), policy=policy)
    assert (len(jobs.jobs), result["job"]) == (2, 1)


# --- old attempts ---------------------------------------------------------------------------------------------


def test_a_replaced_attempt_submits_nothing() -> None:
    jobs, first = PlainJobs(can_find=True), task_context()
    first.supersede()
    with pytest.raises(SupersededError):
        run(jobs, first.context)
    assert jobs.jobs == []


def test_an_attempt_that_is_replaced_while_it_submits_leaves_the_job_to_its_successor(
    caplog: pytest.LogCaptureFixture,
) -> None:
    first = task_context()
    successors: list[TaskAttempt] = []

    class Slow(PlainJobs):
        def submit(self, token: str | None = None, /) -> Any:
            successors.append(first.supersede())
            return super().submit(token)

    jobs = Slow(can_find=True, can_cancel=True)
    with pytest.raises(SupersededError), caplog.at_level(logging.ERROR):
        run(jobs, first.context)
    assert "left alone" in caplog.text
    (second,) = successors
    assert run(jobs, second.context)["job"] == 0
    assert len(jobs.jobs) == 1


def test_an_id_that_cannot_be_saved_or_found_again_is_cancelled_and_named(caplog: pytest.LogCaptureFixture) -> None:
    first = task_context()

    class Jobs(PlainJobs):
        cancelled: list[int] = []  # noqa: RUF012

        def submit(self, token: str | None = None, /) -> Any:
            first.supersede()
            return super().submit(token)

        def cancel(self, external_id: int) -> None:
            self.cancelled.append(external_id)

    with pytest.raises(SupersededError), caplog.at_level(logging.ERROR):
        run(Jobs(can_cancel=True), first.context)
    assert Jobs.cancelled == [0]
    assert "job 0 (token" in caplog.text


# --- submits that raise ---------------------------------------------------------------------------------------


class RefusedError(Exception):
    """Of the shape of an HTTP client's error."""

    def __init__(self, status: int) -> None:
        self.response = type("Response", (), {"status_code": status})


def raised_from(error: Exception, cause: Exception) -> Exception:
    """As hooks of providers do: their own error, raised from the client's."""
    error.__cause__ = cause
    return error


REFUSALS = {
    "HTTP 422": (RefusedError(422), False),
    "HTTP 503": (RefusedError(503), True),
    "HTTP 408": (RefusedError(408), True),
    "HTTP 409": (RefusedError(409), True),
    "HTTP 429": (RefusedError(429), True),
    "a time-out": (TimeoutError(), True),
    "a connection reset": (ConnectionResetError(), True),
    "a connection refused": (ConnectionRefusedError(), False),
    "a bug": (ValueError("bad spec"), True),
    "a missing file": (FileNotFoundError("spec.json"), True),
    "a process that took too long": (subprocess.TimeoutExpired("spark-submit", 30), True),
    "asyncio": (asyncio.TimeoutError(), True),
    "httpx, no answer": (httpx.ReadTimeout("slow"), True),
    "urllib, HTTP 422": (urllib.error.HTTPError("http://x", 422, "no", Message(), None), False),
    "urllib, HTTP 502": (urllib.error.HTTPError("http://x", 502, "no", Message(), None), True),
    "a hook, a time-out": (raised_from(AirflowException("hook failed"), TimeoutError()), True),
    "a hook, HTTP 422": (raised_from(AirflowException("hook failed"), RefusedError(422)), False),
    "a hook, a connection refused": (raised_from(AirflowException("hook failed"), ConnectionRefusedError()), False),
    "a hook's own": (AirflowException("bad spec"), True),
}


def failing_once(error: Exception, **declared: Any) -> PlainJobs:
    class Jobs(PlainJobs):
        errors = [error]  # noqa: RUF012

        def submit(self, token: str | None = None, /) -> Any:
            if self.errors:
                raise self.errors.pop()
            return super().submit(token)

    jobs = Jobs()
    for name, value in declared.items():
        setattr(jobs, name, value)
    return jobs


@pytest.mark.parametrize(("error", "lost"), REFUSALS.values(), ids=REFUSALS)
def test_a_submit_that_raises_is_lost_unless_it_is_proven_that_no_job_was_created(error: Exception, lost: bool) -> None:  # noqa: FBT001
    world, jobs = World(), failing_once(error)
    if not lost:
        with pytest.raises(type(error)):
            run(jobs, next_try(world))
        assert run(jobs, next_try(world))["job"] == 0
        return
    with pytest.raises(LostSubmissionError, match="It may have created a job") as raised:
        run(jobs, next_try(world))
    assert raised.value.__cause__ is error
    assert repr(error) in str(raised.value)
    assert kept(world)[KEY]["token"] in str(raised.value)
    with pytest.raises(LostSubmissionError, match=rf"its submit raised {type(error).__name__}"):
        run(jobs, next_try(world))


def test_a_second_job_that_the_policy_accepts_costs_the_attempt_its_error_and_no_more() -> None:
    world, jobs = World(), failing_once(ValueError("bad spec"))
    policy = ResumePolicy(on_lost_submission="resubmit")
    with pytest.raises(ValueError, match="bad spec"):
        run(jobs, next_try(world), policy=policy)
    assert run(jobs, next_try(world), policy=policy)["job"] == 0


def test_an_author_may_name_the_errors_that_prove_that_no_job_was_created() -> None:
    world, jobs = World(), failing_once(ValueError("bad spec"), refused_errors=ValueError)
    with pytest.raises(ValueError, match="bad spec"):
        run(jobs, next_try(world))
    assert run(jobs, next_try(world))["job"] == 0


def test_an_author_who_has_nothing_to_submit_skips_and_leaves_no_claim() -> None:
    world, jobs = World(), failing_once(AirflowSkipException("nothing to do"))
    with pytest.raises(AirflowSkipException):
        run(jobs, next_try(world))
    assert run(jobs, next_try(world))["job"] == 0


def test_a_refused_second_submit_with_the_same_token_does_not_count_as_no_job() -> None:
    """A system that de-duplicates by refusing: the job of the first submit may be there."""

    class Jobs(PlainJobs):
        def submit(self, token: str | None = None, /) -> Any:
            if self.jobs:
                raise RefusedError(409)
            return super().submit(token)

    world, jobs = World(), Jobs(dedupes=True).lose_the_reply()
    with pytest.raises(CrashedError):
        run(jobs, next_try(world))
    for _ in range(2):
        with pytest.raises(RefusedError):
            run(jobs, next_try(world))
    assert len(jobs.jobs) == 1


@pytest.mark.parametrize("answer", [None, object(), float("nan")])
def test_an_id_that_cannot_be_kept_is_refused_by_name(answer: Any, caplog: pytest.LogCaptureFixture) -> None:
    class Jobs(PlainJobs):
        def submit(self, token: str | None = None, /) -> Any:
            super().submit(token)
            return answer

    world = World()
    with pytest.raises(
        JobHookError, match=r"with token [0-9a-f]{32} .*\nReturn the id of the job", check=having(hook="submit")
    ):
        run(Jobs(), next_try(world))
    assert "may be orphaned" in caplog.text


@pytest.mark.parametrize("answer", [0, "", "app-1", ["a", 1], {"id": 3}, False, UUID(int=5), ("a", 1)])
def test_any_json_id_reconnects(answer: Any) -> None:
    class Jobs:
        def __init__(self) -> None:
            self.submits, self.asked = 0, []  # type: ignore[var-annotated]

        def submit(self, _token: str) -> Any:
            self.submits += 1
            return answer

        def status(self, external_id: Any) -> str:
            self.asked.append(external_id)
            return "RUNNING" if len(self.asked) < 3 else "SUCCEEDED"

    world, jobs = World(), Jobs()
    with pytest.raises(JobWaitTimeoutError):
        run(jobs, next_try(world), policy=AT_ONCE)
    result = run(jobs, next_try(world))
    assert jobs.submits == 1
    assert result == jobs.asked[0] == jobs.asked[-1]


# --- results --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "result",
    [None, 0, (1, 2), {"at": datetime(2026, 1, 1, tzinfo=timezone.utc)}, "x" * 10_000, {"not": {1, 2}}],
    ids=["none", "zero", "tuple", "datetime", "large", "not storable"],
)
def test_the_result_is_the_same_on_every_path(result: Any) -> None:
    class Jobs(PlainJobs):
        def result(self, external_id: int) -> Any:
            return result

    world, jobs = World(), Jobs()
    first = run(jobs, next_try(world))
    again = run(jobs, next_try(world))
    assert first == again == result
    assert type(again) is type(result)
    assert len(jobs.jobs) == 1
    assert len(str(kept(world)[KEY])) < 5_000


def test_a_job_system_that_forgets_finished_jobs_still_resumes_as_done() -> None:
    world, jobs = World(), PlainJobs()
    run(jobs, next_try(world))

    class Forgetful(PlainJobs):
        def status(self, external_id: int) -> Any:
            return JobStatus.GONE

        def result(self, external_id: int) -> Any:
            raise AssertionError

    assert run(Forgetful(), next_try(world)) == {"job": 0}


def test_without_a_result_of_its_own_the_id_is_returned() -> None:
    class Jobs:
        def submit(self, _token: str) -> str:
            return "app-1"

        def status(self, _external_id: str) -> str:
            return "SUCCESSFUL"

    assert run_job(Jobs(), store=MemoryStore()) == "app-1"


# --- waiting --------------------------------------------------------------------------------------------------


def test_a_failing_question_is_asked_again_and_never_counts_as_a_failed_job() -> None:
    class Flaky(PlainJobs):
        troubles = 5

        def status(self, external_id: Any, /) -> str:
            if self.troubles:
                self.troubles -= 1
                raise ConnectionResetError
            return super().status(external_id)

    jobs = Flaky()
    assert run(jobs, task_context().context)["job"] == 0
    assert len(jobs.jobs) == 1


def test_an_unknown_status_is_asked_for_until_its_time_out_and_never_submits() -> None:
    class Mute(PlainJobs):
        def status(self, external_id: int) -> Any:
            return "WHAT_IS_THIS"

    world, jobs, clock = World(), Mute(), FastClock()
    for _ in range(2):
        with pytest.raises(JobStatusUnknownError, match="declare what it means"):
            run(jobs, next_try(world), clock=clock.clock())
    assert len(jobs.jobs) == 1
    assert clock.seconds >= 2 * 600


def test_the_time_out_of_an_attempt_leaves_the_job_alive() -> None:
    world, jobs = World(), PlainJobs(active_for=ENDLESS)
    policy = ResumePolicy(poll=PollPolicy(timeout=timedelta(minutes=5)))
    with pytest.raises(JobWaitTimeoutError, match="a retry reconnects"):
        run(jobs, next_try(world), policy=policy)
    assert jobs.alive() == [0]
    jobs.jobs[0].states = ["SUCCEEDED"]
    assert run(jobs, next_try(world), policy=policy)["job"] == 0


def test_a_job_being_cancelled_is_waited_for_and_then_done_again_in_the_same_attempt() -> None:
    world, jobs = (
        World(),
        PlainJobs(can_find=True, can_cancel=True, scripts=[["RUNNING"] * ENDLESS, ["RUNNING", "SUCCEEDED"]]),
    )
    with pytest.raises(JobWaitTimeoutError):
        run(jobs, next_try(world), policy=AT_ONCE)
    jobs.cancel(0)
    assert run(jobs, next_try(world))["job"] == 1
    assert jobs.most_alive == 1


def test_a_failed_job_can_be_final() -> None:
    jobs = PlainJobs(ends=["FAILED"])
    with pytest.raises(JobFailedForGoodError):
        run(jobs, task_context().context, policy=ResumePolicy(on_failed_job="fail"))


# --- slots, inputs, records -----------------------------------------------------------------------------------


def test_two_slots_of_one_task_resume_independently() -> None:
    world = World()
    one, two = PlainJobs(), PlainJobs(active_for=ENDLESS)
    run(one, next_try(world), name="one")
    with pytest.raises(JobWaitTimeoutError):
        run(two, next_try(world), name="two", policy=AT_ONCE)
    two.jobs[0].states = ["SUCCEEDED"]
    run(one, next_try(world), name="one")
    run(two, next_try(world), name="two")
    assert (len(one.jobs), len(two.jobs)) == (1, 1)
    assert sorted(kept(world)) == ["resume.job.one", "resume.job.two"]


@pytest.mark.parametrize(("choice", "jobs_submitted"), [("resubmit", 2), ("resume", 1)])
def test_changed_inputs_follow_the_policy(choice: Any, jobs_submitted: int) -> None:
    world, jobs = World(), PlainJobs()
    policy = ResumePolicy(on_input_change=choice)
    run(jobs, next_try(world), inputs={"sql": "a"}, policy=policy)
    run(jobs, next_try(world), inputs={"sql": "b"}, policy=policy)
    assert len(jobs.jobs) == jobs_submitted


def test_changed_inputs_can_be_an_error_that_touches_nothing() -> None:
    world, jobs = World(), PlainJobs()
    run(jobs, next_try(world), inputs=1)
    policy = ResumePolicy(on_input_change="fail")
    with pytest.raises(JobInputsChangedError, match="clear the task"):
        run(jobs, next_try(world), inputs=2, policy=policy)
    assert len(jobs.jobs) == 1
    assert run(jobs, cleared(world), inputs=2, policy=policy)["job"] == 1


def test_a_clear_of_another_task_of_the_run_is_not_taken_for_a_clear_of_this_one() -> None:
    first, jobs = task_context(), PlainJobs()
    run(jobs, first.context)
    first.clear_another_task()
    run(jobs, first.retry().context)
    assert len(jobs.jobs) == 1


@pytest.mark.parametrize("stored", ["nonsense", {"v": 99, "key": KEY}, {"v": 1, "key": KEY, "phase": "?"}])
def test_a_record_that_cannot_be_read_stops_before_anything_is_touched(stored: Any) -> None:
    world, jobs = World(), PlainJobs()
    first = task_context(world=world)
    first.task_store.set(KEY, stored)
    with pytest.raises(UnreadableRecordError):
        run(jobs, first.context)
    assert jobs.jobs == []
    assert kept(world)[KEY] == stored


def test_outside_a_task_nothing_is_submitted() -> None:
    jobs = PlainJobs()
    with pytest.raises(NoStateStoreError, match="pass `store=`"):
        run_job(jobs)
    assert jobs.jobs == []


def test_the_history_is_bounded_and_the_record_small() -> None:
    world, jobs = World(), PlainJobs(can_find=True, ends=["FAILED"])
    for _ in range(30):
        with pytest.raises(JobFailedError):
            run(jobs, next_try(world))
    record = kept(world)[KEY]
    assert record["generation"] == 30
    assert [line["id"] for line in record["history"]] == list(range(9, 29))
    assert len({line["token"] for line in record["history"]} | {record["token"]}) == 21


def test_a_first_attempt_makes_five_store_calls() -> None:
    """Read, intent, id, that it has succeeded, result."""
    context = task_context().context
    run(PlainJobs(), context)
    store: FakeTaskStore = context["task_state_store"]
    assert [operation.name for operation in store.log] == ["get", "set", "set", "set", "set"]


def test_without_a_result_to_fetch_it_makes_four() -> None:
    class NoResult(PlainJobs):
        result = None  # type: ignore[assignment]

    context = task_context().context
    assert run(NoResult(), context) == 0
    store: FakeTaskStore = context["task_state_store"]
    assert [operation.name for operation in store.log] == ["get", "set", "set", "set"]


def test_every_decision_is_one_named_line(caplog: pytest.LogCaptureFixture) -> None:
    world, jobs = World(), PlainJobs()
    with caplog.at_level(logging.INFO):
        run(jobs, next_try(world))
        run(jobs, next_try(world))
    assert [line.split(" (")[0] for line in caplog.messages] == ["submit", "wait", "fetch result", "done"]
    assert "job 0" in caplog.messages[-1]
    assert "try 2" in caplog.messages[-1]


# --- found by trying ------------------------------------------------------------------------------------------


def test_deleting_the_key_and_clearing_starts_over_as_the_message_says() -> None:
    world, jobs = World(), PlainJobs().lose_the_reply()
    with pytest.raises(CrashedError):
        run(jobs, next_try(world))
    second = task_context(world=world)
    with pytest.raises(LostSubmissionError, match=rf"(?s)Try \d or one before it may have .* delete the key '{KEY}'"):
        run(jobs, second.context)
    cleared = second.clear()
    with pytest.raises(LostSubmissionError, match=rf"(?s)Try \d or one before it may have .* delete the key '{KEY}'"):
        run(jobs, cleared.context)
    last = cleared.retry()
    last.task_store.delete(KEY)
    assert run(jobs, last.context)["job"] == 1


def test_the_message_of_a_lost_submission_names_the_try_that_lost_it() -> None:
    world, jobs = World(), PlainJobs().lose_the_reply()
    with pytest.raises(CrashedError):
        run(jobs, next_try(world))
    with pytest.raises(LostSubmissionError, match=r"^Try 1 or one before it may have"):
        run(jobs, next_try(world))


def test_inputs_may_be_corrected_when_nothing_was_created() -> None:
    world, jobs = World(), failing_once(RefusedError(422))
    policy = ResumePolicy(on_input_change="fail")
    with pytest.raises(RefusedError):
        run(jobs, next_try(world), inputs=1, policy=policy)
    assert run(jobs, next_try(world), inputs=2, policy=policy)["job"] == 0
    assert [line["reason"] for line in kept(world)[KEY]["history"]] == ["nothing was created"]


def test_an_id_that_find_gives_in_another_form_is_the_same_id() -> None:
    first = task_context()

    class Jobs(PlainJobs):
        cancelled: list[Any] = []  # noqa: RUF012

        def submit(self, token: str | None = None, /) -> Any:
            first.supersede()
            return UUID(int=5)

        def find(self, token: str, /) -> Any:
            return UUID(int=5)

        def cancel(self, external_id: Any) -> None:
            self.cancelled.append(external_id)

    with pytest.raises(SupersededError):
        run(Jobs(can_find=True, can_cancel=True), first.context)
    assert Jobs.cancelled == []


def test_a_question_that_fails_in_passing_costs_no_attempt_when_looking_up_either() -> None:
    class Flaky(PlainJobs):
        troubles = 2

        def find(self, token: str, /) -> Any:
            if self.troubles:
                self.troubles -= 1
                raise ConnectionResetError
            return super().find(token)

    world, jobs = World(), Flaky(can_find=True).lose_the_reply()
    with pytest.raises(CrashedError):
        run(jobs, next_try(world))
    assert run(jobs, next_try(world))["job"] == 0


def test_a_job_that_ended_before_it_could_be_cancelled_is_no_error() -> None:
    class Late(PlainJobs):
        def cancel(self, external_id: Any, /) -> None:
            self.jobs[external_id].states = ["SUCCEEDED"]
            raise RefusedError(409)

    world, jobs = World(), Late(can_cancel=True, scripts=[["RUNNING"] * ENDLESS, ["RUNNING", "SUCCEEDED"]])
    with pytest.raises(JobWaitTimeoutError):
        run(jobs, next_try(world), policy=AT_ONCE)
    assert run(jobs, cleared(world))["job"] == 1


@pytest.mark.parametrize(
    ("error", "ends", "raised"),
    [
        (RuntimeError("batch failed"), "FAILED", RuntimeError),
        (AirflowFailException("no use"), "FAILED", AirflowFailException),
        (AirflowSkipException("no data"), "SUCCEEDED", AirflowSkipException),
        (RuntimeError("log stream broke"), "SUCCEEDED", None),
        (RuntimeError("log stream broke"), "RUNNING", RuntimeError),
    ],
)
def test_what_the_own_way_of_waiting_raises_is_what_the_attempt_ends_with(
    error: Exception, ends: str, raised: type[Exception] | None
) -> None:
    class Waiting(PlainJobs):
        def wait(self, external_id: int) -> None:
            raise error

    world, jobs = World(), Waiting(ends=[ends, "SUCCEEDED"], active_for=0)
    if raised is None:
        assert run(jobs, next_try(world))["job"] == 0
        return
    with pytest.raises(raised, match=str(error)):
        run(jobs, next_try(world))
    assert kept(world)[KEY]["phase"] == ("terminal" if ends == "FAILED" else "submitted")


@pytest.mark.parametrize("ends", ["SUCCEEDED", "FAILED"])
def test_trouble_on_the_way_does_not_end_the_own_way_of_waiting(ends: str) -> None:
    class Waiting(PlainJobs):
        waits = 0

        def wait(self, external_id: int) -> None:
            self.waits += 1
            if self.waits == 1:
                raise ConnectionResetError
            if self.jobs[external_id].state == "FAILED":
                raise RuntimeError("batch 0 failed")

    jobs = Waiting(ends=[ends], active_for=3)
    if ends == "FAILED":
        with pytest.raises(RuntimeError, match="batch 0 failed"):
            run(jobs, task_context().context)
    else:
        assert run(jobs, task_context().context) == {"job": 0}
    assert jobs.waits == 2


def test_an_own_way_of_waiting_that_never_works_ends_all_the_same() -> None:
    class Waiting(PlainJobs):
        waits = 0

        def wait(self, external_id: int) -> None:
            self.waits += 1
            raise ConnectionResetError

    jobs = Waiting(active_for=3)
    assert run(jobs, task_context().context) == {"job": 0}
    assert jobs.waits == 2


def test_a_status_that_the_clients_enum_has_not_heard_of_is_unknown_and_submits_nothing() -> None:
    class Outdated(PlainJobs):
        words = ["recovering", "recovering", "active"]  # noqa: RUF012

        def status(self, external_id: Any, /) -> str:
            return JobStatus(self.words.pop(0)) if self.words else super().status(external_id)

    jobs = Outdated(active_for=1)
    assert run(jobs, task_context().context) == {"job": 0}
    assert len(jobs.jobs) == 1


def test_a_job_answered_with_404_is_gone_without_a_declaration() -> None:
    class NotFoundError(Exception):
        status_code = 404

    class Forgetful(PlainJobs):
        job_not_found = None  # type: ignore[assignment]

        def status(self, external_id: Any, /) -> str:
            if external_id == 0:
                raise NotFoundError
            return super().status(external_id)

    world, jobs = World(), Forgetful()
    with pytest.raises(JobError, match="vanished while it was waited for"):
        run(jobs, next_try(world))
    assert run(jobs, next_try(world)) == {"job": 1}
    declared = Forgetful()
    declared.job_not_found = ()  # type: ignore[misc, assignment]
    with pytest.raises(NotFoundError):
        run(declared, task_context().context)


def test_what_fetching_a_result_leaves_behind_is_left_in_every_attempt() -> None:
    class Pushing(PlainJobs):
        replayed = 0
        answers = True

        def replay(self, external_id: int) -> Any:
            self.replayed += 1
            if not self.answers:
                raise LookupError(external_id)
            return self.result(external_id)

    world, jobs = World(), Pushing(active_for=0)
    returned = [run(jobs, next_try(world)) for _ in range(2)]
    jobs.answers = False
    returned.append(run(jobs, next_try(world)))
    assert returned == [returned[0]] * 3
    assert jobs.replayed == 2


def test_what_is_proof_elsewhere_may_be_declared_to_be_none() -> None:
    world, jobs = World(), failing_once(RefusedError(422), ambiguous_errors=RefusedError)
    with pytest.raises(LostSubmissionError):
        run(jobs, next_try(world))


def test_a_name_used_twice_in_one_attempt_is_an_error_and_not_the_first_jobs_result() -> None:
    context, jobs = task_context().context, PlainJobs()
    run(jobs, context)
    with pytest.raises(UsageError, match=r"Give each its own name"):
        run(jobs, context)
    run(jobs, context, name="another")
    assert len(jobs.jobs) == 2


def test_a_job_that_failed_may_be_tried_again_in_the_same_attempt() -> None:
    context, jobs = task_context().context, PlainJobs(ends=["FAILED", "SUCCEEDED"])
    with pytest.raises(JobFailedError):
        run(jobs, context)
    assert run(jobs, context)["job"] == 1


@pytest.mark.parametrize("field", ["interval", "max_interval", "timeout"])
@pytest.mark.parametrize(("value", "error"), [(5, TypeError), (timedelta(-1), ValueError)])
def test_a_duration_is_a_timedelta_before_anything_is_submitted(field: str, value: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=field):
        PollPolicy(**{field: value})


class Color(str, Enum):
    RED = "red"


@pytest.mark.parametrize("result", [Color.RED, OrderedDict(a=1), {"a": Color.RED}], ids=str)
def test_a_result_whose_type_would_not_come_back_is_fetched_again(result: Any) -> None:
    class Jobs(PlainJobs):
        def result(self, external_id: int) -> Any:
            return result

    world, jobs = World(), Jobs()
    run(jobs, next_try(world))
    assert "result" not in kept(world)[KEY]
    assert type(run(jobs, next_try(world))) is type(result)


def test_a_job_that_is_known_and_has_no_result_is_an_error_and_neither_another_job_nor_an_endless_loop() -> None:
    class NoResult(PlainJobs):
        def result(self, external_id: Any, /) -> Any:
            raise self.job_not_found(external_id)

    world, jobs = World(), NoResult()
    for _ in range(2):
        with pytest.raises(jobs.job_not_found):
            run(jobs, next_try(world))
    assert len(jobs.jobs) == 1
