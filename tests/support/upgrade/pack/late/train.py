"""A class whose provider is there."""

from __future__ import annotations

from typing import Any

from airflow_resume_mixins.providers import ProviderJob
from tests.support.upgrade import operators as upstream


class TrainOperator(ProviderJob, upstream.TrainOperator):
    def job_status(self, external_id: Any) -> Any:
        return "SUCCEEDED"
