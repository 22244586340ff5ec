"""Which values a Delta table gives back from its partition columns, and which are refused before they are written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder, write_deltalake
from deltalake.exceptions import DeltaError

from airflow_resume.sink_protocol import Claimant
from airflow_resume.sinks import DeltaSink
from airflow_resume.sinks.lake_position import LakePosition
from tests.support.sinks.partition_values import KEPT, REFUSED


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
