"""Operators that wait for a job of the job service, with our mixin and with Airflow's; jobs are labelled by the run."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

from airflow.sdk import BaseOperator
from airflow.sdk import ResumableJobMixin as AirflowResumableJobMixin

from airflow_resume import PollPolicy
from airflow_resume_mixins import ResumableJobMixin
from clients import Jobs

GLANCE = timedelta(seconds=0.5)
POLL = PollPolicy(interval=GLANCE, max_interval=GLANCE)
FOREVER = 600.0


def jobs_of(context: Any) -> Jobs:
    return Jobs("JOBS_URL", label=context["run_id"])


def seconds_of(context: Any) -> float:
    """The duration of the job: until the test lets it end."""
    return float(context["dag_run"].conf.get("seconds", FOREVER))


def result_of(job_id: int, context: Any) -> dict[str, Any]:
    return {"job": job_id, "delays": jobs_of(context).result(job_id)}


class Hooks:
    """The hooks that both mixins need."""

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
        return result_of(external_id, context)


class WithoutCancelling(Hooks, ResumableJobMixin, BaseOperator):
    def find_job(self, token: str, context: Any) -> int | None:
        return jobs_of(context).find(token)


class Ours(WithoutCancelling):
    def cancel_job(self, external_id: Any, context: Any) -> None:
        jobs_of(context).cancel(external_id)


class Waiting(Hooks):
    """How an operator without our mixin waits."""

    def poll_until_complete(self, external_id: Any, context: Any) -> None:
        while self.is_job_active(status := self.get_job_status(external_id, context)):
            time.sleep(GLANCE.total_seconds())
        if not self.is_job_succeeded(status):
            raise RuntimeError(status)


class Airflows(Waiting, AirflowResumableJobMixin, BaseOperator):
    """Written as Airflow's documentation shows, with the `on_kill` that operators of providers have."""

    job: tuple[Any, Any] | None = None

    def submit_job(self, context: Any) -> int:
        self.job = super().submit_job(context), context
        return self.job[0]

    def poll_until_complete(self, external_id: Any, context: Any) -> None:
        self.job = external_id, context
        super().poll_until_complete(external_id, context)

    def on_kill(self) -> None:
        if self.job is not None:
            jobs_of(self.job[1]).cancel(self.job[0])


def job_ended(job_id: int, context: Any) -> Any:
    from job_trigger import JobEnded  # type: ignore[import-not-found]

    fails_at = context["dag_run"].conf.get("first_trigger_fails_at")
    return JobEnded(
        label=context["run_id"], job_id=job_id, fails_at=fails_at if context["ti"].try_number == 1 else None
    )


class OursDeferred(Ours):
    deferrable = True

    def job_trigger(self, external_id: Any, context: Any) -> Any:
        return job_ended(external_id, context)


class OursPolled(Ours):
    """Deferrable, with a trigger that asks a client and can cancel."""

    deferrable = True

    def job_trigger(self, external_id: Any, context: Any) -> Any:
        from airflow_resume.jobs.trigger import PollJobTrigger

        trigger = PollJobTrigger(
            client="clients.Jobs",
            client_kwargs={"variable": "JOBS_URL", "label": context["run_id"]},
            external_id=external_id,
            poll=POLL,
        )
        trigger.follow(self.resume_policy)
        return trigger


class AirflowsDeferred(Airflows):
    """The deferrable path of provider operators: submit, then defer."""

    def execute(self, context: Any) -> Any:
        self.defer(trigger=job_ended(self.submit_job(context), context), method_name="execute_complete")

    def execute_complete(self, context: Any, event: Any) -> Any:
        return result_of(event["job"], context)


class Mapped(Hooks):
    """Each item is the duration of its job in seconds, so that a result shows to which item it belongs."""

    item: float

    def submit_job(self, context: Any) -> int:
        return jobs_of(context).submit(self.submission_token, seconds=self.item)

    def get_job_result(self, external_id: Any, context: Any) -> Any:
        return {"job": external_id, "item": jobs_of(context).call("GET", f"/jobs/{external_id}")["seconds"]}


class OursMapped(Mapped, Ours):
    def __init__(self, *, item: float, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.item = item

    def job_inputs(self, context: Any) -> Any:
        return self.item


class AirflowsMapped(Mapped, Airflows):
    def __init__(self, *, item: float, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.item = item
