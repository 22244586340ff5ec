"""A task whose retries are edited between two attempts."""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG
from job_operators import POLL, Ours  # type: ignore[import-not-found]

from airflow_resume import ResumePolicy

RETRIES = 3

with DAG("edited_retries", schedule=None, default_args={"retries": RETRIES, "retry_delay": timedelta(seconds=1)}):
    Ours(task_id="run", resume_policy=ResumePolicy(poll=POLL))
