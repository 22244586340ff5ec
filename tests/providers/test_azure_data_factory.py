"""Data Factory's operator, as it is and as ours, in all scenarios on a loopback service."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

pytest.importorskip("airflow.providers.microsoft.azure", reason="the providers have an environment of their own")

from airflow.providers.microsoft.azure.hooks.data_factory import AzureDataFactoryHook
from airflow.providers.microsoft.azure.operators import data_factory as upstream
from azure.core.exceptions import HttpResponseError
from azure.core.pipeline.policies import SansIOHTTPPolicy
from azure.mgmt.datafactory import DataFactoryManagementClient

from airflow_resume.errors import LostSubmissionError, UsageError
from airflow_resume.testing import TaskAttempt, check_operator, task_context
from airflow_resume_mixins import dag_facts
from airflow_resume_mixins.providers import microsoft_azure as ours
from tests.support.providers.azure_data_factory_runs import DataFactoryRuns
from tests.support.providers.operator_trials import connections, die_in_the_window, explore, run_rendered
from tests.support.providers.page import classes
from tests.support.providers.scenario_table import OURS, OWN, documented
from tests.support.providers.trial import AT_ONCE, is_wrapped

SUCCEEDED = {"status": "success", "message": "?", "run_id": "?"}
"""The event of the trigger, whose client only speaks to Azure itself."""


RunPipelineOperator: Any = classes("data_factory")["RunPipelineOperator"]

NAME = "AzureDataFactoryRunPipelineOperator"


@pytest.fixture(scope="module")
def service() -> Iterator[DataFactoryRuns]:
    with DataFactoryRuns(declared=("airflow_token", "day"), most=2) as running:

        def client(credential: Any, subscription_id: str) -> DataFactoryManagementClient:
            """As the hook makes it, at another address, and without a token, which is not sent by plain HTTP."""
            without = SansIOHTTPPolicy()
            return DataFactoryManagementClient(
                credential, subscription_id, base_url=running.url, authentication_policy=without
            )

        extra = json.dumps({"tenantId": "t", "subscriptionId": "s"})
        factory = {"conn_type": "azure_data_factory", "login": "c", "password": "p", "extra": extra}
        with connections(azure_data_factory_default=factory) as patch:
            patch.setattr(AzureDataFactoryHook, "_create_client", staticmethod(client))
            yield running


def made(kind: Any, **options: Any) -> Any:
    policy = {"resume_policy": AT_ONCE} if is_wrapped(kind) else {}
    factory = {"pipeline_name": "load", "resource_group_name": "g", "factory_name": "f", "check_interval": 0.002}
    return kind(
        **{"task_id": "task", "retries": 3, **factory, "parameters": {"day": "{{ run_id }}"}, **policy, **options}
    )


def played(service: DataFactoryRuns, kind: Any, **options: Any) -> Any:
    return check_operator(
        partial(made, kind),
        service.jobs,
        same_as=partial(made, upstream.AzureDataFactoryRunPipelineOperator),
        not_waiting={"wait_for_termination": False},
        deferrable={"deferrable": True},
        event=SUCCEEDED,
        grace=0.5,
        **options,
    )


def test_with_a_token_parameter_there_is_one_job_and_the_providers_result_in_every_scenario(
    service: DataFactoryRuns,
) -> None:
    report = documented(
        played(service, RunPipelineOperator),
        "microsoft_azure",
        OURS,
        "AzureDataFactoryRunPipelineOperator, token_parameter",
    )
    assert not report.problems, f"\n{report}"


def test_without_it_only_the_window_is_open_and_the_attempt_after_it_fails_instead_of_submitting_again(
    service: DataFactoryRuns,
) -> None:
    report = documented(
        played(service, ours.AzureDataFactoryRunPipelineOperator),
        "microsoft_azure",
        OURS,
        "AzureDataFactoryRunPipelineOperator",
    )
    problems = {name: str(played) for name, played in report.problems.items()}
    assert problems == {"crash in the window": "1 / 1 / 0, LostSubmissionError"}, f"\n{report}"


def test_what_the_providers_own_does(service: DataFactoryRuns) -> None:
    report = documented(
        played(service, upstream.AzureDataFactoryRunPipelineOperator),
        "microsoft_azure",
        OWN,
        "AzureDataFactoryRunPipelineOperator",
    )
    assert {name: str(played) for name, played in report.problems.items()} == {
        "crash while waiting": "2 / 2 / 0, same result",
        "crash after all is done": "2 / 1 / 0, same result",
        "crash in the window": "2 / 2 / 0, same result",
        "deploy": "2 / 1 / 1, same result",
        "marked failed on a retry": "2 / 2 / 1, a job lives on",
        "cleared, job alive": "2 / 2 / 0, same result",
        "not waiting": "2 / 2 / 0, returns at once",
        "deferrable": "2 / 2 / 0, same result",
    }


def test_it_may_die_at_any_point(service: DataFactoryRuns) -> None:
    explore(partial(made, RunPipelineOperator), service, AzureDataFactoryHook, "run_pipeline")


def began(service: DataFactoryRuns, kind: Any = RunPipelineOperator, **options: Any) -> TaskAttempt:
    service.jobs.reset()
    service.jobs.follow([service.jobs.succeeded])
    return task_context(partial(made, kind, **options))


def test_after_a_crash_in_the_window_the_run_is_found_though_the_parameters_differ(service: DataFactoryRuns) -> None:
    attempt = began(service, parameters={"day": "{{ ti.try_number }}"})
    operator = run_rendered(die_in_the_window(attempt, AzureDataFactoryHook, "run_pipeline"))
    (run,) = service.jobs.seen()
    assert run.request["parameters"] == {"day": "1", "airflow_token": operator.submission_token}
    assert operator.parameters == {"day": "2"}


@pytest.mark.parametrize("others", [0, 3])
def test_the_run_is_found_among_others_of_the_pipeline(service: DataFactoryRuns, others: int) -> None:
    operator = run_rendered(began(service))
    for number in range(others):
        service.jobs.make(f"other-{number}", request={"pipeline": "load", "parameters": {"airflow_token": "other"}})
    assert operator.find_job(operator.submission_token, {}) == service.jobs.seen()[0].id
    assert operator.find_job("0" * 32, {}) is None


def test_a_parameter_that_is_not_declared_is_refused_before_there_is_a_run(
    service: DataFactoryRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "declared", ("day",))
    with pytest.raises(UsageError, match="The pipeline load has no parameter airflow_token"):
        run_rendered(began(service))
    assert not service.jobs.seen()


def test_with_a_reference_run_the_token_is_not_sent_and_the_window_is_open(service: DataFactoryRuns) -> None:
    attempt = began(service, reference_pipeline_run_id="run-of-before", is_recovery=True)
    again = die_in_the_window(attempt, AzureDataFactoryHook, "run_pipeline")
    with pytest.raises(LostSubmissionError):
        run_rendered(again)
    (run,) = service.jobs.seen()
    assert "airflow_token" not in run.request["parameters"]
    assert run.request["query"]["referencePipelineRunId"] == "run-of-before"


def test_doctor_knows_which_class_closes_the_window() -> None:
    assert dag_facts._finds_its_job(RunPipelineOperator)
    assert not dag_facts._finds_its_job(ours.AzureDataFactoryRunPipelineOperator)


def test_the_client_sends_a_lost_request_again_and_ours_does_not(service: DataFactoryRuns) -> None:
    attempt = began(service, upstream.AzureDataFactoryRunPipelineOperator)
    service.answers_lost = 1
    run_rendered(attempt)
    assert len(service.jobs.seen()) == 2
    attempt = began(service)
    service.answers_lost = 1
    with pytest.raises(HttpResponseError):
        run_rendered(attempt)
    run_rendered(attempt.retry())
    assert len(service.jobs.seen()) == 1
