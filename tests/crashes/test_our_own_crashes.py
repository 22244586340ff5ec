"""Airflow's mixin, ours, the loop and the watermark under every crash."""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import Asset, BaseOperator
from airflow.sdk import ResumableJobMixin as AirflowResumableJobMixin

from airflow_resume import PollPolicy, ResumePolicy, checkpoint, run_job, watermark
from airflow_resume.errors import JobFailedError, JobWaitTimeoutError
from airflow_resume.loops import CursorToken, Page
from airflow_resume.testing import CrashWorld, FakeJobs, TaskAttempt, World, explore_crashes, task_context
from airflow_resume.testing.crashes.explorer import CrashReport
from airflow_resume.testing.crashes.outcome import ExplorationOutcome
from airflow_resume.testing.oracles import (
    each_effect_at_least_once,
    each_effect_exactly_once,
    mark_never_decreases,
    same_result,
)
from airflow_resume.watermarks import Window
from airflow_resume_mixins import ResumableJobMixin
from tests.support.jobs.hooks import JobHooks, equipped
from tests.support.kit.file_rows import FileRows

ORDERS = Asset("orders")
AT_ONCE = ResumePolicy(poll=PollPolicy(interval=timedelta(0), max_interval=timedelta(0), jitter=0))


class Hooks(JobHooks):
    """One job, and the hooks that both mixins know."""

    def poll_until_complete(self, external_id: Any, context: Any) -> None:
        while self.jobs.status(external_id) == "RUNNING":
            pass

    def get_job_result(self, external_id: Any, context: Any) -> Any:
        return self.jobs.result(external_id)


class AirflowTrain(Hooks, AirflowResumableJobMixin, BaseOperator):
    pass


class OurTrain(Hooks, ResumableJobMixin, BaseOperator):
    def find_job(self, token: str, context: Any) -> Any:
        return self.jobs.find(token)


def a_task(**outliving: Any) -> CrashWorld:
    return CrashWorld(airflow=World(), **outliving)


def try_of(world: CrashWorld) -> TaskAttempt:
    """The next attempt of the task."""
    return task_context(world=world.airflow, assets=[ORDERS])


def one_job(**options: Any) -> Any:
    return lambda: a_task(jobs=FakeJobs(scripts=[["RUNNING", "RUNNING", "SUCCEEDED"]], **options))


def airflows(world: CrashWorld) -> Any:
    operator: Any = equipped(AirflowTrain(task_id="train"), jobs=world.jobs)
    return operator.execute_resumable(try_of(world).context)


def ours(world: CrashWorld) -> Any:
    operator: Any = equipped(OurTrain(task_id="train", resume_policy=AT_ONCE), jobs=world.jobs)
    return operator.execute_resumable(try_of(world).context)


def function(world: CrashWorld) -> Any:
    return run_job(world.jobs, policy=AT_ONCE, context=try_of(world).context)


def one_alive(outcome: ExplorationOutcome[CrashWorld]) -> None:
    assert outcome.world.jobs.most_alive == 1


def explored(attempt: Any, *oracles: Any, **options: Any) -> CrashReport:
    options.setdefault("world", one_job())
    return explore_crashes(attempt, oracle=oracles, **options)


# --- Airflow's own mixin --------------------------------------------------------------------------------------


def test_airflows_mixin_submits_twice_between_submit_and_save() -> None:
    report = explored(airflows, each_effect_exactly_once, find_all=True, double=False)
    assert {(finding.only, finding.where[0]) for finding in report.findings} == {
        ("4:crash", "after submit"),
        ("5:crash", "before set remote_job_id"),
        ("5:refused", "before set remote_job_id"),
    }
    assert report.findings[0].problem == "repeated: 'submit' 2 x; at most 1 x is right"
    assert report.findings[0].replay == 'explore_crashes(airflows, ..., only="4:crash")'


def test_airflows_mixin_loses_the_result_when_it_reconnects() -> None:
    report = explored(airflows, same_result, find_all=True, double=False, kinds=["crash"])
    assert [(finding.only, finding.problem) for finding in report.findings] == [
        ("4:crash", "the result is {'job': 'job-1'}; without a crash it is {'job': 'job-0'}"),
        ("5:crash", "the result is {'job': 'job-1'}; without a crash it is {'job': 'job-0'}"),
        ("6:crash", "the result is None; without a crash it is {'job': 'job-0'}"),
    ]


