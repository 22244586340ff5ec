"""What real clients raise, and what their errors say. `pytest -s` prints the table.

The columns: not found, passing, an interruption, and proof that the submit has created nothing.
"""

from __future__ import annotations

import asyncio
import http.client
import itertools
import socket
import ssl
import subprocess
from collections.abc import Callable
from enum import Enum, IntEnum
from http import HTTPStatus
from types import SimpleNamespace
from unittest.mock import MagicMock

import grpc  # type: ignore[import-untyped]
import httpx
import httpx2
import pytest
import requests
from airflow.sdk.exceptions import AirflowException

from airflow_resume.jobs.transport import is_interruption, is_not_found, is_passing, was_refused
from tests.support.jobs.client_errors import (
    ANSWERS,
    CLIENTS,
    TRANSPORT,
    by_botocore,
    by_grpc,
    http_error,
    named,
    raised_by,
    tried_twice,
    with_status,
    wrapped,
)

Said = tuple[bool, bool, bool, bool]

NOTHING: Said = (False, False, False, False)
NOT_SENT: Said = (False, True, True, True)
TROUBLE: Said = (False, True, True, False)
PASSING: Said = (False, True, False, False)
DECLINED: Said = (False, False, False, True)
NOT_THERE: Said = (True, False, False, True)
GONE: Said = (True, False, False, False)


def assert_says(what: str, error: BaseException, said: Said) -> None:
    seen = (is_not_found(error), is_passing(error), is_interruption(error), was_refused(error))
    marks = " ".join("x" if each else "." for each in seen)
    print(f"{what:48} {marks}  {type(error).__module__}.{type(error).__name__}")
    assert seen == said, repr(error)


@pytest.fixture(autouse=True)
def without_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "*")
    monkeypatch.setenv("no_proxy", "*")


SAID_OF = {
    "refused": NOT_SENT,
    "no such host": NOT_SENT,
    "closed": TROUBLE,
    "TLS to a plain port": TROUBLE,
    "cut short": TROUBLE,
    "200, a page": NOTHING,
    "400": DECLINED,
    "404": NOT_THERE,
    "404, a page": DECLINED,
    "404 of a question": GONE,
    "408": TROUBLE,
    "409": NOTHING,
    "429": TROUBLE,
    "503": TROUBLE,
}
OTHERWISE = {
    ("requests", "200, a page"): PASSING,  # its JSONDecodeError is an OSError
    ("LivyHook", "200, a page"): PASSING,
    ("HttpHook", "200, a page"): PASSING,
    ("aiohttp", "200, a page"): TROUBLE,  # a ContentTypeError, which is a ClientError
    ("urllib", "404 of a question"): NOT_THERE,  # its error does not say what was asked
}


@pytest.mark.parametrize(("client", "way"), itertools.product(CLIENTS, TRANSPORT))
def test_what_no_answer_says(client: str, way: str) -> None:
    assert_says(f"{client}: {way}", TRANSPORT[way](CLIENTS[client]), SAID_OF[way])


@pytest.mark.parametrize(("client", "way"), itertools.product(sorted(CLIENTS.keys() - {"urllib3"}), ANSWERS))
def test_what_an_answer_says(client: str, way: str) -> None:
    said = OTHERWISE.get((client, way), SAID_OF[way])
    assert_says(f"{client}: {way}", ANSWERS[way](CLIENTS[client]), said)


# --- errors that are made here -----------------------------------------------------------------------------------


def beneath(outer: BaseException, inner: BaseException) -> BaseException:
    """`raise outer from inner`."""

    def action() -> None:
        raise outer from inner

    return raised_by(action)


def while_handling(inner: BaseException, action: Callable[[], object]) -> BaseException:
    """What `action` raises in the `except` of another error."""

    def handle() -> None:
        try:
            raise inner
        except type(inner):
            action()

    return raised_by(handle)


def fail_elsewhere() -> None:
    raise AirflowException("The cluster is terminated")


def held(name: str, inner: object) -> BaseException:
    error = RuntimeError()
    setattr(error, name, inner)
    return error


def by_google(name: str, code: HTTPStatus) -> BaseException:
    error = named(f"google.api_core.exceptions.{name}")()
    error.code = code
    return error  # type: ignore[no-any-return]


def group(*errors: BaseException) -> BaseException:
    made = named("exceptiongroup.ExceptionGroup", named("exceptiongroup.BaseExceptionGroup"))()
    made.exceptions = errors
    return made  # type: ignore[no-any-return]


def cycle() -> BaseException:
    first, second = AirflowException("first"), AirflowException("second")
    first.__cause__, second.__cause__ = second, first
    return first


def group_of_itself() -> BaseException:
    member = ConnectionRefusedError()
    made = group(member, AirflowException("no"))
    member.__cause__ = made
    return made


class Odd(Exception):  # noqa: N818
    @property
    def status(self) -> int:
        raise RuntimeError("not asked yet")


