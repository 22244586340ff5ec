"""Asks for a page in this process, and prints how many queries it takes and how long.

python -m tests.support.page.measured HOME INSTANCES...
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

OURS = ("task_state_store", "asset_state_store")
"""The tables of records: a query that reads one of them is one of the page's own."""
TIMES = 15


def fill(home: Path, instances: int) -> None:
    """A Dag run of so many mapped task instances, each with a loop."""
    from tests.support.operating.records import LOOP, moved_mark, stopped_loop
    from tests.support.page.filled import Filled
    from tests.support.watermarks.whole_numbers import MARK

    filled, record = Filled(f"sqlite:///{home}/airflow.db"), stopped_loop()
    filled.dag("d")
    filled.many("d", "load", [{LOOP: {**record, "state": {"index": index}}} for index in range(instances)])
    filled.asset("orders", {MARK: moved_mark()})


def measured(instances: int) -> dict[str, Any]:
    """How many queries the page of the run takes, all and its own, and the median of its milliseconds."""
    from airflow import settings
    from airflow.api_fastapi.app import init_auth_manager
    from airflow.api_fastapi.core_api.security import get_user
    from fastapi import FastAPI
    from fastapi.testclient import TestClient
    from sqlalchemy import event

    from airflow_resume.page.addresses import PREFIX
    from airflow_resume.page.app import create_app
    from tests.support.page.filled import RUN

    page, outer = create_app(), FastAPI()
    manager = init_auth_manager(outer)
    user = manager.deserialize_user({"sub": "ana", "role": "ADMIN", "teams": []})
    page.dependency_overrides[get_user] = lambda: user
    outer.mount(PREFIX, page)
    queries: list[str] = []

    @event.listens_for(settings.engine, "before_cursor_execute")
    def note(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        queries.append(statement)

    with TestClient(outer) as client:

        def ask(path: str) -> tuple[list[str], float, str]:
            queries.clear()
            began = time.perf_counter()
            answer = client.get(f"{PREFIX}/{path}")
            took = 1000 * (time.perf_counter() - began)
            answer.raise_for_status()
            return [*queries], took, answer.text

        paths = {
            "run": f"run?dag_id=d&run_id={RUN.replace('+', '%2B')}&part=1",
            "dag": "dag?dag_id=d&part=1",
            "task": f"task?dag_id=d&run_id={RUN.replace('+', '%2B')}&task_id=load&map_index=0&part=1",
            "marks": "marks?part=1",
        }
        found: dict[str, Any] = {"instances": instances}
        for name, path in paths.items():
            ask(path)
            looks = [ask(path) for _ in range(TIMES)]
            asked, _, text = looks[-1]
            found[name] = {
                "queries": len(asked),
                "own": sum(any(table in each for table in OURS) for each in asked),
                "ms": round(statistics.median(took for _, took, _ in looks), 2),
                "bytes": len(text),
            }
    return found


def environment(home: Path) -> dict[str, str]:
    """Of an Airflow in a folder."""
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW")},
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home}/airflow.db",
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__AIRFLOW_RESUME__PAGE": "True",
        "AIRFLOW__API_AUTH__JWT_SECRET": "x" * 64,
        "AIRFLOW__API__SECRET_KEY": "y" * 32,
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(home / "passwords.json"),
    }


def measure(home: Path, instances: int) -> dict[str, Any]:
    """The same in a process of its own, on a database of its own."""
    home = home / str(instances)
    home.mkdir(parents=True)
    env = environment(home)
    subprocess.run([sys.executable, "-m", "airflow", "db", "migrate"], env=env, check=True, capture_output=True)
    command = [sys.executable, "-m", __name__, str(home), str(instances)]
    said = subprocess.run(command, env=env, check=True, capture_output=True, text=True).stdout
    found: dict[str, Any] = json.loads(said.splitlines()[-1])
    return found


if __name__ == "__main__":
    fill(Path(sys.argv[1]), int(sys.argv[2]))
    print(json.dumps(measured(int(sys.argv[2]))))
