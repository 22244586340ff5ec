"""Databricks' Jobs API on loopback, 2.1 and 2.2: enough for its operators.

| request, below `/api/2.2/jobs` | answer |
|---|---|
| `POST /runs/submit`, `POST /run-now`, with `"idempotency_token"` | `{"run_id"}` of the run that has the token |
| `GET /runs/get?run_id=ID` | the run |
| `GET /runs/list?job_id=&active_only=` | `{"runs"}`, newest first |
| `GET /runs/get-output?run_id=ID` | why it failed |
| `POST /runs/cancel {"run_id"}`, `POST /runs/cancel-all {"job_id"}` | `{}` |
| `POST /runs/repair {"run_id"}` | the run runs again |
| `POST /runs/delete {"run_id"}` | `{}`; its token is then refused |

From the public API documents: a token has at most 64 characters, "if a run with the provided token is deleted, an error
is returned". That a run that is not known is HTTP 400 with `INVALID_PARAMETER_VALUE` is what Databricks' own SDK for
Python expects. A run has one task. A state is `LIFE_CYCLE_STATE:RESULT_STATE`.
"""

from __future__ import annotations

import itertools
import json

from airflow_resume.testing import ServiceJobs
from airflow_resume.testing.operators import ServiceJob
from json_request import NotFoundError, Request
from tests.support.providers.rest_service import Reply, RestService

RUNNING, SUCCESS, FAILED, CANCELED = "RUNNING:", "TERMINATED:SUCCESS", "TERMINATED:FAILED", "TERMINATED:CANCELED"
FIRST_RUN = 900_000
ONE_TIME_JOB = 1
"""The job of every run that was submitted. Databricks makes one for each, whose id is in the URL of the run."""
MOST_CHARACTERS = 64
"""Of a token."""


class DatabricksService(RestService):
    """Databricks without clusters. Tests steer and check it by `jobs`."""

    def __init__(self, *, port: int = 0) -> None:
        super().__init__(
            ServiceJobs(
                running=RUNNING,
                succeeded=SUCCESS,
                failed=FAILED,
                cancelled=CANCELED,
                unknown="PONDERING:",
                other_ends={"INTERNAL_ERROR:FAILED", "SKIPPED:", "TERMINATED:TIMEDOUT"},
            ),
            port=port,
        )
        self.repaired: list[int] = []
        self._ids = itertools.count(FIRST_RUN)

    @property
    def connection(self) -> str:
        """The Airflow connection that leads to the service."""
        host = {"conn_type": "databricks", "host": "127.0.0.1", "port": self.port, "schema": "http"}
        return json.dumps({**host, "password": "token-of-a-fake"})

    def answer(self, request: Request) -> object:
        """Answer by the table at the top of the module."""
        match request.route:
            case ("POST", "api", "2.1" | "2.2", "jobs", *path) if path in (["runs", "submit"], ["run-now"]):
                return self._submit(request, "/".join(path))
            case ("GET", "api", "2.1" | "2.2", "jobs", "runs", "get"):
                run_id = int(request.query.get("run_id") or request.field("run_id", int))  # some clients send a body
                state = self.jobs.ask(run_id)
                return self._view(self.jobs.get(run_id), state)
            case ("GET", "api", "2.1" | "2.2", "jobs", "runs", "list"):
                return self._listed(request)
            case ("GET", "api", "2.1" | "2.2", "jobs", "runs", "get-output"):
                self.jobs.get(int(request.query.get("run_id") or request.field("run_id", int)))
                return {"error": "the notebook failed"}
            case ("POST", "api", "2.1" | "2.2", "jobs", "runs", change):
                return self._change(change, request)
        raise NotFoundError(f"{request.method} {request.path} is not offered")

    def not_known(self, job_id: object) -> Reply:
        return _refused(f"Run {job_id} does not exist.")

    def failed(self, status: int) -> Reply:
        return Reply(status, {"error_code": "TEMPORARILY_UNAVAILABLE", "message": "ordered by the test"})

    def _submit(self, request: Request, path: str) -> object:
        token = request.optional("idempotency_token", str) or None
        if token is not None and len(token) > MOST_CHARACTERS:
            return _refused(f"idempotency_token has {len(token)} characters; at most {MOST_CHARACTERS} are allowed.")
        for run in self.jobs.jobs:
            if token is not None and (run.token, run.request["path"]) == (token, path):
                if run.is_forgotten:
                    return _refused(f"The run with idempotency_token {token} was deleted.")
                return {"run_id": run.id}
        run = self.jobs.make(next(self._ids), token=token, request={"path": path, "body": request.body})
        return {"run_id": run.id}

    def _change(self, change: str, request: Request) -> object:
        match change:
            case "cancel":
                self.jobs.cancel(request.field("run_id", int))
            case "cancel-all":
                for run in self.jobs.known():
                    if _job_id(run) == request.field("job_id", int):
                        self.jobs.cancel(run.id)
            case "repair":
                self.repaired.append(run_id := request.field("run_id", int))
                self.jobs.get(run_id).states = [RUNNING, SUCCESS]
                return {"repair_id": 1}
            case "delete":
                self.jobs.forget(request.field("run_id", int))
            case _:
                raise NotFoundError(f"{request.path} is not offered")
        return {}

    def _listed(self, request: Request) -> object:
        job_id, only_active = request.query.get("job_id"), request.query.get("active_only") == "true"
        runs = [
            self._view(run, run.state)
            for run in reversed(self.jobs.known())
            if (job_id is None or str(_job_id(run)) == job_id) and (run.is_alive or not only_active)
        ]
        return {"runs": runs, "has_more": False}

    def _view(self, run: ServiceJob, state: str) -> dict[str, object]:
        life, _, result = state.partition(":")
        described = {"life_cycle_state": life, "result_state": result or None, "state_message": ""}
        task_key = run.request["body"].get("run_name")
        return {
            "run_id": run.id,
            "job_id": _job_id(run),
            "run_name": run.request["body"].get("run_name", "Untitled"),
            "run_page_url": f"{self.url}/?o=1#job/{_job_id(run)}/run/{run.id}",
            "state": described,
            "repair_history": [{"type": "ORIGINAL"}],
            "tasks": [{"run_id": run.id, "task_key": task_key, "start_time": 1, "state": described}],
        }


def _job_id(run: ServiceJob) -> object:
    return run.request["body"].get("job_id", ONE_TIME_JOB)


def _refused(message: str) -> Reply:
    return Reply(400, {"error_code": "INVALID_PARAMETER_VALUE", "message": message})
