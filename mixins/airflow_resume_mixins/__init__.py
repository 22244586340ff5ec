"""Operator mixins: thin shells over `airflow_resume`."""

from airflow_resume_mixins.resumable_job import ResumableJobMixin

__all__ = ["ResumableJobMixin"]
