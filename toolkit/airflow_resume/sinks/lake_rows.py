"""Rows of the body, in the columns of a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from airflow_resume.shown import short_repr

_MOST_NAMED = 5


class RowWriter:
    """What the body of a loop or a window appends to. It is in memory until the commit.

    Args:
        fitted: makes an Arrow table of rows, with the columns of the table.
    """

    def __init__(self, fitted: Callable[[Any], pa.Table]) -> None:
        self._fitted = fitted
        self.pending: list[pa.Table] = []
        self.refusal: Exception | None = None

    def append(self, rows: Any) -> None:
        """Append rows. They are in memory until the commit, and then in the table.

        Args:
            rows: a list of dicts, an Arrow table, a record batch, or whatever Arrow can read, such as a data frame of
                pandas or polars. Columns that are not given are null.

        Raises:
            TypeError, ValueError: they do not fit the table. Nothing was appended.
            SinkUnsafeError: the loop or the window is over.
        """
        if self.refusal is not None:
            raise self.refusal
        self.pending.append(self._fitted(rows))

    def forget(self, after: int = 0) -> None:
        """Forget what was appended, except for the first so many tables."""
        del self.pending[after:]


def fitted_rows(rows: Any, schema: pa.Schema, target: str) -> pa.Table:
    """Rows as an Arrow table of this schema.

    Args:
        rows: a list of dicts, an Arrow table, a record batch, a list of these, or whatever Arrow can read.
        schema: of the table. Columns that are not given are null.
        target: what the table is called in messages.

    Raises:
        TypeError: these are no rows.
        ValueError: a column is none of the table, or a value does not fit its type (`pyarrow.ArrowInvalid`).
    """
    if isinstance(rows, (list, tuple)):
        if all(isinstance(row, Mapping) for row in rows):
            _check_names({name: None for row in rows for name in row}, schema, target)
            return pa.Table.from_pylist(rows, schema=schema)
        return pa.concat_tables([fitted_rows(each, schema, target) for each in rows])
    table = _table_of(rows)
    _check_names(dict.fromkeys(table.column_names), schema, target)
    columns = [
        table.column(field.name).cast(field.type)
        if field.name in table.column_names
        else pa.nulls(len(table), field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)


def _table_of(rows: Any) -> pa.Table:
    if hasattr(rows, "__arrow_c_stream__"):
        return pa.table(rows)
    if hasattr(rows, "__arrow_c_array__"):
        return pa.Table.from_batches([pa.record_batch(rows)])
    raise TypeError(
        f"append() was given a value of the type {type(rows).__name__}, which has no rows."
        "\nGive it a list of dicts, an Arrow table, a record batch, or a data frame."
    )


def _check_names(names: Mapping[str, None], schema: pa.Schema, target: str) -> None:
    known = set(schema.names)
    unknown = [name for name in names if name not in known]
    if unknown:
        shown = ", ".join(short_repr(name) for name in unknown[:_MOST_NAMED])
        raise ValueError(
            f"{target} has no column {shown}{' and others' if len(unknown) > _MOST_NAMED else ''}."
            f"\nIts columns are {', '.join(schema.names)}."
        )
