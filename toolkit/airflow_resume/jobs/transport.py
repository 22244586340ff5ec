"""Telling a broken connection from an answer.

Hooks wrap errors in errors of their own, so everything here looks at the error and at what it was raised from.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import enum
import subprocess
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

ErrorMatch: TypeAlias = "type[BaseException] | tuple[type[BaseException], ...] | Callable[[BaseException], bool]"
"""Exception types, or a predicate."""

_REQUEST_TIMEOUT, _TOO_MANY_REQUESTS, _SERVER_ERRORS = 408, 429, 500
_NOT_FOUND = {404, 410}
_HTTP_ERRORS = range(400, 600)

_TIME_OUTS = (TimeoutError, asyncio.TimeoutError, concurrent.futures.TimeoutError, subprocess.TimeoutExpired)

# By name, so that no HTTP library needs to be installed, let alone imported.
_NEVER_ARRIVED = {
    "httpx.ConnectError",
    "httpx.ConnectTimeout",
    "requests.exceptions.ConnectTimeout",
    "urllib3.exceptions.ConnectTimeoutError",
    "urllib3.exceptions.NewConnectionError",
    "aiohttp.client_exceptions.ClientConnectorError",
    "botocore.exceptions.ConnectTimeoutError",
    "botocore.exceptions.EndpointConnectionError",
    "socket.gaierror",
    "builtins.ConnectionRefusedError",
}
_TRANSPORT_ERRORS = {
    "httpx.TransportError",
    "http.client.HTTPException",
    "requests.exceptions.ConnectionError",
    "requests.exceptions.Timeout",
    "urllib3.exceptions.HTTPError",
    "aiohttp.client_exceptions.ClientError",
    "botocore.exceptions.HTTPClientError",
    "google.api_core.exceptions.RetryError",
    "grpc.RpcError",
    "builtins.ConnectionError",
}


def matches(error: BaseException, match: ErrorMatch) -> bool:
    """Whether the error is one of the types, or the predicate says so."""
    if isinstance(match, (type, tuple)):
        return isinstance(error, match)
    return match(error)


def may_have_been_done(error: BaseException) -> bool:
    """Whether the request behind this error may have been carried out: a time-out, a lost connection, HTTP 5xx.

    A request that never arrived (a refused connection) was not, and neither was one that was answered with HTTP 4xx.
    """
    chain = list(_chain(error))
    status = _http_status(chain)
    if status is not None:
        return status >= _SERVER_ERRORS or status == _REQUEST_TIMEOUT
    if any(_is_named(each, _NEVER_ARRIVED) for each in chain):
        return False
    return any(isinstance(each, _TIME_OUTS) or _is_named(each, _TRANSPORT_ERRORS) for each in chain)


def is_passing(error: BaseException) -> bool:
    """Whether the same question may be answered in a moment: trouble with the connection, HTTP 5xx or 429."""
    chain = list(_chain(error))
    status = _http_status(chain)
    if status is not None:
        return status >= _SERVER_ERRORS or status in {_REQUEST_TIMEOUT, _TOO_MANY_REQUESTS}
    return any(
        isinstance(each, (OSError, *_TIME_OUTS)) or _is_named(each, _TRANSPORT_ERRORS | _NEVER_ARRIVED)
        for each in chain
    )


def is_interruption(error: BaseException) -> bool:
    """Whether this was trouble on the way to the job system, and not a time-out or a file error of the caller's own."""
    chain = list(_chain(error))
    if _http_status(chain) is not None:
        return is_passing(error)
    return any(_is_named(each, _TRANSPORT_ERRORS | _NEVER_ARRIVED) for each in chain)


def is_not_found(error: BaseException) -> bool:
    """Whether the job system answered HTTP 404 or 410.

    A proxy whose service is away answers 404 as well, but with a page for people; that says nothing about a job.
    """
    chain = list(_chain(error))
    return _http_status(chain) in _NOT_FOUND and not any(map(_is_page, chain))


def _is_page(error: BaseException) -> bool:
    headers: Any = getattr(getattr(error, "response", error), "headers", None)
    content_type = headers.get("Content-Type") if hasattr(headers, "get") else None
    return str(content_type).startswith("text/")


def is_unknown_word(error: BaseException) -> bool:
    """Whether an enum of the client was asked for a member that it does not have: a status it has not heard of."""
    return any(isinstance(each, ValueError) and _was_raised_by_enum(each) for each in _chain(error))


def _was_raised_by_enum(error: BaseException) -> bool:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and trace.tb_frame.f_globals.get("__name__") == enum.__name__


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    each: BaseException | None = error
    while each is not None and id(each) not in seen:
        seen.add(id(each))
        yield each
        each = each.__cause__ or (None if each.__suppress_context__ else each.__context__)


def _http_status(chain: list[BaseException]) -> int | None:
    """The HTTP status that the outermost error with one carries; clients keep it in several places."""
    for error in chain:
        response = getattr(error, "response", None)
        if isinstance(response, dict):  # botocore
            response = response.get("ResponseMetadata", {})
            candidates = [response.get("HTTPStatusCode")]
        else:
            candidates = [getattr(response, "status_code", None), getattr(response, "status", None)]
        candidates += [getattr(error, name, None) for name in ("status_code", "code", "status")]
        for status in candidates:
            if isinstance(status, int) and status in _HTTP_ERRORS and not _is_airflows_own(error):
                return int(status)
    return None


def _is_airflows_own(error: BaseException) -> bool:
    """Every AirflowException carries a `status_code` of 500 that says nothing about a request."""
    return "airflow" in type(error).__module__.split(".") or any(
        base.__name__ == "AirflowException" for base in type(error).__mro__
    )


def _is_named(error: BaseException, names: set[str]) -> bool:
    return not names.isdisjoint(f"{base.__module__}.{base.__name__}" for base in type(error).__mro__)
