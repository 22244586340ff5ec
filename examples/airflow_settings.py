"""The environment in which a local Airflow listens on loopback only, reacts quickly and reports to nobody."""

from __future__ import annotations

import os
import secrets
import socket
from pathlib import Path

_EXAMPLES = Path(__file__).parent


class PortInUseError(RuntimeError):
    """Something else listens on the port."""

    def __init__(self, port: int) -> None:
        super().__init__(f"port {port} is in use; choose another, or let a free one be chosen")
        self.port = port


def airflow_environment(home: Path, dags: Path, port: int, heartbeat_timeout: int | None) -> dict[str, str]:
    """The whole environment of Airflow's processes.

    The settings of another Airflow that the user may have do not leak in. Dags can import what lies next to
    them, what lies in the examples, and what PYTHONPATH has already.
    """
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW")}
    paths = [str(dags), str(_EXAMPLES), *filter(None, [os.environ.get("PYTHONPATH")])]
    settings = {"CORE__DAGS_FOLDER": dags, **_settings(port), **_patience(heartbeat_timeout)}
    settings["DATABASE__SQL_ALCHEMY_CONN"] = f"sqlite:///{home.resolve()}/airflow.db?timeout=60"
    return {
        **inherited,
        "AIRFLOW_HOME": str(home),
        "PYTHONPATH": os.pathsep.join(paths),
        "NO_PROXY": "*",
        "no_proxy": "*",
        **{f"AIRFLOW__{name}": str(value) for name, value in settings.items()},
    }


def _settings(port: int) -> dict[str, object]:
    url = f"http://127.0.0.1:{port}"
    return {
        "CORE__EXECUTOR": "LocalExecutor",
        "CORE__PARALLELISM": 8,  # as many workers are forked at the start
        "CORE__LOAD_EXAMPLES": "False",
        "CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
        "CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
        "CORE__EXECUTION_API_SERVER_URL": f"{url}/execution/",
        "CORE__HOSTNAME_CALLABLE": "socket.gethostname",  # the default asks DNS
        "DATABASE__CHECK_MIGRATIONS": "False",
        "API__HOST": "127.0.0.1",
        "API__PORT": port,
        "API__WORKERS": 1,
        "API__BASE_URL": url,
        "API__SECRET_KEY": secrets.token_hex(32),
        "API_AUTH__JWT_SECRET": secrets.token_hex(64),
        # Logs are read from their files: log servers would listen on all interfaces, so none is started, and
        # nothing listens where the API server looks for one while a task runs.
        "LOGGING__WORKER_LOG_SERVER_PORT": 1,
        "LOGGING__TRIGGER_LOG_SERVER_PORT": 1,
        # Quick to notice new runs and tasks that were killed. Files do not change while it runs; who changes
        # one asks for it to be parsed again.
        "DAG_PROCESSOR__REFRESH_INTERVAL": 30,
        "DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": 600,
        "SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": 0.4,
        "SCHEDULER__SCHEDULER_HEARTBEAT_SEC": 1,
        "SCHEDULER__JOB_HEARTBEAT_SEC": 1,
        "WORKERS__MIN_HEARTBEAT_INTERVAL": 1,
    }


def _patience(heartbeat_timeout: int | None) -> dict[str, object]:
    if heartbeat_timeout is None:
        return {}
    return {
        "SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": heartbeat_timeout,
        "SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": 1,
        "TRIGGERER__TRIGGERER_HEALTH_CHECK_THRESHOLD": heartbeat_timeout,
    }


def free_port() -> int:
    """A port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def require_free(port: int) -> int:
    """The port itself.

    Raises:
        PortInUseError: If something listens on it.
    """
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise PortInUseError(port) from error
    return port
