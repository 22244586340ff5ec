"""A twin of an operator for `benchmarks.upgrade`."""

from __future__ import annotations

from typing import Any

from airflow.providers.standard.operators.bash import BashOperator

from airflow_resume_mixins.providers import ProviderJob


class Bash(ProviderJob, BashOperator):
    """It never runs."""

    def job_status(self, external_id: Any) -> str:
        """There is no job."""
        return "DONE"
