"""BigQuery's operator, as it is and as ours, in all scenarios on a loopback service."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

pytest.importorskip("airflow.providers.google", reason="the providers have an environment of their own")

from airflow.providers.google.cloud.hooks.bigquery import BigQueryHook
from airflow.providers.google.cloud.operators import bigquery as upstream
from google.api_core.client_options import ClientOptions
from google.auth.credentials import AnonymousCredentials
from google.cloud.bigquery import Client

from airflow_resume.testing import task_context
from airflow_resume_mixins.providers import google as ours
from tests.support.providers.bigquery_jobs import BigQueryJobs
from tests.support.providers.operator_trials import OperatorTrial, cells, connections, explore

CONFIGURATION = {"query": {"query": "select '{{ run_id }}'", "useLegacySql": False}}
TRIAL = OperatorTrial(
    module="google",
    own=upstream.BigQueryInsertJobOperator,
    ours=ours.BigQueryInsertJobOperator,
    arguments={"configuration": CONFIGURATION, "project_id": "p", "location": "US"},
    options={
        "deferrable": {"deferrable": True},
        "event": {"status": "success", "job_id": "?", "message": ""},  # the trigger has a client of its own
        "expand": "configuration",
        "grace": 0.2,
        "seconds": 30,
    },
)


@pytest.fixture(scope="module")
def service() -> Iterator[BigQueryJobs]:
    with BigQueryJobs() as running, connections(google_cloud_default={"conn_type": "google_cloud_platform"}) as patch:
        options = ClientOptions(api_endpoint=running.url)

        def client(*_: Any, **__: Any) -> Client:
            return Client(project="p", credentials=AnonymousCredentials(), client_options=options)

        patch.setattr(BigQueryHook, "get_client", client)
        yield running


def test_ours_has_one_job_and_the_providers_result_in_every_scenario(service: BigQueryJobs) -> None:
    report = TRIAL.play(service.jobs)
    assert not report.problems, f"\n{report}"


def test_the_providers_own_makes_two_jobs_after_a_crash_in_the_window(service: BigQueryJobs) -> None:
    report = TRIAL.play_own(service.jobs)
    assert cells(report)["crash in the window"] == "2 / 2 / 0, same result"


def test_it_may_die_at_any_point(service: BigQueryJobs) -> None:
    explore(TRIAL.make, service, BigQueryHook, "insert_job")


@pytest.mark.parametrize(("job_id", "begin"), [(None, "airflow_dag_task"), ("of {{ run_id }}", "of_run-1")])
def test_the_id_ends_with_the_token(service: BigQueryJobs, job_id: str | None, begin: str) -> None:
    service.jobs.reset()
    attempt = task_context(partial(TRIAL.make, job_id=job_id), run_id="run-1")
    with attempt:
        operator = attempt.ti.render_templates()
        operator.execute(attempt.context)
    assert service.jobs.seen()[0].id.rpartition("_")[2] == operator.submission_token
    assert job_id is None or service.jobs.seen()[0].id.startswith(begin)


def test_a_job_that_is_not_found_without_a_location_is_not_taken_for_gone() -> None:
    from google.api_core.exceptions import NotFound

    assert not TRIAL.make(location=None).job_not_found(NotFound("?"))
    assert TRIAL.make().job_not_found(NotFound("?"))
