"""Waiting in the triggerer: one event when the job has ended, and the job cancelled only for what a person did."""

from __future__ import annotations

import ast
import asyncio
import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.serde import deserialize
from airflow.sdk.serde import serialize as as_airflow_sends

from airflow_resume import PollPolicy, ResumePolicy
from airflow_resume.errors import InvalidValueError, JobStatusUnknownError
from airflow_resume.jobs import JobStatus
from airflow_resume.jobs import trigger as module
from airflow_resume.jobs.ending import DELETED, Ending, ending_of_trigger
from airflow_resume.jobs.trigger import JobTrigger, PollJobTrigger
from airflow_resume.jobs.trigger_client import imported
from airflow_resume.testing import FakeJobs
from tests.support.jobs.trigger_clients import JOBS, OneOfOurOwn

QUICK = {"interval": 0.001, "max_interval": 0.001, "max_consecutive_errors": 3}


@pytest.fixture
def jobs() -> Iterator[FakeJobs]:
    JOBS["here"] = FakeJobs(scripts=[("RUNNING", "RUNNING", "SUCCEEDED")])
    JOBS["here"].submit("token")
    yield JOBS["here"]
    JOBS.clear()


def polling(client: str = "tests.support.jobs.trigger_clients.sync", **options: Any) -> PollJobTrigger:
    given: dict[str, Any] = {"external_id": "job-0", "poll": QUICK, **options}
    return PollJobTrigger(client=client, client_kwargs={"name": "here"}, **given)


def events_of(trigger: JobTrigger) -> list[Any]:
    async def collect() -> list[Any]:
        return [event.payload async for event in trigger.run()]

    return asyncio.run(collect())


def made_again(trigger: JobTrigger) -> Any:
    """As the triggerer makes it, from what Airflow's database has."""
    place, arguments = trigger.serialize()
    sent = json.loads(json.dumps(as_airflow_sends(arguments)))
    made: dict[str, Any] = deserialize(sent)  # type: ignore[assignment]
    return imported(place)(**made)


# --- waiting --------------------------------------------------------------------------------------------------

CLIENTS = [
    "tests.support.jobs.trigger_clients.sync",
    "tests.support.jobs.trigger_clients:sync",
    "tests.support.jobs.trigger_clients.Asynchronous",
    "tests.support.jobs.trigger_clients:Asynchronous.make",
    "tests.support.jobs.trigger_clients.StatusOnly",
]


@pytest.mark.parametrize("client", CLIENTS)
def test_one_event_is_fired_when_the_job_has_ended(jobs: FakeJobs, client: str) -> None:
    assert events_of(made_again(polling(client))) == [{"external_id": "job-0", "status": "succeeded"}]
    assert [event.call for event in jobs.events] == ["submit", "status", "status", "status"]


def test_a_job_that_failed_or_is_not_found_has_ended(jobs: FakeJobs) -> None:
    jobs.jobs[0].states = ["FAILED"]
    assert events_of(polling())[0]["status"] == "failed"
    jobs.forget("job-0")
    assert events_of(polling())[0]["status"] == "gone"


def test_errors_in_passing_are_borne_up_to_a_number_in_a_row(jobs: FakeJobs) -> None:
    for _ in range(2):
        jobs.fail_next("status", ConnectionError())
    assert events_of(polling())[0]["status"] == "succeeded"
    for _ in range(3):
        jobs.fail_next("status", ConnectionError("away"))
    with pytest.raises(ConnectionError, match="away"):
        events_of(polling())


def test_errors_with_answers_between_them_are_not_in_a_row(jobs: FakeJobs) -> None:
    jobs.jobs[0].states = ["RUNNING"] * 5 + ["SUCCEEDED"]
    ask, asked = jobs.status, []

    def every_other(external_id: Any) -> str:
        asked.append(external_id)
        if len(asked) % 3:
            raise TimeoutError
        return ask(external_id)

    jobs.__dict__["status"] = every_other
    assert events_of(polling())[0]["status"] == "succeeded"


