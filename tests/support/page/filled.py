"""Rows in a metadata database: Dags, runs, task instances, assets and their records, without running any."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import cached_property
from itertools import chain, count
from typing import Any
from uuid import uuid4

from sqlalchemy import create_engine, inspect, text
from sqlalchemy.pool import NullPool

RUN = "scheduled__2026-01-05T00:00:00+00:00"


@dataclass
class Filled:
    """A metadata database that is being filled."""

    url: str
    ids: count[int] = field(default_factory=lambda: count(1))
    runs: dict[tuple[str, str], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # Each statement has a connection of its own, as the server is at work on the same database.
        self.engine = create_engine(self.url, poolclass=NullPool)

    @cached_property
    def columns(self) -> dict[str, set[str]]:
        """Of each table."""
        looked = inspect(self.engine)
        return {table: {column["name"] for column in looked.get_columns(table)} for table in looked.get_table_names()}

    def _insert(self, table: str, *rows: Mapping[str, Any]) -> None:
        fitting = [self._fitting(table, row) for row in rows]
        quote = self.engine.dialect.identifier_preparer.quote
        names, places = ", ".join(map(quote, fitting[0])), ", ".join(f":{name}" for name in fitting[0])
        with self.engine.begin() as connection:
            connection.execute(text(f"insert into {table} ({names}) values ({places})"), fitting)  # noqa: S608

    def _fitting(self, table: str, row: Mapping[str, Any]) -> dict[str, Any]:
        found = dict(row)
        if "map_index" in found and "region_index" in self.columns[table]:  # Airflow 3.4
            found["region_index"] = found.pop("map_index")
        return {name: value for name, value in found.items() if name in self.columns[table]}

    def _ask(self, query: str, **given: Any) -> list[tuple[Any, ...]]:
        with self.engine.begin() as connection:
            done = connection.execute(text(query), given)
            return [tuple(row) for row in done] if done.returns_rows else []

    def dag(self, dag_id: str) -> None:
        self._insert("dag_bundle", {"name": f"bundle of {dag_id}", "active": True})
        settings = {
            "is_paused": False, "is_stale": False, "timetable_type": "", "partition_mapper_info": "{}",
            "max_active_tasks": 16, "max_consecutive_failed_dag_runs": 0, "has_task_concurrency_limits": False,
        }  # fmt: skip
        self._insert("dag", {"dag_id": dag_id, "bundle_name": f"bundle of {dag_id}", **settings})

    def run(self, dag_id: str, run_id: str = RUN) -> None:
        number = next(self.ids)
        self.runs[dag_id, run_id] = number
        which = {"id": number, "dag_id": dag_id, "run_id": run_id}
        self._insert("dag_run", {**which, "run_type": "manual", "run_after": now(), "state": "failed"})

    def task(
        self, dag_id: str, task_id: str, *, run_id: str = RUN, state: str | None = "failed", map_index: int = -1,
        records: Mapping[str, Any], link: str | None = None,
    ) -> None:  # fmt: skip
        """A task instance with its records, and maybe with the XCom of the link to its job."""
        if (dag_id, run_id) not in self.runs:
            self.run(dag_id, run_id)
        its = {"dag_id": dag_id, "run_id": run_id, "task_id": task_id, "map_index": map_index}
        instance = uuid4().hex
        self._insert("task_instance", {"id": instance, "state": state, "start_date": now(), **_TRIED, **its})
        number = self.runs[dag_id, run_id]
        if records:
            self._insert("task_state_store", *self._states(number, its, records))
        if link is not None:
            xcom = {"key": "_link_JobLink", "value": json.dumps(link), "timestamp": now()}
            if "xcom" in self.columns:
                self._insert("xcom", {"dag_run_id": number, **xcom, **its})
            else:  # Airflow 3.4
                self._insert("xcom_v2", {"id": uuid4().hex, "task_instance_id": instance, **xcom})

    def many(self, dag_id: str, task_id: str, of_each: Sequence[Mapping[str, Any]]) -> None:
        """Mapped instances of a task that run, each with its records."""
        self.run(dag_id)
        number = self.runs[dag_id, RUN]
        places = [
            {"dag_id": dag_id, "run_id": RUN, "task_id": task_id, "map_index": index} for index in range(len(of_each))
        ]
        running = {"state": "running", "start_date": now(), **_TRIED}
        self._insert("task_instance", *({"id": uuid4().hex, **running, **place} for place in places))
        states = (self._states(number, *each) for each in zip(places, of_each, strict=True))
        self._insert("task_state_store", *chain.from_iterable(states))

    def _states(self, number: int, its: Mapping[str, Any], records: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        for key, value in records.items():
            yield {"dag_run_id": number, "key": key, "value": json.dumps(value), "updated_at": now(), **its}

    def asset(self, name: str, records: Mapping[str, Any]) -> int:
        number = next(self.ids)
        times = {"created_at": now(), "updated_at": now()}
        self._insert("asset", {"id": number, "name": name, "uri": name, "group": "asset", "extra": "{}", **times})
        self._insert("asset_active", {"name": name, "uri": name})
        for key, value in records.items():
            state = {"asset_id": number, "key": key, "value": json.dumps(value), "updated_at": now()}
            self._insert("asset_state_store", state)
        return number

    def stored(self, task_id: str, key: str) -> Any:
        """A record as it is in the database."""
        query = "select value from task_state_store where task_id = :task_id and key = :key"
        return json.loads(self._ask(query, task_id=task_id, key=key)[0][0])

    def stored_mark(self, asset_id: int, key: str) -> Any:
        query = "select value from asset_state_store where asset_id = :asset_id and key = :key"
        return json.loads(self._ask(query, asset_id=asset_id, key=key)[0][0])

    def change(self, task_id: str, key: str, value: Any) -> None:
        """As its task does when it saves."""
        query = "update task_state_store set value = :value where task_id = :task_id and key = :key"
        self._ask(query, value=json.dumps(value), task_id=task_id, key=key)

    def state(self, task_id: str, state: str | None) -> None:
        self._ask("update task_instance set state = :state where task_id = :task_id", state=state, task_id=task_id)

    def audit(self) -> list[tuple[Any, ...]]:
        """Who has changed what."""
        return self._ask("select event, owner, dag_id, task_id, extra from log where event like 'resume.%' order by id")


_TRIED = {"try_number": 1, "max_tries": 0, "pool": "default_pool", "pool_slots": 1}


def now() -> str:
    """As Airflow writes times into SQLite."""
    return f"{datetime.now(timezone.utc):%Y-%m-%d %H:%M:%S.%f}"