# --- ours -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("attempt", [ours, function])
def test_ours_has_one_job_and_one_result_under_one_and_two_crashes_of_every_kind(attempt: Any) -> None:
    report = explored(attempt, each_effect_exactly_once, one_alive, same_result)
    assert report.pairs > 100


def test_ours_relies_on_a_system_that_dedupes_as_well() -> None:
    def one_job_only(outcome: ExplorationOutcome[CrashWorld]) -> None:
        assert len(outcome.world.jobs.jobs) == 1

    report = explored(function, one_job_only, same_result, world=one_job(dedupes=True, can_find=False))
    assert report.pairs > 100


def test_a_failed_job_has_one_successor() -> None:
    def failing() -> CrashWorld:
        return a_task(jobs=FakeJobs(scripts=[["RUNNING", "FAILED"], ["SUCCEEDED"]]))

    explored(
        function,
        each_effect_exactly_once,
        one_alive,
        same_result,
        world=failing,
        retry_on=(JobFailedError,),
        max_pairs=300,
    )


def test_without_look_up_the_window_is_named_and_there_is_no_second_job() -> None:
    def at_most_one(outcome: ExplorationOutcome[CrashWorld]) -> None:
        assert len(outcome.world.jobs.jobs) <= 1

    report = explored(
        function, at_most_one, world=one_job(can_find=False), double=False, find_all=True, kinds=["crash"]
    )
    assert all("LostSubmissionError" in finding.problem for finding in report.findings)
    assert [finding.where[0].partition(" resume")[0] for finding in report.findings] == [
        "after set",
        "before submit",
        "after submit",
        "before set",
    ]


def test_a_job_whose_submit_was_never_answered_is_found() -> None:
    def no_answer() -> CrashWorld:
        world: CrashWorld = one_job()()
        world.jobs.fail_next("submit", TimeoutError(), applied=True)
        return world

    explored(function, each_effect_exactly_once, same_result, world=no_answer, retry_on=(TimeoutError,), max_pairs=300)


def test_two_jobs_of_one_task_do_not_mix() -> None:
    def two(world: CrashWorld) -> list[Any]:
        context = try_of(world).context
        return [run_job(world.jobs, name=name, policy=AT_ONCE, context=context) for name in "ab"]

    explored(two, each_effect_exactly_once, one_alive, same_result, max_pairs=150)


@pytest.mark.parametrize("can_cancel", [True, False])
def test_a_cleared_task_has_a_second_job_and_never_two_live_ones(can_cancel: bool) -> None:  # noqa: FBT001
    impatient = ResumePolicy(poll=PollPolicy(interval=timedelta(0), max_interval=timedelta(0), timeout=timedelta(0)))

    def cleared_in_between(world: CrashWorld) -> Any:
        """A person clears the task once the first attempt has given up waiting."""
        attempt = try_of(world)
        if not world.cleared:
            with suppress(JobWaitTimeoutError):
                run_job(world.jobs, policy=impatient, context=attempt.context)
            world.cleared = True
            attempt = attempt.clear()
        return run_job(world.jobs, policy=AT_ONCE, context=attempt.context)

    def the_second_job_counts(outcome: ExplorationOutcome[CrashWorld]) -> None:
        assert len(outcome.world.jobs.jobs) == 2
        assert outcome.result == {"job": "job-1"}

    def make_world() -> CrashWorld:
        scripts = [["RUNNING"] * 8 + ["SUCCEEDED"], ["RUNNING", "SUCCEEDED"]]
        return a_task(cleared=False, jobs=FakeJobs(can_cancel=can_cancel, scripts=scripts))

    explored(cleared_in_between, one_alive, the_second_job_counts, world=make_world, max_pairs=150)


# --- over HTTP, and really killed -----------------------------------------------------------------------------


