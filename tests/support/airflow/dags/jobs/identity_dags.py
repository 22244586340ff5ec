"""Dags whose runs are made again under their old ids, or lose their state; the task is `run`."""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, Asset, BaseOperator, get_current_context, task
from job_operators import (  # type: ignore[import-not-found]
    GLANCE,
    POLL,
    Hooks,
    Ours,
    jobs_of,
    result_of,
    seconds_of,
)

from airflow_resume import ResumePolicy
from airflow_resume_mixins import ResumableJobMixin

POLICY = ResumePolicy(poll=POLL)
RETRIES: dict[str, Any] = {"retries": 8, "retry_delay": timedelta(seconds=1)}
TICKS = Asset("ticks")


class Cancelling(Hooks, ResumableJobMixin, BaseOperator):  # type: ignore[misc]
    def cancel_job(self, external_id: Any, context: Any) -> None:
        jobs_of(context).cancel(external_id)


class ByToken(Ours):  # type: ignore[misc]
    """Its job system can look up a submission by token; the `conf` of the run says how late the first try submits."""

    def submit_job(self, context: Any) -> int:
        late = context["dag_run"].conf.get("submits_late")
        if late and context["ti"].try_number == 1:
            time.sleep(late)
        job: int = super().submit_job(context)
        return job


class Once(Cancelling):
    """Its job system de-duplicates by token, and cannot look one up."""

    submission_is_idempotent = True

    def submit_job(self, context: Any) -> int:
        job: int = jobs_of(context).submit(self.submission_token, seconds=seconds_of(context), once=True)
        return job


class Neither(Cancelling):
    """Its job system takes no token."""

    def submit_job(self, context: Any) -> int:
        job: int = jobs_of(context).submit(seconds=seconds_of(context))
        return job


class BySlot(Ours):  # type: ignore[misc]
    """Its job system can list all jobs of the slot."""

    def find_jobs(self, slot: str, context: Any) -> dict[str, int]:
        found: dict[str, int] = jobs_of(context).find_all(slot)
        return found


for dag_id, operator in [
    ("by_token", ByToken),
    ("once", Once),
    ("neither", Neither),
    ("by_slot", BySlot),
]:
    with DAG(dag_id, schedule=None, default_args=RETRIES):
        operator(task_id="run", resume_policy=POLICY)


with DAG("after_another", schedule=None, default_args=RETRIES):

    @task
    def first() -> None:
        """A task that is cleared while the other one runs."""

    first() >> ByToken(task_id="run", resume_policy=POLICY)


with DAG("two_coroutines", schedule=None, default_args=RETRIES):

    @task(task_id="run", inlets=[TICKS], outlets=[TICKS])
    async def function() -> Any:
        """Run both until they have ended: one waits for a job while the other keeps both stores busy.

        The second one also ends if the first raises: Airflow never releases the lock of a cancelled `aset`, and
        the task could not even report that it failed.
        """
        from airflow_resume import arun_job

        context: Any = get_current_context()
        service, ended = jobs_of(context), asyncio.Event()

        class Delays:
            def submit(self, token: str) -> Any:
                return service.submit(token, seconds=seconds_of(context))

            def result(self, job_id: int) -> Any:
                return result_of(job_id, context)

            status, find, cancel = service.status, service.find, service.cancel

        async def wait() -> Any:
            try:
                return await arun_job(Delays(), policy=POLICY)
            finally:
                ended.set()

        async def tick() -> int:
            ticks = 0
            while not ended.is_set():
                ticks += 1
                await context["asset_state_store"][TICKS].aset("ticks", ticks)
                await asyncio.to_thread(context["task_state_store"].set, "ticks", ticks)
                await asyncio.sleep(GLANCE.total_seconds() / 10)
            return ticks

        outcomes: Any = await asyncio.gather(wait(), tick(), return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, Exception):
                raise outcome
        result, ticks = outcomes
        return {**result, "ticks": ticks}

    function()
