"""An SQLite database of the SQL backend as a release leaves it, as SQL text, and what must be found in it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from airflow.sdk.state import AssetScope, TaskScope

from airflow_resume import checkpoint
from airflow_resume.backends import SqlStateStore, SqlStoreBackend

TASK = TaskScope(dag_id="dag", run_id="run-1", task_id="task", map_index=3)
ASSET = AssetScope(name="loaded", uri="s3://bucket/loaded")
VALUES: dict[str, Any] = {
    "small": {"id": 0},
    "falsy": False,
    "text": "é \U0001f600 " + "x" * 200,
    "large": [["y" * 70, number] for number in range(40)],
}
ELEMENTS = list(range(5))


def leave(folder: Path) -> dict[str, Any]:
    """Make a database, and say what Airflow would keep: the values, or references to them."""
    with closing(_backend(folder)) as backend:
        store = SqlStateStore(backend, "script")
        for element in checkpoint(ELEMENTS, name="loop", store=store):
            if element == 2:
                break
        for key, value in VALUES.items():
            store.set(key, value)
        kept = {
            "task": {
                key: backend.serialize_task_state_store_to_ref(value=value, key=key, scope=TASK)
                for key, value in VALUES.items()
            },
            "asset": {
                key: backend.serialize_asset_state_store_to_ref(value=value, key=key, scope=ASSET)
                for key, value in VALUES.items()
            },
        }
    with closing(sqlite3.connect(_file(folder))) as database:
        return {"kept": kept, "sql": list(database.iterdump())}


def take_up(left: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The values that are found through the same interfaces, also after a write, as JSON."""
    with closing(sqlite3.connect(_file(folder))) as database:
        database.executescript("\n".join(left["sql"]))
    with closing(_backend(folder)) as backend:
        store = SqlStateStore(backend, "script")
        found: dict[str, Any] = {
            "task": {
                key: backend.deserialize_task_state_store_from_ref(ref) for key, ref in left["kept"]["task"].items()
            },
            "asset": {
                key: backend.deserialize_asset_state_store_from_ref(ref) for key, ref in left["kept"]["asset"].items()
            },
            "script": {key: store.get(key) for key in VALUES},
            "loop": list(checkpoint(ELEMENTS, name="loop", store=store)),
        }
        again = backend.serialize_task_state_store_to_ref(value=[*VALUES["large"], "more"], key="large", scope=TASK)
        found["written again"] = len(backend.deserialize_task_state_store_from_ref(again))  # type: ignore[arg-type]
    return found


def expected() -> dict[str, Any]:
    return {
        "task": VALUES,
        "asset": VALUES,
        "script": VALUES,
        "loop": ELEMENTS[2:],
        "written again": len(VALUES["large"]) + 1,
    }


def _file(folder: Path) -> Path:
    return folder / "state.db"


def _backend(folder: Path) -> SqlStoreBackend:
    return SqlStoreBackend(f"sqlite:///{_file(folder)}", inline_bytes=100)
