"""What an Iceberg table gives back from its partition columns: every value, unlike a Delta table."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import nullcontext
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.exceptions import NotInstalledError
from pyiceberg.table import Table
from pyiceberg.transforms import BucketTransform, DayTransform, IdentityTransform

from airflow_resume.errors import SinkUnsafeError
from airflow_resume.sink_protocol import Claimant
from airflow_resume.sinks import IcebergSink
from airflow_resume.sinks.iceberg_table import IcebergLakeTable
from tests.support.sinks.lakes import IcebergLake
from tests.support.sinks.partition_values import KEPT, REFUSED

VALUES = KEPT | {f"{name}, not on Delta": (kind, values) for name, (kind, values, _why) in REFUSED.items()}
BY_ITSELF = {name: found for name, found in VALUES.items() if not pa.types.is_nested(found[0])}


@pytest.fixture
def partitioned(tmp_path: Path) -> Callable[[pa.DataType, Any], Table]:
    lake = IcebergLake(tmp_path)
    lake.make()

    def make(kind: pa.DataType, transform: Any) -> Table:
        with lake.catalog() as catalog:
            namespace = lake.NAME.rpartition(".")[0]
            table: Table = catalog.create_table(
                f"{namespace}.parts", schema=pa.schema([("id", pa.int64()), ("part", kind)])
            )
            with table.update_spec() as spec:
                spec.add_field("part", transform, "p")
        return table

    return make


def append(table: Table, values: list[Any]) -> list[dict[str, Any]]:
    position = IcebergSink(table).claim(["loop"], Claimant())
    rows = [{"id": number, "part": value} for number, value in enumerate(values)]
    position.connection.append(rows)
    position.commit(1)
    return rows


def found(table: Table) -> list[dict[str, Any]]:
    return sorted(table.refresh().scan().to_arrow().to_pylist(), key=lambda row: row["id"])


@pytest.mark.parametrize("name", BY_ITSELF)
def test_what_is_appended_to_a_partition_is_read_back(name: str, partitioned: Any) -> None:
    kind, values = BY_ITSELF[name]
    table = partitioned(kind, IdentityTransform())
    rows = append(table, [*(value for value in values if repr(value) not in {"nan", "-0.0"}), None])
    assert found(table) == rows


@pytest.mark.parametrize("kind", [pa.float64(), pa.float32()])
@pytest.mark.parametrize("value", [math.nan, -0.0])
def test_a_float_whose_partition_is_not_found_once_is_refused(value: float, kind: Any, partitioned: Any) -> None:
    table = partitioned(kind, IdentityTransform())
    with pytest.raises(ValueError, match=r"(?s)does not fit the partition p .*\nAppend None or 0.0"):
        append(table, [0.0, 1.5, value])
    assert found(table) == []
    append(table, [0.0, 1.5])
    assert found(table) == [{"id": 0, "part": 0.0}, {"id": 1, "part": 1.5}]


def test_rows_that_are_written_twice_are_not_committed(partitioned: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever else pyiceberg takes for two partitions."""
    monkeypatch.setattr(IcebergLakeTable, "_check_partition", lambda *_: None)
    table = partitioned(pa.float64(), IdentityTransform())
    with pytest.raises(SinkUnsafeError, match="has written 4 rows for 2"):
        append(table, [0.0, -0.0])
    assert found(table) == []
    append(table, [0.0])
    assert found(table) == [{"id": 0, "part": 0.0}]


@pytest.mark.parametrize(("value", "rows"), [(-0.0, 4), (math.nan, None)])
def test_that_is_what_pyiceberg_does_with_it(value: float, rows: int | None, partitioned: Any) -> None:
    """If this fails with a newer pyiceberg, the reason to refuse may be gone."""
    table = partitioned(pa.float64(), IdentityTransform())
    data = pa.table({"id": [0, 1], "part": [0.0, value]})
    with nullcontext() if rows is not None else pytest.raises(ZeroDivisionError):
        table.append(data)
    assert len(found(table)) == (rows or 0)


@pytest.mark.skipif(find_spec("pyiceberg_core") is not None, reason="pyiceberg-core is installed")
@pytest.mark.parametrize(("name", "transform"), [("time", DayTransform()), ("integer", BucketTransform(4))])
def test_what_is_missing_for_a_part_of_a_value_is_named_and_nothing_is_kept(
    name: str, transform: Any, partitioned: Any
) -> None:
    kind, values = KEPT[name]
    table = partitioned(kind, transform)
    with pytest.raises(NotInstalledError, match=r"pip install \"pyiceberg\[pyiceberg-core\]\""):
        append(table, values)
    assert found(table) == []
