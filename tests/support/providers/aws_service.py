"""AWS on loopback: moto as a server, behind a layer that does what moto leaves out.

| what moto leaves out | the layer |
|---|---|
| tokens, which it takes and ignores | a token that was used gets the first answer; with other parameters, an error |
| names in use | are refused as SageMaker and Step Functions do |
| states, most of which are final at once | are those of `jobs`, in answers and in lists |
| jobs that are not known | are what the service says about them: an error of its own, or an empty list |

Which parameter is a token is marked in botocore's models, and so are the errors of an operation. So tokens count in
every operation of every service that speaks JSON. Which error comes for other parameters is not in the models: it is
known of Athena and ECS, and for the others a guess by the errors' names.

What this cannot show: limits, throttling, eventual consistency, and lists that are filtered by state.

Theory of operation. The layer is a WSGI application before moto's, in threads of this process, and clients are real.
It has one lock, which is never held when `jobs` tells the kit of something.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from http import HTTPStatus
from io import BytesIO
from types import TracebackType
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import boto3
import botocore.session
from moto.core.config import default_user_config
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import make_server

from airflow_resume.testing.operators import OrderedFailureError, UnknownJobError
from tests.support.providers.aws_jobs import AwsError, JobApi, Json, found
from tests.support.providers.aws_requests import AwsRequest, decoded

if TYPE_CHECKING:
    from typing_extensions import Self

REGION = "us-east-1"
KEYS = {"aws_access_key_id": "testing", "aws_secret_access_key": "testing", "region_name": REGION}


@dataclass(frozen=True)
class Answer:
    """An answer over HTTP."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes

    @property
    def is_good(self) -> bool:
        return self.status < HTTPStatus.BAD_REQUEST

    @classmethod
    def of(cls, content: object, status: int = 200, error: str = "") -> Answer:
        headers = {"Content-Type": "application/x-amz-json-1.1"} | ({"x-amzn-errortype": error} if error else {})
        return cls(status, tuple(headers.items()), json.dumps(content).encode())


_read_once = lru_cache(botocore.session.create_loader)
"""Reads the models and endpoints of botocore. A session has a reader of its own, and every attempt of a task a session:
to read the files again takes longer than all else that an attempt does."""


class _Quiet(MotoRequestHandler):  # type: ignore[misc]
    """Without a line in the log for every request."""

    def log_request(self, *_: Any, **__: Any) -> None:
        pass


Forward = Callable[[], Answer]


