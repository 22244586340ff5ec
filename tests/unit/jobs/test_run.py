from __future__ import annotations

import asyncio
import logging
import subprocess
import urllib.error
from collections import OrderedDict
from datetime import datetime, timedelta, timezone
from email.message import Message
from enum import Enum
from typing import Any
from uuid import UUID

import httpx
import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException
from crashing import DiedError, Life, Store, World, explore, run_until_done
from fake_jobs import CancellableJobs, JobsWithLookup, JobSystem

from airflow_resume import ResumePolicy, run_job
from airflow_resume.errors import (
    InvalidJobIdError,
    JobError,
    JobFailedError,
    JobFailedForGoodError,
    JobInputsChangedError,
    JobStatusUnknownError,
    JobWaitTimeoutError,
    LostSubmissionError,
    NameInUseError,
    NoStateStoreError,
    SupersededError,
    UnreadableRecordError,
)
from airflow_resume.jobs import JobRun, JobStatus, PollPolicy
from airflow_resume.jobs.poll import Clock
from airflow_resume.store import MemoryStore

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


def world_with(jobs: JobSystem) -> World:
    world = World(life=jobs.life)
    world.jobs = jobs  # type: ignore[attr-defined]
    return world


def one_attempt(world: World, context: Any) -> Any:
    return run(world.jobs, context)  # type: ignore[attr-defined]


# --- every crash ----------------------------------------------------------------------------------------------


def one_job_one_result(world: World, result: Any) -> None:
    jobs: JobSystem = world.jobs  # type: ignore[attr-defined]
    assert len(jobs.jobs) == 1
    assert result == {"rows": 7, "job": 0}


@pytest.mark.parametrize("jobs", [JobsWithLookup, lambda life: JobSystem(life, dedupes=True)], ids=["find", "dedupes"])
@pytest.mark.parametrize("active_for", [0, 2])
def test_one_job_and_one_result_whenever_the_attempts_die(jobs: Any, active_for: int) -> None:
    def make_world() -> World:
        made = jobs(Life())
        made.active_for = active_for
        made.submission_is_idempotent = made.dedupes
        return world_with(made)

    assert explore(make_world, one_attempt, one_job_one_result) > 50


def test_a_job_that_fails_twice_has_two_successors_and_never_two_live_jobs() -> None:
    def make_world() -> World:
        jobs = JobsWithLookup(Life(), ends=[JobStatus.FAILED, JobStatus.FAILED, JobStatus.SUCCEEDED])
        return world_with(jobs)

    def oracle(world: World, result: Any) -> None:
        jobs: JobSystem = world.jobs  # type: ignore[attr-defined]
        assert jobs.most_alive == 1
        assert len(jobs.jobs) == 3
        assert result == {"rows": 7, "job": 2}

    explore(make_world, one_attempt, oracle, double=False, retry_on=(JobFailedError,))


def test_a_cleared_task_cancels_the_old_job_before_it_submits_another() -> None:
    def make_world() -> World:
        jobs = CancellableJobs(Life(), active_for=10**6)
        world = world_with(jobs)
        with pytest.raises(JobWaitTimeoutError):
            run(jobs, world.attempt(), policy=ResumePolicy(poll=PollPolicy(timeout=timedelta(0))))
        jobs.active_for = 1
        jobs.jobs[0].questions = -(10**6)
        world.clear()
        jobs.life.count, jobs.life.trace = 0, []
        return world

    def oracle(world: World, result: Any) -> None:
        jobs: JobSystem = world.jobs  # type: ignore[attr-defined]
        assert jobs.most_alive == 1
        assert len(jobs.jobs) == 2
        assert result["job"] == 1
        assert [line["status"] for line in world.task_values[KEY]["history"]] == ["failed"]

    assert explore(make_world, one_attempt, oracle) > 50


def test_without_look_up_the_one_window_is_named_and_no_second_job_is_submitted() -> None:
    """Dying between the submit and the save cannot be closed without help: then it is said, not guessed."""
    clean = world_with(JobSystem())
    run_until_done(clean, one_attempt)
    windows = {}
    for point in range(1, clean.life.count + 1):
        jobs = JobSystem(Life(armed={point}))
        world = world_with(jobs)
        try:
            run_until_done(world, one_attempt)
        except LostSubmissionError as error:
            windows[point] = world.life.trace[point - 1]
            assert world.task_values[KEY]["token"] in str(error)
        assert len(jobs.jobs) <= 1
    assert list(windows.values()) == [f"after set {KEY}", "before submit", "after submit", f"before set {KEY}"]


