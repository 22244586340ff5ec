"""A trigger that fires when a job of the job service has ended."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent


class JobEnded(BaseTrigger):
    def __init__(self, *, label: str, job_id: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.label = label
        self.job_id = job_id

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return "job_ended.JobEnded", {"label": self.label, "job_id": self.job_id}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        from clients import Jobs

        jobs = Jobs("JOBS_URL", label=self.label)
        while await asyncio.to_thread(jobs.status, self.job_id) == "RUNNING":  # noqa: ASYNC110  it is in another process
            await asyncio.sleep(0.5)
        yield TriggerEvent({"job": self.job_id})  # type: ignore[no-untyped-call]
