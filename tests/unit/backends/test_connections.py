"""The URL of a backend from a connection of Airflow: found when it is needed, and where this process may look."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import traceback
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from airflow.sdk import Connection
from airflow.sdk.execution_time import task_runner

from airflow_resume.backends import SqlStateStore, SqlStoreBackend
from airflow_resume.backends.urls.connections import ConnectionUrl
from airflow_resume.errors import (
    BackendSettingError,
    StoreRefusedError,
    StoreUnavailableError,
)

PASSWORD = "hunter2secret"  # noqa: S105  of nobody
SECTION = "AIRFLOW__AIRFLOW_RESUME__BACKEND_"

CONNECTIONS: dict[str, tuple[dict[str, Any], str]] = {
    "postgres": (
        {
            "host": "h",
            "login": "me",
            "password": PASSWORD,
            "schema": "db",
            "port": 5433,
            "extra": {"sslmode": "require"},
        },
        f"postgresql+psycopg://me:{PASSWORD}@h:5433/db?sslmode=require",
    ),
    "of a hook": (
        {"conn_type": "postgres", "host": "h", "schema": "db", "extra": {"cursor": "dictcursor", "iam": False}},
        "postgresql+psycopg://h/db",
    ),
    "several hosts": (
        {"conn_type": "postgres", "host": "a,b", "schema": "db", "extra": {"connect_timeout": 3}},
        "postgresql+psycopg:///db?connect_timeout=3&host=a%2Cb",
    ),
    "mysql": (
        {
            "host": "h",
            "login": "a@b",
            "password": "p/w",
            "schema": "db",
            "extra": {"ssl": {"ca": "/ca"}, "client": "x"},
        },
        "mysql+pymysql://a%40b:p%2Fw@h/db?ssl_ca=%2Fca",
    ),
    "a truth": (
        {"conn_type": "mysql", "host": "h", "schema": "db", "extra": {"local_infile": True}},
        "mysql+pymysql://h/db?local_infile=true",
    ),
    "sqlite": ({"host": "/srv/state.db"}, "sqlite+pysqlite:////srv/state.db"),
    "sqlite by URI": (
        {"conn_type": "sqlite", "host": "file:/srv/x.db", "extra": {"mode": "ro", "uri": True}},
        "sqlite+pysqlite:///file%3A/srv/x.db?mode=ro&uri=true",
    ),
}
WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "http": ({"host": "h"}, "is of the type 'http'"),
    "of a cloud": ({"conn_type": "postgres", "host": "h", "schema": "d", "extra": {"iam": True}}, "made by a cloud"),
    "no database": ({"conn_type": "postgres", "host": "h", "password": PASSWORD}, "names no database"),
    "sqlite": ({"login": "me"}, "names no file"),
    "sqlite, blank": ({"conn_type": "sqlite", "host": ""}, "names no file"),
    "a cloud's list": ({"conn_type": "postgres", "host": "h", "schema": "d", "extra": {"iam": [1]}}, "made by a cloud"),
    "a host with a blank": (
        {"conn_type": "postgres", "host": "a b", "schema": "d"},
        "host with characters that no host has\\.",
    ),
    "a list as extra": ({"conn_type": "postgres", "host": "h", "schema": "d", "extra": [PASSWORD]}, ""),
    "a text as extra": ({"conn_type": "postgres", "host": "h", "schema": "d", "extra": PASSWORD}, ""),
    "a number as extra": ({"conn_type": "postgres", "host": "h", "schema": "d", "extra": 5}, ""),
    "a port of letters": ({"conn_type": "postgres", "host": "h", "schema": "d", "port": PASSWORD}, ""),
    "a number as host": ({"conn_type": "postgres", "host": 5, "schema": "d", "port": 1}, ""),
    "unknown": ({"conn_type": "postgres", "host": "h", "schema": "d", "extra": {PASSWORD: PASSWORD}}, "does not know"),
}


def define(monkeypatch: pytest.MonkeyPatch, name: str, parts: dict[str, Any]) -> ConnectionUrl:
    monkeypatch.setenv("AIRFLOW_CONN_STATE", json.dumps({"conn_type": name, **parts}))
    return ConnectionUrl(conn_id="state")


@pytest.mark.parametrize("name", CONNECTIONS)
def test_a_connection_becomes_a_url(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    parts, url = CONNECTIONS[name]
    assert define(monkeypatch, name, parts)().render_as_string(hide_password=False) == url


@pytest.mark.parametrize("name", WRONG)
def test_what_is_no_url_is_refused_by_the_name_of_the_connection(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    parts, message = WRONG[name]
    with pytest.raises(BackendSettingError, match=f"The connection 'state'.*{message}") as caught:
        define(monkeypatch, name, parts)()
    assert PASSWORD not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("iam", [[], {}, False, None, "false", 0, ""])
def test_a_connection_without_a_cloud_may_say_so(iam: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = {"conn_type": "postgres", "host": "h", "schema": "d", "extra": {"iam": iam}}
    assert define(monkeypatch, "x", parts)().host == "h"


@pytest.mark.parametrize("text", ["{", f'{{"password": "{PASSWORD}"', "[]", f"postgres://me:{PASSWORD}@h:x/d"])
@pytest.mark.parametrize("place", ["server", "task"])
def test_a_connection_that_is_there_and_cannot_be_read_is_not_called_missing(
    text: str, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow.sdk.exceptions import ErrorType
    from airflow.sdk.execution_time.comms import ErrorResponse

    if place == "task":
        supervisor = Supervisor(lambda _: ErrorResponse(error=ErrorType.CONNECTION_NOT_FOUND))
        monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", supervisor, raising=False)
    monkeypatch.setenv("AIRFLOW_CONN_STATE", text)
    with pytest.raises(BackendSettingError, match="connection 'state'") as caught:
        ConnectionUrl(conn_id="state")()
    assert PASSWORD not in "".join(traceback.format_exception(caught.value))


def test_an_api_server_that_has_no_answer_is_not_called_a_missing_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow.sdk.exceptions import AirflowRuntimeError, ErrorType
    from airflow.sdk.execution_time.comms import ErrorResponse

    def fail(_: str) -> None:
        raise AirflowRuntimeError(ErrorResponse(error=ErrorType.API_SERVER_ERROR))

    monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", Supervisor(lambda _: None), raising=False)
    monkeypatch.setattr(Connection, "get", fail)
    with pytest.raises(StoreUnavailableError, match="did not give the connection 'state'"):
        ConnectionUrl(conn_id="state")()


@pytest.mark.parametrize("conn_id", [5, "", " ", b"state", ["state"]])
def test_what_is_no_id_of_a_connection_is_refused_at_once(conn_id: Any) -> None:
    with pytest.raises(BackendSettingError, match="id of the connection"):
        SqlStoreBackend(conn_id=conn_id)


def test_it_is_looked_for_when_the_database_is_needed_and_no_sooner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(SqlStoreBackend(conn_id="state")) as backend:
        assert repr(backend) == "<SqlStoreBackend connection 'state'>"
        if (child := os.fork()) == 0:
            os._exit(0)
        os.waitpid(child, 0)
        with pytest.raises(BackendSettingError, match="There is no connection 'state'"):
            backend.get(SqlStateStore(backend, "scope")._scope, "key")
        define(monkeypatch, "sqlite", {"host": str(tmp_path / "state.db")})
        SqlStateStore(backend, "scope").set("key", 1)
        monkeypatch.delenv("AIRFLOW_CONN_STATE")
        assert SqlStateStore(backend, "scope").get("key") == 1


def test_a_url_and_a_connection_are_one_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BackendSettingError, match="both a URL and a connection given"):
        SqlStoreBackend("sqlite://", conn_id="state")
    monkeypatch.setenv(f"{SECTION}URL", "sqlite://")
    monkeypatch.setenv(f"{SECTION}CONN_ID", "state")
    with pytest.raises(BackendSettingError, match="both a URL and a connection configured"):
        SqlStoreBackend()


# --- where it is looked for -----------------------------------------------------------------------------------


class Supervisor:
    """Answers a task as Airflow's does."""

    def __init__(self, answer: Callable[[Any], Any]) -> None:
        self.asked: list[Any] = []
        self._answer = answer

    def send(self, message: Any) -> Any:
        if type(message).__name__ == "MaskSecret":
            return None
        self.asked.append(message)
        return self._answer(message)


