"""The least store that can be watched; the values outlive it."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from airflow_resume.testing.crash_world import CrashWorld


class TinyStore:
    """Keeps values in a mapping that outlives it, and tells its observer of each call."""

    def __init__(self, values: MutableMapping[str, Any] | None = None) -> None:
        self.values: MutableMapping[str, Any] = {} if values is None else values
        self.observer: Callable[[str, str], None] | None = None

    @contextmanager
    def _call(self, what: str) -> Iterator[None]:
        if self.observer is not None:
            self.observer("before", what)
        yield
        if self.observer is not None:
            self.observer("after", what)

    def get(self, key: str, default: Any = None) -> Any:
        with self._call(f"get {key}"):
            pass
        return copy.deepcopy(self.values.get(key, default))

    def set(self, key: str, value: Any, *, retention: Any = None) -> None:
        with self._call(f"set {key}"):
            self.values[key] = copy.deepcopy(value)

    def delete(self, key: str) -> None:
        with self._call(f"delete {key}"):
            self.values.pop(key, None)


class FileValues(dict[str, Any]):
    """A mapping in a JSON file: it outlives the process."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    def get(self, key: str, default: Any = None) -> Any:
        return self._read().get(key, default)

    def __setitem__(self, key: str, value: Any) -> None:
        self._path.write_text(json.dumps({**self._read(), key: value}))

    def _read(self) -> dict[str, Any]:
        return dict(json.loads(self._path.read_text())) if self._path.exists() else {}


class TaskWorld(CrashWorld):
    """A world with the state of one task instance, and of one asset."""

    def __init__(self, values: MutableMapping[str, Any] | None = None, **outliving: Any) -> None:
        super().__init__(**outliving)
        self.values: MutableMapping[str, Any] = {} if values is None else values
        self.asset_values: dict[str, Any] = {}

    def context(self) -> dict[str, Any]:
        """The context of the running attempt, with store objects of its own."""
        asset_store = self.watch(TinyStore(self.asset_values))
        return {
            "ti": SimpleNamespace(
                dag_id="dag",
                run_id="run",
                task_id="task",
                map_index=-1,
                try_number=self.attempt,
                max_tries=3,
                stats_tags={},
                task=SimpleNamespace(retries=3),
            ),
            "dag_run": SimpleNamespace(clear_number=0),
            "task_state_store": self.watch(TinyStore(self.values)),
            "asset_state_store": _EveryAsset(asset_store),
        }


class _EveryAsset:
    def __init__(self, store: TinyStore) -> None:
        self._store = store

    def __getitem__(self, _asset: Any) -> TinyStore:
        return self._store
