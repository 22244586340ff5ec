"""dbt Cloud's operator, as it is and as ours, in all scenarios on a loopback service."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

pytest.importorskip("airflow.providers.dbt.cloud", reason="the providers have an environment of their own")

from airflow.providers.dbt.cloud.hooks import dbt as hooks
from airflow.providers.dbt.cloud.operators import dbt as upstream

from airflow_resume.testing import task_context
from airflow_resume_mixins.providers import dbt_cloud as ours
from tests.support.providers.dbt_cloud_runs import DbtCloudRuns
from tests.support.providers.operator_trials import OperatorTrial, cells, connections, explore

TRIAL = OperatorTrial(
    module="dbt_cloud",
    own=upstream.DbtCloudRunJobOperator,
    ours=ours.DbtCloudRunJobOperator,
    arguments={"job_id": 5, "check_interval": 0.002, "trigger_reason": "in {{ run_id }}"},
    options={
        "not_waiting": {"wait_for_termination": False},
        "deferrable": {"deferrable": True},
        "event": {"status": "success", "run_id": 0, "message": ""},  # the trigger knows only https
        "expand": "job_id",
        "grace": 0.2,
    },
)


@pytest.fixture(scope="module")
def service() -> Iterator[DbtCloudRuns]:
    get_conn = hooks.DbtCloudHook.get_conn

    def without_tls(self: Any, *args: Any, **options: Any) -> Any:  # the hook knows only https
        session = get_conn(self, *args, **options)
        self.base_url = f"http://{self.connection.host}:{self.connection.port}/"
        return session

    with DbtCloudRuns() as running:
        account = {"conn_type": "dbt_cloud", "login": "1", "password": "t"}
        with connections(dbt_cloud_default={**account, "host": "127.0.0.1", "port": running.port}) as patch:
            patch.setattr(hooks.DbtCloudHook, "get_conn", without_tls)
            yield running


def test_ours_has_one_job_and_the_providers_result_in_every_scenario(service: DbtCloudRuns) -> None:
    report = TRIAL.play(service.jobs)
    assert not report.problems, f"\n{report}"


def test_the_providers_own_makes_two_jobs_after_a_crash_in_the_window(service: DbtCloudRuns) -> None:
    report = TRIAL.play_own(service.jobs)
    assert cells(report)["crash in the window"] == "2 / 2 / 0, same result"


def test_it_may_die_at_any_point(service: DbtCloudRuns) -> None:
    explore(TRIAL.make, service, hooks.DbtCloudHook, "trigger_job_run")


def test_the_token_is_at_the_end_of_a_long_reason_and_of_openlineages(
    service: DbtCloudRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upstream, "inject_parent_job_information_into_dbt_cloud_cause", lambda *_: '{"parent": 1}')
    every: list[dict[str, Any]] = [{"trigger_reason": "x" * 300}, {"openlineage_inject_parent_job_info": True}]
    for options in every:
        service.jobs.reset()
        attempt = task_context(partial(TRIAL.make, **options))
        with attempt:
            operator = attempt.ti.render_templates()
            operator.execute(attempt.context)
        reason, _, token = service.jobs.seen()[0].request["cause"].rpartition(" ")
        assert token == operator.submission_token
        assert reason == str(operator.trigger_reason)[:222]
