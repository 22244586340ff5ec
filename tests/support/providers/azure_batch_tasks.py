"""Azure Batch on loopback, by the public reference of its REST API, for `check_operator`, whose jobs are Batch's tasks.

| request | answer |
|---|---|
| `POST /pools`, `POST /jobs` | 201; 409 if there is one with this id |
| `GET /pools/ID`, `GET /pools/ID/nodes` | a steady pool with one idle node |
| `POST /jobs/ID/tasks {"id"}` | 201; 409 `TaskExists`, or `JobCompleted` if the job was ended |
| `GET /jobs/ID/tasks` | all tasks of the job |
| `GET /jobs/ID/tasks/ID` | the task |
| `POST /jobs/ID/tasks/ID/terminate`, `POST /jobs/ID/terminate` | 204, 202: what runs is ended |
| `DELETE /jobs/ID`, `DELETE /pools/ID` | 202; the tasks of a job are gone with it |
"""

from __future__ import annotations

import re
from typing import Any

from airflow_resume.testing import ServiceJobs
from airflow_resume.testing.operators import ServiceJob
from json_request import JsonText, NotFoundError, Request
from tests.support.providers.rest_service import Reply, RestService

NOTHING = JsonText("")
RESULTS = {"success": "success", "failed": "failure", "terminated": "failure"}
ID = re.compile("[0-9A-Za-z_-]{1,64}")


class BatchTasks(RestService):
    """A Batch account without machines. The id of a task in `jobs` is JOB/TASK."""

    def __init__(self) -> None:
        super().__init__(
            ServiceJobs(
                running="running", succeeded="success", failed="failed", cancelled="terminated", unknown="pondering"
            )
        )
        self.pools: set[str] = set()
        self.states_of_jobs: dict[str, str] = {}
        self.events: list[str] = []

    def answer(self, request: Request) -> object:
        """Answer by the table at the top of the module."""
        match request.route:
            case ("POST", "pools" | "jobs" as kind):
                return self._made(kind, request.field("id", str))
            case ("GET", "pools", pool_id, *rest):
                return self._pool(pool_id, rest)
            case (_, "jobs", job_id, "tasks", *rest):
                return self._task(job_id, rest, request)
            case (method, "jobs" | "pools" as kind, own_id, *rest):
                return self._changed(method, kind, own_id, rest)
        raise NotFoundError(f"{request.method} {request.path} is not offered")

    def not_known(self, job_id: object) -> Reply:
        del job_id
        return _refused(404, "TaskNotFound")

    def failed(self, status: int) -> Reply:
        return _refused(status, "ServerBusy")

    def _made(self, kind: str, own_id: str) -> Reply:
        there = self.pools if kind == "pools" else self.states_of_jobs
        if own_id in there:
            return _refused(409, "PoolExists" if kind == "pools" else "JobExists")
        self.pools.add(own_id) if kind == "pools" else self.states_of_jobs.setdefault(own_id, "active")
        return Reply(201, NOTHING)

    def _pool(self, pool_id: str, rest: list[str]) -> object:
        if pool_id not in self.pools:
            return _refused(404, "PoolNotFound")
        if rest == ["nodes"]:
            return {"value": [{"id": f"{pool_id}-1", "state": "idle"}]}
        return {"id": pool_id, "state": "active", "allocationState": "steady", "targetDedicatedNodes": 1}

    def _changed(self, method: str, kind: str, own_id: str, rest: list[str]) -> object:
        if own_id not in (self.pools if kind == "pools" else self.states_of_jobs):
            return _refused(404, "PoolNotFound" if kind == "pools" else "JobNotFound")
        if method == "GET":
            return {"id": own_id, "state": self.states_of_jobs[own_id]}
        self.events.append(" ".join([method, kind, own_id, *rest]))
        tasks = self._tasks(own_id) if kind == "jobs" else []
        if rest == ["terminate"]:
            self.states_of_jobs[own_id] = "completed"
            for task in tasks:
                self.jobs.cancel(task.id)
        else:
            for task in tasks:
                self.jobs.forget(task.id)
            self.pools.discard(own_id) if kind == "pools" else self.states_of_jobs.pop(own_id)
        return Reply(202, NOTHING)

    def _task(self, job_id: str, rest: list[str], request: Request) -> object:
        match request.method, rest:
            case "POST", []:
                return self._add(job_id, request)
            case "GET", []:
                return {"value": [_view(task, self.jobs.ask(task.id)) for task in self._tasks(job_id)]}
            case "GET", [task_id]:
                state = self.jobs.ask(f"{job_id}/{task_id}")
                return _view(self.jobs.get(f"{job_id}/{task_id}"), state)
            case "POST", [task_id, "terminate"]:
                self.jobs.cancel(f"{job_id}/{task_id}")
                return Reply(204, NOTHING)
        raise NotFoundError(f"{request.method} {request.path} is not offered")

    def _add(self, job_id: str, request: Request) -> Reply:
        task_id = request.field("id", str)
        assert ID.fullmatch(task_id)
        if job_id not in self.states_of_jobs:
            return _refused(404, "JobNotFound")
        if self.states_of_jobs[job_id] != "active":
            return _refused(409, "JobCompleted")
        if any(task.id == f"{job_id}/{task_id}" for task in self.jobs.known()):
            return _refused(409, "TaskExists")
        self.jobs.make(f"{job_id}/{task_id}", request=request.body)
        return Reply(201, NOTHING)

    def _tasks(self, job_id: str) -> list[ServiceJob]:
        return [task for task in self.jobs.known() if task.id.startswith(f"{job_id}/")]


def _view(task: ServiceJob, state: Any) -> dict[str, Any]:
    described = {"id": task.id.partition("/")[2], "commandLine": task.request["commandLine"]}
    if state not in RESULTS:
        return {**described, "state": state}
    ended = {"result": RESULTS[state], "exitCode": int(state != "success"), "retryCount": 0, "requeueCount": 0}
    return {**described, "state": "completed", "executionInfo": ended}


def _refused(status: int, code: str) -> Reply:
    return Reply(status, {"code": code, "message": {"lang": "en-US", "value": code}})
