"""A Dag that runs for what an event trigger has seen."""

from __future__ import annotations

from airflow.sdk import DAG, Asset, AssetWatcher, task
from watching import Numbers  # type: ignore[import-not-found]

WATCHED = Asset("kept_watched", watchers=[AssetWatcher(name="numbers", trigger=Numbers())])

with DAG("kept_watched", schedule=[WATCHED]):
    task(task_id="run")(lambda: None)()
