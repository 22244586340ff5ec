"""What the tests of the recipes have in common: a policy that does not wait, and reports as short cells."""

from __future__ import annotations

from datetime import timedelta

from airflow_resume import PollPolicy, ResumePolicy
from airflow_resume.testing.operators import OperatorReport

MOMENT = timedelta(milliseconds=1)
QUICK = ResumePolicy(
    poll=PollPolicy(interval=MOMENT, max_interval=MOMENT),
    confirm_gone=MOMENT,
    unknown_timeout=timedelta(seconds=5),
)


def cells(report: OperatorReport) -> dict[str, str]:
    """By scenario, such as `2 / 1 / 0, same result`: jobs, most alive at once, cancelled, and the result."""
    return {scenario: str(played) for scenario, played in report.items()}