def test_an_error_that_is_none_in_passing_ends_the_deferral_at_once(jobs: FakeJobs) -> None:
    jobs.fail_next("status", ValueError("no"))
    with pytest.raises(ValueError, match="no"):
        events_of(polling())


def test_a_status_that_stays_unknown_ends_the_deferral_and_not_the_job(jobs: FakeJobs) -> None:
    jobs.jobs[0].states = ["BEWILDERED"]
    with pytest.raises(JobStatusUnknownError):
        events_of(polling(unknown_timeout=0.01))
    assert jobs.alive() == ["job-0"]


def test_a_client_that_blocks_does_not_hold_up_the_event_loop(jobs: FakeJobs) -> None:
    async def both() -> bool:
        loop = asyncio.get_running_loop()
        may_answer = asyncio.Event()
        ask = jobs.status

        def blocking(external_id: Any) -> str:
            asyncio.run_coroutine_threadsafe(may_answer.wait(), loop).result(5)
            return ask(external_id)

        jobs.__dict__["status"] = blocking
        waiting = asyncio.create_task(polling().wait())
        await asyncio.sleep(0.01)
        may_answer.set()
        return await waiting is JobStatus.SUCCEEDED

    assert asyncio.run(both())


def test_a_trigger_of_ones_own_waits_as_it_likes() -> None:
    trigger = made_again(OneOfOurOwn(external_id=7, region="eu"))
    assert (trigger.region, events_of(trigger)) == ("eu", [{"external_id": 7, "status": "succeeded"}])


# --- as it is kept --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("external_id", ["job-0", "", 0, 7, ["eu", 7], {"region": "eu", "runs": [1]}])
def test_a_trigger_is_the_same_when_it_is_made_again(external_id: Any) -> None:
    poll = PollPolicy(interval=timedelta(seconds=2.5), max_interval=timedelta(minutes=3), backoff=1.25, jitter=0)
    trigger = polling(external_id=external_id, poll=poll, unknown_timeout=7.5)
    trigger.follow(ResumePolicy(on_clear="resume", poll=PollPolicy(timeout=timedelta(hours=1))))
    again = made_again(trigger)
    assert again.serialize() == trigger.serialize()
    assert (again.poll, again.external_id, again.unknown_timeout) == (poll, external_id, 7.5)


def test_only_what_was_passed_is_kept() -> None:
    _, arguments = polling().serialize()
    assert arguments == {
        "external_id": "job-0",
        "cancel_on_kill": True,
        "cancel_on_clear": True,
        "deadline": None,
        "client": "tests.support.jobs.trigger_clients.sync",
        "client_kwargs": {"name": "here"},
        "poll": {**QUICK, "backoff": 1.5, "jitter": 0.1},
        "unknown_timeout": 600.0,
    }


@pytest.mark.parametrize("client", ["", "client", ".client", "module:", FakeJobs, None])
def test_a_client_that_is_no_place_is_refused_at_once(client: Any) -> None:
    with pytest.raises(ValueError, match=r"client='package\.module\.Client'"):
        polling(client)


def test_arguments_that_are_no_json_are_refused_where_they_are_given() -> None:
    with pytest.raises(InvalidValueError, match=r"client_kwargs\.at is a datetime"):
        PollJobTrigger(client="a.b", client_kwargs={"at": datetime(2026, 1, 1, tzinfo=timezone.utc)}, external_id=1)  # type: ignore[dict-item]
    with pytest.raises(InvalidValueError, match="external_id is None"):
        PollJobTrigger(client="a.b", external_id=None)


def test_a_class_that_the_triggerer_cannot_import_is_refused_before_the_task_defers() -> None:
    class Here(OneOfOurOwn):
        pass

    with pytest.raises(TypeError, match=r"defined in a function, so .*\nDefine the class in a module"):
        Here(external_id=1, region="eu").serialize()


# --- killed ---------------------------------------------------------------------------------------------------

POLICIES: dict[str, tuple[ResumePolicy, tuple[bool, bool]]] = {
    "default": (ResumePolicy(), (True, True)),
    "clear resumes": (ResumePolicy(on_clear="resume"), (True, False)),
    "never": (ResumePolicy(cancel_on=()), (False, False)),
    "other reasons": (ResumePolicy(cancel_on={"shutdown", "timeout"}), (False, False)),
}