def test_a_lost_submission_is_submitted_again_when_a_second_job_is_accepted() -> None:
    jobs = JobSystem(Life(armed={4}))  # right after the submit
    world = world_with(jobs)
    policy = ResumePolicy(on_lost_submission="resubmit")
    result = run_until_done(world, lambda world, context: run(jobs, context, policy=policy))
    assert world.life.trace[3:5] == ["after submit", "died"]
    assert (len(jobs.jobs), result["job"]) == (2, 1)


# --- old attempts ---------------------------------------------------------------------------------------------


def test_a_replaced_attempt_submits_nothing() -> None:
    jobs, context = JobsWithLookup(), World().attempt()
    context["task_state_store"].replaced = True
    with pytest.raises(SupersededError):
        run(jobs, context)
    assert jobs.jobs == []


def test_an_attempt_that_is_replaced_while_it_submits_leaves_the_job_to_its_successor(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World()
    context = world.attempt()

    class Slow(CancellableJobs):
        def submit(self, token: str) -> int:
            context["task_state_store"].replaced = True
            return super().submit(token)

    jobs = Slow()
    with pytest.raises(SupersededError), caplog.at_level(logging.ERROR):
        run(jobs, context)
    assert "left alone" in caplog.text
    jobs.__class__ = CancellableJobs  # type: ignore[assignment]
    assert run(jobs, world.attempt())["job"] == 0
    assert len(jobs.jobs) == 1


def test_an_id_that_cannot_be_saved_or_found_again_is_cancelled_and_named(caplog: pytest.LogCaptureFixture) -> None:
    context = World().attempt()

    class Jobs(JobSystem):
        cancelled: list[int] = []  # noqa: RUF012

        def submit(self, token: str) -> int:
            context["task_state_store"].replaced = True
            return super().submit(token)

        def cancel(self, external_id: int) -> None:
            self.cancelled.append(external_id)

    with pytest.raises(SupersededError), caplog.at_level(logging.ERROR):
        run(Jobs(), context)
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


@pytest.mark.parametrize(
    ("error", "lost"),
    [
        (ValueError("bad spec"), False),
        (RefusedError(422), False),
        (RefusedError(503), True),
        (RefusedError(408), True),
        (TimeoutError(), True),
        (ConnectionResetError(), True),
        (ConnectionRefusedError(), False),
        (FileNotFoundError("spec.json"), False),
        (subprocess.TimeoutExpired("spark-submit", 30), True),
        (asyncio.TimeoutError(), True),
        (httpx.ReadTimeout("slow"), True),
        (httpx.ConnectError("refused"), False),
        (urllib.error.HTTPError("http://x", 422, "no", Message(), None), False),
        (urllib.error.HTTPError("http://x", 502, "no", Message(), None), True),
        (raised_from(AirflowException("hook failed"), TimeoutError()), True),
        (raised_from(AirflowException("hook failed"), RefusedError(422)), False),
        (raised_from(AirflowException("hook failed"), ConnectionRefusedError()), False),
        (AirflowException("bad spec"), False),
    ],
)
def test_a_submit_that_raises_is_lost_only_if_it_may_have_created_a_job(error: Exception, lost: bool) -> None:  # noqa: FBT001
    class Jobs(JobSystem):
        errors = [error]  # noqa: RUF012

        def submit(self, token: str) -> int:
            if self.errors:
                raise self.errors.pop()
            return super().submit(token)

    world, jobs = World(), Jobs()
    with pytest.raises(type(error)):
        run(jobs, world.attempt())
    if lost:
        with pytest.raises(LostSubmissionError):
            run(jobs, world.attempt())
    else:
        assert run(jobs, world.attempt())["job"] == 0


def test_a_refused_second_submit_with_the_same_token_does_not_count_as_no_job() -> None:
    """A system that de-duplicates by refusing: the job of the first submit may be there."""

    class Jobs(JobSystem):
        submission_is_idempotent = True

        def submit(self, token: str) -> int:
            if self.jobs:
                raise RefusedError(409)
            return super().submit(token)

    jobs = Jobs(Life(armed={4}))
    world = world_with(jobs)
    with pytest.raises(DiedError):
        run(jobs, world.attempt())
    for _ in range(2):
        with pytest.raises(RefusedError):
            run(jobs, world.attempt())
    assert len(jobs.jobs) == 1


@pytest.mark.parametrize("answer", [None, object(), float("nan")])
def test_an_id_that_cannot_be_kept_is_refused_by_name(answer: Any, caplog: pytest.LogCaptureFixture) -> None:
    class Jobs(JobSystem):
        def submit(self, token: str) -> Any:
            super().submit(token)
            return answer

    world = World()
    with pytest.raises(InvalidJobIdError, match=r"Return the id of the job.*with token [0-9a-f]{32}"):
        run(Jobs(), world.attempt())
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
        run(jobs, world.attempt(), policy=ResumePolicy(poll=PollPolicy(timeout=timedelta(0))))
    result = run(jobs, world.attempt())
    assert jobs.submits == 1
    assert result == jobs.asked[0] == jobs.asked[-1]


# --- results --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "result",
    [None, 0, (1, 2), {"at": datetime(2026, 1, 1, tzinfo=timezone.utc)}, "x" * 10_000, {"not": {1, 2}}],
    ids=["none", "zero", "tuple", "datetime", "large", "not storable"],
)
def test_the_result_is_the_same_on_every_path(result: Any) -> None:
    class Jobs(JobSystem):
        def result(self, external_id: int) -> Any:
            return result

    world, jobs = World(), Jobs()
    first = run(jobs, world.attempt())
    again = run(jobs, world.attempt())
    assert first == again == result
    assert type(again) is type(result)
    assert len(jobs.jobs) == 1
    assert len(str(world.task_values[KEY])) < 5_000


