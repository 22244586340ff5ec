"""What may be stored: a strict JSON check, a codec for a few more types, a size guard, fingerprints.

The state store takes JSON, but not everything that `json` accepts, and it does not always refuse the rest: a NaN inside
a dict comes back as null, and a value that is nested too deeply is accepted and can never be read again. So every value
is checked here first, before anything else is done, and an error names the place (`$.rows[3].at`) and the remedy.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from typing import TYPE_CHECKING, Any
from uuid import UUID

from airflow_resume.errors import InvalidKeyError, InvalidValueError, ValueTooLargeError
from airflow_resume.natives import such_as
from airflow_resume.shown import short_repr, shown

if TYPE_CHECKING:
    from pydantic import JsonValue

MAX_DEPTH = 64
"""Levels of nesting allowed. The store accepts 250 and then fails every later read."""
MAX_BYTES = 60_000
"""The largest record written, in bytes of JSON. Airflow's REST API refuses 64 KB."""
MAX_CURSOR_BYTES = 28_000
"""The largest value of a watermark: a window's record holds two of them."""
LARGE_BYTES = 16_000
"""A larger record is worth a warning: all of it is sent with every write, and shown in Airflow's UI."""
MIN_INT, MAX_INT = -(2**63), 2**64 - 1
MAX_SHOWN = 80
"""The most characters of any value in a message."""
MAX_SHOWN_BITS = 1_000
"""A longer integer is not written out in a message. Python itself refuses that from about 14,000 bits."""

_KEY = re.compile(r"[A-Za-z0-9_:.%-]{1,200}")
_TAG = "~"


def make_key(prefix: str, name: str) -> str:
    """The store key of `name`: `<prefix>.<name>`.

    Raises:
        InvalidKeyError: the name is no text or empty, has a character outside `[A-Za-z0-9_:.%-]`, or is too long.
    """
    key = f"{prefix}.{name}"
    if not isinstance(name, str) or not name or not _KEY.fullmatch(key):
        raise InvalidKeyError(
            f"name={short_repr(name)} cannot be a name.",
            f"Use 1 to {200 - len(prefix) - 1} of the characters A-Z a-z 0-9 _ : . % -",
            key=name if isinstance(name, str) else None,
        )
    return key


def dumps(value: object) -> str:
    """Canonical JSON: sorted keys, no spaces, UTF-8 text as it is."""
    return _CANONICAL.encode(value)


_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def check(value: object, *, at: str = "$") -> None:
    """Refuse what the state store would refuse, or would return changed.

    Raises:
        InvalidValueError: naming the place inside the value and what to do about it.
    """
    if value is None:
        raise InvalidValueError(
            f"{at} is None, which the state store refuses.", "Use a value or leave the key out.", at=at
        )
    if plain_json(value) is None:
        _check(value, at, 0)


def check_sized(value: object, *, at: str, key: str | None = None) -> int:
    """As `check` and then `check_size`, but faster for most values. `key`: of the record that the value is."""
    text = plain_json(value)
    if text is not None and len(text) <= MAX_BYTES:
        return len(text)
    check(value, at=at)
    return check_size(key, value, at=at if key is None else None)


def plain_json(value: object) -> str | None:
    """A value as JSON if it is certain to pass `check`; None if `check` has to look closer.

    Nearly every record has only the exact types and printable ASCII, and checking for that is fast.
    """
    if value is None or not _has_plain_types((value,), 0):
        return None
    text = json.dumps(value)
    return None if "\\u" in text else text


def _has_plain_types(items: Iterable[Any], depth: int) -> bool:
    for item in items:
        kind = type(item)
        if kind is str or item is None or kind is bool:
            continue
        if kind is dict:
            keys_are_text = {*map(type, item)} <= _TEXT
            plain = depth < MAX_DEPTH and keys_are_text and _has_plain_types(item.values(), depth + 1)
        elif kind is list:
            plain = depth < MAX_DEPTH and _has_plain_types(item, depth + 1)
        else:
            plain = (kind is int and MIN_INT <= item <= MAX_INT) or (kind is float and math.isfinite(item))
        if not plain:
            return False
    return True


_TEXT = {str}


def _check(value: object, at: str, depth: int) -> None:
    if depth > MAX_DEPTH:
        raise InvalidValueError(
            f"{at[:MAX_SHOWN]}... is nested more than {MAX_DEPTH} levels deep.", "Flatten it.", at=at
        )
    match value:
        case str():
            if not _is_plain(value):
                _check_text(value, at)
        case dict():
            for key, item in value.items():
                _check_member(key, at)
                _check(item, f"{at}.{shown(key, most=MAX_SHOWN)}", depth + 1)
        case None | bool():
            pass
        case int() | float():
            _check_number(value, at)
        case list():
            for index, item in enumerate(value):
                _check(item, f"{at}[{index}]", depth + 1)
        case _:
            kind = type(value).__name__
            remedy = f"Store text, a number, a list or a dict{such_as(value)}."
            raise InvalidValueError(f"{at} is a {kind}, which is not JSON.", remedy, at=at)


