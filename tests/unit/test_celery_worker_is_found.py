"""Only `airflow celery worker` loads what tells the tasks of a Celery worker that it shuts down."""

from __future__ import annotations

import subprocess
import sys

import pytest

from airflow_resume_mixins.providers.policy import is_celery_worker

COMMANDS = {
    "a worker": (["/opt/bin/airflow", "celery", "worker"], True),
    "a worker with options": (["airflow", "celery", "worker", "-q", "heavy", "-D"], True),
    "a worker by the module": (["/site-packages/airflow/__main__.py", "celery", "worker"], True),
    "a command about workers": (["airflow", "celery", "shutdown-worker", "-H", "worker"], False),
    "flower": (["airflow", "celery", "flower"], False),
    "an edge worker": (["airflow", "edge", "worker"], False),
    "the scheduler": (["airflow", "scheduler"], False),
    "a shell": ([""], False),
    "nothing": ([], False),
}


@pytest.mark.parametrize(("arguments", "expected"), COMMANDS.values(), ids=COMMANDS)
def test_which_process_is_a_worker(arguments: list[str], expected: bool, request: pytest.FixtureRequest) -> None:  # noqa: FBT001
    print(f"{request.node.callspec.id:30} -> {'a Celery worker' if expected else 'something else'}")
    assert is_celery_worker(arguments) is expected


def test_any_other_process_loads_nothing_of_celery() -> None:
    code = """
import sys
sys.argv = ["airflow", "scheduler"]
import airflow_resume_mixins.providers.policy
print([name for name in sys.modules if name.split(".")[0] in {"celery", "kombu"} or "celery_worker" in name])
"""
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert found.stdout.strip() == "[]"
