"""Tasks that wait for a job, with our mixin, with Airflow's, and with none; jobs are labelled by the run."""

from __future__ import annotations

import json
import os
from datetime import timedelta
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, BaseOperator, get_current_context, task
from airflow.sdk import ResumableJobMixin as AirflowResumableJobMixin

from airflow_resume import PollPolicy, ResumePolicy, run_job
from airflow_resume_mixins import ResumableJobMixin
from clients import Jobs

POLL = PollPolicy(interval=timedelta(seconds=0.5), max_interval=timedelta(seconds=0.5))
POLICY = ResumePolicy(poll=POLL)
DEFAULTS: dict[str, Any] = {"retries": 8, "retry_delay": timedelta(seconds=1)}


def jobs_of(context: Any) -> Jobs:
    return Jobs("JOBS_URL", label=context["run_id"])


def seconds_of(context: Any) -> float:
    return float(context["dag_run"].conf.get("seconds", 4))


class Hooks:
    """What both mixins ask for."""

    submission_token: str | None = None

    def execute(self, context: Any) -> Any:
        return self.execute_resumable(context)  # type: ignore[attr-defined]

    def submit_job(self, context: Any) -> int:
        return jobs_of(context).submit(self.submission_token, seconds=seconds_of(context))

    def get_job_status(self, external_id: Any, context: Any) -> str:
        return jobs_of(context).status(external_id)

    def is_job_active(self, status: str) -> bool:
        return status == "RUNNING"

    def is_job_succeeded(self, status: str) -> bool:
        return status == "SUCCEEDED"

    def get_job_result(self, external_id: Any, context: Any) -> Any:
        return {"job": external_id, "carriers": len(jobs_of(context).result(external_id))}


class OurTrain(Hooks, ResumableJobMixin, BaseOperator):
    def find_job(self, token: str, context: Any) -> int | None:
        return jobs_of(context).find(token)

    def cancel_job(self, external_id: Any, context: Any) -> None:
        jobs_of(context).cancel(external_id)


class DeferredTrain(OurTrain):
    deferrable = True

    def job_trigger(self, external_id: Any, context: Any) -> Any:
        from job_ended import JobEnded  # type: ignore[import-not-found]

        return JobEnded(label=context["run_id"], job_id=external_id)


class MappedTrain(OurTrain):
    def __init__(self, *, item: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.item = item

    def job_inputs(self, context: Any) -> Any:
        return self.item

    def get_job_result(self, external_id: Any, context: Any) -> Any:
        return {"job": external_id, "item": self.item}


class AirflowsTrain(Hooks, AirflowResumableJobMixin, BaseOperator):
    """As its documentation and the operators of the providers have it."""

    job: tuple[Any, Any] | None = None

    def submit_job(self, context: Any) -> int:
        self.job = super().submit_job(context), context
        return self.job[0]

    def poll_until_complete(self, external_id: Any, context: Any) -> None:
        import time

        self.job = external_id, context
        while self.is_job_active(status := self.get_job_status(external_id, context)):
            time.sleep(0.5)
        if not self.is_job_succeeded(status):
            raise RuntimeError(status)

    def on_kill(self) -> None:
        if self.job is not None:
            jobs_of(self.job[1]).cancel(self.job[0])


for mixin, operator, options in [
    ("ours", OurTrain, {"resume_policy": POLICY}),
    ("ours_resuming", OurTrain, {"resume_policy": ResumePolicy(on_clear="resume", poll=POLL)}),
    ("ours_short", OurTrain, {"resume_policy": POLICY, "execution_timeout": timedelta(seconds=3)}),
    ("ours_deferred", DeferredTrain, {"resume_policy": POLICY}),
    ("airflows", AirflowsTrain, {}),
]:
    with DAG(mixin, schedule=None, default_args=DEFAULTS):
        operator(task_id="run", **options)  # type: ignore[arg-type]


with DAG("ours_function", schedule=None, default_args=DEFAULTS):

    @task(task_id="run")
    def function() -> Any:
        context = get_current_context()
        service = jobs_of(context)

        class Delays:
            def submit(self, token: str) -> int:
                return service.submit(token, seconds=seconds_of(context))

            status, find, cancel, result = service.status, service.find, service.cancel, service.result

        return len(run_job(Delays(), policy=POLICY))

    function()


with DAG("ours_mapped", schedule=None, default_args=DEFAULTS):

    @task
    def items() -> list[str]:
        """What a person may change before the tasks are cleared."""
        file = Path(os.environ["AIRFLOW_HOME"]) / f"{get_current_context()['run_id']}.json"
        return list(json.loads(file.read_text())) if file.exists() else ["a", "b"]

    MappedTrain.partial(task_id="run", resume_policy=POLICY).expand(item=items())
