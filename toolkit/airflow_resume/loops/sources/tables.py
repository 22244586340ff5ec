"""Pages that are tables: data frames of pandas and polars, Arrow tables and batches. No such library is imported."""

from __future__ import annotations

from typing import Any


def is_table(items: object) -> bool:
    """Whether it holds columns, so that iterating it would not give rows."""
    return hasattr(items, "columns") and hasattr(items, "shape")


def column_names(table: Any) -> list[str]:
    """The names of its columns."""
    return [str(name) for name in (table.column_names if hasattr(table, "column_names") else table.columns)]


def column(table: Any, name: str) -> list[Any]:
    """The values of a column, one for each row, as Python's own types where the library has them."""
    found = table.column(name) if hasattr(table, "column_names") else table[name]
    for to_list in ("to_pylist", "to_list", "tolist"):
        if hasattr(found, to_list):
            return list(getattr(found, to_list)())
    return list(found)


def head(items: Any, count: int) -> Any:
    """The first rows of a page, whatever it is."""
    return items.slice(0, count) if is_table(items) and hasattr(items, "slice") else items[:count]


def as_rows(table: Any) -> list[dict[str, Any]]:
    """A dict for each row."""
    if hasattr(table, "to_pylist"):
        return list(table.to_pylist())
    return list(table.to_dicts() if hasattr(table, "to_dicts") else table.to_dict("records"))


def rows_line(items: object) -> str:
    """An expression that makes a list of rows of it, for messages."""
    if hasattr(items, "to_pylist"):
        return "table.to_pylist()"
    return "frame.to_dicts()" if hasattr(items, "to_dicts") else "frame.to_dict('records')"
