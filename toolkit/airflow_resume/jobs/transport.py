"""Telling a broken connection from an answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

ErrorMatch: TypeAlias = "type[BaseException] | tuple[type[BaseException], ...] | Callable[[BaseException], bool]"
"""Exception types, or a predicate."""

# By name, so that no HTTP library needs to be installed, let alone imported.
_TRANSPORT_ERRORS = {
    "httpx.TransportError",
    "http.client.HTTPException",
    "urllib3.exceptions.HTTPError",
    "aiohttp.client_exceptions.ClientError",
    "botocore.exceptions.HTTPClientError",
    "grpc.RpcError",
}
_REQUEST_TIMEOUT, _TOO_MANY_REQUESTS, _SERVER_ERRORS = 408, 429, 500


def matches(error: BaseException, match: ErrorMatch | None) -> bool:
    """Whether the error is one of the types, or the predicate says so."""
    if match is None:
        return False
    if isinstance(match, (type, tuple)):
        return isinstance(error, match)
    return match(error)


def is_transport_error(error: BaseException) -> bool:
    """Whether what was asked may or may not have been done: a time-out, a lost connection, a server error.

    An answer that says no (HTTP 4xx) is not one.
    """
    status = getattr(getattr(error, "response", None), "status_code", None)
    if isinstance(status, int):
        return status >= _SERVER_ERRORS or status in {_REQUEST_TIMEOUT, _TOO_MANY_REQUESTS}
    names = {f"{base.__module__}.{base.__name__}" for base in type(error).__mro__}
    return isinstance(error, OSError) or not names.isdisjoint(_TRANSPORT_ERRORS)
