"""Clients that a trigger makes from their import path, and the job systems that a test puts here for them."""

from __future__ import annotations

from typing import Any

from airflow_resume.jobs import JobStatus
from airflow_resume.jobs.trigger import JobTrigger
from airflow_resume.testing import FakeJobs

JOBS: dict[str, FakeJobs] = {}


def sync(name: str) -> FakeJobs:
    """The job system itself."""
    return JOBS[name]


class Asynchronous:
    """The same on an event loop, with its own words for states."""

    class NotThereError(Exception):
        pass

    def __init__(self, name: str) -> None:
        self.jobs = JOBS[name]
        self.job_not_found = LookupError

    @classmethod
    async def make(cls, name: str) -> Asynchronous:
        return cls(name)

    async def status(self, external_id: Any) -> str:
        return f"it is {self.jobs.status(external_id)}"

    async def cancel(self, external_id: Any) -> None:
        self.jobs.cancel(external_id)

    def classify(self, status: str) -> JobStatus:
        return {"it is RUNNING": JobStatus.ACTIVE, "it is SUCCEEDED": JobStatus.SUCCEEDED}.get(status, JobStatus.FAILED)


class StatusOnly:
    def __init__(self, name: str) -> None:
        self.status = JOBS[name].status


class OneOfOurOwn(JobTrigger):
    """A trigger that waits in its own way and cannot cancel."""

    def __init__(self, *, region: str, **options: Any) -> None:
        super().__init__(**options)
        self.region = region

    def arguments(self) -> dict[str, Any]:
        return {**super().arguments(), "region": self.region}

    async def wait(self) -> JobStatus:
        return JobStatus.SUCCEEDED
