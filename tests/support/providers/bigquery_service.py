"""BigQuery's REST API in memory, as far as `BigQueryInsertJobOperator` uses it through the real client and hook."""

from __future__ import annotations

import json
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

from google.auth.credentials import AnonymousCredentials
from google.cloud.bigquery import Client
from requests import PreparedRequest, Response

PROJECT = "p"


@dataclass
class Job:
    """One job; each question moves it to the next state."""

    body: dict[str, Any]
    looks: int

    @property
    def state(self) -> str:
        return "RUNNING" if self.looks else "DONE"


class BigQuery:
    """Jobs with ids that are never used twice. It is the session with which the real client sends its requests.

    Args:
        looks: the number of questions for which a job is still running; then it is done.

    Attributes:
        events: what was done, such as `"insert ID"`.
        most_alive: the most jobs that were ever alive at once.
    """

    is_mtls = False

    def __init__(self, looks: int = 2) -> None:
        self.jobs: dict[str, Job] = {}
        self.events: list[str] = []
        self.most_alive = 0
        self._looks = looks

    def client(self) -> Client:
        """The real client, connected to these jobs."""
        return Client(project=PROJECT, credentials=AnonymousCredentials(), _http=self)

    def request(self, *, method: str, url: str, data: Any = None, **_options: Any) -> Response:
        """Answer a request."""
        answer = self._answer(method, url, data)
        answer.request = PreparedRequest()
        answer.request.prepare(method=method, url=url)
        return answer

    def _answer(self, method: str, url: str, data: Any) -> Response:
        *_, kind, job_id = parts = urlsplit(url).path.split("/")
        if method == "POST" and job_id == "jobs":
            return self._insert(json.loads(data))
        if method == "POST" and parts[-1] == "cancel":
            return self._cancel(kind)
        return self._read(job_id, waits=kind == "queries")

    def _insert(self, body: dict[str, Any]) -> Response:
        job_id = body["jobReference"]["jobId"]
        if job_id in self.jobs:
            return _error(HTTPStatus.CONFLICT, "duplicate", f"Already Exists: Job {job_id}")
        self.jobs[job_id] = Job(body, self._looks)
        self.events.append(f"insert {job_id}")
        self.most_alive = max(self.most_alive, sum(job.looks > 0 for job in self.jobs.values()))
        return _answer(self._seen(job_id))

    def _read(self, job_id: str, *, waits: bool) -> Response:
        """Of a query's results: the service waits for the end before it answers."""
        if job_id not in self.jobs:
            return _error(HTTPStatus.NOT_FOUND, "notFound", f"Not found: Job {job_id}")
        seen = self._seen(job_id)
        job = self.jobs[job_id]
        job.looks = 0 if waits else max(0, job.looks - 1)
        if not waits:
            return _answer(seen)
        return _answer(
            {
                "jobComplete": True,
                "jobReference": seen["jobReference"],
                "totalRows": "0",
                "schema": {"fields": []},
                "rows": [],
            }
        )

    def _cancel(self, job_id: str) -> Response:
        self.jobs[job_id].looks = 0
        self.events.append(f"cancel {job_id}")
        return _answer({"job": self._seen(job_id)})

    def _seen(self, job_id: str) -> dict[str, Any]:
        job = self.jobs[job_id]
        return {**job.body, "statistics": {}, "status": {"state": job.state}}


def _answer(body: dict[str, Any], status: int = HTTPStatus.OK) -> Response:
    made = Response()
    made.status_code = status
    made.headers["Content-Type"] = "application/json"
    made._content = json.dumps(body).encode()
    return made


def _error(status: HTTPStatus, reason: str, message: str) -> Response:
    return _answer({"error": {"code": int(status), "message": message, "errors": [{"reason": reason}]}}, status)
