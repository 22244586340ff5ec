"""Resumable jobs: submit one job to another system, wait for it, return its result."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_resume.late import late_names

if TYPE_CHECKING:
    from airflow_resume.jobs.coroutine import arun_job
    from airflow_resume.jobs.decide import JobStatus, Step
    from airflow_resume.jobs.policy import PollPolicy, ResumePolicy
    from airflow_resume.jobs.protocol import Jobs, JobsWithResult
    from airflow_resume.jobs.run import JobRun, ResumeDecision
    from airflow_resume.jobs.taskflow import run_job
    from airflow_resume.jobs.token import SubmissionToken

__all__ = [
    "JobRun",
    "JobStatus",
    "Jobs",
    "JobsWithResult",
    "PollPolicy",
    "ResumeDecision",
    "ResumePolicy",
    "Step",
    "SubmissionToken",
    "arun_job",
    "run_job",
]

__getattr__, __dir__ = late_names(
    __name__,
    {
        "JobRun": "run",
        "JobStatus": "decide",
        "Jobs": "protocol",
        "JobsWithResult": "protocol",
        "PollPolicy": "policy",
        "ResumeDecision": "run",
        "ResumePolicy": "policy",
        "Step": "decide",
        "SubmissionToken": "token",
        "arun_job": "coroutine",
        "run_job": "taskflow",
    },
)