@pytest.mark.parametrize("policy", POLICIES)
def test_a_trigger_follows_the_policy(policy: str) -> None:
    trigger = polling()
    trigger.follow(POLICIES[policy][0])
    assert (trigger.cancel_on_kill, trigger.cancel_on_clear) == POLICIES[policy][1]
    assert trigger.deadline is None


ENDINGS = {
    "failed": Ending.USER,
    "success": Ending.USER,
    "skipped": Ending.USER,
    DELETED: Ending.USER,
    "none": Ending.CLEARED,
    "scheduled": Ending.CLEARED,
    "queued": Ending.CLEARED,
    "running": Ending.CLEARED,
    "up_for_retry": Ending.REPLACED,
    "deferred": Ending.REPLACED,
    None: Ending.UNKNOWN,
}


@pytest.mark.parametrize("state", ENDINGS)
def test_why_a_trigger_ends_is_told_by_the_state_of_its_task(state: str | None) -> None:
    assert ending_of_trigger(state) is ENDINGS[state]


def test_a_clear_when_the_deferral_times_out_may_be_none() -> None:
    assert ending_of_trigger("scheduled", is_due=True) is Ending.TIMEOUT
    assert ending_of_trigger("failed", is_due=True) is Ending.USER


@pytest.fixture
def task_is(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], None]:
    """What Airflow answers when it is asked for the task."""

    def answer(state: Any) -> None:
        def ask(_ti: Any) -> Any:
            if isinstance(state, Exception):
                raise state
            return state

        monkeypatch.setattr(module, "_state_in_airflow", ask)

    return answer


def killed(trigger: JobTrigger, times: int = 1) -> None:
    async def kill() -> None:
        trigger.task_instance = SimpleNamespace(task_id="task")  # type: ignore[assignment]
        waiting = asyncio.create_task(trigger.wait())
        await asyncio.sleep(0.005)
        waiting.cancel()
        for _ in range(times):
            await trigger.on_kill()

    asyncio.run(kill())


def cancels(jobs: FakeJobs) -> int:
    return sum(event.call == "cancel" for event in jobs.events)


@pytest.mark.parametrize("client", CLIENTS[:-1])
@pytest.mark.parametrize("state", ["failed", "success", "none", DELETED])
def test_a_job_is_cancelled_once_when_a_person_ends_its_task(
    jobs: FakeJobs, task_is: Callable[[Any], None], client: str, state: str
) -> None:
    jobs.jobs[0].states = ["RUNNING"]
    task_is(state)
    killed(polling(client), times=2)
    assert (cancels(jobs), jobs.jobs[0].states[-1]) == (1, "CANCELLED")


@pytest.mark.parametrize("state", ["deferred", RuntimeError("away")])
def test_a_job_lives_on_when_another_triggerer_has_it_or_nobody_knows(
    jobs: FakeJobs, task_is: Callable[[Any], None], state: Any, caplog: pytest.LogCaptureFixture
) -> None:
    jobs.jobs[0].states = ["RUNNING"]
    task_is(state)
    killed(polling())
    assert (cancels(jobs), jobs.alive()) == (0, ["job-0"])
    assert ("its job 'job-0' is left alone, and may be running" in caplog.text) is (state != "deferred")


@pytest.mark.parametrize(
    ("state", "options"), [("failed", {"cancel_on_kill": False}), ("none", {"cancel_on_clear": False})]
)
def test_a_job_lives_on_when_the_policy_says_so(
    jobs: FakeJobs, task_is: Callable[[Any], None], state: str, options: dict[str, Any]
) -> None:
    jobs.jobs[0].states = ["RUNNING"]
    task_is(state)
    killed(polling(**options))
    assert cancels(jobs) == 0


