"""Which errors of AWS mean that a job is gone: a wrong answer here would submit another one."""

from __future__ import annotations

import pytest

pytest.importorskip("botocore", reason="make providers")

from botocore.exceptions import ClientError

from airflow_resume_mixins.providers.amazon.aws_job import AwsJob


class Job(AwsJob):
    not_found_codes = frozenset({"InvalidRequestException", "ValidationException", "ExecutionDoesNotExist"})


@pytest.mark.parametrize(
    ("code", "text", "is_gone"),
    [
        ("InvalidRequestException", "QueryExecution 17 was not found", True),
        ("InvalidRequestException", "Step id 's-17' is not valid.", True),
        ("InvalidRequestException", "This workgroup is disabled.", False),
        ("ValidationException", "Requested resource not found.", True),
        ("ValidationException", "Could not find requested job with name: a", True),
        ("ValidationException", "1 validation error detected: Value at 'x' failed to satisfy constraint", False),
        ("ExecutionDoesNotExist", "", True),
        ("ThrottlingException", "Rate exceeded; the job was not found in time", False),
    ],
)
def test_only_an_error_that_says_so_means_that_the_job_is_gone(code: str, text: str, is_gone: bool) -> None:  # noqa: FBT001
    error = ClientError({"Error": {"Code": code, "Message": text}}, "GetJob")
    assert Job.job_not_found(Job.__new__(Job), error) is is_gone
