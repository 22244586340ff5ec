"""Airflow's policy of a Dag: tasks become resumable when `[airflow_resume] upgrade` says so.

Airflow finds this module by the entry point `airflow.policy`, and imports it in every process. It applies the policy
whenever it reads a Dag file: in the Dag processor and in the worker. So nothing else is imported here, and without the
setting, or a task that it may be for, nothing is done.

In `airflow celery worker`, it also loads what tells the tasks of the worker that the worker shuts down.
"""

from __future__ import annotations

import os
import sys
from functools import lru_cache
from typing import TYPE_CHECKING

from pluggy import HookimplMarker

if TYPE_CHECKING:
    from airflow.sdk import DAG

# Not that of airflow.policies: to import Airflow here would make it register this module before it is complete.
hookimpl = HookimplMarker("airflow.policy")

SECTION, UPGRADE, EXCEPT = "airflow_resume", "upgrade", "upgrade_except"
VARIABLES = tuple(f"AIRFLOW__AIRFLOW_RESUME__{option.upper()}" for option in (UPGRADE, EXCEPT))


@hookimpl
def dag_policy(dag: DAG) -> None:
    """Upgrade the tasks of a Dag that was just read. It raises nothing: an error here would be one of every Dag.

    Args:
        dag: as its file has made it.
    """
    items, exceptions = setting()
    if not items:
        return
    from airflow_resume_mixins.providers.index import may_be_named

    if not may_be_named(items, {task.operator_class for task in dag.tasks}):
        return
    from airflow_resume_mixins.providers.upgrade import upgrade_dag

    upgrade_dag(dag, items, exceptions)


def setting() -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The items of `upgrade` and of `upgrade_except`; none without the setting."""
    # Cached by the environment, as `airflow_resume.deployment` is.
    return _configured(*map(os.environ.get, VARIABLES))


@lru_cache(maxsize=4)
def _configured(_upgrade: str | None, _except: str | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    from airflow_resume.compat import conf

    def items(option: str) -> tuple[str, ...]:
        given: str = conf.get(SECTION, option, fallback=None) or ""
        return tuple(item for part in given.split(",") if (item := part.strip()))

    return items(UPGRADE), items(EXCEPT)


def is_celery_worker(arguments: list[str]) -> bool:
    """Whether a process with these arguments is `airflow celery worker`. Celery's children have them too."""
    return arguments[1:3] == ["celery", "worker"]


if is_celery_worker(sys.argv):
    import airflow_resume.celery_worker  # noqa: F401  it connects itself to a signal of Celery
