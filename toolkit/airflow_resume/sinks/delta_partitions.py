"""Values that the partitions of a Delta table do not keep.

A partition column is in no data file. Its values are texts in the log. So the format cannot tell an empty text from
null, and delta-rs (1.6) does not read back all that it writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute
from pyarrow import types

from airflow_resume.shown import short_repr

pc: Any = pyarrow.compute
"""Its functions are made when it is imported, so type checkers do not know them."""
_NULLS = ["", "__HIVE_DEFAULT_PARTITION__"]
"""Texts that stand for null in a partition: in the log, and in the names of folders."""


def check_partitions(rows: pa.Table, columns: Sequence[str], target: str) -> None:
    """Check that the table gives back what is written to its partition columns.

    Args:
        rows: to append, with the columns of the table.
        columns: by which the table is partitioned.
        target: what the table is called in messages.

    Raises:
        ValueError: it does not.
    """
    for name in columns:
        column = rows.column(name)
        spoilt, becomes, remedy = _spoilt(column)
        found = pc.index(spoilt, True).as_py()
        if found >= 0:
            raise ValueError(
                f"{short_repr(column[found].as_py())} does not fit the partition column {name} ({column.type}) of"
                f" {target}: {becomes}.\n{remedy}, or partition the table by another column."
            )


def _spoilt(column: pa.ChunkedArray) -> tuple[Any, str, str]:
    """Which values are spoilt, what becomes of them, and what to do in place of that."""
    kind = column.type
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return pc.is_in(column, pa.array(_NULLS, kind)), "it would be null there", "Append None or another text"
    if types.is_decimal(kind):
        wide = column.cast(pa.decimal256(76, kind.scale))  # trunc needs a digit before the point
        broken = pc.and_(pc.less(wide, 0), pc.not_equal(wide, pc.trunc(wide)))
        return (
            broken,
            "delta-rs would write -1.50 as '-1.-50', and nobody could read the table",
            "Use a float or a text",
        )
    if types.is_nested(kind):
        every = pc.or_(column.is_valid(), column.is_null())
        return every, "delta-rs does not write it, and nobody could read the table", "Use a text"
    if types.is_primitive(kind):  # numbers, booleans, dates and times
        return pa.array([], pa.bool_()), "", ""
    return column.is_valid(), "it would be read back as another value", "Use a text, such as value.hex() of bytes"
