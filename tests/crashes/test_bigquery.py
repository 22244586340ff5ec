"""The real BigQueryInsertJobOperator in the testing kit, as it is and wrapped: `make providers`."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("airflow.providers.google", reason="providers have an environment of their own: make providers")

from airflow.providers.google.cloud.hooks.bigquery import BigQueryHook
from airflow.providers.google.cloud.operators.bigquery import BigQueryInsertJobOperator
from airflow.sdk.exceptions import AirflowException
from google.api_core.exceptions import NotFound

from airflow_resume.testing import CrashWorld, TaskAttempt, World, explore_crashes, task_context
from airflow_resume.testing.crashes.outcome import ExplorationOutcome
from airflow_resume.testing.oracles import same_result
from airflow_resume_mixins import ResumableJobMixin
from tests.support.providers.bigquery_service import PROJECT, BigQuery
from tests.support.providers.trial import AT_ONCE, is_wrapped


class WrappedBigQuery(ResumableJobMixin, BigQueryInsertJobOperator):  # type: ignore[misc]
    """In one line; its own hooks are those of Airflow's mixin."""


class TokenBigQuery(WrappedBigQuery):
    """The token is in the id of the job, which BigQuery takes once. Behind it stands a hash of the configuration."""

    def submit_job(self, context: Any) -> str:
        self._configured_job_id, self.force_rerun = f"airflow-{self.submission_token}", False
        return str(super().submit_job(context))  # type: ignore[safe-super]

    def find_job(self, token: str, context: Any) -> str | None:
        hook = BigQueryHook(gcp_conn_id=self.gcp_conn_id, impersonation_chain=self.impersonation_chain)
        self._add_job_labels(hook)  # they are part of the configuration, as in submit_job
        job_id = hook.generate_job_id(f"airflow-{token}", self.dag_id, self.task_id, None, self.configuration)
        try:
            return str(hook.get_job(job_id=job_id, project_id=self.project_id, location=self.location).job_id)
        except NotFound:
            return None

    def cancel_job(self, external_id: Any, context: Any) -> None:
        hook = BigQueryHook(gcp_conn_id=self.gcp_conn_id, impersonation_chain=self.impersonation_chain)
        hook.cancel_job(job_id=external_id, project_id=self.project_id, location=self.location)


Kind = type[BigQueryInsertJobOperator]


class BigQueryWorld(CrashWorld):
    """BigQuery, and an Airflow with a task."""

    def __init__(self) -> None:
        super().__init__(airflow=World())
        self.service = BigQuery()

    def first(self, kind: Kind, **options: Any) -> TaskAttempt:
        """An attempt; the operator is made anew in each."""
        return task_context(lambda: make_operator(kind, **options), dag_id="dag", world=self.airflow)

    def execute(self, kind: Kind, **options: Any) -> Any:
        """One attempt: what it returns and pushes."""
        return self.run(self.first(kind, **options))

    def run(self, attempt: TaskAttempt) -> Any:
        insert = BigQueryHook.insert_job
        with pytest.MonkeyPatch.context() as patch, attempt:
            patch.setenv("AIRFLOW_CONN_GOOGLE_CLOUD_DEFAULT", json.dumps({"conn_type": "google_cloud_platform"}))
            patch.setattr(BigQueryHook, "get_client", lambda *_, **__: self.service.client())
            patch.setattr(BigQueryHook, "insert_job", self.effect("insert_job")(insert))
            return attempt.ti.render_templates().execute(attempt.context), attempt.ti.xcoms


def make_operator(kind: Kind, **options: Any) -> BigQueryInsertJobOperator:
    return kind(
        task_id="load",
        retries=3,
        configuration={"query": {"query": "select '{{ run_id }}'", "useLegacySql": False}},
        project_id=PROJECT,
        location="US",
        **({"resume_policy": AT_ONCE} if is_wrapped(kind) else {}),
        **options,
    )


def one_job(outcome: ExplorationOutcome[BigQueryWorld]) -> None:
    service = outcome.world.service
    assert len(service.jobs) == 1, f"{len(service.jobs)} jobs, {service.most_alive} at once"


def explore(kind: Kind, *oracles: Callable[[ExplorationOutcome[BigQueryWorld]], None], **options: Any) -> Any:
    rerun = {"force_rerun": options.pop("force_rerun")} if "force_rerun" in options else {}
    return explore_crashes(
        lambda world: world.execute(kind, **rerun), oracle=list(oracles), world=BigQueryWorld, **options
    )


def problems(report: Any) -> set[tuple[str, str]]:
    return {(finding.where[0], finding.problem.splitlines()[0]) for finding in report.findings}


def test_the_query_is_rendered_and_the_id_has_the_start_of_the_run() -> None:
    world = BigQueryWorld()
    returned, pushed = world.execute(BigQueryInsertJobOperator)
    (job_id,) = world.service.jobs
    assert world.service.jobs[job_id].body["configuration"]["query"]["query"] == "select 'run-1'"
    assert returned == job_id
    assert job_id.startswith("airflow_dag_load_2026_01_01T00_00_00_00_00_")
    assert pushed["job_id_path"] == f"{PROJECT}:US:{job_id}"


def test_as_it_is_a_crash_before_the_id_is_saved_makes_another_job() -> None:
    report = explore(BigQueryInsertJobOperator, one_job, double=False, find_all=True)
    assert problems(report) == {
        ("after insert_job", "2 jobs, 2 at once"),
        ("before set bigquery_job_id", "2 jobs, 2 at once"),
    }


def test_without_force_rerun_the_attempt_after_that_crash_fails() -> None:
    report = explore(BigQueryInsertJobOperator, one_job, force_rerun=False, double=False, find_all=True)
    found = problems(report)
    assert {where for where, _ in found} == {"after insert_job", "before set bigquery_job_id"}
    assert all("already exists and is in RUNNING state" in problem for _, problem in found)


def test_without_force_rerun_the_third_attempt_makes_another_job_all_the_same() -> None:
    report = explore(
        BigQueryInsertJobOperator,
        one_job,
        force_rerun=False,
        retry_on=(AirflowException,),
        double=False,
        find_all=True,
    )
    assert problems(report) == {
        ("after insert_job", "2 jobs, 2 at once"),
        ("before set bigquery_job_id", "2 jobs, 2 at once"),
    }


def test_with_the_token_there_is_one_job_and_one_result_whenever_it_dies() -> None:
    report = explore(TokenBigQuery, one_job, same_result, max_pairs=100)
    assert report.pairs > 50


def test_a_clear_submits_another_job_as_the_token_is_another() -> None:
    world = BigQueryWorld()
    first = world.first(TokenBigQuery)
    before, _ = world.run(first)
    after, _ = world.run(first.clear())
    assert [before, after] == list(world.service.jobs)


def test_as_it_is_a_clear_of_an_ended_run_finds_the_job_of_before_in_the_state() -> None:
    world = BigQueryWorld()
    first = world.first(BigQueryInsertJobOperator)
    before, _ = world.run(first)
    after, _ = world.run(first.clear())
    assert [before, before] == [after, *world.service.jobs]
