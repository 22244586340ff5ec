"""Rows of the body, in the columns of a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from airflow_resume.sinks.lake_position import LakeWriter
from airflow_resume.sinks.lake_values import check_names, of_column, of_rows


class RowWriter(LakeWriter):
    """What the body of a loop or a window appends to. It is in memory until the commit.

    Args:
        fitted: makes an Arrow table of rows, with the columns of the table.
    """

    def __init__(self, fitted: Callable[[Any], pa.Table]) -> None:
        super().__init__()
        self._fitted = fitted

    def append(self, rows: Any) -> None:
        """Append rows. They are in memory until the commit, and then in the table.

        Args:
            rows: a list of dicts, an Arrow table, a record batch, or whatever Arrow can read, such as a data frame of
                pandas or polars. Columns that are not given are null. They are copied.

        Raises:
            TypeError, ValueError: they do not fit the table. Nothing was appended.
            SinkUnsafeError: the loop or the window is over, or another thread than its own appends.
        """
        self.check()
        table = _copied(self._fitted(rows))
        with self.lock:
            self.check()
            self.pending.append(table)

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
        ValueError: a column or a field is none of the table, or a value does not fit its type, or would be another one
            there.
    """
    if isinstance(rows, (list, tuple)):
        if all(isinstance(row, Mapping) for row in rows):
            check_names([*dict.fromkeys(name for row in rows for name in row)], schema.names, target)
            return of_rows(rows, schema, target)
        return pa.concat_tables([fitted_rows(each, schema, target) for each in rows])
    table = _table_of(rows)
    check_names(table.column_names, schema.names, target)
    columns = [
        of_column(table.column(field.name), field, target)
        if field.name in table.column_names
        else pa.nulls(len(table), field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)


def _copied(table: pa.Table) -> pa.Table:
    """A table that shares no memory with what it was made of, which the caller may use again."""
    memory = pa.BufferOutputStream()
    with pa.ipc.new_stream(memory, table.schema) as stream:
        stream.write_table(table)
    return pa.ipc.open_stream(memory.getvalue()).read_all()


def _table_of(rows: Any) -> pa.Table:
    if hasattr(rows, "__arrow_c_stream__"):
        return pa.table(rows)
    if hasattr(rows, "__arrow_c_array__"):
        return pa.Table.from_batches([pa.record_batch(rows)])
    raise TypeError(
        f"append() was given a value of the type {type(rows).__name__}, which has no rows."
        "\nGive it a list of dicts, an Arrow table, a record batch, or a data frame."
    )
