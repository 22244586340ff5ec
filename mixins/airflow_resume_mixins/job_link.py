"""The page of a job in its own system, as a link at the task in Airflow's UI."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperatorLink

if TYPE_CHECKING:
    from airflow.sdk.types import TaskInstanceKey


class JobLink(BaseOperatorLink):
    """Where `job_url(external_id)` of a `ResumableJobMixin` leads.

    Airflow reads links of XComs and writes those at the end of a task. The mixin writes this one as soon as the id of
    the job is known.
    """

    name = "Job"  # pyright: ignore[reportAssignmentType, reportIncompatibleMethodOverride]

    def get_link(self, operator: Any, *, ti_key: TaskInstanceKey) -> str:  # noqa: ARG002  Airflow's signature
        """The page; empty when there is no job, or the operator knows no page for it."""
        external_id = operator.external_id
        return "" if external_id is None else operator.job_url(external_id) or ""
