"""A client for the public REST API of Airflow, with what the demo and the tests need."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import uuid4

if TYPE_CHECKING:
    import httpx

T = TypeVar("T")

Json = Any
"""What `json.loads` returns: the shape is Airflow's, or the Dag author's."""

_GLANCE = 0.4
_FINISHED = frozenset({"success", "failed"})
_UNAUTHORIZED = 401
_NOT_FOUND = 404
_CONFLICT = 409
_SERVER_ERROR = 500
_MOST_ENTRIES = 100


class AirflowApiError(RuntimeError):
    """Airflow answered with an error."""

    def __init__(self, status: int, question: str, answer: str) -> None:
        super().__init__(f"{question} was answered with {status}: {answer}")
        self.status = status


class DagImportError(RuntimeError):
    """Airflow could not import a Dag file; the message is its traceback."""


class AirflowClient:
    """A client of one Airflow whose simple auth manager makes everyone an admin; several threads may share it.

    Args:
        url: Where the API server is.
        still_alive: Called while waiting; raises when waiting is useless.
    """

    def __init__(self, url: str, *, still_alive: Callable[[], None] = lambda: None) -> None:
        self._still_alive = still_alive
        self._one_change = threading.Lock()
        self.connect(url)

    def connect(self, url: str) -> None:
        """Talk to the API server at `url` from now on."""
        # Not at module level: Airflow may parse a folder in which this file lies.
        import httpx

        self._http = httpx.Client(base_url=url, trust_env=False, timeout=30)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def call(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str | int | bool] | None = None,
        body: object = None,
        accept: str = "application/json",
    ) -> str:
        """Send a request, and return the text of the answer; a token is fetched if one is needed.

        Raises:
            AirflowApiError: If the answer is an error.
        """

        def ask() -> httpx.Response:
            return self._http.request(method, path, params=params, json=body, headers={"Accept": accept})

        response = ask()
        if response.status_code == _UNAUTHORIZED:
            self._log_in()
            response = ask()
        if response.is_error:
            raise AirflowApiError(response.status_code, f"{method} {path}", response.text)
        return response.text

    def _log_in(self) -> None:
        answer = self._http.get("/auth/token").raise_for_status()
        self._http.headers["Authorization"] = f"Bearer {answer.json()['access_token']}"

    def _get(self, path: str, **params: str | int | bool) -> Json:
        return json.loads(self.call("GET", path, params=params))

    def wait_for(self, probe: Callable[[], T | None], *, what: str, timeout: float) -> T:
        """Call `probe` until its answer is not None.

        Raises:
            TimeoutError: If it is still None after `timeout` seconds.
        """
        deadline = time.monotonic() + timeout
        while (found := probe()) is None:
            self._still_alive()
            if time.monotonic() > deadline:
                raise TimeoutError(f"{what} did not happen within {timeout:g} seconds")
            time.sleep(_GLANCE)
        return found

    def health(self) -> Json | None:
        """The health of each component, or None while no API server answers."""
        return self._get_if_up("/api/v2/monitor/health")

    def is_ready_for_tasks(self) -> Json | None:
        """Not None when the API server answers tasks; the first request takes some seconds."""
        return self._get_if_up("/execution/health")

    def _get_if_up(self, path: str) -> Json | None:
        import httpx

        try:
            return self._get(path)
        except (httpx.TransportError, AirflowApiError, ValueError):
            return None

    def wait_until_parsed(self, dag_id: str, timeout: float = 60) -> None:
        """Wait until a Dag can be triggered.

        Raises:
            DagImportError: If it is not there, and some Dag file cannot be imported.
        """
        self.wait_for(lambda: self.dag(dag_id), what=f"the parsing of Dag {dag_id}", timeout=timeout)

    def dag(self, dag_id: str) -> Json | None:
        """What is known of a Dag; None if it is not there yet.

        Raises:
            DagImportError: If it is not there, and some Dag file cannot be imported.
        """
        try:
            return self._get(f"/api/v2/dags/{dag_id}")
        except AirflowApiError as error:
            if error.status != _NOT_FOUND:
                raise
        errors = self._get("/api/v2/importErrors")["import_errors"]
        if errors:
            raise DagImportError("\n".join(error["stack_trace"] for error in errors))
        return None

    def trigger(self, dag_id: str, conf: Mapping[str, Json] | None = None, run_id: str | None = None) -> str:
        """Start a run and return its id."""
        body: dict[str, Json] = {"logical_date": None, "conf": dict(conf or {})}
        body["dag_run_id"] = run_id = run_id or f"run-{uuid4().hex[:12]}"

        def started() -> bool | None:
            try:
                self._insist("POST", f"/api/v2/dags/{dag_id}/dagRuns", body)
            except AirflowApiError as error:
                # A Dag that was not parsed for a while, as on a busy machine, is stale until it is.
                if error.status == _NOT_FOUND and self.dag(dag_id) is not None:
                    return None
                if error.status != _CONFLICT:  # as the run has a name, asking again cannot start two
                    raise
            return True

        self.wait_for(started, what=f"a run of {dag_id}", timeout=60)
        return run_id

    def _insist(self, method: str, path: str, body: object) -> str:
        """Repeat a change while Airflow answers that SQLite was locked and nothing was changed.

        Only one change at a time: two at once deadlock in the API server until SQLite's timeout.
        """

        def answer() -> str | None:
            try:
                with self._one_change:
                    return self.call(method, path, body=body)
            except AirflowApiError as error:
                if error.status < _SERVER_ERROR:
                    raise
                return None

        return self.wait_for(answer, what=f"{method} {path}", timeout=30)

    def change(self, method: str, path: str, body: object) -> Json:
        """Request a change, and return the decoded answer; None if it is empty."""
        answer = self._insist(method, path, body)
        return json.loads(answer) if answer else None

    def runs(self, dag_id: str) -> list[dict[str, Json]]:
        """The runs of a Dag, in the order of their dates."""
        listed = self._get(f"/api/v2/dags/{dag_id}/dagRuns", order_by="run_after", limit=_MOST_ENTRIES)
        return list(listed["dag_runs"])

    def newest_run(self, dag_id: str) -> str:
        """The id of the run that was started last."""
        runs = self._get(f"/api/v2/dags/{dag_id}/dagRuns", order_by="-run_after", limit=1)["dag_runs"]
        return str(runs[0]["dag_run_id"])

    def mark(self, dag_id: str, run_id: str, task_id: str, state: str, *, map_index: int = -1) -> None:
        """Mark a task of a run as failed or success, as a person does in the UI."""
        self._insist("PATCH", _task_instance(dag_id, run_id, task_id, map_index), {"new_state": state})

    def clear(self, dag_id: str, run_id: str, *task_ids: str | tuple[str, int]) -> None:
        """Clear tasks of a run, as a person does in the UI. Of a mapped one, the pair names one by its map index."""
        body = {"dry_run": False, "dag_run_id": run_id, "task_ids": list(task_ids), "only_failed": False}
        self._insist("POST", f"/api/v2/dags/{dag_id}/clearTaskInstances", body)

    def end_run(self, dag_id: str, run_id: str) -> None:
        """Mark a run as failed, and its tasks with it, as a person does in the UI."""
        self._insist("PATCH", _run(dag_id, run_id), {"state": "failed"})

    def queue_run(self, dag_id: str, run_id: str) -> None:
        """Set a run back to *queued*; its tasks stay as they are, and the run gets another start."""
        self._insist("PATCH", _run(dag_id, run_id), {"state": "queued"})

    def delete_run(self, dag_id: str, run_id: str) -> None:
        """Delete a run that has ended; its id may be used again."""
        self._insist("DELETE", _run(dag_id, run_id), None)

    def clear_state_store(self, dag_id: str, run_id: str, task_id: str) -> None:
        """Delete everything in the state store of a task, as a person does in the UI."""
        self._insist("DELETE", f"{_task(dag_id, run_id, task_id)}/state-store", None)

    def parse_again(self, dag_id: str) -> None:
        """Ask the Dag processor to look at the file of a Dag now."""
        self._insist("PUT", f"/api/v2/parseDagFile/{self._get(f'/api/v2/dags/{dag_id}')['file_token']}", None)

    def retries(self, dag_id: str, task_id: str) -> int:
        """The details of a task, as Airflow has parsed it."""
        return int(self._get(f"/api/v2/dags/{dag_id}/tasks/{task_id}")["retries"])

    def asset_events(self, name: str) -> list[dict[str, Json]]:
        """The events of an asset, oldest first."""
        events = self._get("/api/v2/assets/events", name_pattern=name, order_by="timestamp", limit=_MOST_ENTRIES)
        return [event for event in events["asset_events"] if event["name"] == name]

    def run_state(self, dag_id: str, run_id: str) -> str:
        """The state of a run: queued, running, success or failed."""
        return str(self._get(_run(dag_id, run_id))["state"])

    def wait_for_run(self, dag_id: str, run_id: str, timeout: float = 120) -> str:
        """Wait until a run has finished, and return its state."""

        def finished() -> str | None:
            state = self.run_state(dag_id, run_id)
            return state if state in _FINISHED else None

        return self.wait_for(finished, what=f"the end of {dag_id} {run_id}", timeout=timeout)

    def task_instance(self, dag_id: str, run_id: str, task_id: str, map_index: int = -1) -> dict[str, Json]:
        """A task instance: its state, try_number, pid, and more."""
        found: dict[str, Json] = self._get(_task_instance(dag_id, run_id, task_id, map_index))
        return found

    def xcom(self, dag_id: str, run_id: str, task_id: str, key: str = "return_value", map_index: int = -1) -> Json:
        """The value of an XCom."""
        return self._get(f"{_task(dag_id, run_id, task_id)}/xcomEntries/{key}", map_index=map_index)["value"]

    def state_store(self, dag_id: str, run_id: str, task_id: str, map_index: int = -1) -> dict[str, Json]:
        """What a task has in its state store (the first 100 keys)."""
        path = f"{_task(dag_id, run_id, task_id)}/state-store"
        return _entries(self._get(path, map_index=map_index, limit=_MOST_ENTRIES)["task_state_store"])

    def asset_state_store(self, name: str) -> dict[str, Json]:
        """What an asset has in its state store (the first 100 keys).

        Raises:
            LookupError: If there is no such asset.
        """
        path = f"/api/v2/assets/{self.asset(name)['id']}/state-store"
        return _entries(self._get(path, limit=_MOST_ENTRIES)["asset_state_store"])

    def set_asset_state(self, name: str, key: str, value: Json) -> None:
        """Write into an asset's state store, as a person does in the UI."""
        self._insist("PUT", f"/api/v2/assets/{self.asset(name)['id']}/state-store/{key}", {"value": value})

    def delete_asset_state(self, name: str, key: str) -> None:
        """Delete a key of an asset's state store, as a person does in the UI."""
        self._insist("DELETE", f"/api/v2/assets/{self.asset(name)['id']}/state-store/{key}", None)

    def asset(self, name: str) -> dict[str, Json]:
        """An asset that some Dag names: its id, uri, and more.

        Raises:
            LookupError: If there is no such asset.
        """
        assets = self._get("/api/v2/assets", name_pattern=name, limit=_MOST_ENTRIES)["assets"]
        for asset in assets:
            if asset["name"] == name:
                return dict(asset)
        raise LookupError(f"no asset is named {name}")

    def logs(self, dag_id: str, run_id: str, task_id: str, try_number: int, map_index: int = -1) -> str:
        """The log of an attempt, a line for each entry: time, level, text, and what was raised."""
        text = self.call(
            "GET",
            f"{_task(dag_id, run_id, task_id)}/logs/{try_number}",
            params={"map_index": map_index, "full_content": True},
            accept="application/x-ndjson",
        )
        return "\n".join(map(_log_line, text.splitlines()))


def _run(dag_id: str, run_id: str) -> str:
    return f"/api/v2/dags/{dag_id}/dagRuns/{run_id}"


def _task(dag_id: str, run_id: str, task_id: str) -> str:
    return f"{_run(dag_id, run_id)}/taskInstances/{task_id}"


def _task_instance(dag_id: str, run_id: str, task_id: str, map_index: int) -> str:
    tail = "" if map_index < 0 else f"/{map_index}"
    return _task(dag_id, run_id, task_id) + tail


def _entries(listed: Iterable[Mapping[str, Json]]) -> dict[str, Json]:
    return {entry["key"]: entry["value"] for entry in listed}


def _log_line(text: str) -> str:
    entry = json.loads(text)
    raised = (f"{error['exc_type']}: {error['exc_value']}" for error in entry.get("error_detail") or ())
    parts = (entry.get("timestamp"), entry.get("level"), entry.get("event"), *raised)
    return " ".join(str(part) for part in parts if part)
