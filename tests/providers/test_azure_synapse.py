"""Synapse's operator for Spark batches, as it is and as ours, in all scenarios on a loopback service."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

pytest.importorskip("airflow.providers.microsoft.azure", reason="the providers have an environment of their own")

from airflow.providers.microsoft.azure.hooks.synapse import AzureSynapseHook
from airflow.providers.microsoft.azure.operators import synapse as upstream
from azure.core.exceptions import HttpResponseError
from azure.core.pipeline.policies import SansIOHTTPPolicy
from azure.synapse.spark import SparkClient
from azure.synapse.spark.models import SparkBatchJobOptions

from airflow_resume.testing import TaskAttempt, check_operator, task_context
from airflow_resume_mixins.providers import microsoft_azure as ours
from tests.support.providers.azure_spark_batches import MOST, SparkBatches
from tests.support.providers.operator_trials import connections, die_in_the_window, explore, run_rendered
from tests.support.providers.scenario_table import OURS, OWN, documented
from tests.support.providers.trial import AT_ONCE, is_wrapped


def client(credential: Any, host: str, pool: str, version: str, subscription_id: str) -> SparkClient:
    """As the hook makes it, without a token, which the client does not send by plain HTTP."""
    del subscription_id
    return SparkClient(credential, host, pool, version, authentication_policy=SansIOHTTPPolicy())


@pytest.fixture(scope="module")
def service() -> Iterator[SparkBatches]:
    with SparkBatches() as running:
        extra = json.dumps({"tenantId": "t", "subscriptionId": "s"})
        workspace = {"conn_type": "azure_synapse", "host": running.url, "login": "c", "password": "p", "extra": extra}
        with connections(azure_synapse_default=workspace) as patch:
            patch.setattr(AzureSynapseHook, "_create_client", staticmethod(client))
            yield running


def made(module: Any, **options: Any) -> Any:
    kind = module.AzureSynapseRunSparkBatchOperator
    policy = {"resume_policy": AT_ONCE} if is_wrapped(kind) else {}
    payload = SparkBatchJobOptions(name="load", file="abfss://c@a/job.py", arguments=["1"])
    given = {"spark_pool": "pool", "payload": payload, "check_interval": 0.002, **policy, **options}
    return kind(task_id="task", retries=3, **given)


def played(service: SparkBatches, module: Any, **options: Any) -> Any:
    return check_operator(
        partial(made, module),
        service.jobs,
        same_as=partial(made, upstream),
        not_waiting={"wait_for_termination": False},
        grace=0.5,
        **options,
    )


def test_ours_has_one_job_and_the_providers_result_in_every_scenario(service: SparkBatches) -> None:
    report = documented(played(service, ours), "microsoft_azure", OURS, "AzureSynapseRunSparkBatchOperator")
    assert not report.problems, f"\n{report}"


def test_what_the_providers_own_does(service: SparkBatches) -> None:
    report = documented(played(service, upstream), "microsoft_azure", OWN, "AzureSynapseRunSparkBatchOperator")
    assert {name: str(played) for name, played in report.problems.items()} == {
        "crash while waiting": "2 / 2 / 0, same result",
        "crash after all is done": "2 / 1 / 0, same result",
        "crash in the window": "2 / 2 / 0, same result",
        "deploy": "2 / 1 / 1, same result",
        "marked failed on a retry": "2 / 2 / 1, a job lives on",
        "cleared, job alive": "2 / 2 / 0, same result",
        "not waiting": "2 / 2 / 0, returns at once",
    }


def test_it_may_die_at_any_point(service: SparkBatches) -> None:
    explore(partial(made, ours), service, AzureSynapseHook, "run_spark_job")


def began(service: SparkBatches, module: Any = ours, **options: Any) -> TaskAttempt:
    service.jobs.reset()
    service.jobs.follow([service.jobs.succeeded])
    return task_context(partial(made, module, **options))


def test_the_id_0_is_an_id(service: SparkBatches, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "_ids", itertools.repeat(0))
    scenarios = ["crash while waiting", "crash in the window", "marked failed", "marked failed on a retry", "deploy"]
    report = played(service, ours, scenarios=scenarios)
    assert not report.problems, f"\n{report}"
    assert {job.id for job in service.jobs.seen()} == {0}


@pytest.mark.parametrize(("name", "begin"), [("load", "load"), ("x" * 200, "x" * 95)])
def test_the_name_ends_with_the_token_and_the_payload_of_the_dag_file_stays(
    service: SparkBatches, name: str, begin: str
) -> None:
    payload = SparkBatchJobOptions(name=name, file="job.py")
    operator = run_rendered(began(service, payload=payload))
    (batch,) = service.jobs.seen()
    assert batch.request["name"] == f"{begin}-{operator.submission_token}"
    assert batch.request["file"] == "job.py"
    assert payload.name == name


@pytest.mark.parametrize("others", [0, MOST, 2 * MOST + 1])
def test_the_batch_is_found_among_others(service: SparkBatches, others: int) -> None:
    operator = run_rendered(began(service))
    for number in range(others):
        service.jobs.make(1000 + number, token=f"load-{number:032x}")
    assert operator.find_job(operator.submission_token, {}) == service.jobs.seen()[0].id
    assert operator.find_job("f" * 32, {}) is None


def test_after_a_crash_in_the_window_the_batch_is_found_though_its_arguments_differ(service: SparkBatches) -> None:
    file = "first.py"
    service.jobs.reset()
    service.jobs.follow([service.jobs.succeeded])
    attempt = task_context(lambda: made(ours, payload=SparkBatchJobOptions(name="load", file=file)))
    attempt = die_in_the_window(attempt, AzureSynapseHook, "run_spark_job")
    file = "other.py"
    run_rendered(attempt)
    (batch,) = service.jobs.seen()
    assert batch.request["file"] == "first.py"


def test_the_client_sends_a_lost_request_again_and_ours_does_not(service: SparkBatches) -> None:
    attempt = began(service, upstream)
    service.answers_lost = 1
    run_rendered(attempt)
    assert len(service.jobs.seen()) == 2
    attempt = began(service)
    service.answers_lost = 1
    with pytest.raises(HttpResponseError):
        run_rendered(attempt)
    run_rendered(attempt.retry())
    assert len(service.jobs.seen()) == 1
