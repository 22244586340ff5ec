"""A Dag for a fake task, with Airflow's configuration."""

from __future__ import annotations

import os
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow.sdk import DAG


def new_dag(dag_id: str) -> DAG:
    """An empty Dag."""
    from airflow.sdk import DAG

    return DAG(dag_id, schedule=None, **_configured(*configured_by()))


def configured_by() -> tuple[str | None, ...]:
    """The environment variables that configure a Dag; while they stay the same, so does the configuration."""
    return tuple(map(os.environ.get, _VARIABLES.values()))


_VARIABLES = {
    "max_active_tasks": "AIRFLOW__CORE__MAX_ACTIVE_TASKS_PER_DAG",
    "max_active_runs": "AIRFLOW__CORE__MAX_ACTIVE_RUNS_PER_DAG",
    "max_consecutive_failed_dag_runs": "AIRFLOW__CORE__MAX_CONSECUTIVE_FAILED_DAG_RUNS_PER_DAG",
    "catchup": "AIRFLOW__SCHEDULER__CATCHUP_BY_DEFAULT",
    "disable_bundle_versioning": "AIRFLOW__DAG_PROCESSOR__DISABLE_BUNDLE_VERSIONING",
}
"""Attributes of a Dag that come from Airflow's configuration, with their environment variables."""


@lru_cache(maxsize=4)
def _configured(*_values: str | None) -> dict[str, Any]:
    """Reading the configuration takes most of the time of making a Dag; in one process only its environment changes."""
    from airflow.sdk import DAG

    dag = DAG("any", schedule=None)
    return {name: getattr(dag, name) for name in _VARIABLES}