def test_a_job_lives_on_when_its_deferral_times_out_by_a_clock_that_is_ahead(
    jobs: FakeJobs, task_is: Callable[[Any], None]
) -> None:
    jobs.jobs[0].states = ["RUNNING"]
    task_is("scheduled")
    trigger = polling()
    trigger.follow(ResumePolicy(poll=PollPolicy(timeout=timedelta(seconds=30))))
    killed(trigger)
    assert cancels(jobs) == 0


def test_what_cannot_be_cancelled_is_in_an_error_line(
    jobs: FakeJobs, task_is: Callable[[Any], None], caplog: pytest.LogCaptureFixture
) -> None:
    task_is("failed")
    killed(polling("tests.support.jobs.trigger_clients.StatusOnly"))
    killed(OneOfOurOwn(external_id="job-9", region="eu"))
    errors = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert ["'job-0'" in errors[0], "'job-9'" in errors[1], len(errors)] == [True, True, 2]


def test_a_cancel_that_fails_is_tried_again_and_at_last_in_an_error_line(
    jobs: FakeJobs,
    task_is: Callable[[Any], None],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "CANCEL_PAUSE", 0)
    jobs.jobs[0].states = ["RUNNING"]
    task_is("failed")
    jobs.fail_next("cancel", ConnectionError())
    killed(polling())
    assert cancels(jobs) == 1
    jobs.jobs[0].states = ["RUNNING"]
    for _ in range(3):
        jobs.fail_next("cancel", ConnectionError("away"))
    with pytest.raises(ConnectionError):
        killed(polling())
    assert "The job 'job-0' could not be cancelled, and may be running" in caplog.text


def test_a_cancel_that_takes_longer_than_airflow_gives_it_is_in_an_error_line(
    jobs: FakeJobs, task_is: Callable[[Any], None], caplog: pytest.LogCaptureFixture
) -> None:
    task_is("failed")

    class Slow(OneOfOurOwn):
        async def cancel(self) -> None:
            await asyncio.sleep(60)

    async def kill() -> None:
        with pytest.raises(asyncio.TimeoutError):
            slow = Slow(external_id="job-9", region="eu")
            slow.task_instance = SimpleNamespace(task_id="task")  # type: ignore[assignment]
            await asyncio.wait_for(slow.on_kill(), 0.5)

    asyncio.run(kill())
    assert "The job 'job-9' could not be cancelled, and may be running" in caplog.text


def test_a_triggerer_asks_airflow_once_before_it_matters(jobs: FakeJobs, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(module, "_asked_ahead", set())
    monkeypatch.setattr(module, "_state_in_airflow", asked.append)
    for _ in range(2):
        jobs.jobs[0].states = ["RUNNING", "SUCCEEDED"]
        trigger = polling()
        trigger.task_instance = SimpleNamespace(task_id="task")  # type: ignore[assignment]
        events_of(trigger)
    assert len(asked) == 1


@pytest.mark.parametrize(
    ("map_index", "answer", "state"),
    [
        (-1, {"run": {"task": "failed"}}, "failed"),
        (None, {"run": {"task": None}}, "none"),
        (3, {"run": {"task_3": "deferred"}}, "deferred"),
        (-1, {}, DELETED),
    ],
)
def test_airflow_is_asked_for_the_very_task(
    monkeypatch: pytest.MonkeyPatch, map_index: int | None, answer: dict[str, Any], state: str
) -> None:
    from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

    asked: dict[str, Any] = {}
    monkeypatch.setattr(RuntimeTaskInstance, "get_task_states", staticmethod(lambda **of: asked.update(of) or answer))
    ti = SimpleNamespace(dag_id="dag", run_id="run", task_id="task", map_index=map_index)
    assert module._state_in_airflow(ti) == state
    assert (asked["dag_id"], asked["task_ids"], asked["run_ids"]) == ("dag", ["task"], ["run"])


def test_who_reads_a_dag_file_does_not_load_triggers() -> None:
    code = "import sys, airflow_resume.jobs, airflow_resume_mixins; print([n for n in sys.modules if 'trigger' in n])"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True, env=environment)
    names = ast.literal_eval(loaded.stdout)
    assert not {"airflow.triggers.base", "airflow_resume.jobs.trigger"} & set(names)
