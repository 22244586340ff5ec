"""What only Airflow 3.4 can play. `make next` runs these tests; the other suites do not look here."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from stage import Stage
from tests.support.airflow.job_dag_files import few_flights

DAGS = Path(__file__).parents[1] / "support" / "airflow" / "dags" / "next"


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


@pytest.fixture(scope="session", params=[False, True], ids=["forked", "new interpreter"])
def stage(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """A real Airflow, which forks its tasks, or starts each of them in a new Python interpreter."""
    home = Path(tmp_path_factory.mktemp("next"))
    (home / "lines").mkdir()
    env = {
        "NEXT_FOLDER": str(home / "lines"),
        "AIRFLOW__CORE__EXECUTE_TASKS_NEW_PYTHON_INTERPRETER": str(request.param),
    }
    with Stage(home, dags=DAGS, flights=few_flights(home), env=env, progress=say) as running:
        for dag_id in ("iterations", "waits"):
            running.airflow.wait_until_parsed(dag_id, timeout=180)
        yield running
