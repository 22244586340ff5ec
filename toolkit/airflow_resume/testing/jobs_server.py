"""`FakeJobs` over HTTP on loopback, for operators that speak HTTP, in this process or in another one.

| request | answer |
|---|---|
| `POST /jobs`, the token as `{"token": text}` or in the header `Idempotency-Key` | 201 `{"id": id}` |
| `GET /jobs/ID` | `{"id": id, "status": word}` |
| `GET /jobs?token=T` | `[{"id": id}]` of the newest job with this token, or `[]` |
| `GET /jobs?slot=S` | `[{"id": id, "token": token}, ...]` of all jobs whose token begins with S |
| `DELETE /jobs/ID` | 202 `{"id": id}`: it is asked to end |
| `GET /jobs/ID/result` | what the job returned |

An unknown or forgotten job is 404, a request that cannot be read is 400, and looking up or cancelling is 405 where the
`FakeJobs` cannot. Every error says `{"error": text}`.

Theory of operation. One thread accepts, and each connection has one of its own and is kept open between requests.
`FakeJobs` guards itself by a lock. At the end every connection is shut down, which wakes its thread, and all threads
are joined. The calls made here are no points of the crash explorer: a point kills the process that passes it, and that
must be the attempt's and not the server's. Register the request in the attempt: `with world.effect("submit"): ...`.
"""

from __future__ import annotations

import json
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, NamedTuple, cast
from urllib.parse import parse_qsl, unquote, urlsplit

from airflow_resume.testing.jobs import UnknownJobError, unobserved

if TYPE_CHECKING:
    from airflow_resume.testing.jobs import FakeJobs

_GLANCE = 0.01
"""Seconds between two looks of the accepting thread at whether it should end."""


class _AnswerError(Exception):
    """The client is answered with this status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class _NoAnswerError(ConnectionError):
    """The client is not answered."""


class _Answer(NamedTuple):
    status: int
    text: str


class JobsServer:
    """A `FakeJobs` that is being served; made by `FakeJobs.serve`.

    Attributes:
        jobs: what is served, to look at and to order from.
        url: where, such as `http://127.0.0.1:40123`.
    """

    def __init__(self, jobs: FakeJobs, url: str) -> None:
        self.jobs = jobs
        self.url = url

    def fail_next(self, call: str, *, status: int | None = None, applied: bool = False) -> None:
        """Let the next call of this name fail.

        Args:
            call: `submit`, `status`, `find`, `find_jobs`, `cancel` or `result`.
            status: of the answer, such as 503; None closes the connection without an answer.
            applied: after the work is done; with `status=None`, the reply is lost.
        """
        error = _NoAnswerError() if status is None else _AnswerError(status, "ordered by the test")
        self.jobs.fail_next(call, error, applied=applied)


@contextmanager
def serving(jobs: FakeJobs, *, port: int) -> Iterator[JobsServer]:
    """Serve until the block is left; see `FakeJobs.serve`."""
    with _Server(("127.0.0.1", port), _Handler) as server:
        server.jobs = jobs
        accepting = threading.Thread(target=server.serve_forever, args=(_GLANCE,), name="fake-jobs", daemon=True)
        accepting.start()
        try:
            yield JobsServer(jobs, f"http://127.0.0.1:{server.server_port}")
        finally:
            server.shutdown()
            accepting.join()
            server.hang_up()


class _Server(ThreadingHTTPServer):
    daemon_threads = False  # those of daemons are not joined
    request_queue_size = 128
    jobs: FakeJobs

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        self._open: set[socket.socket] = set()
        super().__init__(address, handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        super().shutdown_request(request)
        self._open.discard(request)

    def hang_up(self) -> None:
        """End every connection, so that its thread ends. Nothing may be accepted any more."""
        for connection in list(self._open):
            with suppress(OSError):  # it has just ended by itself
                connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        # A client that was killed on purpose is not worth a traceback.
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # One packet per answer: else Nagle and delayed acknowledgements add 40 ms to each.
    wbufsize = -1
    disable_nagle_algorithm = True

    def _handle(self) -> None:
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        try:
            with unobserved():
                answer = self._answered(raw)
        except (ConnectionError, TimeoutError):
            self.close_connection = True
            return
        self._reply(answer)

    do_GET = do_POST = do_DELETE = _handle  # noqa: N815  the names are the base class's

    def _answered(self, raw: bytes) -> _Answer:
        try:
            status, content = self._carry_out(raw)
            return _Answer(status, json.dumps(content))
        except _AnswerError as error:
            return _refusal(error.status, error)
        except UnknownJobError as error:
            return _refusal(HTTPStatus.NOT_FOUND, f"no job {error}")
        except (ConnectionError, TimeoutError):
            raise
        except Exception as error:  # noqa: BLE001  whatever a test has ordered
            return _refusal(HTTPStatus.INTERNAL_SERVER_ERROR, repr(error))

    def _carry_out(self, raw: bytes) -> tuple[int, object]:
        """Answer by the table at the top of the module."""
        jobs, url = cast("_Server", self.server).jobs, urlsplit(self.path)
        match (self.command, *(unquote(part) for part in url.path.strip("/").split("/"))):
            case ("POST", "jobs"):
                return HTTPStatus.CREATED, {"id": jobs.submit(self._token(raw))}
            case ("GET", "jobs"):
                return HTTPStatus.OK, _found(jobs, dict(parse_qsl(url.query, keep_blank_values=True)))
            case ("GET", "jobs", external_id):
                return HTTPStatus.OK, {"id": external_id, "status": jobs.status(external_id)}
            case ("GET", "jobs", external_id, "result"):
                return HTTPStatus.OK, jobs.result(external_id)
            case ("DELETE", "jobs", external_id):
                _offered("cancel", jobs.can_cancel)
                jobs.cancel(external_id)
                return HTTPStatus.ACCEPTED, {"id": external_id}
        raise _AnswerError(HTTPStatus.NOT_FOUND, f"{self.command} {url.path} is not offered")

    def _token(self, raw: bytes) -> str | None:
        """Of the body, else of the header, else None."""
        try:
            body = json.loads(raw or b"{}")
        except ValueError as error:
            raise _AnswerError(HTTPStatus.BAD_REQUEST, f"the body is not JSON: {error}") from error
        if not isinstance(body, dict) or not isinstance(body.get("token"), (str, type(None))):
            raise _AnswerError(HTTPStatus.BAD_REQUEST, 'the body must be {"token": text or null}')
        token: str | None = body.get("token")
        return self.headers.get("Idempotency-Key") if token is None else token

    def _reply(self, answer: _Answer) -> None:
        content = answer.text.encode()
        self.send_response(answer.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the name is the base class's
        """Keep quiet: `FakeJobs.events` is the log."""


def _found(jobs: FakeJobs, query: dict[str, str]) -> list[dict[str, Any]]:
    if "slot" in query:
        _offered("find_jobs", jobs.can_find_by_slot)
        return [{"id": external_id, "token": token} for token, external_id in jobs.find_jobs(query["slot"]).items()]
    _offered("find", jobs.can_find)
    if "token" not in query:
        raise _AnswerError(HTTPStatus.BAD_REQUEST, "ask with ?token= or ?slot=")
    external_id = jobs.find(query["token"])
    return [] if external_id is None else [{"id": external_id}]


def _offered(call: str, can: bool) -> None:  # noqa: FBT001
    if not can:
        raise _AnswerError(HTTPStatus.METHOD_NOT_ALLOWED, f"this job system has no {call}")


def _refusal(status: int, why: object) -> _Answer:
    return _Answer(status, json.dumps({"error": str(why)}))
