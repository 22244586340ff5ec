"""An Airflow that has only what the command asks for: task instances, assets and their state, over HTTP on loopback."""

from __future__ import annotations

import json
import re
import threading
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

Json = Any
NOW = "2026-01-01T12:00:00Z"
_TI = r"/dags/([^/]+)/dagRuns/([^/]+)/taskInstances"
Place = tuple[Any, ...]


def token_of(user: str) -> str:
    part = urlsafe_b64encode(json.dumps({"sub": user}).encode()).decode().rstrip("=")
    return f"e30.{part}.x"


@dataclass
class FakeAirflow:
    """State by place: `(dag, run, task, map index)`, or `(asset id,)`.

    Args:
        answers: taken first for each request, such as `(503, "")`; None: the usual answer.
        others: the answers of other paths.
        before: called with the method and the path before each answer.
    """

    instances: list[dict[str, Json]] = field(default_factory=list)
    assets: list[str] = field(default_factory=list)
    states: dict[Place, dict[str, Json]] = field(default_factory=dict)
    answers: list[tuple[int, Json] | None] = field(default_factory=list)
    before: Callable[[str, str], object] = lambda _method, _path: None
    calls: list[str] = field(default_factory=list)
    asked: list[tuple[str, dict[str, list[str]]]] = field(default_factory=list)
    users: dict[str, str] = field(default_factory=dict)
    tokens: set[str] = field(default_factory=set)
    others: dict[str, tuple[int, Json]] = field(default_factory=dict)
    url: str = ""
    most_at_once: int = 0
    _at_once: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def task(self, *where: Json, **more: Json) -> Place:
        """Add a task instance, by Dag, run, task and map index; but for its `state` and `tries` all is in its store."""
        dag, run, task, index = where if len(where) == 4 else (*where, -1)
        state, tries = more.pop("state", "failed"), more.pop("tries", 1)
        shown = {"dag_id": dag, "dag_run_id": run, "task_id": task, "map_index": index, "state": state}
        self.instances.append({**shown, "try_number": tries, "max_tries": 3, "start_date": NOW})
        self.states[dag, run, task, index] = more
        return (dag, run, task, index)

    def asset(self, name: str, **keys: Json) -> Place:
        self.assets.append(name)
        self.states[len(self.assets),] = keys
        return (len(self.assets),)

    def be_asked_by_doctor(self, *, shows_settings: bool = True) -> None:
        """Have answers to its questions."""
        options = [{"key": "clear_on_success", "value": "False"}, {"key": "default_retention_days", "value": "30"}]
        ours = {"package_name": "airflow-resume", "version": "9.9"}
        settings = (200, {"sections": [{"name": "state_store", "options": options}]})
        self.others |= {
            "/version": (200, {"version": "3.3.2"}),
            "/dags": (200, {"dags": [], "total_entries": 0}),
            "/monitor/health": (200, {"scheduler": {"status": "healthy"}, "triggerer": {"status": None}}),
            "/providers": (200, {"providers": [ours], "total_entries": 1}),
            "/config": settings if shows_settings else (403, {}),
        }

    # --- answers ------------------------------------------------------------------------------------------------------

    def answer(self, method: str, path: str, params: dict[str, list[str]], body: Json) -> tuple[int, Json]:
        with self._lock:
            self.calls.append(f"{method} {path}")
            self.asked.append((path, params))
            given = self.answers.pop(0) if self.answers else None
        self.before(method, path)
        if given is not None:
            return given
        if path == "/auth/token":
            return self._token(method, body)
        path = path.removeprefix("/api/v2")
        if "/state-store" in path:
            return self._state(method, path, params, body)
        return self._instance(path) or self._list(path, params)

    def _token(self, method: str, body: Json) -> tuple[int, Json]:
        if method == "GET":
            return (401, {}) if self.users else (201, {"access_token": token_of("admin")})
        known = self.users.get(body["username"]) == body["password"]
        return (201, {"access_token": token_of(body["username"])}) if known else (401, {})

    def _instance(self, path: str) -> tuple[int, Json] | None:
        found = re.fullmatch(rf"{_TI}/([^/]+)(?:/(\d+))?", path)
        if found is None:
            return None
        wanted = (*map(unquote, found.groups()[:3]), int(found[4] or -1))
        for each in self.instances:
            if (each["dag_id"], each["dag_run_id"], each["task_id"], each["map_index"]) == wanted:
                return 200, each
        return 404, {"detail": "no such task instance"}

    def _list(self, path: str, params: dict[str, list[str]]) -> tuple[int, Json]:
        if path not in self.others and path.startswith("/dags") and (answer := self._dag(path, params)) is not None:
            return answer
        if found := re.fullmatch(_TI, path):
            there = {each["dag_run_id"] for each in self.instances if unquote(found[1]) in {"~", each["dag_id"]}}
            if unquote(found[2]) not in {"~", *there}:
                return 404, {"detail": "no such run"}
            return 200, _page("task_instances", self._listed(unquote(found[1]), unquote(found[2]), params), params)
        if found := re.fullmatch(r"/dags/([^/]+)/dagRuns", path):
            runs = [{"dag_run_id": each["dag_run_id"]} for each in self.instances if each["dag_id"] == found[1]]
            return 200, {"dag_runs": runs[-1:], "total_entries": len(runs)}
        if path == "/assets":
            wanted = params.get("name_pattern", [""])[0]
            named = [{"id": at, "name": name} for at, name in enumerate(self.assets, 1) if wanted in name]
            return 200, _page("assets", named, params)
        return self.others.get(path, (404, {"detail": "no such path"}))

    def _dag(self, path: str, params: dict[str, list[str]]) -> tuple[int, Json] | None:
        dags = [*dict.fromkeys(each["dag_id"] for each in self.instances)]
        if path == "/dags":
            return 200, _page("dags", [{"dag_id": name} for name in dags], params)
        dag, _, rest = path.removeprefix("/dags/").partition("/")
        if unquote(dag) not in {"~", *dags}:
            return 404, {"detail": "no such Dag"}
        return None if rest else (200, {"dag_id": unquote(dag)})

    def _listed(self, dag: str, run: str, params: dict[str, list[str]]) -> list[Json]:
        return [
            each
            for each in self.instances
            if dag in {"~", each["dag_id"]}
            and run in {"~", each["dag_run_id"]}
            and each["task_id"] in params.get("task_id", [each["task_id"]])
            and str(each["map_index"]) in params.get("map_index", [str(each["map_index"])])
            and str(each["state"]) in params.get("state", [str(each["state"])])
        ]

    def _state(self, method: str, path: str, params: dict[str, list[str]], body: Json) -> tuple[int, Json]:
        before, _, key = path.partition("/state-store")
        place: Place
        if found := re.fullmatch(rf"{_TI}/([^/]+)", before):
            member, fields = "task_state_store", {"value", "expires_at"}
            place = (*map(unquote, found.groups()), int(params.get("map_index", ["-1"])[0]))
        else:
            member, fields = "asset_state_store", {"value"}
            place = (int(before.removeprefix("/assets/")),)
        there, key = self.states.setdefault(place, {}), unquote(key.removeprefix("/"))
        if method == "PUT":
            assert set(body) == fields
            there[key] = body["value"]
            return 204, None
        entries = [
            {"key": name, "value": value, "updated_at": NOW, "expires_at": None} for name, value in there.items()
        ]
        if not key:
            return 200, _page(member, entries, params)
        return next(((200, entry) for entry in entries if entry["key"] == key), (404, {"detail": "no such key"}))


def _page(member: str, entries: list[Json], params: dict[str, list[str]]) -> Json:
    at, limit = int(params.get("offset", ["0"])[0]), min(int(params.get("limit", ["50"])[0]), 100)
    return {member: entries[at : at + limit], "total_entries": len(entries)}


@contextmanager
def fake_airflow() -> Iterator[FakeAirflow]:
    """The server, while it runs."""
    airflow = FakeAirflow()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _serve(self) -> None:
            with airflow._lock:
                airflow._at_once += 1
                airflow.most_at_once = max(airflow.most_at_once, airflow._at_once)
                airflow.tokens |= {self.headers["Authorization"]} - {None}
            parts = urlsplit(self.path)
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            status, answer = airflow.answer(self.command, parts.path, parse_qs(parts.query), body)
            with airflow._lock:
                airflow._at_once -= 1
            if status == 0:  # the connection is lost without an answer
                self.close_connection = True
                return
            text = b"" if answer is None else answer.encode() if answer == "<html>" else json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        do_GET = do_POST = do_PUT = do_DELETE = _serve  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    airflow.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield airflow
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
