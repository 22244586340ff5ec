"""The errors that clients of job systems raise: provoked with local sockets, or made from their names."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import grpc  # type: ignore[import-untyped]
import httpx
import httpx2
import requests
import tenacity
import urllib3
from airflow.providers.apache.livy.hooks.livy import LivyHook
from airflow.providers.http.hooks.http import HttpHook
from airflow.sdk import Connection
from airflow.sdk.exceptions import AirflowException

Client = Callable[[str, str], object]
"""Sends a request, by its method and URL."""


def raised_by(action: Callable[[], object]) -> BaseException:
    """The error that a call raises; it must raise one."""
    try:
        action()
    except Exception as error:  # noqa: BLE001
        return error
    raise AssertionError


def named(name: str, *bases: type[BaseException]) -> type[Any]:
    """A class with the module and the name of one that is not installed here."""
    module, _, plain = name.rpartition(".")
    return type(plain, bases or (Exception,), {"__module__": module})


def by_requests(method: str, url: str) -> object:
    answer = requests.request(method, url, timeout=5)
    answer.raise_for_status()
    return answer.json()


def by_httpx(method: str, url: str) -> object:
    return httpx.request(method, url, timeout=5).raise_for_status().json()


def by_httpx2(method: str, url: str) -> object:
    return httpx2.request(method, url, timeout=5).raise_for_status().json()


def by_urllib3(method: str, url: str) -> object:
    return urllib3.PoolManager().request(method, url, timeout=5, json={}).json()


def by_aiohttp(method: str, url: str) -> object:
    async def ask() -> object:
        async with aiohttp.ClientSession(raise_for_status=True) as session, session.request(method, url) as answer:
            return await answer.json()

    return asyncio.run(ask())


def by_urllib(method: str, url: str) -> object:
    with urllib.request.urlopen(urllib.request.Request(url, method=method), timeout=5) as answer:  # noqa: S310
        return json.load(answer)


class _LivyHook(LivyHook):
    def __init__(self, url: str) -> None:
        super().__init__()
        self._url = urlsplit(url)

    def get_connection(self, conn_id: str) -> Any:  # type: ignore[override]
        return Connection(
            conn_id=conn_id, conn_type="livy", schema=self._url.scheme, host=self._url.hostname, port=self._url.port
        )


def by_livy(method: str, url: str) -> object:
    hook = _LivyHook(url)
    return hook.post_batch(file="train.py") if method == "POST" else hook.get_batch_state(7)


def by_http_hook(method: str, url: str) -> object:
    """With its check of the answer, which the hooks of dbt Cloud and others leave on."""
    hook = _LivyHook(url)
    hook.method = method
    return HttpHook.run(hook, "jobs").json()


CLIENTS: dict[str, Client] = {
    "requests": by_requests,
    "httpx": by_httpx,
    "httpx2": by_httpx2,
    "urllib3": by_urllib3,
    "aiohttp": by_aiohttp,
    "urllib": by_urllib,
    "LivyHook": by_livy,
    "HttpHook": by_http_hook,
}


@contextmanager
def _server(answer: bytes) -> Iterator[int]:
    """A port that answers each connection with these bytes and closes it."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(5)
        thread = threading.Thread(target=_answer_all, args=(listening, answer))
        thread.start()
        try:
            yield listening.getsockname()[1]
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join()


def _answer_all(listening: socket.socket, answer: bytes) -> None:
    while True:
        try:
            connection, _ = listening.accept()
        except OSError:
            return
        with connection:
            connection.settimeout(5)
            connection.recv(65536)
            connection.sendall(answer)


def _answer(status: str, body: str = '{"message": "no"}', *, kind: str = "application/json", length: int = 0) -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length or len(body)}\r\n"
    return f"{head}Connection: close\r\n\r\n{body}".encode()


def answered(client: Client, answer: bytes, *, method: str = "POST", scheme: str = "http") -> BaseException:
    """The error of a client that receives these bytes."""
    with _server(answer) as port:
        return raised_by(lambda: client(method, f"{scheme}://127.0.0.1:{port}/jobs"))


def refused(client: Client) -> BaseException:
    """The error of a client whose port nobody listens on."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return raised_by(lambda: client("POST", f"http://127.0.0.1:{bound.getsockname()[1]}/jobs"))


TRANSPORT: dict[str, Callable[[Client], BaseException]] = {
    "refused": refused,
    "no such host": lambda client: raised_by(lambda: client("POST", "http://nohost.invalid/jobs")),
    "closed": lambda client: answered(client, b""),
    "TLS to a plain port": lambda client: answered(client, _answer("400 Bad Request"), scheme="https"),
    "cut short": lambda client: answered(client, _answer("200 OK", length=99)),
}
"""Errors of a submission that gets no answer."""

ANSWERS: dict[str, Callable[[Client], BaseException]] = {
    "200, a page": lambda client: answered(client, _answer("200 OK", "<p>hello", kind="text/html")),
    "400": lambda client: answered(client, _answer("400 Bad Request")),
    "404": lambda client: answered(client, _answer("404 Not Found")),
    "404, a page": lambda client: answered(client, _answer("404 Not Found", "<p>no", kind="text/html")),
    "404 of a question": lambda client: answered(client, _answer("404 Not Found"), method="GET"),
    "408": lambda client: answered(client, _answer("408 Request Timeout")),
    "409": lambda client: answered(client, _answer("409 Conflict")),
    "429": lambda client: answered(client, _answer("429 Too Many Requests")),
    "503": lambda client: answered(client, _answer("503 Service Unavailable")),
}
"""Errors of a submission that is answered."""


def wrapped(inner: BaseException) -> BaseException:
    """Calls of Airflow's hooks."""

    def wrap() -> None:
        try:
            raise inner
        except type(inner):
            raise AirflowException("no")  # noqa: B904  as they do

    return raised_by(wrap)


def with_status(error: Any, status: int) -> BaseException:
    """As of kubernetes."""
    error.status = status
    return error  # type: ignore[no-any-return]


def http_error(status: int, method: str = "POST") -> requests.HTTPError:
    """As of requests, and of many after it."""
    response = requests.Response()
    response.status_code = status
    response.headers["Content-Type"] = "application/json"
    response.request = requests.Request(method, "http://localhost").prepare()
    return requests.HTTPError(f"{status}", response=response)


def by_botocore(status: int, **metadata: Any) -> BaseException:
    """An answer, and how it came."""
    error = named("botocore.exceptions.ClientError")()
    error.response = {"Error": {"Code": "No"}, "ResponseMetadata": {"HTTPStatusCode": status, **metadata}}
    return error  # type: ignore[no-any-return]


def by_grpc(code: grpc.StatusCode) -> BaseException:
    """With a text that the server may have chosen."""

    class Call(grpc.RpcError):  # type: ignore[misc]
        def code(self) -> grpc.StatusCode:
            return code

    return Call("failed to connect to all addresses; Connection refused")


def tried_twice(last: BaseException) -> BaseException:
    """What is left of two tries, of which the last one ended like this."""

    def action() -> None:
        raise last

    return raised_by(lambda: tenacity.Retrying(stop=tenacity.stop_after_attempt(2))(action))
