"""Airflow tasks that resume instead of starting over.

- `run_job`: submit one job to another system and wait for it (operators: `airflow_resume_mixins.ResumableJobMixin`).
- `checkpoint`: a loop over pages or batches that goes on where it was.
- `watermark`: load what is new since the last run, and never skip a row.
- `ResumeError`: what all errors of this package are.
"""

from airflow_resume.errors import ResumeError
from airflow_resume.jobs import JobStatus, ResumePolicy, run_job
from airflow_resume.loops import checkpoint
from airflow_resume.watermarks import watermark

__all__ = ["JobStatus", "ResumeError", "ResumePolicy", "checkpoint", "run_job", "watermark"]
