"""The part of the Docker Engine's HTTP API that `DockerOperator` uses, on loopback, with containers that run nothing.

It cannot show what a container does, nor volumes, networks and images.
"""

from __future__ import annotations

import itertools
import json
import struct
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from airflow_resume.testing import ServiceJobs
from airflow_resume.testing.fakes.job import UnknownJobError
from airflow_resume.testing.operators import OrderedFailureError

if TYPE_CHECKING:
    from typing_extensions import Self

LINES = (b"first\n", b"last\n")


class DockerHost:
    """A Docker host. The states of a container are `running`, and its exit code when it has ended."""

    def __init__(self) -> None:
        self.jobs = ServiceJobs(running="running", succeeded="0", failed="1", cancelled="143", other_ends=("3",))
        self.started: set[str] = set()
        self.identity = "host-1"
        self._numbers = itertools.count(1)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self.url = f"tcp://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(  # noqa: C901, PLR0911  a table of routes
        self, method: str, path: list[str], query: dict[str, str], body: Any
    ) -> tuple[int, Any]:
        self.jobs.begin()
        match (method, *path):
            case ("GET", "version"):
                return 200, {"ApiVersion": "1.44"}
            case (_, "_ping"):
                return 200, b"OK"
            case ("GET", "info"):
                return 200, {"ID": self.identity}
            case ("GET", "images", "json"):
                return 200, [{"Id": "image"}]
            case ("POST", "containers", "create"):
                return self._create(query.get("name") or f"container-{next(self._numbers)}", body)
            case ("POST", "containers", container, "start"):
                self.jobs.get(container)
                self.started.add(container)
                return 204, None
            case ("POST", "containers", container, "wait"):
                while (state := self.jobs.ask(container)) == "running":
                    self.jobs.begin()  # the client may be dead by now: then nobody waits
                    time.sleep(0.001)
                return 200, {"StatusCode": int(state)}
            case ("POST", "containers", container, "stop"):
                self.jobs.cancel(container)
                return 204, None
            case ("GET", "containers", container, "json"):
                return 200, self._inspected(container)
            case ("DELETE", "containers", container):
                self.jobs.forget(container)
                return 204, None
        return 404, {"message": f"{method} {path}"}

    def _create(self, name: str, body: Any) -> tuple[int, Any]:
        if any(job.id == name for job in self.jobs.known()):
            return 409, {"message": f"The container name {name!r} is already in use"}
        return 201, {"Id": self.jobs.make(name, request=body).id, "Warnings": []}

    def _inspected(self, container: str) -> Any:
        job = self.jobs.get(container)
        state = self.jobs.ask(container) if container in self.started else "created"
        ended = state.isdigit()
        return {
            "Id": container,
            "Config": {"Labels": job.request.get("Labels") or {}, "Tty": False},
            "State": {"Status": "exited" if ended else state, "ExitCode": int(state) if ended else 0},
        }


def _handler(host: DockerHost) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *_args: Any) -> None:  # noqa: A002
            """Nothing."""

        def _serve(self) -> None:
            parts = urlsplit(self.path)
            path = [part for part in parts.path.split("/") if part]
            path = path[1:] if path[0].startswith("v1.") else path
            query = {name: values[0] for name, values in parse_qs(parts.query).items()}
            raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if path[-1] in {"logs", "attach"}:
                self._stream(path[-2])
                return
            try:
                status, body = host.answer(self.command, path, query, json.loads(raw or b"null"))
            except UnknownJobError as error:
                status, body = 404, {"message": f"No such container: {error}"}
            except OrderedFailureError as error:
                status, body = error.status, {"message": str(error)}
            except ConnectionError:
                self.close_connection = True
                return
            content = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def _stream(self, container: str) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "application/vnd.docker.raw-stream")
            self.send_header("Connection", "close")
            self.end_headers()
            deadline = time.monotonic() + 5
            while container not in host.started and time.monotonic() < deadline:
                time.sleep(0.001)
            time.sleep(0.005)  # the client has read the headers: it takes the bytes after them from the socket
            for line in LINES:
                self.wfile.write(struct.pack(">BxxxL", 1, len(line)) + line)
            self.close_connection = True

        do_GET = do_POST = do_DELETE = _serve  # noqa: N815

    return Handler
