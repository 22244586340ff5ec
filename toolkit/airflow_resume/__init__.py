"""Airflow tasks that resume instead of starting over.

- `run_job`: submit one job to another system and wait for it (operators: `airflow_resume_mixins.ResumableJobMixin`;
  coroutines: `arun_job`).
- `checkpoint`: a loop over pages or batches that continues where it was.
- `watermark`: load what is new since the last run, and never skip a row.
- `ResumeError`: what all errors of this package are.

The names are loaded when they are first used, so that a Dag file pays only for what it takes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_resume.late import late_names

if TYPE_CHECKING:
    from airflow_resume.errors import ResumeError
    from airflow_resume.jobs import JobStatus, PollPolicy, ResumePolicy, arun_job, run_job
    from airflow_resume.loops import checkpoint
    from airflow_resume.watermarks import watermark

__all__ = ["JobStatus", "PollPolicy", "ResumeError", "ResumePolicy", "arun_job", "checkpoint", "run_job", "watermark"]

__getattr__, __dir__ = late_names(
    __name__,
    {
        "JobStatus": "jobs",
        "PollPolicy": "jobs",
        "ResumeError": "errors",
        "ResumePolicy": "jobs",
        "arun_job": "jobs",
        "checkpoint": "loops",
        "run_job": "jobs",
        "watermark": "watermarks",
    },
)
