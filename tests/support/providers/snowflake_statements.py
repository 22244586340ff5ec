"""Snowflake's SQL API on loopback, by its public reference, for `check_operator`.

| request, below `/api/v2/statements` | answer |
|---|---|
| `POST ?requestId=UUID&async=true` | 202 and the handle; with `retry=true` and a known id, the handle of then |
| `GET /HANDLE` | 200 and the result, 202 while it runs, or 422 and the error |
| `POST /HANDLE/cancel` | 200 |

If `lists_handles`, a request with several statements is answered with the handles of all. The answers to the next
`answers_lost` requests are 503, although a statement was made. The provider's hook adds `.snowflakecomputing.com` to
the account, which is therefore the first part of the path here.
"""

from __future__ import annotations

import itertools
from typing import Any
from uuid import UUID

from airflow_resume.testing import ServiceJobs
from json_request import NotFoundError, Request
from tests.support.providers.rest_service import Reply, RestService

RUNNING, SUCCEEDED, FAILED, CANCELLED, TIMED_OUT = "running", "success", "002003", "000604", "000630"


class SnowflakeStatements(RestService):
    """Snowflake without data."""

    def __init__(self) -> None:
        self._ids = itertools.count(1)
        self.lists_handles = False
        self.answers_lost = 0
        super().__init__(
            ServiceJobs(
                running=RUNNING, succeeded=SUCCEEDED, failed=FAILED, cancelled=CANCELLED, other_ends={TIMED_OUT}
            )
        )

    def answer(self, request: Request) -> object:
        """Answer by the table at the top of the module."""
        match request.route:
            case ("POST", ".snowflakecomputing.com", "api", "v2", "statements"):
                return self._submit(request)
            case ("GET", ".snowflakecomputing.com", "api", "v2", "statements", handle):
                return _result(handle, self.jobs.ask(_job(handle)))
            case ("POST", ".snowflakecomputing.com", "api", "v2", "statements", handle, "cancel"):
                self.jobs.cancel(_job(handle))
                return {"code": "000604", "message": "Statement canceled.", "statementHandle": handle}
        raise NotFoundError(f"{request.method} {request.path} is not offered")

    def not_known(self, job_id: object) -> Reply:
        return Reply(404, {"code": "390404", "message": f"The statement {job_id} was not found."})

    def _submit(self, request: Request) -> object:
        token = str(UUID(request.query["requestId"]))
        is_again = request.query.get("retry") == "true"
        job = self.jobs.with_token(token) if is_again else None
        job = job or self.jobs.make(f"h{next(self._ids)}", token=token, request=request)
        if self.answers_lost:
            self.answers_lost -= 1
            return Reply(503, {"code": "390503", "message": "ordered by the test"})
        answer = {"code": "333334", "message": "Asynchronous execution in progress.", "statementHandle": job.id}
        statements = str(request.body["statement"]).rstrip("; ").count(";") + 1
        if self.lists_handles and statements > 1:
            return {**answer, "statementHandles": [f"{job.id}-{number}" for number in range(1, statements + 1)]}
        return Reply(202, answer)


def _job(handle: str) -> str:
    return handle.partition("-")[0]


def _result(handle: str, state: Any) -> object:
    if state == SUCCEEDED:
        about = {"numRows": 0, "format": "jsonv2", "rowType": [], "partitionInfo": []}
        said = {"code": "090001", "message": "Statement executed successfully.", "resultSetMetaData": about, "data": []}
        return {**said, "statementHandle": handle}
    if state == RUNNING:
        return Reply(202, {"code": "333334", "message": "In progress.", "statementHandle": handle})
    status = 408 if state == TIMED_OUT else 422
    return Reply(status, {"code": state, "message": "It was ended.", "sqlState": "57014", "statementHandle": handle})
