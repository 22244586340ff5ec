"""Values and keys that stores are known to get wrong."""

from __future__ import annotations

import json
import math
import re
from datetime import datetime, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID


def nested(depth: int) -> list[Any]:
    """Nested lists of this depth."""
    value: list[Any] = []
    for _ in range(depth - 1):
        value = [value]
    return value


JSON: dict[str, Any] = {
    "text": "v",
    "empty text": "",
    "unicode": "grün \U0001f600 \u2028 e\u0301",
    "quotes": "' \" \\ % _ ? : {} $1",
    "spaces": "  a \t\r\n ",
    "text that looks like a number": "1",
    "text that looks like null": "null",
    "text that looks like JSON": '{"a": [1]}',
    "text that looks like a date": "2026-01-02",
    "text that looks like a truth": "yes",
    "true": True,
    "false": False,
    "zero": 0,
    "negative": -1,
    "2^53+1": 2**53 + 1,
    "2^63-1": 2**63 - 1,
    "-2^63": -(2**63),
    "2^64-1": 2**64 - 1,
    "float": 1.5,
    "whole float": 5.0,
    "minus zero": -0.0,
    "exact float": 0.1 + 0.2,
    "large float": 1e300,
    "small float": 5e-324,
    "empty list": [],
    "empty dict": {},
    "nested None": [None, {"a": None}],
    "mixed": {"a": [1, "b", {"c": False}], "": 0.5, "é": {}},
    "members with marks": {"a.b": 1, "$c": 2, "d e": 3},
    "members that look like a tag": {"__type": "set", "__var": [1]},
    "64 levels": nested(64),
}
"""Every store gives these back unchanged."""

DOUBTFUL: dict[str, Any] = {
    "None": None,
    "NaN": math.nan,
    "infinity": math.inf,
    "nested NaN": [math.nan],
    "nested infinity": {"a": -math.inf},
    "2^64": 2**64,
    "NUL in text": "a\x00b",
    "lone surrogate": "\ud800",
    "datetime": datetime(2026, 1, 2, tzinfo=timezone.utc),
    "Decimal": Decimal("1.5"),
    "UUID": UUID(int=1),
    "bytes": b"b",
    "tuple": (1, 2),
    "nested tuple": {"a": (1,)},
    "set": {1},
    "keys that are no text": {1: "a"},
    "250 levels": nested(250),
}
"""A store gives these back unchanged, or refuses them."""

LOOKALIKES: dict[str, tuple[str, str]] = {
    "case": ("key", "Key"),
    "accent": ("resume", "résumé"),
    "composed and decomposed": ("\u00e9", "e\u0301"),
    "sharp s": ("strasse", "straße"),
    "full width": ("a", "\uff41"),
    "trailing space": ("key", "key "),
    "leading space": ("key", " key"),
    "emoji": ("\U0001f600", "\U0001f601"),
    "invisible": ("key", "key\u200b"),
    "wildcard _": ("a_c", "abc"),
    "wildcard %": ("a%", "ab"),
    "separators": ("a.b", "a_b"),
    "a slash and its quotation": ("a/b", "a%2Fb"),
    "a prefix": ("a", "a.b"),
    "the last of 200 characters": ("k" * 199 + "a", "k" * 199 + "b"),
    "numbers": ("1", "01"),
    "a dot": ("key", "."),
    "a path": ("key", "a/../key"),
    "a path that ends in dots": ("key", "key/.."),
    "a line break": ("key", "key\n"),
    "a NUL": ("key", "key\x00x"),
    "nothing": ("key", ""),
    "quotes": ("a'b", "a''b"),
}
"""Pairs of different keys. A key that is not `PLAIN` may be refused."""

PLAIN = re.compile(r"[A-Za-z0-9_:%-][A-Za-z0-9_:.%-]{0,199}")
"""The keys that every store must accept."""


def written(value: Any) -> str:
    """Text that is equal exactly if two values are equal, types included; the order of members does not count."""
    try:
        return json.dumps(value, sort_keys=True)
    except (TypeError, ValueError):
        return repr(value)


def exactly(value: Any) -> str:
    """As `written`, for any Python value: a tuple does not count as a list."""
    return repr(value)
