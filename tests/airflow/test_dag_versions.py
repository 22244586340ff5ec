"""How a Dag with our options is written down: alike by every Dag processor, or each would make a version of its own."""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from airflow_settings import airflow_environment

VERSION_DAG = Path(__file__).parents[1] / "support" / "airflow" / "version_dag.py"
OTHER_SEEDS = ("1", "2", "3")


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, dict[str, Any]]]:
    """Every version of the Dag, by the hash Airflow compares, after a few processes have parsed it."""
    home = Path(tmp_path_factory.mktemp("versions"))
    dags = home / "dags"
    dags.mkdir()
    shutil.copy(VERSION_DAG, dags)
    environment = airflow_environment(home, dags, 1, None)

    def airflow(*arguments: str, seed: str = "0") -> None:
        command = [sys.executable, "-m", "airflow", *arguments]
        env = {**environment, "PYTHONHASHSEED": seed}
        done = subprocess.run(command, env=env, check=False, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr

    airflow("db", "migrate")
    airflow("dags", "reserialize")
    # A version that no run has is replaced by the next; one that has a run stays, and counts.
    airflow("dags", "trigger", "version")
    for seed in OTHER_SEEDS:
        airflow("dags", "reserialize", seed=seed)
    with closing(sqlite3.connect(home / "airflow.db")) as database:
        rows = database.execute(
            "SELECT s.dag_hash, s.data FROM dag_version v JOIN serialized_dag s ON s.dag_version_id = v.id"
            " ORDER BY v.version_number"
        ).fetchall()
    return [(dag_hash, json.loads(data)["dag"]) for dag_hash, data in rows]


def test_dag_processors_of_other_hash_seeds_agree_on_one_version(written: list[tuple[str, dict[str, Any]]]) -> None:
    (_, first), *others = written
    differing = {
        name: (first.get(name), other.get(name))
        for _, other in others
        for name in first | other
        if first.get(name) != other.get(name)
    }
    assert differing == {}
    assert len(written) == 1


def test_no_option_is_written_down_by_its_place_in_memory(written: list[tuple[str, dict[str, Any]]]) -> None:
    assert " at 0x" not in json.dumps([dag for _, dag in written])
