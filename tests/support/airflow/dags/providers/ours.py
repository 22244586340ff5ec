"""The same tasks with other import lines, and two of them waiting in their workers."""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG
from arguments import ATHENA, DATABRICKS, RETRY, SSH, STEP_FUNCTION  # type: ignore[import-not-found]

from airflow_resume import PollPolicy, ResumePolicy
from airflow_resume_mixins.providers.amazon import AthenaOperator, StepFunctionStartExecutionOperator
from airflow_resume_mixins.providers.databricks import DatabricksSubmitRunOperator
from airflow_resume_mixins.providers.ssh import SSHRemoteJobOperator

PAUSE = timedelta(seconds=2)
POLICY = ResumePolicy(poll=PollPolicy(interval=PAUSE, max_interval=PAUSE))


class StepFunctionInWorker(StepFunctionStartExecutionOperator):
    """Without a trigger: that needs aiobotocore, and no release of it takes the botocore of our constraints."""

    job_trigger = None  # type: ignore[assignment]


class SSHInWorker(SSHRemoteJobOperator):
    deferrable = False


with DAG("ours", schedule=None, default_args={**RETRY, "resume_policy": POLICY}) as ours:
    AthenaOperator(task_id="athena", **ATHENA)
    StepFunctionStartExecutionOperator(task_id="step_function", **STEP_FUNCTION)
    StepFunctionInWorker(task_id="step_function_in_worker", deferrable=True, **STEP_FUNCTION)
    DatabricksSubmitRunOperator(task_id="databricks", **DATABRICKS)
    SSHRemoteJobOperator(task_id="ssh", **SSH)
    SSHInWorker(task_id="ssh_in_worker", **SSH)
