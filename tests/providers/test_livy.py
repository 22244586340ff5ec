"""Livy's operator, as it is and as ours, in all scenarios on a loopback service."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("airflow.providers.apache.livy", reason="the providers have an environment of their own")

from airflow.providers.apache.livy.hooks.livy import LivyHook
from airflow.providers.apache.livy.operators import livy as upstream

from airflow_resume.testing import task_context
from airflow_resume_mixins.providers import livy as ours
from tests.support.providers.livy_batches import LivyBatches
from tests.support.providers.operator_trials import OperatorTrial, cells, connections, explore

TRIAL = OperatorTrial(
    module="livy",
    own=upstream.LivyOperator,
    ours=ours.LivyOperator,
    arguments={"file": "job.py", "polling_interval": 0.002},
    options={
        "not_waiting": {"polling_interval": 0},
        "deferrable": {"deferrable": True},
        "expand": "file",
        "grace": 0.2,
    },
)


@pytest.fixture(scope="module")
def service() -> Iterator[LivyBatches]:
    with LivyBatches() as running:
        server = {"conn_type": "livy", "host": "127.0.0.1", "port": running.port, "schema": "http"}
        with connections(livy_default=server):
            yield running


def test_ours_has_one_job_and_the_providers_result_in_every_scenario(service: LivyBatches) -> None:
    report = TRIAL.play(service.jobs)
    # The XCom is made of what Livy knows of the batch, and it knows nothing of it any more.
    assert set(report.problems) == {"forgotten, job done"}, f"\n{report}"
    assert report["forgotten, job done"].detail == "['the job', {}]"


def test_the_providers_own_makes_two_jobs_after_a_crash_in_the_window(service: LivyBatches) -> None:
    report = TRIAL.play_own(service.jobs)
    assert cells(report)["crash in the window"] == "2 / 2 / 0, same result"


def test_it_may_die_at_any_point(service: LivyBatches) -> None:
    explore(TRIAL.make, service, LivyHook, "post_batch")


@pytest.mark.parametrize("name", [None, "load of {{ run_id }}"])
def test_the_name_ends_with_the_token(service: LivyBatches, name: str | None) -> None:
    service.jobs.reset()
    attempt = task_context(lambda: TRIAL.make(**({"name": name} if name else {})))
    with attempt:
        operator = attempt.ti.render_templates()
        operator.execute(attempt.context)
    start = f"load of {attempt.ti.run_id}" if name else "task"
    assert service.jobs.seen()[0].token == f"{start}-{operator.submission_token}"
