"""A real Airflow with the CeleryExecutor: PostgreSQL for its metadata, a Redis of its own, and two workers."""

from __future__ import annotations

import re
import secrets
import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import psutil
import pytest
from sqlalchemy import URL

from airflow_resume.drain_file import VARIABLE
from airflow_settings import free_port
from local_airflow import _AIRFLOW, LocalAirflow
from processes import ProcessEndedError, ProcessFamily
from tests.support.backends.databases import POSTGRESQL, ask, text_of

WORKERS = ("worker-1", "worker-2")
SLOTS = 8
"""Of each worker. Four tasks of each of three runs, which go on, and what else these runs begin must fit into both."""
DRAIN_FILES = "CELERY_AIRFLOW_DRAIN_FILES"
"""An environment variable; with it, each worker has a file of `[airflow_resume] drain_file`."""
_START_TIMEOUT = 300
_MOST_REVIVALS = 5


class CeleryAirflow(LocalAirflow):
    """Run Airflow with two Celery workers, and be its client. Everything it makes is removed when it stops.

    A process of Airflow that ends by itself is started again, as a service manager does. The scheduler of Airflow 3.3.2
    may end when its connections to the database are cut, or when the database refuses a change.

    Args:
        home: an empty folder.
        dags: the folder of the Dag files.
        env: more environment variables.
        options: those of `LocalAirflow`.

    Raises:
        pytest.skip.Exception: there is no PostgreSQL or no Redis on this machine.
    """

    def __init__(self, home: Path, dags: Path, *, env: Mapping[str, str] | None = None, **options: Any) -> None:
        self._server: URL = POSTGRESQL.found()
        self._redis = shutil.which("redis-server") or pytest.skip("there is no redis-server in the PATH")
        self._name = f"airflow_resume_test_{secrets.token_hex(6)}"
        self._broker_port = free_port()
        self.revived: Counter[str] = Counter()
        """How often a process of Airflow had to be started again because it had ended by itself, by its name."""
        self._is_up = False
        self._one_look = threading.Lock()
        database = self._server.set(database=self._name, drivername="postgresql+psycopg")
        settings: dict[str, object] = {
            "CORE__EXECUTOR": "CeleryExecutor",
            "CORE__PARALLELISM": 4 * SLOTS,
            "CORE__MAX_ACTIVE_TASKS_PER_DAG": 4 * SLOTS,
            "DATABASE__SQL_ALCHEMY_CONN": text_of(database),
            "DATABASE__SQL_ALCHEMY_CONN_ASYNC": text_of(database),
            "CELERY__BROKER_URL": self._broker_url,
            "CELERY__RESULT_BACKEND": f"db+{text_of(database)}",
            "CELERY__WORKER_CONCURRENCY": SLOTS,
            # A message that is lost with the broker is sent again after this time, by default ten minutes.
            "SCHEDULER__TASK_QUEUED_TIMEOUT": 120,
            "SCHEDULER__TASK_QUEUED_TIMEOUT_CHECK_INTERVAL": 10,
        }
        variables = {f"AIRFLOW__{name}": str(value) for name, value in settings.items()}
        super().__init__(home, dags, env={**variables, **(env or {})}, **options)
        for worker in WORKERS:
            pid_file = str(self._home / f"{worker}.pid")
            command = [
                "celery",
                "worker",
                "--celery-hostname",
                f"{worker}@test",
                "--skip-serve-logs",
                "--pid",
                pid_file,
            ]
            self._components[worker] = command

    def _pid_file(self, worker: str) -> Path:
        return self._home / f"{worker}.pid"

    @property
    def _broker_url(self) -> str:
        return f"redis://127.0.0.1:{self._broker_port}/0"

    def start(self, progress: Callable[[str], None] = lambda _: None) -> None:
        """As `LocalAirflow.start`."""
        ask(self._server, f"CREATE DATABASE {self._name}")
        super().start(progress)
        self._is_up = True

    def _check(self) -> None:
        with self._one_look:
            try:
                super()._check()
            except ProcessEndedError as error:
                if self._family is None or not self._may_revive(error.name):
                    raise
                self.revived[error.name] += 1
                self._launch(self._family, error.name)

    def _may_revive(self, name: str) -> bool:
        return self._is_up and name != "broker" and self.revived[name] < _MOST_REVIVALS

    def stop(self) -> None:
        """As `LocalAirflow.stop`; the database is dropped."""
        self._is_up = False
        try:
            super().stop()
        finally:
            ask(self._server, f"DROP DATABASE IF EXISTS {self._name} WITH (FORCE)")

    def _prepare(self, family: ProcessFamily) -> None:
        self._start_broker(family)

    def _start_broker(self, family: ProcessFamily) -> None:
        command = f"--bind 127.0.0.1 --port {self._broker_port} --appendonly yes --dir"
        family.start("broker", [self._redis, *command.split(), str(self._home)])

    def _launch(self, family: ProcessFamily, component: str) -> None:
        environment = {}
        if component in WORKERS:
            self._pid_file(component).unlink(missing_ok=True)
            if DRAIN_FILES in self._env:  # two workers on one machine need two files
                environment[VARIABLE] = str(self._home / f"{component}.drain")
        family.start(component, [*_AIRFLOW, *self._components.get(component, [component])], environment=environment)

    def _wait_until_healthy(self, component: str) -> None:
        if component in WORKERS:
            self.wait_for_worker(component)
        else:
            super()._wait_until_healthy(component)

    def wait_for_worker(self, worker: str) -> None:
        """Wait until a worker takes tasks."""
        self.wait_for(
            lambda: f"{worker}@test ready" in self._log_of(worker) or None,
            what=f"the start of {worker}",
            timeout=_START_TIMEOUT,
        )

    def _log_of(self, worker: str) -> str:
        """What the worker has written since it started."""
        return (self._home / "logs-of-processes" / f"{worker}.log").read_text(errors="replace")

    def message_of(self, run_id: str, task_id: str) -> str:
        """The id by which Celery knows a task instance."""
        where = f"run_id = '{run_id}' AND task_id = '{task_id}'"
        statement = f"SELECT external_executor_id FROM task_instance WHERE {where}"  # noqa: S608
        ((message,),) = cast("Any", ask(self._server.set(database=self._name), statement))
        return str(message)

    def main_of(self, worker: str) -> psutil.Process:
        """The main process of a worker."""
        assert self._family is not None
        return psutil.Process(self._family.pid_of(worker))

    def refused_messages(self) -> set[str]:
        """The ids of the messages that came again while their task was running."""
        logs = "".join(map(self._log_of, WORKERS))
        return set(re.findall(r"\[(\S+)\] Task already running elsewhere, ignoring redelivered message", logs))

    # --- trouble ----------------------------------------------------------------------------------------------

    @contextmanager
    def without_broker(self) -> Iterator[None]:
        """Redis gets SIGKILL, and starts again at the end of the block with what it has written."""
        assert self._family is not None
        self._family.kill("broker")
        yield
        self._start_broker(self._family)

    def deliver_again(self) -> None:
        """Have the broker deliver every message again whose task has not ended.

        A worker does this after the visibility time-out. It looks when it starts, and then every 100 seconds.
        """
        from kombu import Connection

        with Connection(self._broker_url, transport_options={"visibility_timeout": 0}) as connection:
            connection.channel().qos.restore_visible(num=None, interval=1)

    def cut_database_connections(self, *, times: int = 5, every: float = 2) -> None:
        """End every connection to the metadata database, some times, as a failover does."""
        for _ in range(times):
            others = f"datname = '{self._name}' AND pid <> pg_backend_pid()"
            ask(self._server, f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {others}")  # noqa: S608
            time.sleep(every)
