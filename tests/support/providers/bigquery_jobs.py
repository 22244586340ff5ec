"""BigQuery's jobs on loopback, by the public reference of its REST API v2, for `check_operator`.

| request, below `/bigquery/v2/projects/p` | answer |
|---|---|
| `POST /jobs` | the job; 409 if there ever was one with this id |
| `GET /jobs/ID` | the job |
| `GET /queries/ID` | the results, or that the query is not complete |
| `POST /jobs/ID/cancel` | the job |
"""

from __future__ import annotations

from typing import Any

from airflow_resume.testing import ServiceJobs
from json_request import NotFoundError, Request
from tests.support.providers.rest_service import Reply, RestService

FAILURE = {"reason": "stopped", "message": "Job execution was cancelled"}


class BigQueryJobs(RestService):
    """BigQuery without data. `ERROR` and `CANCELLED` stand for `DONE` with an error."""

    def __init__(self) -> None:
        super().__init__(ServiceJobs(running="RUNNING", succeeded="DONE", failed="ERROR", cancelled="CANCELLED"))

    def not_known(self, job_id: object) -> Reply:
        return _refused(404, f"Not found: Job {job_id}")

    def failed(self, status: int) -> Reply:
        return _refused(status, "ordered by the test")

    def answer(self, request: Request) -> object:
        """Answer by the table at the top of the module."""
        match request.route[:1] + request.route[5:]:
            case ("POST", "jobs"):
                reference: Any = request.body["jobReference"]
                if any(job.id == reference["jobId"] for job in self.jobs.seen()):
                    return _refused(409, "Already Exists")
                job = self.jobs.make(reference["jobId"], request=request.body)
                return _view(job, job.state)
            case ("GET", "jobs", job_id):
                state = self.jobs.ask(job_id)
                return _view(self.jobs.get(job_id), state)
            case ("GET", "queries", job_id):
                state = self.jobs.ask(job_id)
                seen = _view(self.jobs.get(job_id), state)
                if state in {"ERROR", "CANCELLED"}:
                    return _refused(400, FAILURE["message"])
                answer = {
                    "jobComplete": state == "DONE",
                    "jobReference": seen["jobReference"],
                    "schema": {"fields": []},
                }
                return {**answer, "totalRows": "0", "rows": []}
            case ("POST", "jobs", job_id, "cancel"):
                job = self.jobs.cancel(job_id)
                return {"job": _view(job, job.state)}
        raise NotFoundError(f"{request.method} {request.path} is not offered")


def _refused(status: int, message: str) -> Reply:
    return Reply(status, {"error": {"code": status, "message": message, "errors": [{"message": message}]}})


def _view(job: Any, state: str) -> dict[str, Any]:
    failed = {"errorResult": FAILURE, "errors": [FAILURE]} if state in {"ERROR", "CANCELLED"} else {}
    status = {"state": "DONE" if failed else state, **failed}
    return {
        "id": f"p:US.{job.id}",
        "jobReference": {**job.request["jobReference"], "location": "US"},
        "configuration": {**job.request["configuration"], "jobType": "QUERY"},
        "statistics": {},
        "status": status,
    }
