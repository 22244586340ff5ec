"""Data Factory's runs on loopback, by the public reference of its REST API 2018-06-01, for `check_operator`.

| request, below the factory | answer |
|---|---|
| `GET /pipelines/NAME` | the pipeline, with the parameters that it declares |
| `POST /pipelines/NAME/createRun {parameters}` | the id of the run |
| `GET /pipelineruns/ID` | the run |
| `POST /pipelineruns/ID/cancel` | 200 |
| `POST /queryPipelineRuns {lastUpdatedAfter, lastUpdatedBefore, filters, orderBy}` | runs, `most` at a time |

A parameter that the pipeline does not declare is dropped. The answers to the next `answers_lost` requests for a run are
503, although there is one.
"""

from __future__ import annotations

import itertools
from datetime import datetime, timezone
from typing import Any

from airflow_resume.testing import ServiceJobs
from airflow_resume.testing.operators import ServiceJob
from json_request import NotFoundError, Request
from tests.support.providers.rest_service import Reply, RestService


class DataFactoryRuns(RestService):
    """A data factory without data.

    Args:
        declared: the parameters of every pipeline.
        most: runs in a page of the list.
    """

    def __init__(self, *, declared: tuple[str, ...] = (), most: int = 100) -> None:
        super().__init__(
            ServiceJobs(
                running="InProgress",
                succeeded="Succeeded",
                failed="Failed",
                cancelled="Cancelled",
                unknown="Pondering",
            )
        )
        self.declared, self.most = declared, most
        self.answers_lost = 0
        self._ids = itertools.count(1)

    def answer(self, request: Request) -> object:
        """Answer by the table at the top of the module."""
        match request.route[:1] + request.route[9:]:
            case ("GET", "pipelines", name):
                declared = {parameter: {"type": "String"} for parameter in self.declared}
                return {"id": f"/{name}", "name": name, "properties": {"activities": [], "parameters": declared}}
            case ("POST", "pipelines", name, "createRun"):
                return self._run(name, request)
            case ("GET", "pipelineruns", run_id):
                state = self.jobs.ask(run_id)
                return _view(self.jobs.get(run_id), state)
            case ("POST", "pipelineruns", run_id, "cancel"):
                self.jobs.cancel(run_id)
                return {}
            case ("POST", "queryPipelineRuns"):
                return self._listed(request.body)
        raise NotFoundError(f"{request.method} {request.path} is not offered")

    def not_known(self, job_id: object) -> Reply:
        return Reply(404, {"error": {"code": "PipelineRunNotFound", "message": f"There is no run {job_id}"}})

    def _run(self, name: str, request: Request) -> object:
        parameters = {key: value for key, value in request.body.items() if key in self.declared}
        asked = {"pipeline": name, "parameters": parameters, "query": request.query}
        run = self.jobs.make(f"run-{next(self._ids)}", request=asked)
        if self.answers_lost:
            self.answers_lost -= 1
            return Reply(503, {"error": {"code": "Busy", "message": "ordered by the test"}})
        return {"runId": run.id}

    def _listed(self, asked: Any) -> object:
        after, before = (datetime.fromisoformat(asked[key]) for key in ("lastUpdatedAfter", "lastUpdatedBefore"))
        (of_pipeline,) = asked["filters"]
        assert (of_pipeline["operand"], of_pipeline["operator"]) == ("PipelineName", "Equals")
        assert after < datetime.now(timezone.utc) < before
        assert asked["orderBy"] == [{"orderBy": "RunStart", "order": "DESC"}]
        runs = [run for run in reversed(self.jobs.known()) if run.request["pipeline"] in of_pipeline["values"]]
        first = int(asked.get("continuationToken", 0))
        page = {"value": [_view(run, run.state) for run in runs[first : first + self.most]]}
        more = first + self.most < len(runs)
        return {**page, **({"continuationToken": str(first + self.most)} if more else {})}


def _view(run: ServiceJob, status: object) -> dict[str, object]:
    described = {"runId": run.id, "pipelineName": run.request["pipeline"], "parameters": run.request["parameters"]}
    return {**described, "status": status, "invokedBy": {"name": "Manual", "invokedByType": "Manual"}}
