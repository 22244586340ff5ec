"""`check_operator` kills a client of boto3 as any other: Athena's operator as it is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("moto", reason="providers have an environment of their own: make providers")

from airflow.providers.amazon.aws.operators.athena import AthenaOperator

from airflow_resume.testing import check_operator
from tests.support.providers.aws_jobs import ATHENA
from tests.support.providers.aws_service import AwsService


@pytest.fixture
def service() -> Iterator[AwsService]:
    with AwsService(ATHENA) as running, pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIRFLOW_CONN_AWS_DEFAULT", running.connection)
        yield running


def make(**options: Any) -> Any:
    where = {"database": "d", "output_location": "s3://b/o/", "sleep_time": 0.002}
    return AthenaOperator(task_id="task", retries=3, query="select 1", **where, **options)


def test_athena_as_it_is(service: AwsService) -> None:
    report = check_operator(make, service.jobs, grace=0.3, scenarios=SCENARIOS)
    assert {name: str(played) for name, played in report.items()} == SCENARIOS


SCENARIOS = {
    "plain": "1 / 1 / 0, same result",
    "crash while waiting": "2 / 2 / 0, same result",
    "crash after all is done": "2 / 1 / 0, same result",
    "crash in the window": "2 / 2 / 0, same result",
    "marked failed": "1 / 1 / 1, no job left",
    "cleared, job alive": "2 / 2 / 0, same result",
    "mapped": "1 / 1 / 0, same result",
}
