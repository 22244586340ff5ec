"""Values as the texts that are kept: strict JSON, without what only Python takes for JSON."""

from __future__ import annotations

import json
from math import isfinite
from typing import TYPE_CHECKING, NoReturn

from airflow_resume.attempt import how_to_delete_a_key
from airflow_resume.errors import InvalidValueError, UnreadableRecordError
from airflow_resume.shown import short_repr
from airflow_resume.values import check, plain_json

if TYPE_CHECKING:
    from pydantic import JsonValue


def text_of(value: JsonValue) -> str:
    """The text to keep for a value.

    Raises:
        InvalidValueError: it cannot be kept.
    """
    text = plain_json(value)
    if text is not None:  # it has nothing in it that would be escaped
        return text
    check(value)
    return json.dumps(value, ensure_ascii=False)


def value_of(text: str) -> JsonValue:
    """The value that was kept as this text.

    Raises:
        InvalidValueError: the text is not a value; the message says why.
    """
    try:
        value: JsonValue = _STRICT.decode(text)
    except RecursionError:
        raise InvalidValueError("it is nested too deeply") from None
    except ValueError as error:  # of JSON, or of an integer with too many digits
        raise InvalidValueError(f"it is no JSON, {error}") from error
    if value is None:
        raise InvalidValueError("it is null, which is never kept")
    return value


def value_in_row(text: str, key: str, where: object, *, is_secret: bool = False) -> JsonValue:
    """The value in the row of a key.

    Raises:
        UnreadableRecordError: the row was changed by hand, or by another program.
    """
    try:
        return value_of(text)
    except InvalidValueError as error:
        found = "a text (not shown, as values are encrypted)" if is_secret else short_repr(text)
        raise UnreadableRecordError(
            f"The value of {key!r} in {where!r} cannot be read: {error.message}. The row has {found}, which"
            " was written by hand or by another program. Nothing was touched.",
            f"To begin anew, {how_to_delete_a_key()}.",
            key=key,
        ) from error


def _refuse(constant: str) -> NoReturn:
    """Refuse NaN and the infinities, of which Python makes floats."""
    raise ValueError(f"{constant} is no number of JSON")


def _finite(text: str) -> float:
    """A float. Python makes an infinity of a number that is too large."""
    number = float(text)
    return number if isfinite(number) else _refuse("a float out of range")


_STRICT = json.JSONDecoder(parse_constant=_refuse, parse_float=_finite)
