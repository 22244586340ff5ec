"""The way of a value from the task to the database and back.

Theory of operation. Airflow has no list of the values that it refuses: what a value must withstand is the way. The
task validates a message with pydantic and packs it with msgspec; the supervisor writes it as JSON for the API server;
that parses it and keeps JSON; and so back. The fakes send values the same way with the same libraries, so they refuse
and change what Airflow refuses and changes, with the same errors.

Plain JSON comes out as it goes in, so that is not sent the whole way: the explorer makes thousands of these calls a
second. Everything else is.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec
from pydantic import BaseModel, JsonValue
from pydantic_core import from_json, to_json

from airflow_resume import values
from airflow_resume.testing.refusals import refusal


class _Message(BaseModel):
    """What the task sends to its supervisor."""

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
    """The first thing that is looked at.

    Raises:
        ValueError: the value is None.
    """
    if value is None:
        raise ValueError("Cannot set value as None")


def set_sent(key: str, value: JsonValue) -> tuple[str, str]:
    """Key, and body of the request, as the API server gets them.

    Raises:
        pydantic.ValidationError: key or value are of another type, or the value is nested very deeply.
        OverflowError: an integer has more than 64 bits.
        UnicodeEncodeError: a text has a lone surrogate.
    """
    message = _packed(_Message(key=key, value=value))
    return message["key"], to_json({"value": message["value"]}, inf_nan_mode="null").decode()


def kept_unchanged(key: str, value: JsonValue) -> str | None:
    """What the API server keeps of a value, as JSON, where it is certain that key and value are kept as given."""
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
    """
    try:
        value: JsonValue = from_json(f'{{"value": {text}}}')["value"]
    except ValueError as error:
        raise refusal(None, str(error)) from None
    return value


def _packed(message: _Message) -> dict[str, Any]:
    unpacked: dict[str, Any] = msgspec.msgpack.decode(msgspec.msgpack.encode(dict(message)))
    return unpacked
