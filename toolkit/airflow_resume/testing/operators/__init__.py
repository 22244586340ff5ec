"""Play what happens to a task on anyone's operator: `check_operator`.

- `check_operator`: plays the scenarios, and returns an `OperatorReport`, which prints a table.
- `JobService`: what the author of an operator's tests says about the job service.
- `ServiceJobs`: the jobs of a service, to build a `JobService` on.
"""

from airflow_resume.testing.fakes.job import UnknownJobError
from airflow_resume.testing.operators.check import check_operator
from airflow_resume.testing.operators.report import OperatorReport, Played
from airflow_resume.testing.operators.scenarios import SCENARIOS
from airflow_resume.testing.operators.service import (
    JobService,
    OrderedFailureError,
    SeenJob,
    ServiceJob,
    ServiceJobs,
)

__all__ = [
    "SCENARIOS",
    "JobService",
    "OperatorReport",
    "OrderedFailureError",
    "Played",
    "SeenJob",
    "ServiceJob",
    "ServiceJobs",
    "UnknownJobError",
    "check_operator",
]
