"""A trigger that fires when a job of the job service has ended, or fails when a test has made a file."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent


class JobEnded(BaseTrigger):
    def __init__(self, *, label: str, job_id: int, fails_at: str | None = None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.label = label
        self.job_id = job_id
        self.fails_at = fails_at

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return "job_trigger.JobEnded", {"label": self.label, "job_id": self.job_id, "fails_at": self.fails_at}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        from clients import Jobs

        jobs = Jobs("JOBS_URL", label=self.label)
        while await asyncio.to_thread(jobs.status, self.job_id) == "RUNNING":
            await asyncio.sleep(0.5)
            if self.fails_at is not None and await asyncio.to_thread(Path(self.fails_at).exists):
                raise ConnectionError("the triggerer cannot reach the job service any more")
        yield TriggerEvent({"job": self.job_id})  # type: ignore[no-untyped-call]
