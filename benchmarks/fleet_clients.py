"""The tasks of a fleet, in threads: our surfaces over Airflow's own accessors and its own client of the API server.

In a deployment, each task has a process, and a supervisor that passes its messages on to the API server. Here a thread
stands for the task, and `Supervisor` for all supervisors: it makes the request that Airflow's supervisor makes, and
answers an error as that does. What is not there is the socket between a task and its supervisor.
"""

from __future__ import annotations

import contextvars
import logging
import random
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any, cast
from uuid import UUID

import httpx
import structlog
from airflow.sdk import Asset
from airflow.sdk.api.client import (
    AssetStateStoreOperations,
    BearerAuth,
    Client,
    ServerResponseError,
    TaskStateStoreOperations,
)
from airflow.sdk.exceptions import AirflowRuntimeError, ErrorType
from airflow.sdk.execution_time import comms, task_runner
from airflow.sdk.execution_time.comms import ErrorResponse
from airflow.sdk.execution_time.context import NEVER_EXPIRE, AssetStateStoreAccessor, TaskStateStoreAccessor

from airflow_resume import checkpoint, run_job, watermark
from airflow_resume.channel import Channel, ThreadChannel
from airflow_resume.errors import SupersededError
from airflow_resume.store import AirflowStore
from airflow_resume.testing import World, task_context
from airflow_resume.watermarks import Window

ELEMENT_SECONDS = 1.0
"""How long a loop is busy with an element."""


@dataclass(frozen=True, kw_only=True)
class Member:
    """A task of the fleet, and what it may show to the API server."""

    kind: str
    """`loop`, `job` or `mark`."""
    id: str
    name: str
    token: str
    begins: float
    """Seconds after the fleet's begin."""


@dataclass
class Books:
    """What the tasks of a process have seen since they were told to measure."""

    writes: list[float] = field(default_factory=list)
    """Seconds of each write of a state."""
    exposed: list[float] = field(default_factory=list)
    """Seconds of work that a SIGKILL just before the end of a write would have had done again, for each write."""
    calls: int = 0
    """Store calls of any kind."""
    failed: list[str] = field(default_factory=list)
    """Errors with which a task or its supervisor would have ended."""
    opened: int = 0
    """Tasks that have begun their work."""

    def add(self, other: Books) -> None:
        """Add what the tasks of another process have seen."""
        self.writes += other.writes
        self.exposed += other.exposed
        self.calls += other.calls
        self.failed += other.failed
        self.opened += other.opened


_member: contextvars.ContextVar[Member] = contextvars.ContextVar("member")


class Supervisor:
    """Sends the messages of every task to the API server, each with the token of its task."""

    def __init__(self, url: str, books: Books) -> None:
        # One for all, because a client takes long to make; each task has a connection of its own, as in a deployment.
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
        self._client = Client(base_url=url, token="", limits=limits, trust_env=False)
        self._books = books

    def send(self, message: Any) -> Any:
        """The answer to a message about a state store.

        Raises:
            AirflowRuntimeError: the API server answered with an error.
        """
        self._books.calls += 1
        client = cast("Client", _OfTask(self._client, BearerAuth(_member.get().token)))
        try:
            return _ANSWERS[type(message)](client, message)
        except ServerResponseError as error:
            detail = {"status_code": error.response.status_code, "message": str(error), "detail": error.response.json()}
            raise AirflowRuntimeError(ErrorResponse(error=ErrorType.API_SERVER_ERROR, detail=detail)) from error


@dataclass
class _OfTask:
    """The client with the token of one task."""

    client: Client
    auth: BearerAuth

    def __getattr__(self, method: str) -> Callable[..., httpx.Response]:
        send: Callable[..., httpx.Response] = getattr(self.client, method)
        return lambda *given, **named: send(*given, auth=self.auth, **named)


def _task_state(client: Client, message: comms.GetTaskStateStore) -> Any:
    found = TaskStateStoreOperations(client).get(message.ti_id, message.key)
    return found if isinstance(found, ErrorResponse) else comms.TaskStateStoreResult.model_validate(found.model_dump())


def _asset_state(client: Client, message: comms.GetAssetStateStoreByName) -> Any:
    found = AssetStateStoreOperations(client).get(message.key, name=message.name)
    return found if isinstance(found, ErrorResponse) else comms.AssetStateStoreResult.model_validate(found.model_dump())


