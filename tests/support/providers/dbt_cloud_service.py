"""dbt Cloud's job runs on loopback: enough for `DbtCloudRunJobOperator`.

| request, below `/api/v2/accounts/ACCOUNT` | answer |
|---|---|
| `POST /jobs/JOB/run/ {"cause", ...}` | the run |
| `GET /runs/ID/` | the run, 404 when there is none |
| `GET /runs/?job_definition_id=JOB` | the newest runs first |
| `POST /runs/ID/cancel/` | the run, cancelled |

A run goes from one state of its script to the next when it is asked for.
"""

from __future__ import annotations

from json_request import NotFoundError, Request
from json_service import JsonService
from tests.support.providers.scripted_jobs import ScriptedJob, ScriptedJobs

QUEUED, STARTING, RUNNING, SUCCESS, ERROR, CANCELLED = 1, 2, 3, 10, 20, 30
FIRST_RUN = 70_000


class DbtCloudService(JsonService):
    """dbt Cloud without dbt. Tests steer and check it by `runs`."""

    def __init__(self, *, states: tuple[int, ...] = (STARTING, RUNNING, SUCCESS), port: int = 0) -> None:
        super().__init__(port=port)
        self.runs: ScriptedJobs[int] = ScriptedJobs(
            ends=frozenset({SUCCESS, ERROR, CANCELLED}), states=states, first=FIRST_RUN
        )

    def respond(self, request: Request) -> object:
        """Answer by the table at the top of the module."""
        match request.route:
            case ("POST", "api", "v2", "accounts", _, "jobs", _, "run"):
                return {"data": _view(self.runs.submit(request.optional("cause", str)))}
            case ("GET", "api", "v2", "accounts", _, "runs"):
                return {"data": [_view(run) for run in reversed(self.runs.known())]}
            case ("GET", "api", "v2", "accounts", _, "runs", number):
                return {"data": {**_view(self.runs.get(int(number))), "status": self.runs.look(int(number))}}
            case ("POST", "api", "v2", "accounts", _, "runs", number, "cancel"):
                self.runs.cancel(int(number), CANCELLED)
                return {"data": _view(self.runs.get(int(number)))}
            case _:
                raise NotFoundError(f"{request.method} {request.path} is not offered")


def _view(run: ScriptedJob[int]) -> dict[str, object]:
    return {
        "id": run.number,
        "status": run.state,
        "href": run_url(run.number),
        "trigger": {"cause": run.name},
        "run_steps": [],
    }


def run_url(number: int) -> str:
    """The URL at which people see the run."""
    return f"https://cloud.getdbt.com/runs/{number}/"
