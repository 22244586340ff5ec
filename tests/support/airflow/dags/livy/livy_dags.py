"""The same task twice: with the provider's operator and with the wrapped one."""

from __future__ import annotations

from datetime import timedelta

from airflow.providers.apache.livy.operators.livy import LivyOperator
from airflow.sdk import DAG

from airflow_resume_mixins import ResumableJobMixin


class Livy(ResumableJobMixin, LivyOperator):
    """The one line that wraps the operator."""


for dag_id, kind in (("alone", LivyOperator), ("wrapped", Livy)):
    with DAG(dag_id, schedule=None) as dag:
        kind(task_id="run", file="job.py", polling_interval=1, retries=3, retry_delay=timedelta(seconds=1))
    globals()[dag_id] = dag
