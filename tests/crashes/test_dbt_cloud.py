"""The real DbtCloudRunJobOperator on a loopback dbt Cloud, as it is and wrapped as docs/providers.md says."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.providers.dbt.cloud.operators.dbt import DbtCloudRunJobOperator
from airflow.sdk.exceptions import AirflowRescheduleException

from airflow_resume.errors import JobFailedError, TaskStoppedError
from tests.support.providers.dbt_cloud_service import CANCELLED, ERROR, FIRST_RUN, RUNNING, SUCCESS
from tests.support.providers.dbt_cloud_trial import SCENARIOS, dbt_cloud_trial
from tests.support.providers.page import PAGE, SNIPPETS, classes, documented
from tests.support.providers.trial import AT_ONCE

# The provider's own doing.
pytestmark = pytest.mark.filterwarnings("ignore:ProvidersManager.hooks is deprecated")

WRAPPED = classes("dbt_cloud")["DbtCloud"]


@pytest.mark.parametrize("row", SCENARIOS)
def test_the_table_is_what_happens(row: str) -> None:
    scenario = SCENARIOS[row]
    assert (scenario(DbtCloudRunJobOperator), scenario(WRAPPED)) == documented("dbt_cloud")[row]


def test_the_table_has_no_row_that_is_not_tested() -> None:
    assert list(documented("dbt_cloud")) == list(SCENARIOS)


def test_a_first_attempt_returns_and_pushes_the_same_wrapped_or_not() -> None:
    seen: list[Any] = []
    for kind in (DbtCloudRunJobOperator, WRAPPED):
        with dbt_cloud_trial(kind) as trial:
            seen.append((trial.run(), trial.attempt.ti.xcoms))
    assert seen[0] == seen[1]


def test_a_failed_run_fails_the_attempt_and_the_retry_triggers_another() -> None:
    with dbt_cloud_trial(WRAPPED, states=(RUNNING, ERROR)) as trial:
        with pytest.raises(JobFailedError):
            trial.run()
        trial.attempt = trial.attempt.retry()
        trial.jobs.states = (RUNNING, SUCCESS)
        assert trial.run() == FIRST_RUN + 1


def test_a_cleared_task_cancels_the_run_that_is_still_alive() -> None:
    with dbt_cloud_trial(WRAPPED) as trial:
        trial.killed("get_job_run_status", nth=2)
        trial.attempt = trial.attempt.clear()
        assert trial.run() == FIRST_RUN + 1
        assert trial.jobs.events == [f"submit {FIRST_RUN}", f"cancel {FIRST_RUN}", f"submit {FIRST_RUN + 1}"]
        assert trial.jobs.get(FIRST_RUN).state == CANCELLED


@pytest.mark.parametrize(("marked", "cancels"), [(True, 1), (False, 0)])
def test_a_run_ends_with_a_task_that_is_marked_failed_and_not_with_a_deploy(*, marked: bool, cancels: int) -> None:
    with dbt_cloud_trial(WRAPPED) as trial, trial.attempt:
        made = trial.make_operator(resume_policy=AT_ONCE)
        ask = made.hook.get_job_run_status

        def ask_and_be_killed(*args: Any) -> int:
            made.hook.get_job_run_status = ask
            if marked:
                trial.attempt.mark("failed")
            made.on_kill()
            return int(ask(*args))

        made.hook.get_job_run_status = ask_and_be_killed
        if marked:
            with pytest.raises(TaskStoppedError):
                made.execute(trial.attempt.context)
        else:
            with pytest.raises(AirflowRescheduleException):
                made.execute(trial.attempt.context)
        assert trial.jobs.events == [f"submit {FIRST_RUN}"] + [f"cancel {FIRST_RUN}"] * cancels


def test_there_is_no_code_on_the_page_that_is_not_run() -> None:
    elsewhere = {"recipe", "recipe_operator", "recipe_test"}  # test_recipe_page
    here = {"livy", "livy_look_up", "livy_deferrable", "dbt_cloud", "ready_made", "data_factory"}
    assert set(SNIPPETS) == here | elsewhere
    assert PAGE.count("```python") == len(SNIPPETS)
    assert classes("ready_made")["TriggerDagRunOperator"].submission_is_idempotent
