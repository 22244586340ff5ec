"""Hooks of an operator whose job system is a `FakeJobs`, as Airflow's mixin and ours need them."""

from __future__ import annotations

from typing import Any, TypeVar

from airflow_resume.testing import FakeJobs

OperatorT = TypeVar("OperatorT")


class JobHooks:
    """The four hooks that are required. It stands before the mixin among the bases."""

    jobs: FakeJobs
    submission_token: str | None = None

    def execute(self, context: Any) -> Any:
        return self.execute_resumable(context)  # type: ignore[attr-defined]

    def submit_job(self, context: Any) -> Any:
        return self.jobs.submit(self.submission_token)

    def get_job_status(self, external_id: Any, context: Any) -> str:
        return self.jobs.status(external_id)

    def is_job_active(self, status: str) -> bool:
        return status == "RUNNING"

    def is_job_succeeded(self, status: str) -> bool:
        return status == "SUCCEEDED"


class LookUpHooks(JobHooks):
    """The hooks of a job system that can look up jobs and has results, too."""

    def find_job(self, token: str, context: Any) -> Any:
        return self.jobs.find(token)

    def get_job_result(self, external_id: Any, context: Any) -> Any:
        return self.jobs.result(external_id)


def equipped(operator: OperatorT, **attributes: Any) -> OperatorT:
    """The operator with attributes that Airflow does not watch over."""
    for name, value in attributes.items():
        object.__setattr__(operator, name, value)
    return operator
