"""Classifying the error of a request: a broken connection, an answer, or a refusal.

Hooks wrap errors in errors of their own, so everything here looks at the error and at the errors it was raised from:

- `__cause__`, and an exception in an attribute of the error (`reason`, `args[0]`, ...), as HTTP clients set it;
- `__context__` only if the error is certainly a wrapper: one of Airflow's, raised without `from` by the same function
  that had caught the other, as in `HttpHook.check_response`. Any other context is what happened *before*: a connection
  that is lost while the 404 of another request is being handled is a lost connection.

The outermost error with information counts. So a transport error hides the HTTP status of the error that it was raised
from, and of two statuses the outer one is the answer. For a group, all of its errors must have the property.

Types are recognised by name, so that no HTTP library needs to be installed or imported.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import enum
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from http import HTTPStatus
from typing import Any, TypeAlias

ErrorMatch: TypeAlias = "type[BaseException] | tuple[type[BaseException], ...] | Callable[[BaseException], bool]"
"""Exception types, or a predicate."""

_REQUEST_TIMEOUT, _TOO_MANY_REQUESTS, _SERVER_ERRORS = 408, 429, 500
_NOT_FOUND = {404, 410}
_HTTP_ERRORS = range(400, 600)
_REFUSALS = set(range(400, 500)) - {
    _REQUEST_TIMEOUT,
    409,  # there is a job with this name, or a conflicting request: an earlier try may have made it
    423,
    425,
    _TOO_MANY_REQUESTS,
    499,  # the client gave up during the request; google.api_core uses it for a cancelled call too
}
"""The request was understood and refused, so it has created nothing."""

_TIME_OUTS = (TimeoutError, asyncio.TimeoutError, concurrent.futures.TimeoutError, subprocess.TimeoutExpired)

# A connect time-out is among them: whether the TCP or the TLS handshake took too long, the request was not sent.
_NEVER_SENT = {
    "builtins.ConnectionRefusedError",
    "socket.gaierror",
    "httpx.ConnectTimeout",
    "httpcore.ConnectTimeout",
    "httpx2.ConnectTimeout",
    "httpcore2.ConnectTimeout",
    "requests.exceptions.ConnectTimeout",
    "urllib3.exceptions.ConnectTimeoutError",
    "urllib3.exceptions.NewConnectionError",
    "aiohttp.client_exceptions.ConnectionTimeoutError",
    "aiohttp.client_exceptions.ClientConnectorDNSError",
    "azure.core.exceptions.ServiceRequestTimeoutError",
    "botocore.exceptions.ConnectTimeoutError",
    "botocore.exceptions.EndpointConnectionError",
}
# Raised for a refused connection, and also if a TLS handshake or a proxy failed: the error beneath tells which.
_PERHAPS_NEVER_SENT = {
    "httpx.ConnectError",
    "httpcore.ConnectError",
    "httpx2.ConnectError",
    "httpcore2.ConnectError",
    "requests.exceptions.ConnectionError",
    "urllib3.exceptions.MaxRetryError",
    "urllib3.exceptions.ProxyError",
    "aiohttp.client_exceptions.ClientConnectorError",
    "azure.core.exceptions.ServiceRequestError",
    "google.auth.exceptions.TransportError",
}
_TRANSPORT_ERRORS = {
    *_NEVER_SENT,
    *_PERHAPS_NEVER_SENT,
    "httpx.TransportError",
    "httpx2.TransportError",
    "http.client.HTTPException",
    "requests.exceptions.ChunkedEncodingError",
    "requests.exceptions.Timeout",
    "urllib3.exceptions.HTTPError",
    "aiohttp.client_exceptions.ClientError",
    "azure.core.exceptions.ServiceResponseError",
    "azure.core.exceptions.IncompleteReadError",
    "botocore.exceptions.HTTPClientError",
    "google.api_core.exceptions.RetryError",
    "grpc.RpcError",
    "ssl.SSLError",
    "builtins.ConnectionError",
}
# These show only the last of several tries, and an earlier one may have been executed.
_SEVERAL_TRIES = {"tenacity.RetryError", "google.api_core.exceptions.RetryError"}

_STATUS_OF_GRPC = {
    "INVALID_ARGUMENT": 400,
    "FAILED_PRECONDITION": 400,
    "OUT_OF_RANGE": 400,
    "UNAUTHENTICATED": 401,
    "PERMISSION_DENIED": 403,
    "NOT_FOUND": 404,
    "ALREADY_EXISTS": 409,
    "ABORTED": 409,
    "RESOURCE_EXHAUSTED": _TOO_MANY_REQUESTS,
}
"""Of the codes that only the service itself returns; the others may come from a proxy or the client."""


def matches(error: BaseException, match: ErrorMatch) -> bool:
    """Whether the error is one of the types, or the predicate says so."""
    if isinstance(match, (type, tuple)):
        return isinstance(error, match)
    return match(error)


def was_refused(error: BaseException) -> bool:
    """Whether the error is proof that the request behind it has created nothing.

    Proof is a request that was not sent (a refused connection, a host name that was not resolved, a connect time-out),
    and one that was answered with HTTP 4xx, except 408, 409, 423, 425, 429 and 499. No proof is an error of a question
    (GET, HEAD), as the job that it asks about may exist; the last error of several tries; and a gRPC call that found no
    server, as a server may report a failed call of its own with the same code.

    If a client tries again by itself and hides its earlier errors (botocore, urllib3 if told to repeat a POST), that
    cannot be detected.
    """
    return all(_is_proof(path) for path in _paths(error))


def _is_proof(path: list[BaseException]) -> bool:
    """For one path, see `was_refused`."""
    if any(_is_question(each) or _is_named(each, _SEVERAL_TRIES) for each in path):
        return False
    for each in path:
        status = _http_status(each)
        if status is not None:
            return status in _REFUSALS and not _was_tried_before(each)
        if _is_named(each, _NEVER_SENT):
            return True
        if _is_trouble(each) and not _is_named(each, _PERHAPS_NEVER_SENT):
            return False
    return False


def _is_question(error: BaseException) -> bool:
    """Whether the request only asked for something. Not every client provides the request."""
    requests = [
        _attribute(error, "request"),  # requests, httpx, httpx2
        _attribute(_attribute(error, "response"), "request"),
        _attribute(error, "request_info"),  # aiohttp
    ]
    return any(_attribute(request, "method") in ("GET", "HEAD", "OPTIONS") for request in requests)


def _was_tried_before(error: BaseException) -> bool:
    """Whether this was not the first try, according to botocore."""
    response = _attribute(error, "response")
    metadata = response.get("ResponseMetadata") if isinstance(response, dict) else None
    return isinstance(metadata, dict) and bool(metadata.get("RetryAttempts"))


def is_passing(error: BaseException) -> bool:
    """Whether the same question may be answered later: a connection error, HTTP 5xx or 429.

    When AWS throttles, it answers with HTTP 400 and a code.
    """

    def passes(path: list[BaseException]) -> bool:
        if any(map(_is_throttled, path)):
            return True
        if (answer := _answer(path)) is not None:
            return _is_passing_status(answer[1])
        return any(isinstance(each, OSError) or _is_trouble(each) for each in path)

    return all(map(passes, _paths(error)))


def _is_throttled(error: BaseException) -> bool:
    response = _attribute(error, "response")
    answer = response.get("Error") if isinstance(response, dict) else None
    code = str(answer.get("Code")) if isinstance(answer, dict) else ""
    return any(word in code for word in ("Throttl", "TooManyRequests", "RequestLimitExceeded", "SlowDown"))


def is_interruption(error: BaseException) -> bool:
    """Whether the connection to the job system failed, rather than a time-out or file access of the caller's own."""

    def interrupts(path: list[BaseException]) -> bool:
        if (answer := _answer(path)) is not None:
            return _is_passing_status(answer[1])
        return any(_is_named(each, _TRANSPORT_ERRORS) for each in path)

    return all(map(interrupts, _paths(error)))


