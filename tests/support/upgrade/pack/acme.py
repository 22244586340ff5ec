"""Twins of `tests.support.upgrade.operators`: a module of the pack in `airflow_resume_mixins.providers`."""

from __future__ import annotations

from typing import Any

from airflow_resume_mixins.providers import ProviderJob
from tests.support.upgrade import operators as upstream


class AcmeJob(ProviderJob):
    """What all of them have in common; it is for no operator."""

    submission_is_idempotent = True
    active = frozenset({"RUNNING"})
    succeeded = frozenset({"SUCCEEDED"})
    token: Any = None

    def put_token(self, token: str) -> None:
        self.token = token


class TrainOperator(AcmeJob, upstream.TrainOperator):
    job_id_attribute = "job"
    not_waiting = {"wait": False}  # noqa: RUF012
    still_called = ("name_of", "returned")

    def job_status(self, external_id: Any) -> Any:
        return self.service.status(external_id)

    def job_url(self, external_id: Any) -> str:
        return f"https://train/{external_id}"


class QueryOperator(AcmeJob, upstream.QueryOperator):  # pyright: ignore[reportIncompatibleVariableOverride]
    pass


class CopyOperator(AcmeJob, upstream.CopyOperator):
    def job_status(self, external_id: Any) -> Any:
        return "SUCCEEDED"
