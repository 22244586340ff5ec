"""A fleet of tasks that write to one API server on PostgreSQL: loops, jobs that are waited for, and watermarks.

The tasks are threads (see `fleet_clients`). The API server and the database are real, and share the machine with them.
"""

from __future__ import annotations

import multiprocessing
import secrets
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import psutil
import psycopg
import pytest
from airflow.api_fastapi.auth.tokens import JWTGenerator
from airflow.sdk.api.client import Client
from airflow.sdk.timezone import utcnow

from benchmarks.fleet_clients import Books, Member, work
from benchmarks.harness import NotMeasuredError, Result, Scale, Unit, at_most, tell
from local_airflow import LocalAirflow
from processes import with_descendants
from tests.support.backends.databases import POSTGRESQL, ask, text_of

AUDIENCE = "urn:airflow.apache.org:task"
DAG, RUN, HOST, PID = "fleet", "run", "fleet", 1
OPENED_PER_SECOND = 12
"""How many tasks begin in a second: two or more store calls each, and each loop writes every second at first."""
SHARES = {"loop": 10, "job": 4, "mark": 1}
"""How many tasks there are of each kind, in proportion."""
WRITES_PER_SECOND = 20
LONGEST_EXPOSURE = 330.0
"""`max_interval` and `max_uncommitted`, in seconds: after the one a loop writes, after the other it waits for that."""


def measure(scale: Scale) -> Iterator[Result]:
    # With 5,000 loops, the clients alone would take more than two processors: 17,000 threads.
    sizes = (scale.size(1_000, quick=40), scale.size(200, quick=20), *(() if scale.quick else (50,)))
    seconds = scale.size(120, quick=5)
    with api_server() as server:
        yield from costs(server, scale.size(200, quick=20))
        seen = {size: watched(server, size, seconds) for size in reversed(sizes)}
    yield from grown("a second's store calls", seen, lambda each: each.calls_per_second, "calls", WRITES_PER_SECOND)
    yield from grown("a write of the state takes (median)", seen, lambda each: 1e3 * each.write, "ms")
    yield from grown("a write of the state takes (99 %)", seen, lambda each: 1e3 * each.slow_write, "ms")
    yield from grown("done again after a SIGKILL, at most", seen, lambda each: each.exposed, "s", LONGEST_EXPOSURE)
    yield from grown("a heartbeat of Airflow takes beside them (median)", seen, lambda each: 1e3 * each.heartbeat, "ms")
    yield from grown("tasks that failed", seen, lambda each: each.failed, "calls", 0)


# --- the server -------------------------------------------------------------------------------------------------


class ApiServer(LocalAirflow):
    """An API server with two processes, on PostgreSQL, and nothing else of Airflow."""

    def __init__(self, home: Path) -> None:
        self._server = POSTGRESQL.found()
        self._name = f"airflow_resume_test_{secrets.token_hex(6)}"
        self.secret = secrets.token_hex(64)
        place = text_of(self._server.set(database=self._name, drivername="postgresql+psycopg"))
        env = {
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": place,
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN_ASYNC": place,
            "AIRFLOW__API_AUTH__JWT_SECRET": self.secret,
            "AIRFLOW__API__WORKERS": "2",
        }
        dags = home / "dags"
        dags.mkdir()
        super().__init__(home, dags, env=env)
        self._components = {}

    def __enter__(self) -> ApiServer:  # noqa: PYI034  closed by this class
        ask(self._server, f"CREATE DATABASE {self._name}")
        super().__enter__()
        return self

    def stop(self) -> None:
        """As `LocalAirflow.stop`; the database is dropped."""
        super().stop()
        ask(self._server, f"DROP DATABASE IF EXISTS {self._name} WITH (FORCE)")

    @property
    def execution_url(self) -> str:
        """The address of the API for tasks."""
        return f"{self.ui_url.rstrip('/')}/execution/"

    def processor_seconds(self) -> float:
        """The processor time that it has taken, without that of the database."""
        assert self._family is not None
        times = [each.cpu_times() for each in with_descendants(psutil.Process(self._family.pid_of("api-server")))]
        return sum(each.user + each.system for each in times)

    def populate(self, members: int) -> list[UUID]:
        """Running task instances, and as many assets."""
        ids = [uuid4() for _ in range(members)]
        run, now = f"{RUN}-{secrets.token_hex(4)}", utcnow()
        place = text_of(self._server.set(database=self._name, drivername="postgresql"))
        with psycopg.connect(place) as connection, connection.cursor() as cursor:
            cursor.execute(
                "INSERT INTO dag_run (dag_id, run_id, run_type, run_after, state)"
                " VALUES (%s, %s, 'manual', %s, 'running')",
                (DAG, run, now),
            )
            cursor.executemany(
                "INSERT INTO task_instance"
                " (id, task_id, dag_id, run_id, map_index, try_number, pool, pool_slots, state, hostname, pid)"
                " VALUES (%s, 'task', %s, %s, %s, 1, 'default_pool', 1, 'running', %s, %s)",
                [(each, DAG, run, number, HOST, PID) for number, each in enumerate(ids)],
            )
            names = [(f"asset-{each}", f"asset-{each}") for each in ids]
            cursor.executemany(
                'INSERT INTO asset (name, uri, "group", extra, created_at, updated_at)'
                " VALUES (%s, %s, '', '{}', %s, %s)",
                [(*each, now, now) for each in names],
            )
            cursor.executemany("INSERT INTO asset_active (name, uri) VALUES (%s, %s)", names)
        return ids

    def token(self, task_instance: UUID) -> str:
        """What the task shows to the API server."""
        without_key: Any = None
        generator = JWTGenerator(secret_key=self.secret, private_key=without_key, valid_for=3600, audience=AUDIENCE)
        return generator.generate({"sub": str(task_instance)})


