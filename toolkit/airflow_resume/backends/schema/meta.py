"""The row in `airflow_resume_meta`, read strictly: anything unexpected in it is an error that says what to do.

Anyone with a client of the database can write to the row. If a wrong number was not checked, it would cause an error
later, with a message that does not lead to the row. If a wrong id was not checked, no reference would have this id, and
a cleanup would use it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from airflow_resume.errors import SchemaError
from airflow_resume.shown import short_repr

TABLE = "airflow_resume_meta"
_ID = re.compile(r"[0-9a-f]{32}")
_MOST = 2**31 - 1
_CHANGE = f"UPDATE {TABLE} SET"
_REMEDIES: Mapping[str, str] = {
    "version": f"If no newer airflow-resume has used this database: {_CHANGE} version = 1.",
    "schema_version": f"{_CHANGE} schema_version = 1; the next use looks at the tables, and goes on from there.",
    "store_id": "Put back the id that Airflow's references have (32 hexadecimal digits after airflow-resume:1:), or any"
    f" such where there are no references: {_CHANGE} store_id = '...'.",
    "former_ids": "Put the ids back, with a blank between them; or forget them, and a cleanup no longer keeps what"
    f" references with them lead to: {_CHANGE} former_ids = NULL.",
}
_ONE_ROW = "Delete the rows whose store_id is not in Airflow's references."
_NO_COLUMN = "Restore the table from a backup, or add the column again, and its value. "


@dataclass(frozen=True, kw_only=True)
class MetaRow:
    """The row; version 0 if there is no row."""

    version: int = 0
    needs: int = 0
    store_id: str | None = None
    former_ids: Sequence[str] = ()
    """The ids that the database had before, oldest first."""


def read_meta(rows: Sequence[Mapping[str, Any]], where: str, *, known: int) -> MetaRow:
    """The row of the table.

    Args:
        rows: all rows of the table.
        where: the database, for people.
        known: the newest version of the tables that this program knows. If the tables need a newer program, only the
            numbers are read.

    Raises:
        SchemaError: the row was not written by this package.
    """
    if not rows:
        return MetaRow()
    if len(rows) > 1:
        raise SchemaError(
            f"{where} has more than one row in {TABLE}, and so no one id.", _ONE_ROW, problem="damaged", where=where
        )
    (row,) = rows
    needs = _number(row, "version", where)
    version = max(needs, _number(row, "schema_version", where) if "schema_version" in row else 1)
    if needs > known:
        return MetaRow(version=version, needs=needs)
    former = _column(row, "former_ids", where) if version > 1 else row.get("former_ids")
    if former is not None and not isinstance(former, str):
        raise _wrong(former, "former_ids", "no text", where)
    return MetaRow(
        version=version,
        needs=needs,
        store_id=_id(_column(row, "store_id", where), "store_id", where),
        former_ids=[_id(each, "former_ids", where) for each in (former or "").split()],
    )


def _column(row: Mapping[str, Any], name: str, where: str) -> Any:
    if name not in row:
        raise SchemaError(
            f"{where} has no column {name} in {TABLE}.", _NO_COLUMN + _REMEDIES[name], problem="damaged", where=where
        )
    return row[name]


def _number(row: Mapping[str, Any], name: str, where: str) -> int:
    found = _column(row, name, where)
    if type(found) is not int or not 1 <= found <= _MOST:
        raise _wrong(found, name, "no whole number from 1 on", where)
    return found


def _id(found: object, name: str, where: str) -> str:
    if not isinstance(found, str) or not _ID.fullmatch(found):
        raise _wrong(found, name, "not 32 hexadecimal digits", where)
    return found


def _wrong(found: object, name: str, what: str, where: str) -> SchemaError:
    return SchemaError(
        f"{where} has {short_repr(found)} as {name} in {TABLE}, which is {what}.",
        _REMEDIES[name],
        problem="damaged",
        where=where,
    )
