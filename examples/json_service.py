"""A JSON service on loopback: the HTTP part that the example services share.

A service says what it answers (`respond`, one `match` over the route) and this module does the rest: the
sockets, JSON, errors, holds (see `holds`), and the two ways to run, in a thread for tests
(`with Service(...) as service`) or as a program (`serve`).

Theory of operation: one thread per connection, kept open between requests. `respond` is therefore called from
many threads at once; a service guards its own state.
"""

from __future__ import annotations

import argparse
import json
import signal
import socket
import sys
import threading
import traceback
from abc import ABC, abstractmethod
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, cast
from urllib.parse import parse_qsl, urlsplit

from holds import Holds, is_gone
from json_request import JsonText, NotFoundError, Request, RequestError, decoded

if TYPE_CHECKING:
    from typing_extensions import Self


class JsonService(ABC):
    """An HTTP service on 127.0.0.1 that speaks JSON."""

    def __init__(self, *, port: int = 0) -> None:
        self.holds = Holds()
        self._server = _Server(("127.0.0.1", port), _Handler)
        self._server.service = self
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    @abstractmethod
    def respond(self, request: Request) -> object:
        """Carry the request out and return what `json.dumps` accepts, or a `JsonText`.

        Raises:
            RequestError: To answer with an error.
        """

    def close(self) -> None:  # noqa: B027 - most services hold nothing
        """Release the resources of the service. Called once, after the last request."""

    @property
    def port(self) -> int:
        """The port it listens on, also when 0 was asked for."""
        return self._server.server_port

    @property
    def url(self) -> str:
        """The URL of the service."""
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._stop()

    def serve(self, port_file: Path | None = None) -> None:
        """Serve in this thread until SIGTERM or Ctrl-C.

        The port is written to `port_file` once requests are accepted, in one step: a reader never sees half.
        """
        signal.signal(signal.SIGTERM, _stop_serving)
        signal.signal(signal.SIGINT, _stop_serving)
        try:
            if port_file is not None:
                _write_at_once(port_file, str(self.port))
            self._server.serve_forever()
        finally:
            self._stop()

    def _stop(self) -> None:
        self.holds.release_all()
        self._server.server_close()
        self.close()

    def respond_to_any(self, request: Request) -> object:
        """Answer what every service answers, and `respond` to the rest."""
        match request.route:
            case ("POST", "holds"):
                return {"id": self._arm(request)}
            case ("GET", "holds", hold_id):
                return {"reached": self.holds.is_reached(self._armed(hold_id))}
            case ("DELETE", "holds", hold_id):
                self.holds.release(self._armed(hold_id))
                return {}
            case _:
                return self.respond(request)

    def _arm(self, request: Request) -> int:
        nth = request.optional("nth", int)
        try:
            return self.holds.arm(
                label=request.field("label", str),
                path_prefix=request.field("path_prefix", str),
                nth=1 if nth is None else nth,
                method=request.optional("method", str),
            )
        except ValueError as error:
            raise RequestError(str(error)) from error

    def _armed(self, hold_id: str) -> int:
        if not hold_id.isdecimal() or int(hold_id) not in self.holds:
            raise NotFoundError(f"no hold {hold_id}")
        return int(hold_id)


def _stop_serving(signum: int, frame: FrameType | None) -> None:
    del signum, frame
    raise SystemExit(0)


def _write_at_once(path: Path, text: str) -> None:
    draft = path.with_name(f"{path.name}.draft")
    draft.write_text(text)
    draft.replace(path)


def start_arguments(description: str) -> argparse.ArgumentParser:
    """The command line that the services share."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--port", type=int, default=0, help="0 picks a free one")
    parser.add_argument("--port-file", type=Path, help="written once the service accepts requests")
    return parser


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128
    service: JsonService

    def handle_error(self, request: socket.socket | tuple[bytes, socket.socket], client_address: object) -> None:
        # Clients of these services are killed on purpose; that is not worth a traceback.
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # One packet per answer: else Nagle and delayed acknowledgements add 40 ms to each.
    wbufsize = -1
    disable_nagle_algorithm = True

    @property
    def _service(self) -> JsonService:
        return cast("_Server", self.server).service

    def _handle(self) -> None:
        path, query = self._target()
        status: int = HTTPStatus.OK
        answer, hold = "", None
        try:
            request = self._request(path, query)
            hold = self._service.holds.take_turn(method=request.method, label=request.label, path=request.path)
            answer = _as_json(self._service.respond_to_any(request))
        except RequestError as error:
            status, answer = error.status, _as_json(error.answer)
        except Exception as error:  # noqa: BLE001 - a client must see that the service failed, whatever failed
            traceback.print_exc()
            status, answer = HTTPStatus.INTERNAL_SERVER_ERROR, _as_json({"error": repr(error)})
        if hold and not self._service.holds.keep_waiting(hold, partial(is_gone, self.connection)):
            self.close_connection = True
            return
        self._reply(status, answer)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _handle  # noqa: N815 - the names are the base class's

    def _target(self) -> tuple[str, dict[str, str]]:
        url = urlsplit(self.path)
        return url.path, dict(parse_qsl(url.query))

    def _request(self, path: str, query: dict[str, str]) -> Request:
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        return Request(
            method=self.command,
            path=path,
            query=query,
            body=decoded(raw),
            header_label=self.headers.get("X-Run-Label"),
        )

    def _reply(self, status: int, answer: str) -> None:
        content = answer.encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is the base class's
        """Print nothing: the services count their requests instead."""


def _as_json(answer: object) -> str:
    return answer if isinstance(answer, JsonText) else json.dumps(answer)