def test_a_task_asks_its_supervisor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow.sdk.execution_time.comms import ConnectionResult

    rest = dict.fromkeys(("schema", "login", "password", "port", "extra"))
    found = ConnectionResult(conn_id="state", conn_type="sqlite", host=str(tmp_path / "state.db"), **rest)
    supervisor = Supervisor(lambda _: found)
    monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", supervisor, raising=False)
    with closing(SqlStoreBackend(conn_id="state")) as backend:
        SqlStateStore(backend, "scope").set("key", 1)
        assert SqlStateStore(backend, "scope").get("key") == 1
    assert [message.conn_id for message in supervisor.asked] == ["state"]


def test_a_task_that_has_none_says_where_it_was_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow.sdk.exceptions import ErrorType
    from airflow.sdk.execution_time.comms import ErrorResponse

    supervisor = Supervisor(lambda _: ErrorResponse(error=ErrorType.CONNECTION_NOT_FOUND))
    monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", supervisor, raising=False)
    with pytest.raises(BackendSettingError, match=r"AIRFLOW_CONN_STATE\), ExecutionAPISecretsBackend\."):
        ConnectionUrl(conn_id="state")()


def test_a_task_that_may_not_have_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: str) -> None:
        raise PermissionError

    monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", Supervisor(lambda _: None), raising=False)
    monkeypatch.setattr(Connection, "get", refuse)
    with pytest.raises(StoreRefusedError, match="may not have the connection 'state'"):
        ConnectionUrl(conn_id="state")()


def test_the_command_line_finds_it_in_the_metadata_database(tmp_path: Path) -> None:
    """It looks where the server looks, and if there is no such connection it says where it has looked."""
    home = {**os.environ, "AIRFLOW_HOME": str(tmp_path), f"{SECTION}CONN_ID": "state"}
    airflow, ours = (str(Path(sys.executable).with_name(name)) for name in ("airflow", "airflow-resume"))

    def run(*command: str) -> str:
        done = subprocess.run(command, env=home, capture_output=True, text=True, timeout=300, check=False)
        return done.stdout + done.stderr

    run(airflow, "db", "migrate")
    missing = run(ours, "migrate")
    assert "There is no connection 'state'" in missing
    assert "(AIRFLOW_CONN_STATE), MetastoreBackend." in missing
    assert "Traceback" not in missing
    run(airflow, "connections", "add", "state", "--conn-uri", f"sqlite://{quote(str(tmp_path / 'state.db'), safe='')}")
    assert "from version 0 to " in run(ours, "migrate")
    assert (tmp_path / "state.db").exists()
