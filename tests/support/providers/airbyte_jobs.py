"""Airbyte's jobs on loopback, by the public reference of its API v1, for `check_operator`.

| request, below `/v1/jobs` | answer |
|---|---|
| `POST / {"connectionId"}` | the job; 409 if a job of the connection is running |
| `GET /ID` | the job |
| `DELETE /ID` | the job, cancelled |
"""

from __future__ import annotations

import itertools
from typing import Any

from airflow_resume.testing import ServiceJobs
from json_request import NotFoundError, Request
from tests.support.providers.rest_service import Reply, RestService


class AirbyteJobs(RestService):
    """Airbyte without data."""

    def __init__(self) -> None:
        super().__init__(ServiceJobs(running="running", succeeded="succeeded", failed="failed", cancelled="cancelled"))
        self._ids = itertools.count(500)

    def answer(self, request: Request) -> object:
        """Answer by the table at the top of the module."""
        match request.route:
            case ("POST", "v1", "jobs"):
                if any(job.is_alive for job in self.jobs.known()):
                    return Reply(409, {"message": "A sync is already running for this connection"})
                return _view(self.jobs.make(next(self._ids)).id, "pending")
            case ("GET", "v1", "jobs", number):
                return _view(int(number), self.jobs.ask(int(number)))
            case ("DELETE", "v1", "jobs", number):
                return _view(int(number), self.jobs.cancel(int(number)).state)
        raise NotFoundError(f"{request.method} {request.path} is not offered")


def _view(number: int, status: Any) -> object:
    job = {"jobId": number, "status": status, "jobType": "sync", "connectionId": "c"}
    return {**job, "startTime": "2026-01-01T00:00:00Z"}
