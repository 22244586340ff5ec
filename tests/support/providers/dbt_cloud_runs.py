"""dbt Cloud's runs on loopback, for `check_operator`.

| request, below `/api/v2/accounts/ACCOUNT` | answer |
|---|---|
| `POST /jobs/JOB/run/ {"cause"}` | the run |
| `GET /runs/ID/` | the run |
| `GET /runs/?job_definition_id=&order_by=-created_at&limit=&include_related=trigger` | the newest runs first |
| `POST /runs/ID/cancel/` | the run |
"""

from __future__ import annotations

import itertools

from airflow_resume.testing import ServiceJobs
from airflow_resume.testing.operators import ServiceJob
from json_request import NotFoundError, Request
from tests.support.providers.rest_service import Reply, RestService

MOST_CHARACTERS = 255


class DbtCloudRuns(RestService):
    """dbt Cloud without dbt."""

    def __init__(self) -> None:
        super().__init__(ServiceJobs(running=3, succeeded=10, failed=20, cancelled=30, unknown=7))
        self._ids = itertools.count(70_000)

    def answer(self, request: Request) -> object:
        """Answer by the table at the top of the module."""
        match request.route:
            case ("POST", "api", "v2", "accounts", _, "jobs", job, "run"):
                if len(cause := request.field("cause", str)) > MOST_CHARACTERS:
                    return Reply(400, {"message": "cause has too many characters"})
                run = self.jobs.make(next(self._ids), request={"cause": cause, "job": int(job)})
                return {"data": _view(run, run.state)}
            case ("GET", "api", "v2", "accounts", _, "runs"):
                return {"data": self._listed(request)}
            case ("GET", "api", "v2", "accounts", _, "runs", number):
                status = self.jobs.ask(int(number))
                return {"data": _view(self.jobs.get(int(number)), status)}
            case ("POST", "api", "v2", "accounts", _, "runs", number, "cancel"):
                run = self.jobs.cancel(int(number))
                return {"data": _view(run, run.state)}
        raise NotFoundError(f"{request.method} {request.path} is not offered")

    def _listed(self, request: Request) -> list[object]:
        assert request.query["order_by"] == "-created_at"
        runs = [run for run in self.jobs.known() if run.request["job"] == int(request.query["job_definition_id"])]
        trigger = request.query.get("include_related") == "trigger"
        return [
            {**_view(run, run.state), **({"trigger": {"cause": run.request["cause"]}} if trigger else {})}
            for run in runs[: -int(request.query["limit"]) - 1 : -1]
        ]


def _view(run: ServiceJob, status: object) -> dict[str, object]:
    return {"id": run.id, "status": status, "href": f"https://dbt.test/runs/{run.id}/", "run_steps": []}
