"""What a client asks of a JSON service, decoded and checked, and the errors it can be told."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import TypeVar

T = TypeVar("T")


class JsonText(str):
    """An answer that is JSON text already, so that big answers are not built twice."""

    __slots__ = ()


class RequestError(Exception):
    """The request cannot be answered; the client is told why."""

    status = HTTPStatus.BAD_REQUEST


class NotFoundError(RequestError):
    """There is no such thing here."""

    status = HTTPStatus.NOT_FOUND


class ConflictError(RequestError):
    """The thing exists but is not in a state to answer."""

    status = HTTPStatus.CONFLICT


@dataclass(frozen=True, kw_only=True)
class Request:
    """One request, decoded."""

    method: str
    path: str
    query: Mapping[str, str]
    body: Mapping[str, object]
    header_label: str | None

    @property
    def route(self) -> tuple[str, ...]:
        """The method and the parts of the path, for `match`."""
        return self.method, *self.path.strip("/").split("/")

    @property
    def label(self) -> str:
        """Who asks: the header X-Run-Label, else the body's "label", else ""."""
        return str(self.header_label or self.body.get("label") or "")

    def field(self, name: str, kind: type[T] | tuple[type[T], ...]) -> T:
        """A field of the body that must be there."""
        value = self.body.get(name)
        if not isinstance(value, kind):
            raise RequestError(f"the body needs {name!r}, as {kind}")
        return value

    def optional(self, name: str, kind: type[T] | tuple[type[T], ...]) -> T | None:
        """A field of the body that may be missing or null."""
        return None if self.body.get(name) is None else self.field(name, kind)


def decoded(raw: bytes) -> dict[str, object]:
    """The JSON object in a body; no body is an empty one.

    Raises:
        RequestError: If it is anything else.
    """
    try:
        body = json.loads(raw or b"{}")
    except ValueError as error:
        raise RequestError(f"the body is not JSON: {error}") from error
    if not isinstance(body, dict):
        raise RequestError("the body must be a JSON object")
    return body