@contextmanager
def api_server() -> Iterator[ApiServer]:
    with tempfile.TemporaryDirectory() as folder:
        try:
            server = ApiServer(Path(folder))
        except pytest.skip.Exception as skipped:
            raise NotMeasuredError(str(skipped)) from None
        with server:
            yield server


# --- what a call costs the server -------------------------------------------------------------------------------


def costs(server: ApiServer, calls: int) -> Iterator[Result]:
    """The processor time of the API server for each kind of call, one after the other."""
    [task] = server.populate(1)
    client = Client(base_url=server.execution_url, token=server.token(task), trust_env=False)
    body = {"pid": PID, "hostname": HOST}
    kinds: dict[str, Callable[[], object]] = {
        "a write of the state": lambda: client.task_state_store.set(task, "key", {"position": 1}, None),
        "a read of the state": lambda: client.task_state_store.get(task, "key"),
        "a heartbeat of Airflow": lambda: client.put(f"task-instances/{task}/heartbeat", json=body),
    }
    took: dict[str, float] = {}
    for kind, call in kinds.items():
        call()
        before = server.processor_seconds()
        for _ in range(calls):
            call()
        took[kind] = 1e3 * (server.processor_seconds() - before) / calls
    yield from tell("processor time of the API server for a call", took, unit="ms")


# --- the fleet --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What a fleet did while it was watched. Times are in seconds."""

    calls_per_second: float
    write: float
    slow_write: float
    exposed: float
    heartbeat: float
    failed: int


def watched(server: ApiServer, loops: int, seconds: float) -> Seen:
    """A fleet with so many loops, and the other kinds in proportion."""
    members = fleet(server, loops)
    halves = [members[::2], members[1::2]]
    spawn = multiprocessing.get_context("spawn")
    pipes = [spawn.Pipe() for _ in halves]
    processes = [
        spawn.Process(target=work, args=(half, server.execution_url, theirs), daemon=True)
        for half, (_, theirs) in zip(halves, pipes, strict=True)
    ]
    for process in processes:
        process.start()
    ours = [pipe for pipe, _ in pipes]
    try:
        time.sleep(members[-1].begins)
        while (books := all_books(ours, "look")).opened + len(books.failed) < len(members):
            time.sleep(1)
        time.sleep(seconds / 4)  # until they have slowed down
        all_books(ours, "forget")
        with heartbeats(server) as beats:
            began = time.monotonic()
            time.sleep(seconds)
            books, lasted = all_books(ours, "look"), time.monotonic() - began
        for pipe in ours:
            pipe.send("stop")
    finally:
        for process in processes:
            process.join(60)
            process.kill()
    if books.failed:
        print(f"  {len(books.failed)} tasks failed, the first with {books.failed[0]}")
    return Seen(
        calls_per_second=books.calls / lasted,
        write=statistics.median(books.writes),
        slow_write=statistics.quantiles(books.writes, n=100)[-1],
        exposed=max(books.exposed),
        heartbeat=statistics.median(beats),
        failed=len(books.failed),
    )


def fleet(server: ApiServer, loops: int) -> list[Member]:
    """The tasks in the order in which they begin."""
    kinds = [kind for kind, share in SHARES.items() for _ in range(loops * share // SHARES["loop"])]
    ids = server.populate(len(kinds))
    members = zip(kinds, ids, strict=True)
    return [
        Member(
            kind=kind, id=str(each), name=f"asset-{each}", token=server.token(each), begins=number / OPENED_PER_SECOND
        )
        for number, (kind, each) in enumerate(sorted(members, key=lambda member: member[1]))
    ]


def all_books(pipes: list[Connection], order: str) -> Books:
    for pipe in pipes:
        pipe.send(order)
    total = Books()
    for pipe in pipes:
        total.add(pipe.recv())
    return total


@contextmanager
def heartbeats(server: ApiServer) -> Iterator[list[float]]:
    """The seconds that a heartbeat of a task takes, each second."""
    [task] = server.populate(1)
    client = Client(base_url=server.execution_url, token=server.token(task), trust_env=False)
    took: list[float] = []
    over = threading.Event()

    def beat() -> None:
        while not over.wait(1):
            began = time.monotonic()
            client.put(f"task-instances/{task}/heartbeat", json={"pid": PID, "hostname": HOST})
            took.append(time.monotonic() - began)

    thread = threading.Thread(target=beat)
    thread.start()
    try:
        yield took
    finally:
        over.set()
        thread.join()


def grown(row: str, seen: dict[int, Seen], of: object, unit: Unit, limit: float | None = None) -> list[Result]:
    """The largest fleet beside the smaller ones; the limit is for the largest."""
    largest = max(seen)
    return tell(
        f"{row}, {largest:,} loops, {largest * 4 // 10:,} jobs, {largest // 10:,} marks",
        {f"with {size:,} loops": of(seen[size]) for size in sorted(seen, reverse=True)},  # type: ignore[operator]
        unit=unit,
        targets={f"with {size:,} loops": (at_most(limit),) for size in seen if size != largest and limit is not None},
    )