def test_a_job_system_that_forgets_finished_jobs_still_resumes_as_done() -> None:
    world, jobs = World(), JobSystem()
    run(jobs, world.attempt())

    class Forgetful(JobSystem):
        def status(self, external_id: int) -> JobStatus:
            return JobStatus.GONE

        def result(self, external_id: int) -> Any:
            raise AssertionError

    assert run(Forgetful(), world.attempt()) == {"rows": 7, "job": 0}


def test_without_a_result_of_its_own_the_id_is_returned() -> None:
    class Jobs:
        def submit(self, _token: str) -> str:
            return "app-1"

        def status(self, _external_id: str) -> str:
            return "FINISHED"

    assert run_job(Jobs(), store=MemoryStore()) == "app-1"


# --- waiting --------------------------------------------------------------------------------------------------


def test_a_failing_question_is_asked_again_and_never_counts_as_a_failed_job() -> None:
    class Flaky(JobSystem):
        troubles = 5

        def status(self, external_id: int) -> JobStatus:
            if self.troubles:
                self.troubles -= 1
                raise ConnectionResetError
            return super().status(external_id)

    jobs = Flaky()
    assert run(jobs, World().attempt())["job"] == 0
    assert len(jobs.jobs) == 1


def test_an_unknown_status_is_asked_for_until_its_time_out_and_never_submits() -> None:
    class Mute(JobSystem):
        def status(self, external_id: int) -> Any:
            return "WHAT_IS_THIS"

    world, jobs, clock = World(), Mute(), FastClock()
    for _ in range(2):
        with pytest.raises(JobStatusUnknownError, match="classify it"):
            run(jobs, world.attempt(), clock=clock.clock())
    assert len(jobs.jobs) == 1
    assert clock.seconds >= 2 * 600


def test_the_time_out_of_an_attempt_leaves_the_job_alive() -> None:
    world, jobs = World(), JobSystem(active_for=10**6)
    policy = ResumePolicy(poll=PollPolicy(timeout=timedelta(minutes=5)))
    with pytest.raises(JobWaitTimeoutError, match="a retry reconnects"):
        run(jobs, world.attempt(), policy=policy)
    assert jobs.alive() == 1
    jobs.active_for = 0
    assert run(jobs, world.attempt(), policy=policy)["job"] == 0


def test_a_job_being_cancelled_is_waited_for_and_then_done_again_in_the_same_attempt() -> None:
    world, jobs = World(), CancellableJobs(active_for=10**6)
    with pytest.raises(JobWaitTimeoutError):
        run(jobs, world.attempt(), policy=ResumePolicy(poll=PollPolicy(timeout=timedelta(0))))
    jobs.cancel(0)
    jobs.active_for = 1
    assert run(jobs, world.attempt())["job"] == 1
    assert jobs.most_alive == 1