class JobState(IntEnum):
    LOST = 404


class Word(Enum):
    MISSING = 404


NewConnectionError = named("urllib3.exceptions.NewConnectionError")
EndpointConnectionError = named("botocore.exceptions.EndpointConnectionError")
ServiceRequestError = named("azure.core.exceptions.ServiceRequestError")
ServiceResponseError = named("azure.core.exceptions.ServiceResponseError")
RpcRetryError = named("google.api_core.exceptions.RetryError")
ApiException = named("kubernetes.client.exceptions.ApiException")
DatabricksError = named("databricks.sdk.errors.base.DatabricksError", OSError)

MADE: dict[str, tuple[Callable[[], BaseException], Said]] = {
    # Python's own
    "ConnectionRefusedError": (ConnectionRefusedError, NOT_SENT),
    "gaierror": (lambda: socket.gaierror(-2, "unknown"), NOT_SENT),
    "ConnectionResetError": (ConnectionResetError, TROUBLE),
    "BrokenPipeError": (BrokenPipeError, TROUBLE),
    "RemoteDisconnected": (lambda: http.client.RemoteDisconnected("closed"), TROUBLE),
    "IncompleteRead": (lambda: http.client.IncompleteRead(b""), TROUBLE),
    "SSLEOFError": (lambda: ssl.SSLEOFError(8, "EOF"), TROUBLE),
    "TimeoutError": (TimeoutError, PASSING),
    "asyncio.TimeoutError": (asyncio.TimeoutError, PASSING),
    "TimeoutExpired": (lambda: subprocess.TimeoutExpired("spark-submit", 9), PASSING),
    "OSError": (lambda: OSError("broken"), PASSING),
    "KeyError": (lambda: KeyError("jobId"), NOTHING),
    "SystemExit(404)": (lambda: SystemExit(404), NOTHING),
    # time-outs of clients
    "httpx.ConnectTimeout": (lambda: httpx.ConnectTimeout("slow"), NOT_SENT),
    "httpx.ReadTimeout": (lambda: httpx.ReadTimeout("slow"), TROUBLE),
    "httpx2.ConnectTimeout": (lambda: httpx2.ConnectTimeout("slow"), NOT_SENT),
    "httpx2.ReadTimeout": (lambda: httpx2.ReadTimeout("slow"), TROUBLE),
    "requests.ConnectTimeout": (requests.ConnectTimeout, NOT_SENT),
    "requests.ReadTimeout": (requests.ReadTimeout, TROUBLE),
    "aiohttp, connecting": (named("aiohttp.client_exceptions.ConnectionTimeoutError", TimeoutError), NOT_SENT),
    "aiohttp, reading": (
        named("aiohttp.client_exceptions.SocketTimeoutError", named("aiohttp.client_exceptions.ClientError")),
        TROUBLE,
    ),
    "requests.ConnectionError without a reason": (requests.ConnectionError, TROUBLE),
    # botocore
    "botocore, refused": (EndpointConnectionError, NOT_SENT),
    "botocore, connect time-out": (named("botocore.exceptions.ConnectTimeoutError"), NOT_SENT),
    "botocore, read time-out": (
        named("botocore.exceptions.ReadTimeoutError", named("botocore.exceptions.HTTPClientError")),
        TROUBLE,
    ),
    "botocore, 400": (lambda: by_botocore(400, RetryAttempts=0), DECLINED),
    "botocore, 400 of a second try": (lambda: by_botocore(400, RetryAttempts=1), NOTHING),
    "botocore, 503": (lambda: by_botocore(503), TROUBLE),
    # google, gRPC: a server may report what it met itself in the words of a client
    "gRPC, UNAVAILABLE": (lambda: by_grpc(grpc.StatusCode.UNAVAILABLE), TROUBLE),
    "gRPC, INVALID_ARGUMENT": (lambda: by_grpc(grpc.StatusCode.INVALID_ARGUMENT), DECLINED),
    "gRPC, NOT_FOUND": (lambda: by_grpc(grpc.StatusCode.NOT_FOUND), NOT_THERE),
    "gRPC, ALREADY_EXISTS": (lambda: by_grpc(grpc.StatusCode.ALREADY_EXISTS), NOTHING),
    "gRPC, CANCELLED": (lambda: by_grpc(grpc.StatusCode.CANCELLED), TROUBLE),
    "google, 400": (lambda: by_google("BadRequest", HTTPStatus.BAD_REQUEST), DECLINED),
    "google, 503 of a refused gRPC call": (
        lambda: beneath(
            by_google("ServiceUnavailable", HTTPStatus.SERVICE_UNAVAILABLE), by_grpc(grpc.StatusCode.UNAVAILABLE)
        ),
        TROUBLE,
    ),
    "google, given up": (lambda: beneath(RpcRetryError(), ConnectionRefusedError()), TROUBLE),
    "google.auth, refused": (
        lambda: beneath(named("google.auth.exceptions.TransportError")(), ConnectionRefusedError()),
        NOT_SENT,
    ),
    # azure, kubernetes, databricks
    "azure, refused": (lambda: beneath(ServiceRequestError(), NewConnectionError()), NOT_SENT),
    "azure, TLS": (lambda: beneath(ServiceRequestError(), ssl.SSLError()), TROUBLE),
    "azure, no answer": (ServiceResponseError, TROUBLE),
    "kubernetes, 404": (lambda: with_status(ApiException(), 404), NOT_THERE),
    "kubernetes, 0": (lambda: with_status(ApiException(), 0), NOTHING),
    "databricks": (lambda: DatabricksError("RUN_LIMIT"), PASSING),
    # several tries: an earlier one may have been carried out
    "tenacity, refused": (lambda: tried_twice(ConnectionRefusedError()), TROUBLE),
    "tenacity, 404": (lambda: tried_twice(http_error(404)), GONE),
    # what lies beneath
    "AirflowException, wrapping 404": (lambda: wrapped(http_error(404)), NOT_THERE),
    "AirflowException, wrapping 503": (lambda: wrapped(http_error(503)), TROUBLE),
    "AirflowException, wrapping a refused one": (lambda: wrapped(ConnectionRefusedError()), NOT_SENT),
    "AirflowException(error)": (lambda: AirflowException(http_error(400)), DECLINED),
    "AirflowException, another while handling 404": (
        lambda: while_handling(http_error(404), fail_elsewhere),
        NOTHING,
    ),
    "KeyError while handling 404": (lambda: while_handling(http_error(404), lambda: dict[str, str]()["id"]), NOTHING),
    "a lost connection while handling 404": (
        lambda: while_handling(http_error(404), lambda: CLIENTS["requests"]("POST", "http://nohost.invalid/")),
        NOT_SENT,
    ),
    "a lost connection from 404": (lambda: beneath(ConnectionError("reset"), http_error(404)), TROUBLE),
    "503 from 404": (lambda: beneath(http_error(503), http_error(404)), TROUBLE),
    "404 from a refused one": (lambda: beneath(http_error(404), ConnectionRefusedError()), NOT_THERE),
    "a time-out from 404": (lambda: beneath(TimeoutError(), http_error(404)), PASSING),
    "a read time-out from a refused one": (
        lambda: beneath(requests.ReadTimeout(), ConnectionRefusedError()),
        TROUBLE,
    ),
    "a refused question": (
        lambda: beneath(
            requests.ConnectionError(request=requests.Request("GET", "http://localhost").prepare()),
            NewConnectionError(),
        ),
        TROUBLE,
    ),
    "cyclic": (cycle, NOTHING),
    # groups
    "group of refused ones": (lambda: group(ConnectionRefusedError(), ConnectionRefusedError()), NOT_SENT),
    "OSError from a group of refused ones": (
        lambda: beneath(OSError("All failed"), group(ConnectionRefusedError(), NewConnectionError())),
        NOT_SENT,
    ),
    "group of a refused and a lost one": (lambda: group(ConnectionRefusedError(), ConnectionResetError()), TROUBLE),
    "group of 404 and another": (lambda: group(http_error(404), KeyError("id")), NOTHING),
    "group of groups": (lambda: group(group(http_error(404)), http_error(410)), NOT_THERE),
    "group that is in itself": (group_of_itself, NOTHING),
    # things that are called like a status
    "status='404'": (lambda: held("status", "404"), NOTHING),
    "status=True": (lambda: held("status", True), NOTHING),
    "status, an IntEnum": (lambda: held("status", JobState.LOST), NOTHING),
    "status, an Enum": (lambda: held("status", Word.MISSING), NOTHING),
    "status, an HTTPStatus": (lambda: held("status", HTTPStatus.NOT_FOUND), NOT_THERE),
    "code(), not of gRPC": (lambda: held("code", lambda: 404), NOTHING),
    "code, a MagicMock": (lambda: held("code", MagicMock()), NOTHING),
    "response, a MagicMock": (lambda: held("response", MagicMock()), NOTHING),
    "response, a MagicMock with 404": (lambda: held("response", MagicMock(status_code=404)), NOT_THERE),
    "response, an empty dict": (lambda: held("response", {}), NOTHING),
    "response without headers": (lambda: held("response", SimpleNamespace(status=404)), NOT_THERE),
    "status, which raises": (Odd, NOTHING),
    "499": (lambda: http_error(499), NOTHING),
    "423": (lambda: http_error(423), NOTHING),
    "425": (lambda: http_error(425), NOTHING),
}


@pytest.mark.parametrize("what", MADE)
def test_what_an_error_says(what: str) -> None:
    make, said = MADE[what]
    assert_says(what, make(), said)
