"""Twins of somebody's own, named by their paths: right ones and wrong ones."""

from __future__ import annotations

from typing import Any

from airflow_resume_mixins.providers import ProviderJob
from tests.support.upgrade import operators as upstream


class Train(ProviderJob, upstream.TrainOperator):
    def job_status(self, external_id: Any) -> Any:
        return "SUCCEEDED"


class WithInit(ProviderJob, upstream.TrainOperator):
    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.more = 1


class Base(ProviderJob):
    """Over no operator."""


class Unrelated:
    pass


class NoStatus(ProviderJob, upstream.TrainOperator):
    """It does not say how its job is asked for."""