def test_a_failed_job_can_be_final() -> None:
    jobs = JobSystem(ends=[JobStatus.FAILED])
    with pytest.raises(JobFailedForGoodError):
        run(jobs, World().attempt(), policy=ResumePolicy(on_failed_job="fail"))


# --- slots, inputs, records -----------------------------------------------------------------------------------


def test_two_slots_of_one_task_resume_independently() -> None:
    world = World()
    one, two = JobSystem(), JobSystem(active_for=10**6)
    run(one, world.attempt(), name="one")
    with pytest.raises(JobWaitTimeoutError):
        run(two, world.attempt(), name="two", policy=ResumePolicy(poll=PollPolicy(timeout=timedelta(0))))
    two.active_for = 0
    run(one, world.attempt(), name="one")
    run(two, world.attempt(), name="two")
    assert (len(one.jobs), len(two.jobs)) == (1, 1)
    assert sorted(world.task_values) == ["resume.job.one", "resume.job.two"]


@pytest.mark.parametrize(("choice", "jobs_submitted"), [("resubmit", 2), ("resume", 1)])
def test_changed_inputs_follow_the_policy(choice: Any, jobs_submitted: int) -> None:
    world, jobs = World(), JobSystem()
    policy = ResumePolicy(on_input_change=choice)
    run(jobs, world.attempt(), inputs={"sql": "a"}, policy=policy)
    run(jobs, world.attempt(), inputs={"sql": "b"}, policy=policy)
    assert len(jobs.jobs) == jobs_submitted


def test_changed_inputs_can_be_an_error_that_touches_nothing() -> None:
    world, jobs = World(), JobSystem()
    run(jobs, world.attempt(), inputs=1)
    policy = ResumePolicy(on_input_change="fail")
    with pytest.raises(JobInputsChangedError, match="clear the task"):
        run(jobs, world.attempt(), inputs=2, policy=policy)
    assert len(jobs.jobs) == 1
    world.clear()
    assert run(jobs, world.attempt(), inputs=2, policy=policy)["job"] == 1


def test_a_clear_of_another_task_of_the_run_is_not_taken_for_a_clear_of_this_one() -> None:
    world, jobs = World(), JobSystem()
    run(jobs, world.attempt())
    world.clear_number += 1
    run(jobs, world.attempt())
    assert len(jobs.jobs) == 1


@pytest.mark.parametrize("stored", ["nonsense", {"v": 99, "key": KEY}, {"v": 1, "key": KEY, "phase": "?"}])
def test_a_record_that_cannot_be_read_stops_before_anything_is_touched(stored: Any) -> None:
    world, jobs = World(), JobSystem()
    world.task_values[KEY] = stored
    with pytest.raises(UnreadableRecordError):
        run(jobs, world.attempt())
    assert jobs.jobs == []
    assert world.task_values[KEY] == stored


def test_outside_a_task_nothing_is_submitted() -> None:
    jobs = JobSystem()
    with pytest.raises(NoStateStoreError, match="pass `store=`"):
        run_job(jobs)
    assert jobs.jobs == []


def test_the_history_is_bounded_and_the_record_small() -> None:
    world, jobs = World(), JobsWithLookup(ends=[JobStatus.FAILED] * 40)
    for _ in range(30):
        with pytest.raises(JobFailedError):
            run(jobs, world.attempt())
    record = world.task_values[KEY]
    assert record["generation"] == 30
    assert [line["id"] for line in record["history"]] == list(range(9, 29))
    assert len({line["token"] for line in record["history"]} | {record["token"]}) == 21


def test_a_first_attempt_makes_four_store_calls() -> None:
    """Read, intent, id, result."""
    context = World().attempt()
    run(JobSystem(), context)
    store: Store = context["task_state_store"]
    assert (store.reads, len(store.writes)) == (1, 3)


def test_every_decision_is_one_named_line(caplog: pytest.LogCaptureFixture) -> None:
    world, jobs = World(), JobSystem()
    with caplog.at_level(logging.INFO):
        run(jobs, world.attempt())
        run(jobs, world.attempt())
    assert [line.split(" (")[0] for line in caplog.messages] == ["submit", "reconnect", "fetch result", "done"]
    assert "job 0" in caplog.messages[-1]
    assert "try 2" in caplog.messages[-1]


# --- found by trying ------------------------------------------------------------------------------------------


