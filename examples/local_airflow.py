"""A real Airflow on this machine, which runs during a `with` block.

    python local_airflow.py --dags FOLDER       # by hand: prints the link to the UI, ends with Ctrl-C

An API server, a scheduler with the LocalExecutor, a Dag processor and, if wanted, a triggerer, with a SQLite
database in a folder of its own. Everything listens on loopback only, and nothing is reported to anybody.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sqlite3
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, ClassVar, NoReturn

import psutil

from airflow_client import AirflowClient
from airflow_settings import PortInUseError, airflow_environment, free_port, require_free
from processes import ProcessEndedError, ProcessFamily, kill, with_descendants

if TYPE_CHECKING:
    from typing_extensions import Self

_AIRFLOW = [sys.executable, "-m", "airflow"]
_LOCAL_SETTINGS = Path(__file__).with_name("sqlite_patience.py")
_START_TIMEOUT = 300
_ATTEMPTS = 3


class LocalAirflow(AirflowClient):
    """Run Airflow, and be its client.

    Args:
        home: An empty folder, or the folder of an earlier Airflow, to continue with its database.
        dags: The folder of the Dag files. They may import modules that lie next to them, or in the examples.
        env: More environment variables, which override the settings below.
        heartbeat_timeout: Seconds until a task whose supervisor is gone is retried (Airflow's default: 300).
        triggerer: Whether to run a triggerer, for deferrable operators.
        port: The port of the UI and the API; a free one by default.
    """

    migrated: ClassVar[Path | None] = None
    """Where a migrated database is kept, which the next Airflows copy: that takes no time."""

    def __init__(
        self,
        home: Path,
        dags: Path,
        *,
        env: Mapping[str, str] | None = None,
        heartbeat_timeout: int | None = None,
        triggerer: bool = False,
        port: int | None = None,
    ) -> None:
        self._home = home.resolve()
        self._dags = dags.resolve()
        self._env = dict(env or {})
        self._heartbeat_timeout = heartbeat_timeout
        self._components = {"scheduler": ["scheduler", "--skip-serve-logs"], "dag-processor": ["dag-processor"]}
        if triggerer:
            self._components["triggerer"] = ["triggerer", "--skip-serve-logs"]
        self._port = port
        self._family: ProcessFamily | None = None
        super().__init__("http://127.0.0.1", still_alive=self._check)

    @property
    def ui_url(self) -> str:
        """The link to the UI; nobody has to log in."""
        return str(self._http.base_url)

    def __enter__(self) -> Self:
        if self._family is None:
            self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self, progress: Callable[[str], None] = lambda _: None) -> None:
        """Start everything and wait until it is healthy.

        Args:
            progress: Called with a text for each step.

        Raises:
            PortInUseError: If the port that was asked for, or each port that was tried, is taken.
            ProcessEndedError: If a process ends instead of running.
            TimeoutError: If they run but do not become healthy.
        """
        self._start_or_stop(progress, attempts=_ATTEMPTS if self._port is None else 1)

    def _start_or_stop(self, progress: Callable[[str], None], *, attempts: int) -> None:
        port = free_port() if self._port is None else require_free(self._port)
        try:
            self._start_on(port, progress)
        except ProcessEndedError as error:
            self.stop()
            if "address already in use" not in error.last_lines.lower():
                raise
            if attempts == 1:
                raise PortInUseError(port) from error
            # Another program took the free port before Airflow did.
            progress(f"port {port} is taken by now, trying another")
            self._start_or_stop(progress, attempts=attempts - 1)
        except BaseException:
            self.stop()
            raise

    def _start_on(self, port: int, progress: Callable[[str], None]) -> None:
        self.close()
        self.connect(f"http://127.0.0.1:{port}")
        (self._home / "config").mkdir(parents=True, exist_ok=True)
        shutil.copy(_LOCAL_SETTINGS, self._home / "config" / "airflow_local_settings.py")
        environment = airflow_environment(self._home, self._dags, port, self._heartbeat_timeout)
        family = ProcessFamily({**environment, **self._env}, logs=self._home / "logs-of-processes")
        self._family = family
        self._prepare(family)
        # The API server needs no database until it is asked something, and importing takes it as long.
        progress("starting the api-server, preparing the database")
        self._launch(family, "api-server")
        self._migrate(family)
        for component in self._components:
            progress(f"starting the {component}")
            self._launch(family, component)
        self._wait_for_api()
        progress("the API server is ready for tasks")
        for component in self._components:
            self._wait_until_healthy(component)
            progress(f"the {component} is healthy")

    def _migrate(self, family: ProcessFamily) -> None:
        fresh = not self.database.exists() and "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN" not in self._env
        template = self.migrated if fresh else None
        if template is not None and template.exists():
            shutil.copy(template, self.database)
            return
        family.run("db-migrate", [*_AIRFLOW, "db", "migrate"])
        if template is not None:
            # Not as a file: what was written last may be in the file beside it (`-wal`).
            part = template.with_name(f"{template.name}.{os.getpid()}")
            with closing(sqlite3.connect(self.database)) as migrated, closing(sqlite3.connect(part)) as copied:
                migrated.backup(copied)
            part.replace(template)

    def _prepare(self, family: ProcessFamily) -> None:
        """Start what Airflow itself needs. By default it needs nothing."""

    def _launch(self, family: ProcessFamily, component: str) -> None:
        family.start(component, [*_AIRFLOW, *self._components.get(component, [component])])

    def _wait_for_api(self) -> None:
        self.wait_for(self.health, what="the start of the API server", timeout=_START_TIMEOUT)
        self.wait_for(self.is_ready_for_tasks, what="the start of the API for tasks", timeout=_START_TIMEOUT)

    def _wait_until_healthy(self, component: str) -> None:
        key = component.replace("-", "_")

        def healthy() -> bool | None:
            return ((self.health() or {}).get(key) or {}).get("status") == "healthy" or None

        self.wait_for(healthy, what=f"the health of the {component}", timeout=_START_TIMEOUT)

    def restart(self, component: str) -> None:
        """SIGKILL a component with everything that it started, and start it again."""
        with self.without(component):
            pass

    @contextmanager
    def without(self, component: str) -> Iterator[None]:
        """SIGKILL a component with everything that it started, and start it again at the end of the block."""
        if self._family is None:
            raise RuntimeError("this Airflow was not started")
        self._family.kill(component)
        yield
        self._launch(self._family, component)
        if component == "api-server":
            self._wait_for_api()

    @contextmanager
    def redeployed(self, component: str) -> Iterator[None]:
        """SIGTERM a component with everything that it started; when it has ended after the block, start it again."""
        if self._family is None:
            raise RuntimeError("this Airflow was not started")
        started = self._family.terminate(component)
        yield
        started.wait()
        self._launch(self._family, component)

    @contextmanager
    def signalled(self, component: str, number: signal.Signals, *, patience: float | None = None) -> Iterator[None]:
        """Send a signal to the process of a component alone, and start it again at the end of the block.

        Args:
            component: its name.
            number: the signal.
            patience: seconds that everything it started has to end after the block; what has not ended then gets
                SIGKILL. By default only the process itself is waited for.
        """
        if self._family is None:
            raise RuntimeError("this Airflow was not started")
        started = self._family.release(component)
        everything = with_descendants(psutil.Process(started.pid))
        started.send_signal(number)
        yield
        if patience is not None:
            _gone, alive = psutil.wait_procs(everything, timeout=patience)
            kill(alive)
        started.wait()
        self._launch(self._family, component)

    @contextmanager
    def suspended(self, component: str) -> Iterator[None]:
        """Have a component with everything that it started stand still during the block."""
        if self._family is None:
            raise RuntimeError("this Airflow was not started")
        everything = with_descendants(psutil.Process(self._family.pid_of(component)))
        for process in everything:
            process.suspend()
        try:
            yield
        finally:
            for process in everything:
                process.resume()

    def command(self, *arguments: str) -> None:
        """Run an `airflow` command and wait for its success.

        Raises:
            ProcessEndedError: If it fails.
        """
        if self._family is None:
            raise RuntimeError("this Airflow was not started")
        self._family.run("-".join(arguments[:2]), [*_AIRFLOW, *arguments])

    @property
    def database(self) -> Path:
        """The file of the metadata database."""
        return self._home / "airflow.db"

    def stop(self) -> None:
        """End every process that was started, and every process that those started. Idempotent."""
        self.close()
        if self._family is not None:
            self._family.stop()
            self._family = None

    def _check(self) -> None:
        if self._family is not None:
            self._family.check()

    def members(self) -> set[psutil.Process]:
        """Every process of this Airflow."""
        return self._family.members() if self._family else set()

    def task_process(self, dag_id: str, run_id: str, task_id: str, map_index: int = -1) -> psutil.Process:
        """The process that runs a task; its parent is the task's supervisor.

        Raises:
            LookupError: If the task is not running, or not in a process of this Airflow.
        """
        found = self.task_instance(dag_id, run_id, task_id, map_index)
        if found["state"] != "running" or not found["pid"]:
            raise LookupError(f"{dag_id}.{task_id} is {found['state']}, not running")
        for process in self.members():
            if process.pid == found["pid"]:
                return process
        raise LookupError(f"process {found['pid']} of {dag_id}.{task_id} is not ours")

    def kill_task(self, dag_id: str, run_id: str, task_id: str, map_index: int = -1) -> int:
        """SIGKILL a running task with everything that it started; return its pid.

        Raises:
            LookupError: As `task_process`.
        """
        process = self.task_process(dag_id, run_id, task_id, map_index)
        kill(with_descendants(process))
        return process.pid


def _exit(signum: int, frame: FrameType | None) -> NoReturn:
    del signum, frame
    raise SystemExit(0)


def main() -> None:
    """Run Airflow on a folder of Dags until Ctrl-C."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--dags", type=Path, required=True)
    parser.add_argument("--home", type=Path, help="kept afterwards; a temporary folder by default")
    parser.add_argument("--port", type=int, help="a free one by default")
    parser.add_argument("--triggerer", action="store_true")
    arguments = parser.parse_args()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _exit)
    with tempfile.TemporaryDirectory() as folder:
        airflow = LocalAirflow(
            arguments.home or Path(folder), arguments.dags, port=arguments.port, triggerer=arguments.triggerer
        )
        try:
            airflow.start(print)
            print(f"Airflow is at {airflow.ui_url} -- end it with Ctrl-C", flush=True)
            threading.Event().wait()
        except PortInUseError as error:
            raise SystemExit(str(error)) from error
        finally:
            airflow.stop()


if __name__ == "__main__":
    main()
