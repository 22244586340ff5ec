"""Dags that know nothing of airflow-resume. The setting upgrades all tasks but that of the last Dag."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, TaskGroup, task
from train_operators import TrainOperator  # type: ignore[import-not-found]

RETRY: Any = {"retries": 3, "retry_delay": timedelta(seconds=1)}

with DAG("fleet_plain", schedule=None, default_args=RETRY):

    @task
    def use(result: Any) -> Any:
        return result["job"]

    use(TrainOperator(task_id="run").output)

with DAG("fleet_mapped", schedule=None, default_args=RETRY):
    TrainOperator.partial(task_id="run").expand(item=["-a", "-b"])

with DAG("fleet_group", schedule=None, default_args=RETRY), TaskGroup("group", prefix_group_id=False):
    EmptyOperator(task_id="end").as_teardown(setups=TrainOperator(task_id="run").as_setup())

with DAG("fleet_excepted", schedule=None, default_args=RETRY):
    TrainOperator(task_id="run")