def test_deleting_the_key_and_clearing_starts_over_as_the_message_says() -> None:
    jobs = JobSystem(Life(armed={4}))
    world = world_with(jobs)
    with pytest.raises(DiedError):
        run(jobs, world.attempt())
    for clear in (False, True):
        if clear:
            world.clear()
        with pytest.raises(LostSubmissionError, match=rf"Try \d or one before it may have .* delete the key '{KEY}'"):
            run(jobs, world.attempt())
    del world.task_values[KEY]
    assert run(jobs, world.attempt())["job"] == 1


def test_the_message_of_a_lost_submission_names_the_try_that_lost_it() -> None:
    jobs = JobSystem(Life(armed={4}))
    world = world_with(jobs)
    with pytest.raises(DiedError):
        run(jobs, world.attempt())
    with pytest.raises(LostSubmissionError, match=r"^Try 1 or one before it may have"):
        run(jobs, world.attempt())


def test_inputs_may_be_corrected_when_nothing_was_created() -> None:
    class Strict(JobSystem):
        def submit(self, token: str) -> int:
            if not self.jobs and not self.dedupes:
                self.dedupes = True
                raise ValueError("bad spec")
            return super().submit(token)

    world, jobs, policy = World(), Strict(), ResumePolicy(on_input_change="fail")
    with pytest.raises(ValueError, match="bad spec"):
        run(jobs, world.attempt(), inputs=1, policy=policy)
    assert run(jobs, world.attempt(), inputs=2, policy=policy)["job"] == 0
    assert [line["reason"] for line in world.task_values[KEY]["history"]] == ["nothing was created"]


def test_an_id_that_find_gives_in_another_form_is_the_same_id() -> None:
    context = World().attempt()

    class Jobs(CancellableJobs):
        cancelled: list[Any] = []  # noqa: RUF012

        def submit(self, token: str) -> Any:
            context["task_state_store"].replaced = True
            return UUID(int=5)

        def find(self, token: str) -> Any:
            return UUID(int=5)

        def cancel(self, external_id: Any) -> None:
            self.cancelled.append(external_id)

    with pytest.raises(SupersededError):
        run(Jobs(), context)
    assert Jobs.cancelled == []


def test_a_question_that_fails_in_passing_costs_no_attempt_when_looking_up_either() -> None:
    class Flaky(JobsWithLookup):
        troubles = 2

        def find(self, token: str) -> int | None:
            if self.troubles:
                self.troubles -= 1
                raise ConnectionResetError
            return super().find(token)

    jobs = Flaky(Life(armed={4}))
    world = world_with(jobs)
    with pytest.raises(DiedError):
        run(jobs, world.attempt())
    assert run(jobs, world.attempt())["job"] == 0


def test_a_job_that_ended_before_it_could_be_cancelled_is_no_error() -> None:
    class Late(CancellableJobs):
        def cancel(self, external_id: int) -> None:
            self.jobs[external_id].status = JobStatus.SUCCEEDED
            raise RefusedError(409)

    world, jobs = World(), Late(active_for=10**6)
    with pytest.raises(JobWaitTimeoutError):
        run(jobs, world.attempt(), policy=ResumePolicy(poll=PollPolicy(timeout=timedelta(0))))
    world.clear()
    jobs.active_for = 1
    assert run(jobs, world.attempt())["job"] == 1


@pytest.mark.parametrize(
    ("error", "ends", "raised"),
    [
        (RuntimeError("batch failed"), JobStatus.FAILED, RuntimeError),
        (AirflowFailException("no use"), JobStatus.FAILED, AirflowFailException),
        (AirflowSkipException("no data"), JobStatus.SUCCEEDED, AirflowSkipException),
        (RuntimeError("log stream broke"), JobStatus.SUCCEEDED, None),
        (RuntimeError("log stream broke"), JobStatus.ACTIVE, RuntimeError),
    ],
)
def test_what_the_own_way_of_waiting_raises_is_what_the_attempt_ends_with(
    error: Exception, ends: JobStatus, raised: type[Exception] | None
) -> None:
    class Waiting(JobSystem):
        def wait(self, external_id: int) -> None:
            raise error

    world, jobs = World(), Waiting(ends=[ends, JobStatus.SUCCEEDED], active_for=0)
    if raised is None:
        assert run(jobs, world.attempt())["job"] == 0
        return
    with pytest.raises(raised, match=str(error)):
        run(jobs, world.attempt())
    assert world.task_values[KEY]["phase"] == ("terminal" if ends is JobStatus.FAILED else "submitted")


