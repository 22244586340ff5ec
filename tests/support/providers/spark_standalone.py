"""A real Spark standalone master and a worker on loopback, as processes of `spark-class`.

A driver runs a Python script through Spark's own `PythonRunner`, and does what its test orders. Spark is found by
AIRFLOW_RESUME_TEST_SPARK_HOME, or in the `pyspark` that can be imported. `pyspark-client`, which the provider needs, is
no Spark: it has no `spark-class`, and its files are in the same folder as those of `pyspark`. So Spark needs an
environment of its own.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import zipfile
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import requests

if TYPE_CHECKING:
    from typing_extensions import Self

SWITCH = "AIRFLOW_RESUME_TEST_SPARK_HOME"
START = 240
"""The most seconds that a JVM may take to start, on a machine that does much else."""
LOOK = 0.2
APPLICATION = """
import os, sys, time
from pathlib import Path

orders, parent = Path(sys.argv[1]), os.getppid()
(orders / "started").touch()
while not (orders / "end").exists():
    if os.getppid() != parent:  # the driver was killed
        sys.exit(9)
    time.sleep(0.05)
sys.exit(int((orders / "end").read_text()))
"""


def spark_home() -> Path | None:
    """The folder of a complete Spark. None if this machine has none."""
    found = find_spec("pyspark")
    homes = [
        os.environ.get(SWITCH),
        found and found.submodule_search_locations and found.submodule_search_locations[0],
    ]
    return next((Path(home) for home in homes if home and (Path(home) / "bin" / "spark-class").exists()), None)


def why_not() -> str | None:
    """Why no Spark can be started here; None if one can."""
    if spark_home() is None:
        return f"set {SWITCH} to a Spark with bin/spark-class, such as the folder of pyspark, installed apart"
    if shutil.which("java") is None and not os.environ.get("JAVA_HOME"):
        return "Spark needs a java"
    return None


class Standalone:
    """The master and its worker.

    Args:
        folder: an empty one.
        conf: further settings of the master.
    """

    def __init__(self, folder: Path, **conf: str) -> None:
        self.folder = folder
        self.home = spark_home()
        self.port, self.rest_port, self._ui = _free_port(), _free_port(), _free_port()
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        folder.mkdir(parents=True, exist_ok=True)
        rest = {"enabled": "true", "host": "127.0.0.1", "port": str(self.rest_port)}
        settings = {**{f"spark.master.rest.{name}": value for name, value in rest.items()}, **conf}
        (folder / "master.conf").write_text("".join(f"{name} {value}\n" for name, value in settings.items()))
        (folder / "application.py").write_text(APPLICATION)
        with zipfile.ZipFile(folder / "application.jar", "w") as jar:  # cluster mode takes no Python script
            jar.writestr("META-INF/MANIFEST.MF", "Manifest-Version: 1.0\n")

    def __enter__(self) -> Self:
        try:
            self.start_master()
            self.start_worker()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_error: object) -> None:
        for orders in self.folder.glob("orders-*"):
            (orders / "end").write_text("0")
        for name in list(self._processes)[::-1]:
            self.stop(name)

    def start_master(self) -> None:
        """Start it, and wait until it answers."""
        ports = ["--port", str(self.port), "--webui-port", str(self._ui)]
        conf = ["--properties-file", str(self.folder / "master.conf")]
        self._start("master", "org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", *ports, *conf)
        wait_until(lambda: self._state() is not None and self.answer("no-driver") is not None, "the master answers")

    def start_worker(self) -> None:
        """Start it, and wait until the master knows it."""
        size = ["--cores", "4", "--memory", "4g", "--work-dir", str(self.folder / "work")]
        ports = ["--host", "127.0.0.1", "--webui-port", str(_free_port())]
        self._start("worker", "org.apache.spark.deploy.worker.Worker", *ports, *size, f"spark://127.0.0.1:{self.port}")
        wait_until(lambda: (self._state() or {}).get("aliveworkers") == 1, "the worker is registered")

    def _start(self, name: str, *arguments: str) -> None:
        with (self.folder / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                [f"{self.home}/bin/spark-class", *arguments],
                stdout=log,
                stderr=log,
                env=self.environment(),
                preexec_fn=_end_with_the_tests,  # noqa: PLW1509  no thread of ours holds a lock that it needs
            )

    def stop(self, name: str, how: int = signal.SIGKILL) -> None:
        """End the master or the worker."""
        process = self._processes.pop(name)
        process.send_signal(how)
        process.wait(60)

    def environment(self) -> dict[str, str]:
        """Of all processes of Spark, `spark-submit` too."""
        path = f"{self.home}/bin{os.pathsep}{os.environ['PATH']}"
        python = {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
        return {**os.environ, "PATH": path, "SPARK_HOME": str(self.home), "SPARK_LOCAL_IP": "127.0.0.1", **python}

    @property
    def connection(self) -> str:
        """What AIRFLOW_CONN_... is set to."""
        extra = {"deploy-mode": "cluster", "rest-port": self.rest_port}
        return json.dumps({"conn_type": "spark", "host": "spark://127.0.0.1", "port": self.port, "extra": extra})

    def application(self, name: str) -> dict[str, Any]:
        """The arguments of an operator whose driver follows the orders of this name."""
        orders = self.orders(name)
        orders.mkdir(exist_ok=True)
        return {
            "application": str(self.folder / "application.jar"),
            "java_class": "org.apache.spark.deploy.PythonRunner",
            "application_args": [str(self.folder / "application.py"), "", str(orders)],
            "driver_memory": "512m",
        }

    def orders(self, name: str) -> Path:
        """The folder in which a driver says that it has started, and looks for how to end."""
        return self.folder / f"orders-{name}"

    def end(self, name: str, code: int = 0) -> None:
        """Let the drivers with these orders end."""
        (self.orders(name) / "end").write_text(str(code))

    # --- what the master says ---------------------------------------------------------------------------------

    def answer(self, driver: str) -> dict[str, Any] | None:
        """To a question for a driver; None if it does not answer."""
        try:
            url = f"http://127.0.0.1:{self.rest_port}/v1/submissions/status/{driver}"
            answer: dict[str, Any] = requests.get(url, timeout=30).json()
        except requests.ConnectionError:
            return None
        return answer

    def _state(self) -> dict[str, Any] | None:
        try:
            state: dict[str, Any] = requests.get(f"http://127.0.0.1:{self._ui}/json/", timeout=30).json()
        except requests.ConnectionError:
            return None
        return state

    def drivers(self) -> dict[str, str]:
        """All drivers that the master knows, and their states, oldest first."""
        state = self._state() or {}
        known = [*state.get("completeddrivers", []), *state.get("activedrivers", [])]
        return {driver["id"]: driver["state"] for driver in sorted(known, key=lambda driver: str(driver["id"]))}

    def all_it_says(self) -> str:
        """Everything that the master's page says, as text."""
        return json.dumps(self._state())


def _end_with_the_tests() -> None:
    """Let the kernel end the process when the process of the tests is killed; a driver ends with its worker."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def wait_until(condition: Any, what: str, seconds: float = START) -> None:
    """Wait for it.

    Raises:
        TimeoutError: it does not come true in time.
    """
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"Not within {seconds} s: {what}")
        time.sleep(LOOK)


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port
