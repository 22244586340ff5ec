"""Airbyte's operator, as it is and as ours, in all scenarios on a loopback service."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("airflow.providers.airbyte", reason="the providers have an environment of their own")

from airflow.providers.airbyte.hooks.airbyte import AirbyteHook
from airflow.providers.airbyte.operators import airbyte as upstream

from airflow_resume.testing.errors import NeverSucceededError
from airflow_resume_mixins.providers import airbyte as ours
from tests.support.providers.airbyte_jobs import AirbyteJobs
from tests.support.providers.operator_trials import (
    OperatorTrial,
    cells,
    connections,
    explore,
    explore_with_an_open_window,
)

TRIAL = OperatorTrial(
    module="airbyte",
    own=upstream.AirbyteTriggerSyncOperator,
    ours=ours.AirbyteTriggerSyncOperator,
    arguments={"connection_id": "c", "wait_seconds": 0.002},
    options={
        "not_waiting": {"asynchronous": True},
        "deferrable": {"deferrable": True},
        "event": {"status": "success", "job_id": 0, "message": ""},  # the trigger asks once a minute
        "grace": 3,
    },
)


@pytest.fixture(scope="module")
def service() -> Iterator[AirbyteJobs]:
    jobs = AirbyteJobs()
    with jobs as running, connections(airbyte_default={"conn_type": "airbyte", "host": f"{jobs.url}/v1"}):
        yield running


def test_only_the_window_is_open_and_the_attempt_after_it_fails_instead_of_submitting_again(
    service: AirbyteJobs,
) -> None:
    report = TRIAL.play(service.jobs)
    assert set(report.problems) == {"crash in the window"}, f"\n{report}"
    assert cells(report)["crash in the window"] == "1 / 1 / 0, LostSubmissionError"


def test_the_providers_own_cannot_begin_again_while_the_sync_of_its_first_attempt_runs(service: AirbyteJobs) -> None:
    report = TRIAL.play_own(service.jobs)
    assert cells(report)["crash in the window"] == "1 / 1 / 0, AirflowException"


def test_there_are_never_two_syncs_wherever_it_crashes(service: AirbyteJobs) -> None:
    report, ends = explore_with_an_open_window(
        TRIAL.make, service, AirbyteHook, "submit_sync_connection", "cancel_job", max_pairs=40
    )
    assert not report.findings
    assert report.pairs > 30
    assert set(ends) == {(1, None), (0, "LostSubmissionError"), (1, "LostSubmissionError")}


def test_the_providers_own_does_not_survive_each_crash(service: AirbyteJobs) -> None:
    with pytest.raises(NeverSucceededError, match="409"):
        explore(TRIAL.make_own, service, AirbyteHook, "submit_sync_connection")
