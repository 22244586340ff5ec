"""Resumable jobs: submit one job to another system, wait for it, return its result."""

from airflow_resume.jobs.decide import JobStatus
from airflow_resume.jobs.policy import PollPolicy, ResumePolicy
from airflow_resume.jobs.protocol import Jobs, JobsWithResult
from airflow_resume.jobs.run import JobRun, run_job

__all__ = ["JobRun", "JobStatus", "Jobs", "JobsWithResult", "PollPolicy", "ResumePolicy", "run_job"]
