"""Starts and ends together what the example Dags need: a real Airflow, two flights services, and a job service.

There are two flights services because the source of the increments has a clock that is set while it runs.
"""

from __future__ import annotations

import os
import sqlite3
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from clients import Service
from local_airflow import LocalAirflow
from processes import ProcessFamily

if TYPE_CHECKING:
    from typing_extensions import Self

EXAMPLES = Path(__file__).parent
SINKS = ("exactly_once_every_page", "exactly_once_what_is_new")
"""The Dags with a sink."""
GLANCE = 0.05
"""Seconds between two checks for something that is about to happen."""


@dataclass(frozen=True, kw_only=True)
class Hold:
    """A request of a task that is carried out, but whose reply is withheld: the moment to kill the task."""

    service: Service
    id: int

    def wait(self, *, seconds: float = 90) -> None:
        """Return when the request was carried out.

        Raises:
            TimeoutError: it was not, in time.
        """
        deadline = time.monotonic() + seconds
        while not self.service.call("GET", f"/holds/{self.id}")["reached"]:
            if time.monotonic() > deadline:
                raise TimeoutError(f"the request to kill the task at was not made within {seconds:.0f} s")
            time.sleep(GLANCE)

    def release(self) -> None:
        """Let the reply go."""
        self.service.call("DELETE", f"/holds/{self.id}")


class Stage:
    """A context manager; everything has ended when the block is left.

    Args:
        home: an empty folder for all files.
        dags: the Dag files to run.
        port: of Airflow's UI; a free one by default.
        flights: a file to use instead of all flights; with a small one, services start at once, and jobs cost little.
        job_seconds: how long a job of the job service takes.
        heartbeat_timeout: seconds until a task whose supervisor is gone is retried.
        triggerer: whether to run one, for deferrable operators.
        env: more environment variables for Airflow, such as its settings.
        airflow: the class of the Airflow, which may have another executor.
        progress: called with a text for each step.
    """

    def __init__(
        self,
        home: Path,
        *,
        dags: Path = EXAMPLES / "dags",
        port: int | None = None,
        flights: Path | None = None,
        job_seconds: float = 8,
        heartbeat_timeout: int | None = None,
        triggerer: bool = False,
        env: Mapping[str, str] | None = None,
        airflow: Callable[..., LocalAirflow] = LocalAirflow,
        progress: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.home = home
        self._make_airflow = airflow
        self._progress = progress
        self._ports = {name: home / f"{name}.port" for name in ("flights", "arrivals", "jobs")}
        self._services = ProcessFamily(dict(os.environ), logs=home / "logs-of-services")
        self._environment = {"JOB_SECONDS": str(job_seconds), "TARGETS": str(home), **(env or {})}
        self._airflow_options: dict[str, Any] = {
            "port": port,
            "heartbeat_timeout": heartbeat_timeout,
            "triggerer": triggerer,
        }
        self.dags = dags
        self._flights = [] if flights is None else ["--flights", str(flights)]

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _start(self) -> None:
        self._progress("starting the flights services and the job service")
        for dag_id in SINKS:
            with closing(sqlite3.connect(self.target(dag_id))) as connection:
                connection.execute("CREATE TABLE flights (id INTEGER NOT NULL, time_hour TEXT NOT NULL)")
        for name in ("flights", "arrivals"):
            self._serve(name, "flights_service.py", "--database", str(self.home / f"{name}.db"))
        self._serve("jobs", "job_service.py", "--folder", str(self.home / "jobs"))
        self.flights, self.arrivals, self.jobs = map(self._service, self._ports)
        self.airflow = self._make_airflow(
            self.home / "airflow", self.dags, env=self._environment, **self._airflow_options
        )
        self.airflow.start(self._progress)

    def target(self, dag_id: str) -> Path:
        """The database that a Dag with a sink loads into."""
        return self.home / f"{dag_id}.db"

    def _service(self, name: str) -> Service:
        """A client of a service whose URL the Dags find in their environment."""
        variable, url = f"{name.upper()}_URL", f"http://127.0.0.1:{self._port(name, self._ports[name])}"
        self._environment[variable] = url
        return Service(variable, label="stage", url=url)

    def _serve(self, name: str, script: str, *arguments: str) -> None:
        command = [sys.executable, str(EXAMPLES / script), "--port", "0", "--port-file", str(self._ports[name])]
        self._services.start(name, [*command, *arguments, *self._flights])

    def _port(self, name: str, file: Path) -> int:
        deadline = time.monotonic() + 60
        while not file.exists():
            self._services.check()
            if time.monotonic() > deadline:
                raise TimeoutError(f"the {name} service did not start within a minute")
            time.sleep(GLANCE)
        return int(file.read_text())

    def stop(self) -> None:
        """End everything. Idempotent."""
        try:
            if hasattr(self, "airflow"):
                self.airflow.stop()
        finally:
            self._services.stop()

    def hold(self, service: Service, *, label: str, path_prefix: str, nth: int = 1, method: str = "POST") -> Hold:
        """Withhold the reply to the nth request of `label` to a path from now on."""
        body = {"label": label, "path_prefix": path_prefix, "nth": nth, "method": method}
        return Hold(service=service, id=service.call("POST", "/holds", json=body)["id"])
