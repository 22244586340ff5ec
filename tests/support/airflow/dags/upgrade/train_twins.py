"""The twin that `[airflow_resume] upgrade` names."""

from __future__ import annotations

from typing import Any

import train_operators as upstream  # type: ignore[import-not-found]

from airflow_resume_mixins.providers import ProviderJob
from clients import Jobs


class Train(ProviderJob, upstream.TrainOperator):  # type: ignore[misc]
    submission_is_idempotent = True
    active = frozenset({"RUNNING"})
    succeeded = frozenset({"SUCCEEDED"})
    job_id_attribute = "job"
    not_waiting = {"wait": False}  # noqa: RUF012

    def put_token(self, token: str) -> None:
        self.token = token

    def job_status(self, external_id: Any) -> str:
        return Jobs("JOBS_URL", label="status").status(external_id)
