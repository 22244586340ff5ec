"""One Dag for each way to wait for a job; the task is `run`."""

from __future__ import annotations

import json
import os
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, get_current_context, task
from job_operators import (  # type: ignore[import-not-found]
    POLL,
    Airflows,
    AirflowsDeferred,
    AirflowsMapped,
    Ours,
    OursDeferred,
    OursMapped,
    OursPolled,
    WithoutCancelling,
    jobs_of,
    result_of,
    seconds_of,
)

from airflow_resume import ResumePolicy, run_job

POLICY: dict[str, Any] = {"resume_policy": ResumePolicy(poll=POLL)}
RESUMING: dict[str, Any] = {"resume_policy": ResumePolicy(poll=POLL, on_clear="resume")}
STAYING: dict[str, Any] = {"resume_policy": ResumePolicy(poll=POLL, on_shutdown="wait")}
SHORT: dict[str, Any] = {"execution_timeout": timedelta(seconds=8)}
RETRIES: dict[str, Any] = {"retries": 8, "retry_delay": timedelta(seconds=1)}

for dag_id, operator, options in [
    ("ours", Ours, POLICY),
    ("ours_short", Ours, {**POLICY, **SHORT}),
    ("ours_deferred", OursDeferred, POLICY),
    ("ours_polled", OursPolled, POLICY),
    ("ours_polled_resuming", OursPolled, RESUMING),
    ("ours_resuming", Ours, RESUMING),
    ("ours_staying", Ours, STAYING),
    ("ours_once", Ours, {**POLICY, "retries": 0}),
    ("ours_without_cancelling", WithoutCancelling, POLICY),
    ("airflows", Airflows, {}),
    ("airflows_short", Airflows, {**SHORT, "retries": 2}),
    ("airflows_deferred", AirflowsDeferred, {}),
]:
    with DAG(dag_id, schedule=None, default_args=RETRIES):
        operator(task_id="run", **options)


with DAG("ours_function", schedule=None, default_args=RETRIES):

    @task(task_id="run")
    def function() -> Any:
        context = get_current_context()
        service = jobs_of(context)

        class Delays:
            def submit(self, token: str) -> Any:
                return service.submit(token, seconds=seconds_of(context))

            def result(self, job_id: int) -> Any:
                return result_of(job_id, context)

            status, find, cancel = service.status, service.find, service.cancel

        return run_job(Delays(), policy=POLICY["resume_policy"])

    function()


with DAG("ours_external_python", schedule=None):

    @task.external_python(task_id="run", python=sys.executable, expect_airflow=False)
    def subprocess() -> list[str]:
        from airflow_resume import run_job
        from airflow_resume.errors import NoStateStoreError
        from airflow_resume.testing import FakeJobs

        try:
            run_job(FakeJobs())
        except NoStateStoreError as error:
            return str(error).splitlines()
        return []

    subprocess()


def items_file(run_id: str) -> Path:
    """What a person may change before the tasks are cleared."""
    return Path(os.environ["AIRFLOW_HOME"]) / f"{run_id}.json"


for dag_id, mapped, options in [("ours_mapped", OursMapped, POLICY), ("airflows_mapped", AirflowsMapped, {})]:
    with DAG(dag_id, schedule=None, default_args=RETRIES):

        @task
        def items() -> list[float]:
            return list(json.loads(items_file(get_current_context()["run_id"]).read_text()))

        mapped.partial(task_id="run", **options).expand(item=items())
