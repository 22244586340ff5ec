"""A job system in memory, with what it offers to be chosen."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from crashing import Life

from airflow_resume.jobs.decide import JobStatus


@dataclass
class Job:
    """One job: it stays active for so many questions, then it ends."""

    id: int
    token: str
    questions: int = 0
    status: JobStatus = JobStatus.ACTIVE


@dataclass
class JobSystem:
    """Counts what it is asked, and how many jobs were ever alive at once."""

    life: Life = field(default_factory=Life)
    ends: list[JobStatus] = field(default_factory=lambda: [JobStatus.SUCCEEDED])
    active_for: int = 1
    dedupes: bool = False
    jobs: list[Job] = field(default_factory=list)
    most_alive: int = 0

    def alive(self) -> int:
        return sum(not job.status.is_terminal for job in self.jobs)

    def submit(self, token: str) -> int:
        with self.life.effect("submit"):
            same = [job for job in self.jobs if job.token == token]
            if self.dedupes and same:
                return same[0].id
            self.jobs.append(Job(id=len(self.jobs), token=token))
            self.most_alive = max(self.most_alive, self.alive())
            return self.jobs[-1].id
        raise AssertionError

    def status(self, external_id: int) -> JobStatus:
        job = self.jobs[external_id]
        job.questions += 1
        if job.status is JobStatus.ACTIVE and job.questions > self.active_for:
            job.status = self.ends[min(job.id, len(self.ends) - 1)]
        if job.status is JobStatus.CANCELLING:
            job.status = JobStatus.FAILED
            return JobStatus.CANCELLING
        return job.status

    def result(self, external_id: int) -> dict[str, Any]:
        return {"rows": 7, "job": external_id}


class JobsWithLookup(JobSystem):
    def find(self, token: str) -> int | None:
        return next((job.id for job in reversed(self.jobs) if job.token == token), None)


class CancellableJobs(JobsWithLookup):
    def cancel(self, external_id: int) -> None:
        with self.life.effect("cancel"):
            if not self.jobs[external_id].status.is_terminal:
                self.jobs[external_id].status = JobStatus.CANCELLING
