"""Millions of expired values, made by the database itself because single inserts would take minutes."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection

from airflow_resume.backends import SqlStoreBackend
from airflow_resume.backends.schema.tables import STATE

RUN = 1_000
"""Values of one Dag run; runs are written one after the other."""

_COLUMNS: dict[str, str] = {
    "dag_id": "'dag'",
    "run_id": "{run}",
    "task_id": "'task'",
    "map_index": "-1",
    "region_id": "'00000000-0000-0000-0000-000000000000'",
    "value": '\'{{"v": 1, "page": 3}}\'',
    "version": "1",
    "expires_us": "1000",
    "updated_us": "1000",
    "referenced": "0",
    "writer_hash": "''",
    "try_number": "0",
    "attempt_id": "''",
}

# {count}: how many; `n`: the number of a row. The digest need only look like one.
_NUMBERS = {
    "sqlite": "(WITH RECURSIVE numbers(n) AS (VALUES(0) UNION ALL SELECT n + 1 FROM numbers LIMIT {count})"
    " SELECT n FROM numbers) AS numbers",
    "postgresql": "generate_series(0, {count} - 1) AS numbers(n)",
    "mysql": "(SELECT seq - 1 AS n FROM seq_1_to_{count}) AS numbers",
}
_WORDS = {
    "sqlite": {"run": "'run.' || (n / {run})", "key": "'key.' || n", "digest": "lower(hex(randomblob(32)))"},
    "postgresql": {"run": "'run.' || (n / {run})", "key": "'key.' || n", "digest": "md5(n::text) || md5(n::text)"},
    "mysql": {"run": "concat('run.', n DIV {run})", "key": "concat('key.', n)", "digest": "sha2(n, 256)"},
}
_OF_RUN = {
    "sqlite": "printf('%064x', (n / {run}) * 7919)",
    "postgresql": "md5((n / {run})::text) || md5((n / {run})::text)",
    "mysql": "sha2(n DIV {run}, 256)",
}


def fill_expired(backend: SqlStoreBackend, count: int) -> None:
    """Write expired values of past Dag runs, a thousand for each run."""
    kind = backend._database.url.get_backend_name()
    words = {name: word.format(run=RUN) for name, word in _WORDS[kind].items()}
    of_run = _OF_RUN[kind].format(run=RUN)
    filled = {name: expression.format(**words) for name, expression in _COLUMNS.items()}
    filled |= {"key": words["key"], "key_hash": words["digest"], "scope_hash": of_run, "family_hash": of_run}
    names = ", ".join(quoted(kind, name) for name in filled)
    source = _NUMBERS[kind].format(count=count)
    statement = f"INSERT INTO {STATE.name} ({names}) SELECT {', '.join(filled.values())} FROM {source}"  # noqa: S608

    def fill(connection: Connection) -> Any:
        return connection.exec_driver_sql(statement)

    backend._database.transaction(fill)


def quoted(kind: str, name: str) -> str:
    return f"`{name}`" if kind == "mysql" else f'"{name}"'
