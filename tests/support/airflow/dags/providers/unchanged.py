"""Two Dags that know nothing of airflow-resume. The setting upgrades all tasks but those of `theirs`."""

from __future__ import annotations

from airflow.providers.amazon.aws.operators.athena import AthenaOperator
from airflow.providers.amazon.aws.operators.step_function import StepFunctionStartExecutionOperator
from airflow.providers.databricks.operators.databricks import DatabricksSubmitRunOperator
from airflow.providers.ssh.operators.ssh_remote_job import SSHRemoteJobOperator
from airflow.sdk import DAG
from arguments import ATHENA, DATABRICKS, RETRY, SSH, STEP_FUNCTION  # type: ignore[import-not-found]

for dag_id in ("upgraded", "theirs"):
    with DAG(dag_id, schedule=None, default_args=RETRY) as dag:
        AthenaOperator(task_id="athena", **ATHENA)
        StepFunctionStartExecutionOperator(task_id="step_function", **STEP_FUNCTION)
        DatabricksSubmitRunOperator(task_id="databricks", **DATABRICKS)
        SSHRemoteJobOperator(task_id="ssh", **SSH)
    globals()[dag_id] = dag
