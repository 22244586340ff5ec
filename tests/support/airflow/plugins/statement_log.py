"""Has the API server write a line into a file for each statement about records that a request of the page makes."""

from __future__ import annotations

import json
import os
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any

from airflow.plugins_manager import AirflowPlugin
from sqlalchemy import event
from sqlalchemy.engine import Engine

_TABLES = ("task_state_store", "asset_state_store")
_path: ContextVar[str] = ContextVar("path", default="")


class Remembering:
    """Middleware that remembers which path was asked for, also in the thread that answers."""

    def __init__(self, app: Callable[..., Awaitable[None]]) -> None:
        self.app = app

    async def __call__(self, scope: dict[str, Any], receive: object, send: object) -> None:
        _path.set(scope.get("path", ""))
        await self.app(scope, receive, send)


class StatementLog(AirflowPlugin):
    name = "statement log"
    fastapi_root_middlewares = [{"name": "remembering", "middleware": Remembering, "args": [], "kwargs": {}}]  # noqa: RUF012


@event.listens_for(Engine, "before_cursor_execute")
def _note(_connection: object, _cursor: object, statement: str, *_: Any) -> None:
    if _path.get().startswith("/airflow-resume/") and any(table in statement for table in _TABLES):
        with open(os.environ["STATEMENT_LOG"], "a") as file:  # noqa: PTH123
            file.write(json.dumps(statement) + "\n")
