"""The AWS of `aws_service`, asked by real clients: tokens, names, states, and jobs that are not known."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

import pytest

pytest.importorskip("moto", reason="providers have an environment of their own: make providers")

from botocore.config import Config
from botocore.exceptions import ClientError

from tests.support.providers.aws_jobs import JOB_APIS, found
from tests.support.providers.aws_service import KEYS, AwsService
from tests.support.providers.aws_set_up import SET_UP, Calls

TOKEN = "0123456789abcdef" * 2


class Trial:
    """One job API, and a client of it that tries each call once."""

    def __init__(self, name: str, service: AwsService) -> None:
        import boto3

        self.service, self.api, self.jobs = service, service.api, service.jobs
        self.calls: Calls = SET_UP[name](service)
        once = Config(retries={"max_attempts": 0})
        self.client = boto3.client(self.api.service, endpoint_url=service.url, config=once, **KEYS)  # type: ignore[call-overload]

    def call(self, operation: str, params: dict[str, Any]) -> Any:
        methods = {operation: name for name, operation in self.client.meta.method_to_api_mapping.items()}
        return getattr(self.client, methods[operation])(**params)

    def submit(self, **params: Any) -> Any:
        asked = {**self.calls.submit, **params}
        answer = self.call(self.api.submit, asked)
        return found(answer, self.api.made_id) if self.api.made_id else asked[str(self.api.names)]

    def told(self, job_id: Any) -> Any:
        """The job in the answer to a question for its state."""
        return found(self.call(self.api.ask, self.calls.ask(job_id)), self.api.told)

    def has_state(self, job_id: Any, state: str) -> bool:
        """Whether the answer is as the API writes this state."""
        told = self.told(job_id)
        as_written = deepcopy(told)
        self.api.write_state(as_written, state)
        return bool(told == as_written)


@contextmanager
def trial(name: str) -> Iterator[Trial]:
    with AwsService(JOB_APIS[name]) as service:
        yield Trial(name, service)


def code_of(call: Callable[[], object]) -> str:
    with pytest.raises(ClientError) as error:
        call()
    return str(error.value.response["Error"]["Code"])


@pytest.mark.parametrize("name", JOB_APIS)
def test_a_job_goes_through_its_script_and_is_cancelled(name: str) -> None:
    with trial(name) as it:
        job_id = it.submit()
        assert [job.id for job in it.jobs.seen()] == [job_id]
        for state in (it.jobs.running, it.jobs.succeeded, it.jobs.failed):
            it.jobs.jobs[0].states = [state]
            assert it.has_state(job_id, state)
        it.jobs.jobs[0].states = [it.jobs.running]
        it.call(it.api.cancel, it.calls.cancel(job_id))
        assert it.jobs.jobs[0].was_cancelled
        assert it.has_state(job_id, it.jobs.cancelled)


@pytest.mark.parametrize(
    ("name", "token", "mismatch"),
    [
        ("athena", "ClientRequestToken", "InvalidRequestException"),
        ("ecs", "clientToken", "ConflictException"),
        ("emr_serverless", "clientToken", "ConflictException"),
        ("redshift_data", "ClientToken", "ValidationException"),
    ],
)
def test_a_token_gives_the_same_job_and_refuses_other_parameters(name: str, token: str, mismatch: str) -> None:
    with trial(name) as it:
        first, again = it.submit(**{token: TOKEN}), it.submit(**{token: TOKEN})
        assert first == again
        assert [job.token for job in it.jobs.seen()] == [TOKEN]
        assert code_of(lambda: it.submit(**it.calls.other, **{token: TOKEN})) == mismatch
        assert it.submit(**{token: TOKEN[::-1]}) != first


@pytest.mark.parametrize("name", ["batch", "emr_steps", "glue"])
def test_without_a_token_each_submit_makes_a_job(name: str) -> None:
    with trial(name) as it:
        assert it.submit() != it.submit()
        assert len(it.jobs.seen()) == 2


def test_the_token_of_any_operation_counts() -> None:
    with trial("emr_serverless") as it:
        make = {"name": "twice", "releaseLabel": "emr-7.0.0", "type": "SPARK", "clientToken": TOKEN}
        first = it.client.create_application(**make)["applicationId"]
        assert it.client.create_application(**make)["applicationId"] == first
        assert code_of(lambda: it.client.create_application(**{**make, "name": "other"})) == "ConflictException"


def test_a_name_of_sagemaker_is_unique_for_ever() -> None:
    with trial("sagemaker_training") as it:
        it.submit()
        assert code_of(it.submit) == "ResourceInUse"
        assert len(it.jobs.seen()) == 1


def test_a_name_of_step_functions_gives_the_same_execution_while_it_runs() -> None:
    with trial("step_functions") as it:
        first = it.submit()
        assert it.submit() == first
        assert code_of(lambda: it.submit(**it.calls.other)) == "ExecutionAlreadyExists"
        it.jobs.jobs[0].states = [it.jobs.succeeded]
        assert code_of(it.submit) == "ExecutionAlreadyExists"
        assert len(it.jobs.seen()) == 1


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("athena", "InvalidRequestException"),
        ("emr_serverless", "ResourceNotFoundException"),
        ("emr_steps", "InvalidRequestException"),
        ("glue", "EntityNotFoundException"),
        ("redshift_data", "ResourceNotFoundException"),
        ("sagemaker_training", "ValidationException"),
        ("step_functions", "ExecutionDoesNotExist"),
    ],
)
def test_a_job_that_is_not_known_is_an_error_of_the_service(name: str, code: str) -> None:
    with trial(name) as it:
        job_id = it.submit()
        it.jobs.forget(job_id)
        assert code_of(lambda: it.told(job_id)) == code
        assert code_of(lambda: it.call(it.api.cancel, it.calls.cancel(job_id))) == code


@pytest.mark.parametrize("name", ["batch", "ecs"])
def test_elsewhere_it_is_not_in_the_list(name: str) -> None:
    with trial(name) as it:
        job_id = it.submit()
        it.jobs.forget(job_id)
        assert it.call(it.api.ask, it.calls.ask(job_id))[str(it.api.told[0])] == []


@pytest.mark.parametrize("name", [name for name, api in JOB_APIS.items() if api.listed])
def test_a_list_has_the_jobs_that_are_known(name: str) -> None:
    with trial(name) as it:
        assert it.api.listed is not None
        operation, place, id_place = it.api.listed
        job_id = it.submit()

        def ids() -> list[Any]:
            assert it.calls.find is not None
            return [found(each, id_place) for each in found(it.call(operation, it.calls.find), place)]

        assert ids() == [job_id]
        it.jobs.forget(job_id)
        assert ids() == []


def test_tasks_of_ecs_are_found_by_who_started_them_while_they_run_and_after() -> None:
    with trial("ecs") as it:
        job_id = it.submit()
        find = it.calls.find or {}

        def arns(**params: Any) -> Any:
            return it.client.list_tasks(**{**find, **params})["taskArns"]

        assert (arns(), arns(startedBy="them"), arns(desiredStatus="STOPPED")) == ([job_id], [], [])
        it.jobs.jobs[0].states = [it.jobs.succeeded]
        assert (arns(), arns(desiredStatus="STOPPED")) == ([], [job_id])


@pytest.mark.parametrize("name", JOB_APIS)
def test_a_failure_can_be_ordered(name: str) -> None:
    with trial(name) as it:
        job_id = it.submit()
        it.jobs.follow([it.jobs.running])
        it.jobs.fail_next(503)
        assert code_of(lambda: it.told(job_id)) == "ServiceUnavailableException"
        assert it.has_state(job_id, it.jobs.running)


def test_nothing_is_done_for_a_dead_client() -> None:
    def dead(_moment: object) -> None:
        raise ConnectionAbortedError("dead")

    with trial("athena") as it:
        it.jobs.tell = dead
        assert code_of(it.submit) == "RequestAbortedException"
        assert it.jobs.seen() == []