def _is_passing_status(status: int) -> bool:
    return status >= _SERVER_ERRORS or status in {_REQUEST_TIMEOUT, _TOO_MANY_REQUESTS}


def is_not_found(error: BaseException) -> bool:
    """Whether the job system answered HTTP 404 or 410.

    A proxy answers 404 too when its service is not available, but with an HTML page. That says nothing about a job.
    """
    answers = [_answer(path) for path in _paths(error)]
    return all(answer is not None and answer[1] in _NOT_FOUND and not _is_page(answer[0]) for answer in answers)


def _is_page(error: BaseException) -> bool:
    response = _attribute(error, "response")  # one of requests is falsy when it is an error
    headers: Any = _attribute(error if response is None else response, "headers")
    if not callable(_attribute(headers, "get")):
        return False
    return str(headers.get("Content-Type") or headers.get("content-type")).startswith("text/")


def is_unknown_word(error: BaseException) -> bool:
    """Whether an enum of the client has no such member, as for a status that the client does not know."""
    for each in (each for path in _paths(error) for each in path if isinstance(each, ValueError)):
        trace = each.__traceback__
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        if trace is not None and trace.tb_frame.f_globals.get("__name__") == enum.__name__:
            return True
    return False


def _paths(error: BaseException, seen: frozenset[int] = frozenset()) -> Iterator[list[BaseException]]:
    """The errors from the outermost to the innermost; for a group, one path for each of its errors."""
    path: list[BaseException] = []
    each: BaseException | None = error
    while each is not None and id(each) not in seen:
        path.append(each)
        seen |= {id(each)}
        is_group = any(base.__name__ == "BaseExceptionGroup" for base in type(each).__mro__)
        members = [member for member in each.exceptions if id(member) not in seen] if is_group else []  # type: ignore[attr-defined]
        if members:
            for member in members:
                yield from ([*path, *rest] for rest in _paths(member, seen))
            return
        each = _beneath(each)
    yield path