_ANSWERS: dict[type[Any], Callable[[Client, Any], Any]] = {
    comms.GetTaskStateStore: _task_state,
    comms.SetTaskStateStore: lambda client, message: TaskStateStoreOperations(client).set(
        message.ti_id, message.key, message.value, message.expires_at
    ),
    comms.DeleteTaskStateStore: lambda client, message: TaskStateStoreOperations(client).delete(
        message.ti_id, message.key
    ),
    comms.GetAssetStateStoreByName: _asset_state,
    comms.SetAssetStateStoreByName: lambda client, message: AssetStateStoreOperations(client).set(
        message.key, message.value, name=message.name
    ),
}
"""What Airflow's supervisor asks the API server for each message."""


@dataclass(frozen=True, kw_only=True)
class Timed(AirflowStore):
    """The store of a task, which notes how long its writes take."""

    books: Books
    last: list[float] = field(default_factory=lambda: [time.monotonic()])
    """When the write that was completed last had begun: everything since then is not saved."""

    def set(self, key: str, value: Any) -> None:
        """Write the value."""
        began = time.monotonic()
        AirflowStore.set(self, key, value)
        ended = time.monotonic()
        self.books.writes.append(ended - began)
        self.books.exposed.append(ended - self.last[0])
        self.last[0] = began


class Fleet:
    """The tasks of one process.

    Args:
        members: the tasks.
        url: of the API for tasks.
    """

    def __init__(self, members: list[Member], url: str) -> None:
        self.books = Books()
        self._members = members
        self._over = threading.Event()
        self._supervisor = Supervisor(url, self.books)
        # Where Airflow's accessors look for the supervisor.
        task_runner.SUPERVISOR_COMMS = cast("Any", self._supervisor)

    def start(self) -> list[threading.Thread]:
        """Begin every task, each at its time."""
        work = {"loop": self._loop, "job": self._job, "mark": self._mark}
        began = time.monotonic()
        threads = []
        for member in self._members:
            thread = threading.Thread(target=self._work, args=(member, work[member.kind], began), daemon=True)
            thread.start()
            threads.append(thread)
        return threads

    def stop(self) -> None:
        """Have every task end at its next element or look."""
        self._over.set()

    def _work(self, member: Member, work: Callable[[Member, Timed], None], began: float) -> None:
        if self._over.wait(max(0.0, began + member.begins - time.monotonic())):
            return
        _member.set(member)
        try:
            work(
                member, self._store(TaskStateStoreAccessor(UUID(member.id), cast("Any", None)), retention=NEVER_EXPIRE)
            )
        except Exception as error:  # noqa: BLE001  counted
            if not self._over.is_set():
                self.books.failed.append(repr(error))

    def _store(self, accessor: Any, **options: Any) -> Timed:
        channel: Channel = ThreadChannel()
        return Timed(
            accessor=accessor, refused=SupersededError, options=options, find_channel=lambda: channel, books=self.books
        )

    def _loop(self, member: Member, store: Timed) -> None:
        with checkpoint(self._elements(), name=member.name, store=store) as loop:
            self.books.opened += 1
            for _ in loop:
                if self._over.wait(ELEMENT_SECONDS):
                    break

    def _elements(self) -> Iterator[int]:
        number = 0
        while True:
            yield number
            number += 1

    def _job(self, member: Member, store: Timed) -> None:
        over = self._over

        class Waiting:
            """A job system whose jobs end when the fleet does."""

            def submit(self, token: str) -> str:
                return token

            def find(self, token: str) -> str | None:
                del token
                return None

            def status(self, external_id: str) -> str:
                del external_id
                return "succeeded" if over.is_set() else "running"

        self.books.opened += 1
        run_job(Waiting(), name=member.name, store=store)

    def _mark(self, member: Member, store: Timed) -> None:
        self.books.opened += 1
        asset = Asset(member.name)
        while not self._over.is_set():
            attempt = task_context(world=World(), assets=[asset], run_id=f"run-{time.monotonic_ns()}")
            attempt.context["task_state_store"] = store
            attempt.context["asset_state_store"] = {asset: self._store(AssetStateStoreAccessor(name=member.name))}
            with watermark(asset, initial=0, now=time.time_ns).open(attempt.context) as window:
                self._load(window)

    def _load(self, window: Window[Any]) -> None:
        self._over.wait(random.uniform(150, 450))  # noqa: S311


def work(members: list[Member], url: str, told: Connection) -> None:
    """What a process of clients does: begin, forget what was seen when told so, and send what was seen since."""
    logging.disable(logging.CRITICAL)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    threading.stack_size(256 * 1024)
    fleet = Fleet(members, url)
    fleet.start()
    while (order := told.recv()) != "stop":
        if order == "forget":
            opened = fleet.books.opened
            fleet.books.__init__(opened=opened, failed=fleet.books.failed)  # type: ignore[misc]
        told.send(fleet.books)
    fleet.stop()
    told.send(fleet.books)