@pytest.mark.parametrize("ends", [JobStatus.SUCCEEDED, JobStatus.FAILED])
def test_trouble_on_the_way_does_not_end_the_own_way_of_waiting(ends: JobStatus) -> None:
    class Waiting(JobSystem):
        waits = 0

        def wait(self, external_id: int) -> None:
            self.waits += 1
            if self.waits == 1:
                raise ConnectionResetError
            if self.jobs[external_id].status is JobStatus.FAILED:
                raise RuntimeError("batch 0 failed")

    jobs = Waiting(ends=[ends], active_for=3)
    if ends is JobStatus.FAILED:
        with pytest.raises(RuntimeError, match="batch 0 failed"):
            run(jobs, World().attempt())
    else:
        assert run(jobs, World().attempt())["job"] == 0
    assert jobs.waits == 2


def test_an_own_way_of_waiting_that_never_works_ends_all_the_same() -> None:
    class Waiting(JobSystem):
        waits = 0

        def wait(self, external_id: int) -> None:
            self.waits += 1
            raise ConnectionResetError

    jobs = Waiting(active_for=3)
    assert run(jobs, World().attempt())["job"] == 0
    assert jobs.waits == 2


def test_a_status_that_the_clients_enum_has_not_heard_of_is_unknown_and_submits_nothing() -> None:
    class Outdated(JobSystem):
        words = ["recovering", "recovering", "active"]  # noqa: RUF012

        def status(self, external_id: int) -> JobStatus:
            return JobStatus(self.words.pop(0)) if self.words else super().status(external_id)

    world, jobs = World(), Outdated(active_for=1)
    assert run(jobs, world.attempt())["job"] == 0
    assert len(jobs.jobs) == 1


def test_a_job_answered_with_404_is_gone_without_a_declaration() -> None:
    class NotFoundError(Exception):
        status_code = 404

    class Forgetful(JobSystem):
        def status(self, external_id: int) -> JobStatus:
            if external_id == 0:
                raise NotFoundError
            return super().status(external_id)

    world, jobs = World(), Forgetful()
    with pytest.raises(JobError, match="vanished while it was waited for"):
        run(jobs, world.attempt())
    assert run(jobs, world.attempt())["job"] == 1
    declared = Forgetful()
    declared.job_not_found = ()  # type: ignore[attr-defined]
    with pytest.raises(NotFoundError):
        run(declared, World().attempt())


def test_what_fetching_a_result_leaves_behind_is_left_in_every_attempt() -> None:
    class Pushing(JobSystem):
        replayed = 0
        answers = True

        def replay(self, external_id: int) -> Any:
            self.replayed += 1
            if not self.answers:
                raise LookupError(external_id)
            return self.result(external_id)

    world, jobs = World(), Pushing(active_for=0)
    returned = [run(jobs, world.attempt()) for _ in range(2)]
    jobs.answers = False
    returned.append(run(jobs, world.attempt()))
    assert returned == [returned[0]] * 3
    assert jobs.replayed == 2


def test_an_empty_declaration_means_none() -> None:
    class Sure(JobSystem):
        ambiguous_errors = ()
        errors = [TimeoutError()]  # noqa: RUF012

        def submit(self, token: str) -> int:
            if self.errors:
                raise self.errors.pop()
            return super().submit(token)

    world, jobs = World(), Sure()
    with pytest.raises(TimeoutError):
        run(jobs, world.attempt())
    assert run(jobs, world.attempt())["job"] == 0


def test_a_name_used_twice_in_one_attempt_is_an_error_and_not_the_first_jobs_result() -> None:
    context, jobs = World().attempt(), JobSystem()
    run(jobs, context)
    with pytest.raises(NameInUseError, match=r"Give each its own name"):
        run(jobs, context)
    run(jobs, context, name="another")
    assert len(jobs.jobs) == 2


def test_a_job_that_failed_may_be_tried_again_in_the_same_attempt() -> None:
    context, jobs = World().attempt(), JobSystem(ends=[JobStatus.FAILED, JobStatus.SUCCEEDED])
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
    class Jobs(JobSystem):
        def result(self, external_id: int) -> Any:
            return result

    world, jobs = World(), Jobs()
    run(jobs, world.attempt())
    assert "result" not in world.task_values[KEY]
    assert type(run(jobs, world.attempt())) is type(result)
