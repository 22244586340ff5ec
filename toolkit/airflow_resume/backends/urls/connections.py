"""The URL of a backend from one of Airflow's connections, looked up when the database is first needed.

A task asks its supervisor, as for any connection. On the server and on the command line, Airflow's secrets backends,
including the metadata database, are asked in this process, and never over HTTP, because this process may be the server
itself. If airflow-core is not installed, only environment variables and the secrets backends of workers are asked.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy.engine import URL

from airflow_resume.backends.dialects.base import Dialect
from airflow_resume.backends.dialects.registry import DIALECTS, dialect_of
from airflow_resume.backends.dialects.server import LIKELY_PASSWORD
from airflow_resume.backends.urls.read import read_url
from airflow_resume.errors import BackendSettingError, StoreRefusedError, StoreUnavailableError
from airflow_resume.shown import shown

_NO_CLOUD = ("", "0", "false", "none", "null", "[]", "{}")


@dataclass(frozen=True, kw_only=True)
class ConnectionUrl:
    """The URL that a connection of Airflow stands for; called to get it."""

    conn_id: str
    setting: str = "backend_conn_id"
    """The setting that names it."""

    def __str__(self) -> str:
        return f"connection {shown(self.conn_id)!r}"

    def __call__(self) -> URL:
        """Look it up.

        Raises:
            BackendSettingError: this process finds no connection with this id, or it cannot be read, or is for an
                unsupported database.
            StoreRefusedError: this task may not have it.
            StoreUnavailableError: Airflow did not answer.
        """
        found = self._found()
        try:
            return read_url(_url_of(found))[0]
        except BackendSettingError as error:
            what = error.message.removeprefix("The URL of the state backend ").replace(LIKELY_PASSWORD, "")
            raise BackendSettingError(
                f"The {self}, as the URL of the state backend, {what}", error.remedy, setting=self.setting
            ) from None

    def _found(self) -> Any:
        find, backends = _finder()
        try:
            return find(self.conn_id)
        except PermissionError:
            raise StoreRefusedError(
                f"This task may not have the {self}, which [airflow_resume] {self.setting} names.",
                f"Let its team use it, or set {self.setting.replace('conn_id', 'url')}.",
                where=str(self),
            ) from None
        except Exception as error:  # noqa: BLE001  each secrets backend has its own, and it may quote the connection
            kind = type(error).__name__
            answer = getattr(getattr(getattr(error, "error", None), "error", None), "value", "CONNECTION_NOT_FOUND")
        if kind == "AirflowRuntimeError" and answer != "CONNECTION_NOT_FOUND":
            raise StoreUnavailableError(f"Airflow did not give the {self} to this task: {answer}.", where=str(self))
        variable = f"AIRFLOW_CONN_{self.conn_id.upper()}"
        if variable in os.environ or kind not in {"AirflowNotFoundException", "AirflowRuntimeError"}:
            where = f", in the environment ({variable})," if variable in os.environ else ""
            raise BackendSettingError(
                f"The {self}, which the state backend is to use, is there{where} and cannot be read.",
                "See whether it is a URI or a JSON object that is whole, with a number for its port and an object for"
                " its extra: `airflow connections get` shows it, or says what is wrong.",
                setting=self.setting,
            )
        others = [name for each in backends() if (name := type(each).__name__) != "EnvironmentVariablesBackend"]
        places = ", ".join([f"the environment ({variable})", *others])
        raise BackendSettingError(
            f"There is no {self}, which the state backend is to use. It was looked for in {places}.",
            f"Add it in one of these places, or name another one in [airflow_resume] {self.setting}.",
            setting=self.setting,
        )


def _finder() -> tuple[Callable[[str], Any], Callable[[], list[Any]]]:
    """A function that gets a connection in this process, and one that says where it looks."""
    if getattr(sys.modules.get("airflow.sdk.execution_time.task_runner"), "SUPERVISOR_COMMS", None) is None:
        try:
            from airflow.configuration import ensure_secrets_loaded
            from airflow.models.connection import Connection as ServerConnection
        except ImportError:
            pass
        else:
            return ServerConnection.get_connection_from_secrets, ensure_secrets_loaded
    from airflow.sdk import Connection
    from airflow.sdk.execution_time.supervisor import ensure_secrets_backend_loaded

    return Connection.get, ensure_secrets_backend_loaded


def _url_of(found: Any) -> URL:
    """The URL of its parts.

    Raises:
        BackendSettingError: a backend cannot use it. The message quotes none of the parts.
    """
    dialect = dialect_of(found.conn_type or "")
    if dialect is None:
        types = ", ".join(name for each in DIALECTS for name in each.names)
        raise BackendSettingError(
            f"is of the type {shown(str(found.conn_type))!r}, on which no backend works.",
            f"Take one of the types {types}.",
            setting="backend_conn_id",
        )
    try:
        extra = json.loads(found.extra) if isinstance(found.extra, str) and found.extra.strip() else found.extra_dejson
        return dialect.url_of_connection(found, _options(extra, dialect))
    except (AttributeError, TypeError, ValueError) as error:
        if isinstance(error, BackendSettingError):
            raise
    raise BackendSettingError(
        "has a part that cannot be read.",
        "Write texts, a number for the port, and a JSON object for the extra.",
        setting="backend_conn_id",
    )


def _options(extra: object, dialect: Dialect) -> dict[str, str]:
    if not isinstance(extra, Mapping):
        raise BackendSettingError(
            "has an extra that is no JSON object.", "Write it as one: {}.", setting="backend_conn_id"
        )
    if str(extra.get("iam") or "").strip().lower() not in _NO_CLOUD:
        raise BackendSettingError(
            "has a password made by a cloud (iam), which a backend cannot renew.",
            "Take a connection with a password.",
            setting="backend_conn_id",
        )
    left_out = {*dialect.options_of_hooks, "iam"}
    options = dict(extra)
    if isinstance(tls := extra.get("ssl"), dict):
        options |= {f"ssl_{name}": value for name, value in tls.items()}
        left_out.add("ssl")
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in options.items()
        if name not in left_out
    }
