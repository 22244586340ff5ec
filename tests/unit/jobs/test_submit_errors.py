"""What follows when a submit raises, for each kind of error and of job system. `pytest -s` prints the table.

An error that comes after the job was created ("applied") looks like one that came before. So where the next attempt
can ask for the job, it asks, whatever the error was; and where it cannot, only proof that nothing was created lets it
submit.
"""

from __future__ import annotations

import itertools
import ssl
from collections.abc import Callable
from datetime import timedelta
from typing import Any, NamedTuple

import grpc  # type: ignore[import-untyped]
import httpx
import pytest
import requests
from airflow.sdk.exceptions import AirflowException, AirflowRuntimeError, ErrorType
from airflow.sdk.execution_time.comms import ErrorResponse

from airflow_resume import PollPolicy, ResumePolicy, run_job
from airflow_resume.errors import LostSubmissionError
from airflow_resume.testing import FakeJobs, TaskAttempt, task_context
from tests.support.jobs.client_errors import (
    ANSWERS,
    CLIENTS,
    TRANSPORT,
    by_botocore,
    by_grpc,
    http_error,
    named,
    tried_twice,
    wrapped,
)

NOW = timedelta(0)
AT_ONCE = PollPolicy(interval=NOW, max_interval=NOW, jitter=0)
FAIL = ResumePolicy(poll=AT_ONCE, confirm_gone=NOW)
RESUBMIT = ResumePolicy(poll=AT_ONCE, confirm_gone=NOW, on_lost_submission="resubmit")

Make = Callable[[], BaseException]


def no_answer(client: str, way: str) -> Make:
    return lambda: TRANSPORT[way](CLIENTS[client])


def answer(client: str, what: str) -> Make:
    return lambda: ANSWERS[what](CLIENTS[client])


PROOF: dict[str, Make] = {
    "requests, refused": no_answer("requests", "refused"),
    "httpx, refused": no_answer("httpx", "refused"),
    "aiohttp, refused": no_answer("aiohttp", "refused"),
    "urllib3, refused": no_answer("urllib3", "refused"),
    "LivyHook, refused": no_answer("LivyHook", "refused"),
    "requests, no such host": no_answer("requests", "no such host"),
    "HttpHook, no such host": no_answer("HttpHook", "no such host"),
    "httpx, connect time-out": lambda: httpx.ConnectTimeout("slow"),
    "requests, 400": answer("requests", "400"),
    "LivyHook, 400": answer("LivyHook", "400"),
    "HttpHook, 404, a page": answer("HttpHook", "404, a page"),
    "AirflowException, wrapping 422": lambda: wrapped(http_error(422)),
    "botocore, 400": lambda: by_botocore(400, RetryAttempts=0),
    "gRPC, INVALID_ARGUMENT": lambda: by_grpc(grpc.StatusCode.INVALID_ARGUMENT),
}
"""Nothing was created, so these are not played with a job that was."""

NO_PROOF: dict[str, Make] = {
    "requests, closed": no_answer("requests", "closed"),
    "httpx, closed": no_answer("httpx", "closed"),
    "aiohttp, closed": no_answer("aiohttp", "closed"),
    "requests, TLS": no_answer("requests", "TLS to a plain port"),
    "LivyHook, cut short": no_answer("LivyHook", "cut short"),
    "requests, 200 with a page": answer("requests", "200, a page"),
    "requests, 408": answer("requests", "408"),
    "requests, 409": answer("requests", "409"),
    "LivyHook, 429": answer("LivyHook", "429"),
    "LivyHook, 503": answer("LivyHook", "503"),
    "requests, 404 of a question": answer("requests", "404 of a question"),
    "requests, cut short": lambda: requests.exceptions.ChunkedEncodingError("cut"),
    "httpx, read time-out": lambda: httpx.ReadTimeout("slow"),
    "tenacity, refused at last": lambda: tried_twice(ConnectionRefusedError()),
    "botocore, 400 of a second try": lambda: by_botocore(400, RetryAttempts=1),
    "botocore, read time-out": named("botocore.exceptions.ReadTimeoutError"),
    "azure, no answer": named("azure.core.exceptions.ServiceResponseError"),
    "gRPC, UNAVAILABLE": lambda: by_grpc(grpc.StatusCode.UNAVAILABLE),
    "databricks": lambda: named("databricks.sdk.errors.base.DatabricksError", OSError)("RUN_LIMIT"),
    "TimeoutError": TimeoutError,
    "SSLEOFError": lambda: ssl.SSLEOFError(8, "EOF"),
    "OSError": lambda: OSError("broken"),
    "FileNotFoundError": lambda: FileNotFoundError("log.txt"),
    "KeyError": lambda: KeyError("jobId"),
    "AttributeError": lambda: AttributeError("id"),
    "TypeError": lambda: TypeError("bad"),
    "ValueError": lambda: ValueError("bad"),
    "AirflowException": lambda: AirflowException("the job was created, but its log link could not be read"),
    "the API server is away": lambda: AirflowRuntimeError(
        ErrorResponse(error=ErrorType.API_SERVER_ERROR, detail={"status_code": 503})
    ),
}

