"""`FakeJobs` over HTTP on loopback, for operators that speak HTTP, in this process or in another one.

| request | answer |
|---|---|
| `POST /jobs`, the token as `{"token": text}` or in the header `Idempotency-Key` | 201 `{"id": id}` |
| `GET /jobs/ID` | `{"id": id, "status": word}` |
| `GET /jobs?token=T` | `[{"id": id}]` of the newest job with this token, or `[]` |
| `GET /jobs?slot=S` | `[{"id": id, "token": token}, ...]` of all jobs whose token begins with S |
| `DELETE /jobs/ID` | 202 `{"id": id}`: it is asked to end |
| `GET /jobs/ID/result` | what the job returned |

An id is text or an integer, in JSON too. An unknown or forgotten job is answered with 404, a request that cannot be
read with 400, and a lookup or cancellation that the `FakeJobs` does not offer with 405. The body of every error is
`{"error": text}`.

Theory of operation. One thread accepts connections, and each connection has its own thread and stays open between
requests. `FakeJobs` protects itself with a lock. At the end every connection is shut down, which wakes its thread, and
all threads are joined. The calls made here are no points of the crash explorer: a point kills the process that passes
it, and that must be the attempt's process, not the server's. Register the request in the attempt instead:
`with world.effect("submit"): ...`.
"""

from __future__ import annotations

import json
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Protocol, cast
from urllib.parse import parse_qsl, unquote, urlsplit

from airflow_resume.testing.fakes.job import FakeJob, UnknownJobError, unobserved

_SHUTDOWN_POLL_SECONDS = 0.01
"""How often the accepting thread checks whether it should end."""


class ServedJobs(Protocol):
    """What the server needs of a `FakeJobs`."""

    jobs: list[FakeJob]
    can_find: bool
    can_cancel: bool
    can_find_by_slot: bool

    @property
    def ids(self) -> Callable[[int], Any]: ...  # noqa: D102
    def submit(self, token: str | None = None, /) -> Any: ...  # noqa: D102  each is described in `FakeJobs`
    def status(self, external_id: Any, /) -> str: ...  # noqa: D102
    def find(self, token: str, /) -> Any: ...  # noqa: D102
    def find_jobs(self, slot: str, /) -> dict[str, Any]: ...  # noqa: D102
    def cancel(self, external_id: Any, /) -> None: ...  # noqa: D102
    def result(self, external_id: Any, /) -> Any: ...  # noqa: D102
    def fail_next(self, call: str, error: BaseException, *, applied: bool = False) -> None: ...  # noqa: D102


