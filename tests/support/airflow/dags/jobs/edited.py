"""A task whose import is edited between two attempts; the Dag is named like the file."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from airflow.sdk import DAG, BaseOperator, ResumableJobMixin
from job_operators import Waiting  # type: ignore[import-not-found]


class Train(Waiting, ResumableJobMixin, BaseOperator):  # type: ignore[misc]
    pass


with DAG(Path(__file__).stem, schedule=None, default_args={"retries": 8, "retry_delay": timedelta(seconds=1)}):
    Train(task_id="run")
