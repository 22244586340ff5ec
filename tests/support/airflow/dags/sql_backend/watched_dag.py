"""A Dag that is triggered by an event trigger."""

from __future__ import annotations

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, Asset, AssetWatcher
from watching import Numbers  # type: ignore[import-not-found]

WATCHED = Asset("kept_watched", watchers=[AssetWatcher(name="numbers", trigger=Numbers())])

with DAG("kept_watched", schedule=[WATCHED]):
    EmptyOperator(task_id="run")
