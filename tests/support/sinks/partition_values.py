"""Values of partition columns: which a Delta table gives back, and which it does not."""

from __future__ import annotations

import math
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa

UTC = timezone.utc
TEXTS = [
    *(
        "a",
        " ",
        "a/b",
        "%",
        "%2F",
        "a%20b",
        "=",
        "a=b",
        "\u00fc\U0001f600",
        "..",
        ".",
        "a\nb",
        "\x00",
        "null",
        "a:b",
        "?",
        "#",
    ),
    *(" a", "a ", "\\", "'", "+", "\u00e9", "e\u0301"),
]
KEPT: dict[str, tuple[pa.DataType, list[Any]]] = {
    "text": (pa.string(), TEXTS),
    "long text": (pa.large_string(), ["a", "a/b"]),
    "integer": (pa.int64(), [0, -1, 2**62]),
    "small integer": (pa.int8(), [0, -128]),
    "boolean": (pa.bool_(), [True, False]),
    "float": (pa.float64(), [0.0, -0.0, 1.5, 0.1, 123456789.123456789, 1e22, math.nan, math.inf, -math.inf]),
    "decimal": (pa.decimal128(10, 2), [Decimal(each) for each in ("0", "0.05", "1.50", "99999999.99", "-1.00", "-12")]),
    "whole decimal": (pa.decimal128(5, 0), [Decimal(3), Decimal(-3)]),
    "date": (pa.date32(), [date(1970, 1, 1), date(1, 1, 1), date(9999, 12, 31), date(1969, 12, 31)]),
    "time with a zone": (
        pa.timestamp("us", "UTC"),
        [
            datetime(2026, 1, 1, tzinfo=UTC),
            datetime(2026, 1, 1, 0, 0, 0, 1, tzinfo=UTC),
            datetime(1, 1, 1, tzinfo=UTC),
            datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
        ],
    ),
    "time": (
        pa.timestamp("us"),
        [datetime.fromisoformat(each) for each in ("2026-01-01", "2026-01-01T12:30:15.123456", "0001-01-01")],
    ),
}
EMPTY, DECIMAL, BYTES = "would be null there", "nobody could read the table", "be read back as another value"
REFUSED: dict[str, tuple[pa.DataType, list[Any], str]] = {
    "text": (pa.string(), ["", "__HIVE_DEFAULT_PARTITION__"], EMPTY),
    "long text": (pa.large_string(), [""], EMPTY),
    "decimal": (pa.decimal128(10, 2), [Decimal(each) for each in ("-0.01", "-0.50", "-1.05", "-12.10")], DECIMAL),
    "decimal below one": (pa.decimal128(5, 5), [Decimal("-0.5")], DECIMAL),
    "bytes": (pa.binary(), [b"a", b"", b"\x00", b"\xff"], BYTES),
    "long bytes": (pa.large_binary(), [b"a", b""], BYTES),
    "list": (pa.list_(pa.int64()), [[1], [], None], "does not write it"),
    "struct": (pa.struct([("a", pa.int64())]), [{"a": 1}, None], "does not write it"),
}
