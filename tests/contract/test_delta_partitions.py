"""Which values a Delta table gives back from its partition columns, and which are refused before they are written."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder, write_deltalake
from deltalake.exceptions import DeltaError

from airflow_resume.sink_protocol import Claimant
from airflow_resume.sinks import DeltaSink
from airflow_resume.sinks.lake_position import LakePosition

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


def schema_of(kind: pa.DataType) -> pa.Schema:
    return pa.schema([("id", pa.int64()), ("part", kind)])


@pytest.fixture
def claimed(tmp_path: Path) -> Callable[[pa.DataType], LakePosition]:
    def claim(kind: pa.DataType) -> LakePosition:
        sink = DeltaSink(tmp_path / "table", schema=schema_of(kind), partition_by=["part"])
        return sink.claim(["loop"], Claimant())

    return claim


def by_arrow(path: Path) -> list[dict[str, Any]]:
    return list(DeltaTable(path).to_pyarrow_table().to_pylist())


def by_delta_rs(path: Path) -> list[dict[str, Any]]:
    found = QueryBuilder().register("t", DeltaTable(path)).execute("SELECT * FROM t")
    return list(pa.table(found).to_pylist())


def shown(rows: list[dict[str, Any]]) -> list[Any]:
    """The values; floats as texts, so that NaN is equal to itself, and -0.0 is not 0.0."""
    values = [row["part"] for row in sorted(rows, key=lambda row: row["id"])]
    return [repr(value) if isinstance(value, (float, bool)) else value for value in values]


@pytest.mark.parametrize("name", KEPT)
def test_what_is_appended_to_a_partition_is_read_back(name: str, claimed: Any, tmp_path: Path) -> None:
    kind, values = KEPT[name]
    position = claimed(kind)
    rows = [{"id": number, "part": value} for number, value in enumerate([*values, None])]
    position.connection.append(rows)
    position.commit(1)
    for read in (by_arrow, by_delta_rs):
        assert shown(read(tmp_path / "table")) == shown(rows), read.__name__


FORMS: list[Callable[[list[dict[str, Any]], pa.Schema], Any]] = [
    lambda rows, _schema: rows,
    lambda rows, schema: pa.Table.from_pylist(rows, schema=schema),
]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", REFUSED)
def test_what_a_partition_would_not_give_back_is_refused_before_anything_is_written(
    name: str, form: Any, claimed: Any, tmp_path: Path
) -> None:
    kind, values, why = REFUSED[name]
    position = claimed(kind)
    for value in values:
        with pytest.raises(ValueError, match=rf"(?s)does not fit the partition column part .*{why}.*\n.*partition the"):
            position.connection.append(form([{"id": 1, "part": None}, {"id": 2, "part": value}], schema_of(kind)))
    if not pa.types.is_nested(kind):
        position.connection.append([{"id": 3, "part": None}])
        position.commit(1)
        assert by_arrow(tmp_path / "table") == [{"id": 3, "part": None}]


@pytest.mark.parametrize("name", [name for name, (kind, *_) in REFUSED.items() if not pa.types.is_nested(kind)])
def test_that_is_what_delta_rs_does_with_it(name: str, tmp_path: Path) -> None:
    """If this fails with a newer delta-rs, a reason to refuse may be gone."""
    kind, values, _ = REFUSED[name]
    for number, value in enumerate(values):
        path, rows = tmp_path / str(number), [{"id": 1, "part": None}, {"id": 2, "part": value}]
        DeltaTable.create(path, schema=schema_of(kind), partition_by=["part"])
        try:
            write_deltalake(path, pa.Table.from_pylist(rows, schema=schema_of(kind)), mode="append")
            read = shown(by_arrow(path))
        except DeltaError as error:
            assert "Failed to parse value" in str(error)
            with pytest.raises(DeltaError, match="Failed to parse value"):
                DeltaTable(path)
        else:
            assert read != [None, value]
