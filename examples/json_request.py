"""A request of a client to a JSON service, decoded and checked, and the errors with which it can be answered."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import TypeVar

T = TypeVar("T")


class JsonText(str):
    """An answer that is JSON text already, so that large answers are not built twice."""

    __slots__ = ()


class RequestError(Exception):
    """The request cannot be answered; the client gets the reason."""

    status: int = HTTPStatus.BAD_REQUEST

    @property
    def answer(self) -> object:
        """The body of the answer."""
        return {"error": str(self)}


class NotFoundError(RequestError):
    """What the client asked for does not exist."""

    status = HTTPStatus.NOT_FOUND


class ConflictError(RequestError):
    """What the client asked for exists, but is not ready to answer."""

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
        """The label of the client: the header X-Run-Label, else the body's "label", else ""."""
        return str(self.header_label or self.body.get("label") or "")

    def field(self, name: str, kind: type[T] | tuple[type[T], ...]) -> T:
        """A required field of the body."""
        value = self.body.get(name)
        if not isinstance(value, kind):
            raise RequestError(f"the body needs {name!r}, as {kind}")
        return value

    def optional(self, name: str, kind: type[T] | tuple[type[T], ...]) -> T | None:
        """A field of the body that may be missing or null."""
        return None if self.body.get(name) is None else self.field(name, kind)


def decoded(raw: bytes) -> dict[str, object]:
    """The JSON object in a body; an empty one if there is no body.

    Raises:
        RequestError: If the body is anything else.
    """
    try:
        body = json.loads(raw or b"{}")
    except ValueError as error:
        raise RequestError(f"the body is not JSON: {error}") from error
    if not isinstance(body, dict):
        raise RequestError("the body must be a JSON object")
    return body
