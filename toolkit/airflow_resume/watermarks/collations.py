"""Text in a database: the collation that compares it as the cursor does, and how the database writes that."""

from __future__ import annotations

import re
from typing import Any

from airflow_resume.errors import CursorTypeError
from airflow_resume.watermarks.cursor import CursorType
from airflow_resume.watermarks.sql_bounds import Kind

BY_CODE_POINTS = "C"
_BINARY = {"postgresql": '"C"', "redshift": '"C"', "sqlite": "BINARY", "duckdb": '"C"'}
"""The collation that compares by code points."""
IN_BYTES = "CAST(CONVERT({} USING utf8mb4) AS BINARY)"
"""Text of MySQL and MariaDB in the order of its code points, whatever the character sets of column and connection are.

Not `utf8mb4_bin`, which pads with spaces: to it "a" is "a ", and comes after "a\\t".
"""
_QUOTED = {"postgresql", "redshift"}
_COLUMN = re.compile(r"""[\w.$"`\[\]]+""")


def is_plain_column(column: str) -> bool:
    """Whether it is a name alone, and no expression."""
    return _COLUMN.fullmatch(column) is not None


def is_by_code_points(cursor: CursorType[Any], kind: Kind) -> bool:
    """Whether the column is text whose code points are compared."""
    return kind == "text" or getattr(cursor, "collation", None) == BY_CODE_POINTS


def compared_text(name: str, cursor: CursorType[Any], kind: Kind, dialect: str | None) -> str:
    """A column as it is compared: with the collation that the cursor or the times in it need, or as it is."""
    if dialect == "mysql" and is_by_code_points(cursor, kind):
        return IN_BYTES.format(name)
    collation = BY_CODE_POINTS if kind == "text" and dialect in _QUOTED else getattr(cursor, "collation", None)
    if collation is None:
        return name
    return f"{name if is_plain_column(name) else f'({name})'} COLLATE {collation_name(collation, dialect)}"


def collation_name(collation: str, dialect: str | None) -> str:
    """A collation as the database writes it; of `"C"`, the one there that compares by code points.

    Raises:
        CursorTypeError: which one that is there is not known.
    """
    if collation == BY_CODE_POINTS and dialect not in _BINARY:
        raise CursorTypeError(
            f'Cursor.text(collation="C"), and which collation that is in {dialect or "this database"} is not known.',
            'Give the connection, such as window.sql("name", connection), or the collation\'s own name.',
        )
    if collation == BY_CODE_POINTS:
        return _BINARY[str(dialect)]
    return f'"{collation}"' if dialect in _QUOTED else collation