def _check_number(number: float, at: str) -> None:
    if isinstance(number, int) and not MIN_INT <= number <= MAX_INT:
        size = f"{number}" if number.bit_length() < MAX_SHOWN_BITS else f"of {number.bit_length()} bits"
        raise InvalidValueError(f"{at} is an integer outside 64 bits ({size}).", "Store it as text.", at=at)
    if isinstance(number, float) and not math.isfinite(number):
        raise InvalidValueError(f"{at} is {number}, which JSON cannot hold.", "Store None or text.", at=at)


def _check_member(key: object, at: str) -> None:
    if not isinstance(key, str):
        known = short_repr(key)
        raise InvalidValueError(f"{at} has the key {known}, which is not text.", f"Use str({known}).", at=at)
    if not _is_plain(key):
        _check_text(key, f"the key {short_repr(key)} of {at}")


def _is_plain(text: str) -> bool:
    """Whether `_check_text` is not needed. This is true of nearly every text, and much faster."""
    return text.isascii() and "\x00" not in text


def _check_text(text: str, at: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidValueError(f"{at} has half a surrogate pair in it.", "Decode it first.", at=at) from None
    if "\x00" in text:
        raise InvalidValueError(f"{at} has a NUL character in it, which PostgreSQL refuses.", "Remove it.", at=at)


def check_size(key: str | None, value: object, *, limit: int = MAX_BYTES, at: str | None = None) -> int:
    """The size of `value` in bytes of JSON.

    Args:
        key: that it is stored under, if it is known.
        value: a record or a part of one.
        limit: the most bytes it may have.
        at: what the value is, of a part.

    Raises:
        ValueTooLargeError: over `limit`; the message names the biggest part.
    """
    size = stored_size(value)
    if size > limit:
        what = f"The record {short_repr(key, most=250)}" if at is None else shown(at, most=250)
        raise ValueTooLargeError(
            f"{what} has {size:,} bytes and may have {limit:,}. {biggest_part(value)}",
            KEEP_ELSEWHERE,
            at=at,
            key=key,
            size=size,
            limit=limit,
        )
    return size


def stored_size(value: object) -> int:
    r"""How many bytes a value has when it is stored. Airflow stores é as \u00e9."""
    return len(json.dumps(value))


KEEP_ELSEWHERE = "Keep that part elsewhere (object storage, a table) and store its address."
"""How to make a large value smaller."""


def biggest_part(value: object) -> str:
    """Which part of a large value is the biggest, as a sentence."""
    at, size = "$", len(dumps(value))
    while isinstance(value, dict) and value:
        name, value = max(value.items(), key=lambda item: len(dumps(item[1])))
        at, size = f"{at}.{shown(name, most=MAX_SHOWN)}", len(dumps(value))
    return f"Its biggest part is {at} with {size:,} bytes."


# --- more types than JSON has ---------------------------------------------------------------------------------

_ENCODERS: dict[type, tuple[str, Callable[[Any], object]]] = {
    datetime: ("datetime", datetime.isoformat),
    date: ("date", date.isoformat),
    Decimal: ("decimal", str),
    UUID: ("uuid", str),
    bytes: ("bytes", lambda value: base64.b64encode(value).decode()),
    tuple: ("tuple", lambda value: [encode(item) for item in value]),
}
_DECODERS: dict[str, tuple[type, Callable[[Any], object]]] = {
    "datetime": (str, datetime.fromisoformat),
    "date": (str, date.fromisoformat),
    "decimal": (str, Decimal),
    "uuid": (str, UUID),
    "bytes": (str, lambda text: base64.b64decode(text, validate=True)),
    "tuple": (list, lambda items: tuple(decode(item) for item in items)),
    "dict": (dict, lambda members: {key: decode(item) for key, item in members.items()}),
}
"""By tag: the type of the JSON value, and how it is decoded."""


def encode(value: Any) -> JsonValue:
    """`value` as JSON that `decode` turns back into an equal value of the same type.

    Beyond JSON it knows datetime, date, Decimal, UUID, bytes and tuple, at any depth: each becomes an object with
    one member named by the tag (`{"~datetime": "2026-01-01T00:00:00+00:00"}`). Other types stay as they are, for
    `check` to refuse.
    """
    if (known := _ENCODERS.get(type(value))) is not None:
        tag, encoder = known
        return {_TAG + tag: encoder(value)}  # type: ignore[dict-item]
    if isinstance(value, list):
        return [encode(item) for item in value]
    if isinstance(value, dict):
        members = {key: encode(item) for key, item in value.items()}
        looks_tagged = len(members) == 1 and str(next(iter(members))).startswith(_TAG)
        return {_TAG + "dict": members} if looks_tagged else members
    return value  # type: ignore[no-any-return]


def decode(value: Any) -> Any:
    """The value that `encode` was given.

    Raises:
        InvalidValueError: a value is tagged as a type and cannot be read as one, so `encode` did not write it.
    """
    if isinstance(value, list):
        return [decode(item) for item in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        ((key, inner),) = value.items()
        if key.startswith(_TAG) and key[len(_TAG) :] in _DECODERS:
            return _decode_tagged(key, inner)
    return {key: decode(item) for key, item in value.items()}


def _decode_tagged(key: str, inner: Any) -> object:
    stored_as, decoder = _DECODERS[key[len(_TAG) :]]
    if isinstance(inner, stored_as):
        try:
            return decoder(inner)
        except InvalidValueError:
            raise
        except (ValueError, ArithmeticError) as error:
            cause: Exception | None = error
    else:
        cause = None
    raise InvalidValueError(
        f"{shown(dumps({key: inner}), most=MAX_SHOWN)} is tagged as a {key[len(_TAG) :]} and cannot be read as one.",
        "It was changed by hand or damaged: put it right, or delete it.",
    ) from cause


def is_exact(value: object) -> bool:
    """Whether `decode(encode(value))` has the same types at every depth. An enum, for example, would become text."""
    if type(value) in (list, tuple):
        return all(map(is_exact, value))  # type: ignore[call-overload]
    if type(value) is dict:
        return all(type(key) is str and is_exact(item) for key, item in value.items())
    return value is None or type(value) in {bool, int, float, str, *_ENCODERS}


def has_at_most(parts: int, value: object) -> bool:
    """Whether a value has no more than this many items and characters, and is not nested too deeply.

    It stops counting at the limit, so a huge or endless value takes no longer.
    """
    left = parts
    waiting = [(value, 0)]
    while waiting:
        item, depth = waiting.pop()
        left -= len(item) if isinstance(item, (str, bytes)) else 1
        if left < 0 or depth > MAX_DEPTH:
            return False
        if isinstance(item, (list, tuple, dict)):
            if len(item) > left:
                return False
            inner = (*item.keys(), *item.values()) if isinstance(item, dict) else item
            waiting += [(each, depth + 1) for each in inner]
    return True


def plain_id(value: object) -> JsonValue:
    """An id of another system as plain JSON: a UUID becomes text, a tuple a list, a member of an enum its value.

    Raises:
        InvalidValueError: None, or not JSON.
    """
    plain = _plain(value, 0)
    check(plain, at="the id")
    return plain  # type: ignore[no-any-return]


def _plain(value: Any, depth: int) -> Any:
    """Lists and dicts may contain None. A value that is not JSON is returned as it is, for `check` to refuse."""
    if depth > MAX_DEPTH:
        raise InvalidValueError(f"the id is nested more than {MAX_DEPTH} levels deep.", "Flatten it.", at="the id")
    if isinstance(value, Enum):
        return _plain(value.value, depth + 1)
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, (tuple, list)):
        return [_plain(item, depth + 1) for item in value]
    if isinstance(value, dict):
        return {key: _plain(item, depth + 1) for key, item in value.items()}
    return str(value) if isinstance(value, str) else value


# --- fingerprints ---------------------------------------------------------------------------------------------


def fingerprint(value: object, *, length: int = 12, at: str = "$") -> str:
    """A short text that changes with `value`: the first digits of the SHA-256 of its canonical JSON.

    Raises:
        InvalidValueError: it is not JSON; `at` says for the message what it is.
    """
    encoded = encode(value)
    if encoded is not None:
        check(encoded, at=at)
    return hashlib.sha256(dumps(encoded).encode()).hexdigest()[:length]


def fingerprints(fields: Mapping[str, object]) -> dict[str, str]:
    """A short fingerprint of each field, so that an error can name the field that changed."""
    return {name: fingerprint(value, length=8) for name, value in fields.items()}


def is_json(value: object) -> bool:
    """Whether a store can have returned this value. A mock of a store returns mocks."""
    return value is None or isinstance(value, (dict, list, str, int, float))