class _AnswerError(Exception):
    """The client is answered with this status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class _NoAnswerError(ConnectionError):
    """The client is not answered."""


class JobsServer:
    """A `FakeJobs` that is being served; made by `FakeJobs.serve`.

    Attributes:
        jobs: the `FakeJobs`, for tests that inspect it or order failures.
        url: its address, such as `http://127.0.0.1:40123`.
    """

    def __init__(self, jobs: ServedJobs, url: str) -> None:
        self.jobs = jobs
        self.url = url

    def fail_next(self, call: str, *, status: int | None = None, applied: bool = False) -> None:
        """Make the next call of this name fail.

        Args:
            call: `submit`, `status`, `find`, `find_jobs`, `cancel` or `result`.
            status: of the answer, such as 503; None closes the connection without an answer.
            applied: fail after the work is done; with `status=None`, the reply is lost.
        """
        error = _NoAnswerError() if status is None else _AnswerError(status, "ordered by the test")
        self.jobs.fail_next(call, error, applied=applied)


@contextmanager
def serving(jobs: ServedJobs, *, port: int) -> Iterator[JobsServer]:
    """Serve until the block is left; see `FakeJobs.serve`."""
    for external_id in (jobs.ids(0), *(job.id for job in jobs.jobs)):
        if type(external_id) not in {str, int}:
            raise TypeError(
                f"The id {external_id!r} cannot be a part of a path and come back from JSON as it was.\nServe"
                f" a FakeJobs whose ids are text or integers: FakeJobs(ids=int)."
            )
    with _Server(("127.0.0.1", port), _Handler) as server:
        server.jobs = jobs
        accepting = threading.Thread(
            target=server.serve_forever, args=(_SHUTDOWN_POLL_SECONDS,), name="fake-jobs", daemon=True
        )
        accepting.start()
        try:
            yield JobsServer(jobs, f"http://127.0.0.1:{server.server_port}")
        finally:
            server.shutdown()
            accepting.join()
            server.hang_up()


class _Server(ThreadingHTTPServer):
    daemon_threads = False  # the server joins only threads that are no daemons
    request_queue_size = 128
    jobs: ServedJobs

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
        """Close every connection, so that its thread ends. Call it when no more connections are accepted."""
        for connection in list(self._open):
            with suppress(OSError):  # it has just ended by itself
                connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        # Tests kill clients on purpose, so a broken connection needs no traceback.
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
                status, content = self._carry_out(raw)
            text = json.dumps(content).encode()
        except _AnswerError as error:
            status, text = error.status, _error_text(error)
        except UnknownJobError as error:
            status, text = HTTPStatus.NOT_FOUND, _error_text(f"no job {error}")
        except (ConnectionError, TimeoutError):
            self.close_connection = True
            return
        except Exception as error:  # noqa: BLE001  whatever the test ordered with fail_next
            status, text = HTTPStatus.INTERNAL_SERVER_ERROR, _error_text(repr(error))
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_POST = do_DELETE = _handle  # noqa: N815  the names are the base class's

    def _carry_out(self, raw: bytes) -> tuple[int, object]:
        """Answer by the table at the top of the module."""
        jobs, url = cast("_Server", self.server).jobs, urlsplit(self.path)
        match (self.command, *(unquote(part) for part in url.path.strip("/").split("/"))):
            case ("POST", "jobs"):
                return HTTPStatus.CREATED, {"id": jobs.submit(self._token(raw))}
            case ("GET", "jobs"):
                return HTTPStatus.OK, _found(jobs, dict(parse_qsl(url.query, keep_blank_values=True)))
            case ("GET", "jobs", external_id):
                found = _id_of(jobs, external_id)
                return HTTPStatus.OK, {"id": found, "status": jobs.status(found)}
            case ("GET", "jobs", external_id, "result"):
                return HTTPStatus.OK, jobs.result(_id_of(jobs, external_id))
            case ("DELETE", "jobs", external_id):
                _offered("cancel", jobs.can_cancel)
                found = _id_of(jobs, external_id)
                jobs.cancel(found)
                return HTTPStatus.ACCEPTED, {"id": found}
        raise _AnswerError(HTTPStatus.NOT_FOUND, f"{self.command} {url.path} is not offered")

    def _token(self, raw: bytes) -> str | None:
        """The token in the body, else in the header, else None."""
        try:
            body = json.loads(raw or b"{}")
        except ValueError as error:
            raise _AnswerError(HTTPStatus.BAD_REQUEST, f"the body is not JSON: {error}") from error
        if not isinstance(body, dict) or not isinstance(body.get("token"), (str, type(None))):
            raise _AnswerError(HTTPStatus.BAD_REQUEST, 'the body must be {"token": text or null}')
        token: str | None = body.get("token")
        return self.headers.get("Idempotency-Key") if token is None else token

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the name is the base class's
        """Print nothing: `FakeJobs.events` is the log."""


def _id_of(jobs: ServedJobs, text: str) -> Any:
    """The id that a part of a path stands for: integer ids become integers again."""
    return next((job.id for job in jobs.jobs if str(job.id) == text), text)


def _found(jobs: ServedJobs, query: dict[str, str]) -> list[dict[str, Any]]:
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


def _error_text(why: object) -> bytes:
    return json.dumps({"error": str(why)}).encode()
