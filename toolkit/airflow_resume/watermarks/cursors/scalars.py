"""Converts single values of NumPy, pandas and Arrow to Python's own, and recognises missing values.

None of these libraries is imported here: a value is recognised by the module of its type.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

_PLAIN = frozenset({str, int, bool, bytes, datetime, date})

EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001  with a zone or without, as the column has it
TICKS = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
"""How many of each unit a second has."""


def plain(value: Any) -> Any:
    """The value as Python's own, never rounded up; None if it is missing.

    Missing are None, NaN (of a Decimal too), NaT, `pandas.NA`, a masked value of NumPy and a null of Arrow, and also a
    tuple or list with such a part. A value of an unknown type stays as it is.
    """
    kind = type(value)
    if value is None or kind in _PLAIN:
        return value
    if isinstance(value, float):
        return None if value != value else float(value)  # noqa: PLR0124  NaN is not equal to itself
    if isinstance(value, Decimal):
        return None if value.is_nan() else value
    if kind in {tuple, list}:
        parts = [plain(part) for part in value]
        return None if any(part is None for part in parts) else tuple(parts)  # `in` would compare a Timestamp with None
    reader = _READERS.get(kind.__module__.partition(".")[0])
    return value if reader is None else reader(value)


def _numpy(value: Any) -> Any:
    if type(value).__name__ == "MaskedConstant":
        return None
    unit = getattr(getattr(value, "dtype", None), "str", "")[1:]
    if unit.startswith("M8["):
        # Without a zone, as NumPy has none; NumPy itself rounds down. A week, a month or a year is its first day.
        is_of_days = unit[3:-1].lstrip("0123456789") in {"Y", "M", "W", "D"}
        return value.astype("M8[D]" if is_of_days else "M8[us]").item()
    is_scalar = hasattr(value, "item") and getattr(value, "shape", None) == ()
    found = value.item() if is_scalar else value
    is_nan = isinstance(found, float) and found != found  # noqa: PLR0124
    return None if is_nan else found


def _pandas(value: Any) -> Any:
    """A Timestamp is a datetime; cursors cut its nanoseconds off."""
    return None if type(value).__name__ in {"NaTType", "NAType"} else value


def _arrow(value: Any) -> Any:
    if not hasattr(value, "as_py"):
        return value
    if not value.is_valid:
        return None
    unit = getattr(value.type, "unit", None)
    if unit in TICKS and hasattr(value.type, "tz"):  # as_py() wants pandas for nanoseconds
        return moment(value.value, unit, is_aware=value.type.tz is not None)
    return plain(value.as_py())


_FINE_TEXT = r"[.,][0-9]{7,}"


def is_finer(value: Any) -> bool:
    """Whether a time has digits below microseconds, which cursors cut off."""
    if isinstance(value, str):
        return re.search(_FINE_TEXT, value) is not None
    if getattr(value, "nanosecond", 0):  # of pandas
        return True
    unit = getattr(getattr(value, "dtype", None), "str", "")[1:]
    if unit.startswith("M8["):
        return bool(value != value.astype("M8[us]"))
    return getattr(getattr(value, "type", None), "unit", None) == "ns" and bool(value.value % 1_000)  # of Arrow


def moment(ticks: int, unit: str, *, is_aware: bool) -> datetime:
    """The point in time so many ticks after 1970-01-01 00:00, rounded down to microseconds.

    Raises:
        OverflowError: it is outside the years 1 to 9999.
    """
    epoch = EPOCH.replace(tzinfo=timezone.utc) if is_aware else EPOCH
    return epoch + timedelta(microseconds=ticks * TICKS["us"] // TICKS[unit])


_READERS: dict[str, Callable[[Any], Any]] = {"numpy": _numpy, "pandas": _pandas, "pyarrow": _arrow}
