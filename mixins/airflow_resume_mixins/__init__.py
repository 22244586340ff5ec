"""Operator mixins: thin shells over `airflow_resume`."""

from airflow_resume_mixins.resumable_job import ResumableJobMixin
from airflow_resume_mixins.watermark import WatermarkMixin

__all__ = ["ResumableJobMixin", "WatermarkMixin"]