ERRORS = {**PROOF, **NO_PROOF}
CAN_ASK: dict[str, dict[str, Any]] = {"look-up": {"can_find": True}, "tokens": {"can_find": False, "dedupes": True}}


class Seen(NamedTuple):
    """What came of two attempts, of which the first one's submit raised."""

    error: BaseException
    first: BaseException | Any
    phase: str
    token: str
    retry: BaseException | Any
    jobs: FakeJobs
    asked: list[str]

    @property
    def counts(self) -> tuple[int, int]:
        return len(self.jobs.jobs), self.jobs.most_alive


def attempt(jobs: FakeJobs, policy: ResumePolicy, task: TaskAttempt) -> Any:
    try:
        return run_job(jobs, policy=policy, context=task.context)
    except Exception as error:  # noqa: BLE001
        return error


def play(what: str, *, applied: bool, policy: ResumePolicy = FAIL, **offers: Any) -> Seen:
    jobs, error, task = FakeJobs(scripts=[["RUNNING"] * 3 + ["SUCCEEDED"]], **offers), ERRORS[what](), task_context()
    jobs.fail_next("submit", error, applied=applied)
    first = attempt(jobs, policy, task)
    record: Any = task.context["task_state_store"].get("resume.job.job")
    before = len(jobs.events)
    retry = attempt(jobs, policy, task.retry())
    asked = [event.call for event in jobs.events[before:] if event.call in {"find", "submit"}]
    seen = Seen(error, first, record["phase"], record["token"], retry, jobs, asked)
    show(what, seen, applied=applied)
    return seen


def show(what: str, seen: Seen, *, applied: bool) -> None:
    system = "look-up" if seen.jobs.can_find else "tokens" if seen.jobs.dedupes else "neither"
    first, retry = (type(each).__name__ if isinstance(each, Exception) else each for each in (seen.first, seen.retry))
    created, alive = seen.counts
    print(
        f"{what:32} {system:8} {'applied' if applied else '':8} {first:24} then {'+'.join(seen.asked):12} {retry!s:24}"
        f" jobs {created}, alive at once {alive}"
    )


@pytest.fixture(autouse=True)
def without_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "*")
    monkeypatch.setenv("no_proxy", "*")


@pytest.mark.parametrize(("what", "system"), itertools.product(ERRORS, CAN_ASK))
def test_where_the_retry_can_ask_it_asks_whatever_the_error_was(what: str, system: str) -> None:
    for applied in (False, True):
        seen = play(what, applied=applied, **CAN_ASK[system])
        assert seen.first is seen.error
        assert seen.phase == "intent", "the claim is not withdrawn"
        assert seen.asked[0] == {"look-up": "find", "tokens": "submit"}[system]
        assert seen.retry == {"job": "job-0"}
        assert seen.counts == (1, 1)
        assert seen.jobs.jobs[0].token == seen.token


@pytest.mark.parametrize("what", PROOF)
def test_with_neither_proof_lets_the_retry_submit(what: str) -> None:
    seen = play(what, applied=False, can_find=False)
    assert seen.first is seen.error
    assert seen.phase == "terminal"
    assert seen.retry == {"job": "job-0"}
    assert seen.counts == (1, 1)


@pytest.mark.parametrize("what", NO_PROOF)
def test_with_neither_any_other_error_is_a_lost_submission(what: str) -> None:
    for applied in (False, True):
        seen = play(what, applied=applied, can_find=False)
        for raised in (seen.first, seen.retry):
            assert isinstance(raised, LostSubmissionError)
            assert seen.token in str(raised)
            assert type(seen.error).__name__ in str(raised)
        assert seen.first.__cause__ is seen.error
        assert seen.phase == "intent"
        assert seen.counts == (applied, applied)


@pytest.mark.parametrize("what", NO_PROOF)
def test_with_neither_a_second_job_is_the_policy_that_accepts_one(what: str) -> None:
    for applied in (False, True):
        seen = play(what, applied=applied, policy=RESUBMIT, can_find=False)
        assert seen.first is seen.error
        assert seen.retry == {"job": f"job-{applied:d}"}
        assert seen.counts == (1 + applied, 1 + applied)
