"""Dataflow's jobs on loopback, by the public reference of its REST API v1b3, for `check_operator`.

| request, below `/v1b3/projects/p/locations/eu` | answer |
|---|---|
| `POST /templates:launch`, `POST /flexTemplates:launch` | the job; 409 if an active job has its name |
| `GET /jobs?name=NAME&createTimeRange.startTime=TIME` | summaries of the jobs with this name, one on each page |
| `GET /jobs/ID` | the job; its labels only with `view=JOB_VIEW_DESCRIPTION` |
| `PUT /jobs/ID` | cancels or drains the job |

The text of the 404 about an unknown job, and that of the 409, are from public reports.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

from airflow_resume.testing import ServiceJobs
from json_request import NotFoundError, Request
from tests.support.providers.rest_service import Reply, RestService

REASONS = {404: "NOT_FOUND", 409: "ALREADY_EXISTS", 503: "UNAVAILABLE"}


class DataflowJobs(RestService):
    """Dataflow without pipelines.

    Attributes:
        kind: of the jobs, `JOB_TYPE_BATCH` or `JOB_TYPE_STREAMING`.
        answers_launch_with: the status of the answer to the next launch that has made a job; None for no error.
        lists_late: how many of the next lists do not have the newest job yet.
        requested: the states that were asked for.
        today: when the jobs are made.
    """

    def __init__(self) -> None:
        jobs = ServiceJobs(
            running="JOB_STATE_RUNNING",
            succeeded="JOB_STATE_DONE",
            failed="JOB_STATE_FAILED",
            cancelled="JOB_STATE_CANCELLED",
            unknown="JOB_STATE_UNKNOWN",
            other_ends=["JOB_STATE_DRAINED", "JOB_STATE_UPDATED"],
        )
        super().__init__(jobs)
        self._ids = itertools.count(100)
        self.restart()

    def restart(self) -> None:
        """Without jobs. The next ones run, and then succeed."""
        self.jobs.reset()
        self.jobs.follow([self.jobs.running, self.jobs.succeeded])
        self.kind = "JOB_TYPE_BATCH"
        self.answers_launch_with: int | None = None
        self.lists_late = 0
        self.requested: list[str] = []
        self.today = "2100-01-01"

    def not_known(self, job_id: object) -> Reply:
        text = f"(7d9ea65839310b88): Information about job {job_id} could not be found in our system."
        return _refused(404, f"{text} Please double check the id is correct.")

    def failed(self, status: int) -> Reply:
        return _refused(status, "ordered by the test")

    def answer(self, request: Request) -> object:
        """Answer by the table at the top of the module."""
        match request.route[:1] + request.route[6:]:
            case ("POST", "templates:launch"):
                return self._launch(request.body)
            case ("POST", "flexTemplates:launch"):
                body: Any = request.body
                return self._launch(body.get("launchParameter") or body["launch_parameter"])
            case ("GET", "jobs"):
                return self._listed(request.query)
            case ("GET", "jobs", job_id):
                state = self.jobs.ask(job_id)
                shown = self._view(self.jobs.get(job_id), state)
                has_labels = request.query.get("view") == "JOB_VIEW_DESCRIPTION"
                return {**shown, **({"labels": self._labels(job_id)} if has_labels else {})}
            case ("PUT", "jobs", job_id):
                self.requested.append(str(request.body["requestedState"]))
                job = self.jobs.cancel(job_id)
                return self._view(job, job.state)
        raise NotFoundError(f"{request.method} {request.path} is not offered")

    def _launch(self, parameter: Any) -> object:
        name = parameter["jobName"]
        if any(job.is_alive and job.request["jobName"] == name for job in self.jobs.seen()):
            text = f"(78f666ea16e50f79): There is already an active job named {name}."
            return _refused(409, f"{text} If you want to  submit a second job, try again by setting a different name.")
        job = self.jobs.make(f"2026-11-29_{next(self._ids)}", request=parameter)
        status, self.answers_launch_with = self.answers_launch_with, None
        return {"job": self._view(job, job.state)} if status is None else self.failed(status)

    def _listed(self, query: Mapping[str, str]) -> object:
        """Newest last, and one on a page."""
        since = query.get("createTimeRange.startTime", "")
        found = [
            job for job in self.jobs.known() if job.request["jobName"] == query["name"] and self._created(job) >= since
        ]
        if self.lists_late:
            self.lists_late -= 1
            found = found[:-1]
        page = int(query.get("pageToken", 0))
        more = {"nextPageToken": str(page + 1)} if page + 1 < len(found) else {}
        return {"jobs": [self._view(job, job.state) for job in found[page : page + 1]], **more} if found else {}

    def _labels(self, job_id: Any) -> dict[str, str]:
        environment: Any = self.jobs.get(job_id).request.get("environment") or {}
        labels: dict[str, str] = environment.get("additionalUserLabels") or {}
        return labels

    def _view(self, job: Any, state: str) -> dict[str, Any]:
        return {
            "id": job.id,
            "projectId": "p",
            "location": "eu",
            "name": job.request["jobName"],
            "type": self.kind,
            "currentState": state,
            "createTime": self._created(job),
        }

    def _created(self, job: Any) -> str:
        return f"{self.today}T{self.jobs.seen().index(job):06}Z"


def _refused(status: int, message: str) -> Reply:
    return Reply(status, {"error": {"code": status, "message": message, "status": REASONS[status]}})
