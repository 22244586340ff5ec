"""`TriggerDagRunOperator`, as it is and resumable, with the runs of an API server in memory."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException
from airflow.sdk.execution_time import task_runner

from airflow_resume.testing import CrashWorld, World, check_operator, explore_crashes, task_context
from airflow_resume_mixins.providers.standard import TriggerDagRunOperator
from tests.support.providers.checked import QUICK, cells
from tests.support.providers.dag_runs import AsAirflowRunsIt, DagRuns, ends_of_tasks
from tests.support.providers.scenario_table import OURS, OWN, documented

PLAYED: dict[str, Any] = {
    "not_waiting": {"wait_for_completion": False},
    "deferrable": {"deferrable": True},
    "expand": "conf",
}


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Iterator[DagRuns]:
    made = DagRuns()
    monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", made, raising=False)
    ends_of_tasks(monkeypatch)
    return made  # type: ignore[return-value]


def operator(kind: type, **options: Any) -> Any:
    given = {"wait_for_completion": True, "poke_interval": 0.001, "conf": {"a": 1}, **options}
    if kind is TriggerDagRunOperator:
        given["resume_policy"] = QUICK
    return kind(task_id="task", trigger_dag_id="child", retries=3, **given)


def run(attempt: Any, **options: Any) -> Any:
    with attempt:
        return operator(TriggerDagRunOperator, **options).execute(attempt.context)


def test_in_every_scenario_one_run_and_its_result(runs: DagRuns) -> None:
    resuming, plain = partial(operator, TriggerDagRunOperator), partial(operator, AsAirflowRunsIt)
    report = check_operator(resuming, runs.jobs, same_as=plain, **PLAYED)
    documented(report, "standard", OURS, "TriggerDagRunOperator")
    # A task cannot end a Dag run: Airflow has no request for that.
    assert {scenario: str(row) for scenario, row in report.problems.items()} == {
        "marked failed": "1 / 1 / 0, a job lives on",
        "marked failed on a retry": "1 / 1 / 0, a job lives on",
        "cleared, job alive": "2 / 1 / 0, same result",
    }, f"\n{report}"


def test_as_it_is_every_retry_triggers_another_run(runs: DagRuns) -> None:
    report = check_operator(partial(operator, AsAirflowRunsIt), runs.jobs, **PLAYED)
    documented(report, "standard", OWN, "TriggerDagRunOperator")
    assert cells(report) == {
        "plain": "1 / 1 / 0, same result",
        "crash while waiting": "2 / 2 / 0, same result",
        "crash after all is done": "2 / 1 / 0, same result",
        "crash in the window": "2 / 2 / 0, same result",
        "job fails": "2 / 1 / 0, same result",
        "deploy": "2 / 2 / 0, same result",
        "marked failed": "1 / 1 / 0, a job lives on",
        "marked failed on a retry": "2 / 2 / 0, a job lives on",
        "forgotten, job done": "2 / 1 / 0, same result",
        "forgotten, job running": "2 / 1 / 0, same result",
        "cleared, job done": "2 / 1 / 0, same result",
        "cleared, job alive": "2 / 2 / 0, same result",
        "not waiting": "2 / 2 / 0, returns at once",
        "deferrable": "2 / 2 / 0, same result",
        "mapped": "1 / 1 / 0, same result",
        "503 once": "1 / 1 / 0, AirflowRuntimeError",
    }, f"\n{report}"


class RunsWorld(CrashWorld):
    def __init__(self) -> None:
        super().__init__(airflow=World())
        self.runs = DagRuns()

    def execute(self, **options: Any) -> Any:
        task_runner.SUPERVISOR_COMMS = type("Comms", (), {"send": staticmethod(self.effect("send")(self.runs.send))})()
        attempt = task_context(partial(operator, TriggerDagRunOperator, **options), world=self.airflow)
        with attempt:
            returned = attempt.ti.render_templates().execute(attempt.context)
        return returned, {**attempt.ti.xcoms}


def one_run(outcome: Any) -> None:
    jobs = outcome.world.runs.jobs.jobs
    assert len(jobs) == 1, f"{len(jobs)} runs"
    returned, pushed = outcome.result
    assert returned is None
    assert pushed["trigger_run_id"] == jobs[0].id


@pytest.mark.parametrize("options", [{}, {"wait_for_completion": False}, {"trigger_run_id": "mine"}], ids=str)
def test_there_is_one_run_wherever_it_crashes(options: dict[str, Any], runs: DagRuns) -> None:
    report = explore_crashes(lambda world: world.execute(**options), oracle=one_run, world=RunsWorld, max_pairs=60)
    assert report.pairs > 20


# --- a run that is there already ------------------------------------------------------------------------------


def others(runs: DagRuns, **options: Any) -> None:
    with (attempt := task_context(run_id="other")):
        operator(AsAirflowRunsIt, wait_for_completion=False, **options).execute(attempt.context)


def test_the_run_of_another_task_with_the_given_id_is_not_taken_for_ours(runs: DagRuns) -> None:
    others(runs, trigger_run_id="mine")
    with pytest.raises(AirflowFailException, match="has a run 'mine' or one of that logical date, which this task has"):
        run(task_context(), trigger_run_id="mine")
    assert len(runs.jobs.jobs) == 1


def test_it_is_skipped_if_that_is_wanted(runs: DagRuns) -> None:
    others(runs, trigger_run_id="mine")
    with pytest.raises(AirflowSkipException):
        run(task_context(), trigger_run_id="mine", skip_when_already_exists=True)


def test_or_the_run_is_cleared_and_waited_for(runs: DagRuns) -> None:
    others(runs, trigger_run_id="mine")
    attempt = task_context()
    run(attempt, trigger_run_id="mine", reset_dag_run=True)
    assert runs.cleared == ["mine"]
    assert attempt.ti.xcoms["trigger_run_id"] == "mine"


def test_a_run_of_the_same_logical_date_is_not_ours(runs: DagRuns) -> None:
    others(runs, logical_date="2026-01-01T00:00:00+00:00")
    with pytest.raises(AirflowFailException):
        run(task_context(), logical_date="2026-01-01T00:00:00+00:00")
    assert len(runs.jobs.jobs) == 1


def test_the_token_is_in_the_conf_of_a_run_whose_id_is_given_and_nowhere_else(runs: DagRuns) -> None:
    run(task_context(run_id="a"), trigger_run_id="mine")
    run(task_context(run_id="b"))
    given, ours = (job.request for job in runs.jobs.jobs)
    assert list(given.conf) == ["a", "airflow_resume_token"]
    assert list(ours.conf) == ["a"]
    assert ours.run_id == f"manual__{ours.run_id[-32:]}"


def test_a_run_that_was_deleted_is_triggered_again(runs: DagRuns) -> None:
    attempt = task_context()
    run(attempt)
    runs.jobs.forget(runs.jobs.jobs[0].id)
    attempt = attempt.clear()
    run(attempt)
    assert len(runs.jobs.jobs) == 2
