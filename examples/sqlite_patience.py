"""How long a local Airflow waits for another writer of SQLite. It becomes the `airflow_local_settings`.

The API server logs a person's actions on its event loop, which deadlocks with a thread that has written and has yet to
commit. Whoever waits then must lose patience, and had better be the loop: its client asks again. Were it the thread,
Airflow would fail a task that has done its work. Other databases of a task are none of its business.
"""

from __future__ import annotations

import asyncio
from typing import Any

from sqlalchemy import event
from sqlalchemy.engine import Connection, Engine

__all__: list[str] = []  # nothing for Airflow's settings

_ON_A_LOOP, _ELSEWHERE = 250, 60_000
"""Milliseconds."""


@event.listens_for(Engine, "before_cursor_execute")
def _be_patient(connection: Connection, cursor: Any, *_: Any) -> None:
    if connection.dialect.name == "sqlite" and str(connection.engine.url.database).endswith("/airflow.db"):
        cursor.execute(f"PRAGMA busy_timeout = {_ON_A_LOOP if _is_on_a_loop() else _ELSEWHERE}")


def _is_on_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