class HttpJobs:
    """A client of the served `FakeJobs`; a process that is killed leaves no connection to the next."""

    def __init__(self, world: CrashWorld, url: str) -> None:
        self._world = world
        self._address = url.removeprefix("http://")

    def _ask(self, method: str, path: str, token: str | None = None) -> Any:
        connection = http.client.HTTPConnection(self._address, timeout=30)
        try:
            connection.request(method, path, headers={} if token is None else {"Idempotency-Key": token})
            answer = connection.getresponse()
            content = json.loads(answer.read())
        finally:
            connection.close()
        assert answer.status < 400, content
        return content

    def submit(self, token: str | None = None, /) -> str:
        with self._world.effect("submit"):
            job: str = self._ask("POST", "/jobs", token)["id"]
        return job

    def find(self, token: str, /) -> str | None:
        return next((job["id"] for job in self._ask("GET", f"/jobs?token={token}")), None)

    def status(self, external_id: str, /) -> str:
        return str(self._ask("GET", f"/jobs/{external_id}")["status"])

    def result(self, external_id: str, /) -> Any:
        return self._ask("GET", f"/jobs/{external_id}/result")


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Callable[[], CrashWorld]]:
    """Makes worlds that outlive a process: a file, and a job system on a port."""
    with ExitStack() as servers:
        worlds = iter(range(10**6))

        def make_world() -> CrashWorld:
            system = FakeJobs(scripts=[["RUNNING", "RUNNING", "SUCCEEDED"]])
            world = a_task(system=system)
            world.airflow.instances["dag", "run-1", "task", -1].rows = FileRows(tmp_path / f"{next(worlds)}.json")
            vars(world)["jobs"] = HttpJobs(world, servers.enter_context(system.serve()).url)
            return world

        yield make_world


def submitted(world: CrashWorld) -> list[str]:
    return [job.id for job in world.system.jobs]


@pytest.mark.parametrize("attempt", [ours, function])
def test_ours_has_one_job_at_a_real_server_whenever_the_process_is_killed(
    attempt: Any, served: Callable[[], CrashWorld]
) -> None:
    def one(outcome: ExplorationOutcome[CrashWorld]) -> None:
        assert submitted(outcome.world) == ["job-0"]

    report = explored(attempt, one, same_result, world=served, kinds=["sigkill"], max_pairs=20)
    assert report.ways == len(report.points) + report.pairs
    assert report.pairs > 10


def test_airflows_mixin_leaves_two_jobs_at_a_real_server(served: Callable[[], CrashWorld]) -> None:
    def at_most_one(outcome: ExplorationOutcome[CrashWorld]) -> None:
        assert len(submitted(outcome.world)) == 1, submitted(outcome.world)

    report = explored(airflows, at_most_one, world=served, kinds=["sigkill"], double=False, find_all=True)
    assert {(finding.where[0], finding.problem.splitlines()[0]) for finding in report.findings} == {
        ("after submit", "['job-0', 'job-1']"),
        ("before set remote_job_id", "['job-0', 'job-1']"),
    }


# --- loops ----------------------------------------------------------------------------------------------------


def pages() -> CursorToken[int]:
    def fetch(token: str | None) -> Page[int]:
        number = int(token or 0)
        return Page([number], str(number + 1) if number < 2 else None)

    return CursorToken(fetch)


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
@pytest.mark.parametrize("source", [lambda: range(3), pages], ids=["range", "pages"])
def test_a_loop_loses_nothing_and_its_state_counts_each_element_once(source: Any, durability: Any) -> None:
    def sums(world: CrashWorld) -> Any:
        loop = checkpoint(
            source(), name="l", durability=durability, interval=timedelta(0), context=try_of(world).context
        )
        loop._run.plan = replace(loop._run.plan, monotonic=lambda: 0.0)  # every write is due at once
        with loop:
            for element in loop:
                number = element.items[0] if isinstance(element, Page) else element
                loop.state["sum"] = loop.state.get("sum", 0) + number
                with world.effect(f"load {number}"):
                    pass
        return loop.state["sum"]

    report = explore_crashes(sums, oracle=[each_effect_at_least_once, same_result], world=a_task, max_pairs=100)
    assert report.pairs > 50


# --- watermark ------------------------------------------------------------------------------------------------

START = datetime(2026, 1, 1, tzinfo=timezone.utc)


def loads_what_is_new(world: CrashWorld) -> None:
    mark = watermark(ORDERS, initial=START, delay=timedelta(0), now=lambda: START + timedelta(hours=1))

    @mark
    def load(window: Window) -> None:
        with world.effect(f"load {window}"):
            pass

    with try_of(world):
        load()


def test_a_watermark_never_goes_back_and_never_skips() -> None:
    def followed() -> CrashWorld:
        world = a_task()
        world.airflow.know([ORDERS])
        rows = world.airflow.assets["orders"].rows
        world.follow(lambda: rows.values_by_key().get("resume.watermark.watermark", {}).get("at"))
        return world

    def everything_is_read(outcome: ExplorationOutcome[CrashWorld]) -> None:
        assert outcome.clean is None or set(outcome.clean.effects) <= {
            effect._replace(attempt=1) for effect in outcome.effects
        }

    oracles = [mark_never_decreases, everything_is_read]
    report = explore_crashes(loads_what_is_new, oracle=oracles, world=followed, max_pairs=300)
    assert report.pairs > 50
