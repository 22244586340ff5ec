"""How a value travels from the task to the database and back.

Theory of operation. Airflow has no list of values that it refuses: a value is refused somewhere on its way. The
task validates a message with pydantic and packs it with msgspec; the supervisor writes it as JSON for the API server;
the server parses it and keeps JSON. The value goes the same way back. The fakes use the same steps and libraries, so
they refuse and change what Airflow refuses and changes, with the same errors.

Plain JSON comes out unchanged, so it skips these steps: the explorer makes thousands of such calls a
second. Everything else takes them.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec
from pydantic import BaseModel, JsonValue
from pydantic_core import from_json, to_json

from airflow_resume import values
from airflow_resume.errors import UnreadableRecordError
from airflow_resume.testing.fakes.refusals import refusal


class _Message(BaseModel):
    """The message of a task to its supervisor."""

    key: str
    value: JsonValue = None


def key_sent(key: str) -> str:
    """The key as the supervisor gets it.

    Raises:
        pydantic.ValidationError: it is not text.
        UnicodeEncodeError: it has a lone surrogate.
    """
    return key if _is_plain_key(key) else str(_packed(_Message(key=key))["key"])


def refuse_none(value: object) -> None:
    """Refuse None, which Airflow checks first.

    Raises:
        ValueError: the value is None.
    """
    if value is None:
        raise ValueError("Cannot set value as None")


def set_sent(key: str, value: JsonValue) -> tuple[str, str]:
    """The key and the body of the request, as the API server gets them.

    Raises:
        pydantic.ValidationError: key or value are of another type, or the value is nested very deeply.
        OverflowError: an integer has more than 64 bits.
        UnicodeEncodeError: a text has a lone surrogate.
    """
    message = _packed(_Message(key=key, value=value))
    return message["key"], to_json({"value": message["value"]}, inf_nan_mode="null").decode()


def kept_unchanged(key: str, value: JsonValue) -> str | None:
    """The JSON that the API server keeps, if it is certain that it keeps key and value unchanged; else None."""
    return values.plain_json(value) if _is_plain_key(key) else None


def _is_plain_key(key: object) -> bool:
    return type(key) is str and key.isascii()


def kept(body: str) -> str:
    """What the API server keeps of a body: the value, as JSON.

    Raises:
        AirflowRuntimeError: NaN or infinity (status 422); in JSON they are null.
    """
    value = json.loads(body)["value"]
    if value is None:
        raise refusal(422, "value cannot be null")
    return json.dumps(value)


def received(text: str) -> JsonValue:
    """The value as the task gets it.

    Raises:
        AirflowRuntimeError: it is nested too deeply (without a status). It can be written, and never read.
        UnreadableRecordError: it is not JSON, so a test has put it there; `SqlStateStore` raises the same.
    """
    try:
        value: JsonValue = from_json(f'{{"value": {text}}}')["value"]
    except ValueError as error:
        if _TOO_DEEP in str(error):
            raise refusal(None, str(error)) from None
        raise UnreadableRecordError(f"What is stored is no JSON: {error}. Nothing was touched.", key=None) from error
    return value


_TOO_DEEP = "recursion limit"
"""How pydantic's message begins."""


def _packed(message: _Message) -> dict[str, Any]:
    unpacked: dict[str, Any] = msgspec.msgpack.decode(msgspec.msgpack.encode(dict(message)))
    return unpacked