class AwsService:
    """AWS with one kind of job that a test steers, and all else as moto has it.

    Args:
        api: of the jobs, one of `JOB_APIS`.
    """

    def __init__(self, api: JobApi) -> None:
        self.api = api
        self.jobs = api.jobs()
        default_user_config["batch"]["use_docker"] = False
        self._moto = DomainDispatcherApplication(create_backend_app)
        self._server = make_server("127.0.0.1", 0, self._respond, threaded=True, request_handler=_Quiet)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._lock = threading.RLock()
        self._answers: dict[tuple[str, str, str], tuple[Json, Answer]] = {}
        self._named: dict[str, tuple[Json, Answer]] = {}
        self._reading = patch.object(botocore.session, "create_loader", _read_once)

    def __enter__(self) -> Self:
        self._reading.start()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        self._reading.stop()

    @property
    def url(self) -> str:
        """The endpoint of every service."""
        return f"http://127.0.0.1:{self._server.port}"

    @property
    def connection(self) -> str:
        """The Airflow connection that leads to it."""
        extra = {"region_name": REGION, "endpoint_url": self.url}
        return json.dumps({"conn_type": "aws", "login": "testing", "password": "testing", "extra": extra})

    def client(self, service: str) -> Any:
        """A client of boto3, for what a test needs besides jobs."""
        return boto3.client(service, endpoint_url=self.url, **KEYS)

    # --- HTTP ---------------------------------------------------------------------------------------------------

    def _respond(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        request = decoded(environ, body)

        def forward() -> Answer:
            return self._forwarded({**environ, "wsgi.input": BytesIO(body)})

        answer = forward() if request is None else self._answer(request, forward)
        start_response(f"{answer.status} {HTTPStatus(answer.status).phrase}", list(answer.headers))
        return [answer.body]

    def _forwarded(self, environ: dict[str, Any]) -> Answer:
        begun: list[Any] = []
        body = b"".join(self._moto(environ, lambda status, headers, *_: begun.append((status, headers))))
        status, headers = begun[0]
        return Answer(int(status.split()[0]), tuple(headers), body)

    # --- what is answered ---------------------------------------------------------------------------------------

    def _answer(self, request: AwsRequest, forward: Forward) -> Answer:
        try:
            self.jobs.begin()
        except ConnectionError as dead:
            return _error(AwsError("RequestAbortedException", str(dead), 500))
        if request.service != self.api.service:
            return self._once(request, forward)
        carry_out = {
            self.api.submit: self._submit,
            self.api.ask: self._ask,
            self.api.cancel: self._cancel,
            **({self.api.listed[0]: self._list} if self.api.listed else {}),
        }.get(request.name, self._once)
        try:
            return carry_out(request, forward)
        except UnknownJobError as error:
            return self._not_known(*error.args)
        except OrderedFailureError as error:
            return _error(AwsError("ServiceUnavailableException", "ordered by the test", error.status))

    def _once(self, request: AwsRequest, forward: Forward) -> Answer:
        """The answer to a request that may have a token."""
        if request.token is None:
            return forward()
        key = request.service, request.name, request.token
        with self._lock:
            if key in self._answers:
                params, first = self._answers[key]
                return first if params == request.params else _error(AwsError(request.mismatch, _OTHER_PARAMETERS))
            answer = forward()
            if answer.is_good:
                self._answers[key] = request.params, answer
            return answer

    def _submit(self, request: AwsRequest, forward: Forward) -> Answer:
        api = self.api
        name = request.params.get(api.names) if api.names else None
        with self._lock:
            if name in self._named:
                return self._named_again(name, request)
            answer = self._once(request, forward)
            if not answer.is_good:
                return answer
            if name is not None:
                self._named[name] = request.params, answer
            job_id = found(json.loads(answer.body), api.made_id) if api.made_id else name
            is_new = all(job.id != job_id for job in self.jobs.jobs)
        if is_new:
            self.jobs.make(job_id, token=request.token, request=request.params)
        return answer

    def _named_again(self, name: str, request: AwsRequest) -> Answer:
        params, first = self._named[name]
        is_alive = any(job.is_alive and job.request == params for job in self.jobs.jobs)
        if self.api.same_while_alive and is_alive and params == request.params:
            return first
        assert self.api.in_use is not None
        return _error(self.api.in_use.of(name))

    def _ask(self, request: AwsRequest, forward: Forward) -> Answer:
        job_id = found(request.params, self.api.asked_id)
        if all(job.id != job_id for job in self.jobs.jobs):  # not one of these jobs
            answer = forward()
            return answer if answer.is_good or self.api.gone is None else self._not_known(job_id)
        state = self.jobs.ask(job_id)
        content = json.loads(forward().body)
        self.api.write_state(found(content, self.api.told), state)
        return Answer.of(content)

    def _cancel(self, request: AwsRequest, _forward: Forward) -> Answer:
        """Without moto, which has not all of these operations."""
        self.jobs.cancel(found(request.params, self.api.cancelled_id))
        return Answer.of(self.api.cancel_answer)

    def _list(self, request: AwsRequest, forward: Forward) -> Answer:
        if self.api.list_jobs is not None:
            return Answer.of(self.api.list_jobs(self.jobs.known(), request.params))
        assert self.api.listed is not None
        _, place, id_place = self.api.listed
        content = json.loads(forward().body)
        listed: list[Json] = found(content, place)
        for each in list(listed):
            try:
                job = self.jobs.get(found(each, id_place))
            except UnknownJobError:
                listed.remove(each)
            else:
                self.api.write_state(each, job.state)
        return Answer.of(content)

    def _not_known(self, job_id: object) -> Answer:
        return Answer.of(self.api.nothing) if self.api.gone is None else _error(self.api.gone.of(job_id))


_OTHER_PARAMETERS = "Idempotent parameters do not match"


def _error(error: AwsError) -> Answer:
    return Answer.of({"__type": error.code, "message": error.message}, error.status, error.code)
