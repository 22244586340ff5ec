"""Converting values of other libraries to Python's own, and what to write if a value cannot be kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from typing import Any
from uuid import UUID


def native(value: Any) -> Any:
    """A scalar of NumPy, Arrow or pandas as Python's own, also in tuples, if the value stays the same; else as it is.

    None of the libraries is imported: a value is recognised by the module of its type. A missing value becomes None.
    """
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is tuple:
        return tuple(native(part) for part in value)
    reader = _READERS.get(kind.__module__.partition(".")[0])
    return value if reader is None else reader(value)


def _of_arrow(value: Any) -> Any:
    return native(value.as_py()) if hasattr(value, "as_py") else value


def _of_numpy(value: Any) -> Any:
    if not (hasattr(value, "item") and getattr(value, "shape", None) == ()):
        return value
    if value.dtype.kind != "M":
        return value.item()
    found = value.astype("M8[us]")
    return found.item() if found == value or value != value else value  # noqa: PLR0124  NaT is not itself


def _of_pandas(value: Any) -> Any:
    name = type(value).__name__
    if name in {"NaTType", "NAType"}:
        return None
    return value.to_pydatetime() if name == "Timestamp" and not value.nanosecond else value


_PLAIN = frozenset({str, int, float, bool, bytes, datetime, date, Decimal, UUID, type(None)})
_READERS: dict[str, Callable[[Any], Any]] = {"numpy": _of_numpy, "pandas": _of_pandas, "pyarrow": _of_arrow}


def such_as(value: object) -> str:
    """What to write instead of a value that cannot be kept, as the end of a sentence; empty if not known."""
    lines = {
        "Timestamp": "value.to_pydatetime(), or value.isoformat() where its nanoseconds count",
        "datetime64": "value.astype('M8[us]').item(), or str(value) where its nanoseconds count",
        "timedelta": "value.total_seconds()",
        "bytearray": "bytes(value)",
        "memoryview": "bytes(value)",
        "set": "sorted(value)",
        "frozenset": "sorted(value)",
    }
    if (line := lines.get(type(value).__name__)) is None:
        line = _line_by_kind(value)
    return "" if line is None else f", such as {line}"


def _line_by_kind(value: object) -> str | None:
    if type(value).__module__.partition(".")[0] in {"numpy", "pandas"}:
        return "value.item()" if getattr(value, "shape", None) == () else "value.tolist()"
    if isinstance(value, Enum):
        return "value.value"
    if isinstance(value, datetime):
        return "datetime.fromisoformat(value.isoformat())"
    if isinstance(value, PurePath):
        return "str(value)"
    if isinstance(value, tuple):
        # A plain tuple is refused only where JSON alone is taken; elsewhere it comes back as a tuple.
        return "list(value)" if type(value) is tuple else "tuple(value), or list(value) where only JSON is taken"
    return "dict(value)" if isinstance(value, Mapping) else None