def _beneath(error: BaseException) -> BaseException | None:
    """The error that this one was raised from, or has in an attribute; see the docstring of this module."""
    held = [_attribute(error, name) for name in ("reason", "original_error", "inner_exception", "os_error")]
    for inner in (error.__cause__, *held, *error.args[:1]):
        if isinstance(inner, BaseException):
            return inner
    return error.__context__ if _wraps_its_context(error) else None


def _wraps_its_context(error: BaseException) -> bool:
    """Whether this error is one of Airflow's, raised by the function that had caught its context."""
    context = error.__context__
    if context is None or error.__suppress_context__ or not _is_airflows_own(error):
        return False
    caught, raised = context.__traceback__, error.__traceback__
    while raised is not None and raised.tb_next is not None:
        raised = raised.tb_next
    return caught is not None and raised is not None and caught.tb_frame is raised.tb_frame


def _answer(path: list[BaseException]) -> tuple[BaseException, int] | None:
    """The outermost error with an HTTP status, and that status; None if the connection failed."""
    for each in path:
        if (status := _http_status(each)) is not None:
            return each, status
        if _is_trouble(each):
            return None
    return None


def _http_status(error: BaseException) -> int | None:
    """The HTTP status of an error. Clients keep it in several attributes, which other errors use for other things."""
    if _is_airflows_own(error) or not isinstance(error, Exception):  # e.g. SystemExit, whose code is not of HTTP
        return None
    # No bool, no text, and no enum of a client's own.
    statuses = (status for status in _candidates(error) if type(status) in {int, HTTPStatus})
    return next((int(status) for status in statuses if status in _HTTP_ERRORS), None)


def _candidates(error: BaseException) -> Iterator[Any]:
    """Values that may be a status. The last ones are only read if needed, as reading them may warn."""
    response = _attribute(error, "response")
    if isinstance(response, dict):  # botocore
        metadata = response.get("ResponseMetadata")
        yield metadata.get("HTTPStatusCode") if isinstance(metadata, dict) else None
    for holder, names in ((response, ("status_code", "status")), (error, ("status_code", "status", "code"))):
        for name in names:
            yield _attribute(holder, name)
    if _is_named(error, {"grpc.RpcError"}):
        with suppress(Exception):
            yield _STATUS_OF_GRPC.get(error.code().name)  # type: ignore[attr-defined]


def _attribute(holder: object, name: str) -> Any:
    """An attribute, or None; a property of an error of another library may raise anything."""
    try:
        return getattr(holder, name, None)
    except Exception:  # noqa: BLE001
        return None


def _is_airflows_own(error: BaseException) -> bool:
    """Every AirflowException carries a `status_code` of 500 that says nothing about a request."""
    return "airflow" in type(error).__module__.split(".") or any(
        base.__name__ == "AirflowException" for base in type(error).__mro__
    )


def _is_trouble(error: BaseException) -> bool:
    return isinstance(error, _TIME_OUTS) or _is_named(error, _TRANSPORT_ERRORS)


def _is_named(error: BaseException, names: set[str]) -> bool:
    return not names.isdisjoint(f"{base.__module__}.{base.__name__}" for base in type(error).__mro__)
