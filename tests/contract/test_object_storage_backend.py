"""The object-storage backend of Airflow's common.io provider, on files.

In memory it cannot be had: Airflow has no such file system (`No filesystem registered for scheme memory`).
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_resume.testing import StoreContract
from airflow_resume.testing.contract import Ability
from airflow_resume.testing.contract.children import Child
from tests.support.backends.object_storage import object_storage

EMPTIED = "a file is emptied and then written: a reader in between, or after a kill there, finds a part of the value"
by_luck = pytest.mark.xfail(strict=False, reason=EMPTIED)
"""It depends on who is faster. What never does is test_a_write_that_is_killed_leaves_the_value_before."""


class TestObjectStorageBackend(StoreContract):
    examples = 20  # a call takes a millisecond or more
    promises = (Ability.SCOPES, Ability.DURABLE, Ability.RETENTION)

    @pytest.fixture
    def open_backend(self, tmp_path: Path) -> Iterator[Callable[[], Any]]:
        with object_storage(f"file://{tmp_path}") as backend:
            yield backend

    @by_luck
    def test_of_processes_that_write_one_key_a_whole_value_stays(self, reopen: Any, open_store: Any) -> None:
        super().test_of_processes_that_write_one_key_a_whole_value_stays(reopen, open_store)

    @by_luck
    def test_after_kill_9_others_can_write(self, reopen: Any, open_store: Any) -> None:
        super().test_after_kill_9_others_can_write(reopen, open_store)

    @pytest.mark.xfail(strict=True, raises=ValueError, reason=EMPTIED)
    def test_a_write_that_is_killed_leaves_the_value_before(self, store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        store.set("key", "before")

        def write_and_be_killed(_: object) -> None:
            from airflow.sdk import ObjectStoragePath

            open_file: Any = ObjectStoragePath.open

            def open_and_be_killed(*args: Any, **kwargs: Any) -> Any:
                opened = open_file(*args, **kwargs)
                os.kill(os.getpid(), signal.SIGKILL)
                return opened

            monkeypatch.setattr(ObjectStoragePath, "open", open_and_be_killed)
            store.set("key", "after")

        with Child(write_and_be_killed) as child, pytest.raises(AssertionError, match="ended without an answer"):
            child.receive()
        assert store.get("key") == "before"
