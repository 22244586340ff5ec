"""Rows in a metadata database (SQLite): Dags, runs, task instances, assets and their records, without running any."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Any
from uuid import uuid4

RUN = "scheduled__2026-01-05T00:00:00+00:00"


@dataclass
class Filled:
    """A metadata database that is being filled."""

    database: Path
    ids: count[int] = field(default_factory=lambda: count(1))
    runs: dict[tuple[str, str], int] = field(default_factory=dict)

    @cached_property
    def columns(self) -> dict[str, set[str]]:
        """Of each table."""
        with closing(sqlite3.connect(self.database, timeout=60)) as connection:
            tables = [name for (name,) in connection.execute("select name from sqlite_master where type = 'table'")]
            return {table: {row[1] for row in connection.execute(f"pragma table_info({table})")} for table in tables}

    def _insert(self, table: str, **row: Any) -> None:
        if "map_index" in row and "region_index" in self.columns[table]:  # Airflow 3.4
            row["region_index"] = row.pop("map_index")
        row = {name: value for name, value in row.items() if name in self.columns[table]}
        names, places = ", ".join(f'"{name}"' for name in row), ", ".join("?" for _ in row)
        with closing(sqlite3.connect(self.database, timeout=60)) as connection, connection:
            connection.execute(f"insert into {table} ({names}) values ({places})", [*row.values()])  # noqa: S608

    def dag(self, dag_id: str) -> None:
        self._insert("dag_bundle", name=f"bundle of {dag_id}")
        self._insert(
            "dag",
            dag_id=dag_id,
            is_paused=0,
            is_stale=0,
            bundle_name=f"bundle of {dag_id}",
            timetable_type="",
            partition_mapper_info="{}",
            max_active_tasks=16,
            max_consecutive_failed_dag_runs=0,
            has_task_concurrency_limits=0,
        )

    def run(self, dag_id: str, run_id: str = RUN) -> None:
        number = next(self.ids)
        self.runs[dag_id, run_id] = number
        self._insert(
            "dag_run", id=number, dag_id=dag_id, run_id=run_id, run_type="manual", run_after=now(), state="failed"
        )

    def task(
        self, dag_id: str, task_id: str, *, run_id: str = RUN, state: str | None = "failed", map_index: int = -1,
        records: Mapping[str, Any], link: str | None = None,
    ) -> None:  # fmt: skip
        if (dag_id, run_id) not in self.runs:
            self.run(dag_id, run_id)
        its = {"dag_id": dag_id, "run_id": run_id, "task_id": task_id, "map_index": map_index}
        instance = uuid4().hex
        self._insert(
            "task_instance", id=instance, state=state, try_number=1, max_tries=0, pool="default_pool", pool_slots=1,
            start_date=now(), **its,
        )  # fmt: skip
        number = self.runs[dag_id, run_id]
        for key, value in records.items():
            text = json.dumps(value)
            self._insert("task_state_store", dag_run_id=number, key=key, value=text, updated_at=now(), **its)
        if link is not None:
            text = json.dumps(link)
            if "xcom" in self.columns:
                self._insert("xcom", dag_run_id=number, key="_link_JobLink", value=text, timestamp=now(), **its)
            else:  # Airflow 3.4
                which = {"id": uuid4().hex, "task_instance_id": instance}
                self._insert("xcom_v2", **which, key="_link_JobLink", value=text, timestamp=now())

    def many(self, dag_id: str, task_id: str, of_each: Sequence[Mapping[str, Any]]) -> None:
        """Mapped instances of a task, each with its records, in one transaction."""
        self.run(dag_id)
        run = self.runs[dag_id, RUN]
        instances = [(uuid4().hex, dag_id, RUN, task_id, index, now()) for index in range(len(of_each))]
        states = [
            (run, dag_id, RUN, task_id, index, key, json.dumps(value), now())
            for index, records in enumerate(of_each)
            for key, value in records.items()
        ]
        with closing(sqlite3.connect(self.database, timeout=60)) as connection, connection:
            connection.executemany(
                "insert into task_instance (id, dag_id, run_id, task_id, map_index, start_date, state, try_number,"
                " max_tries, pool, pool_slots) values (?, ?, ?, ?, ?, ?, 'running', 1, 0, 'default_pool', 1)",
                instances,
            )
            connection.executemany(
                "insert into task_state_store (dag_run_id, dag_id, run_id, task_id, map_index, key, value, updated_at)"
                " values (?, ?, ?, ?, ?, ?, ?, ?)",
                states,
            )

    def asset(self, name: str, records: Mapping[str, Any]) -> int:
        number = next(self.ids)
        times = {"created_at": now(), "updated_at": now()}
        self._insert("asset", id=number, name=name, uri=name, group="asset", extra="{}", **times)
        self._insert("asset_active", name=name, uri=name)
        for key, value in records.items():
            self._insert("asset_state_store", asset_id=number, key=key, value=json.dumps(value), updated_at=now())
        return number

    def stored(self, task_id: str, key: str) -> Any:
        """A record as it is in the database."""
        with closing(sqlite3.connect(self.database, timeout=60)) as connection:
            query = "select value from task_state_store where task_id = ? and key = ?"
            return json.loads(connection.execute(query, (task_id, key)).fetchone()[0])

    def change(self, task_id: str, key: str, value: Any) -> None:
        """As its task does when it saves."""
        with closing(sqlite3.connect(self.database, timeout=60)) as connection, connection:
            query = "update task_state_store set value = ? where task_id = ? and key = ?"
            connection.execute(query, (json.dumps(value), task_id, key))

    def stored_mark(self, asset_id: int, key: str) -> Any:
        with closing(sqlite3.connect(self.database, timeout=60)) as connection:
            query = "select value from asset_state_store where asset_id = ? and key = ?"
            return json.loads(connection.execute(query, (asset_id, key)).fetchone()[0])

    def state(self, task_id: str, state: str | None) -> None:
        with closing(sqlite3.connect(self.database, timeout=60)) as connection, connection:
            connection.execute("update task_instance set state = ? where task_id = ?", (state, task_id))

    def audit(self) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self.database, timeout=60)) as connection:
            query = (
                "select event, owner, dag_id, task_id, extra from log where event like 'resume.%' order by id"
            )
            return connection.execute(query).fetchall()


def now() -> str:
    """As Airflow writes times into SQLite."""
    return f"{datetime.now(timezone.utc):%Y-%m-%d %H:%M:%S.%f}"
