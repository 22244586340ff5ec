"""The id of a database: of a copy, of tables that were made anew, and of a file that is another one by now."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.state import TaskScope
from sqlalchemy import make_url

from airflow_resume.backends import SqlStoreBackend
from airflow_resume.backends.schema.tables import HISTORY, META, STATE
from airflow_resume.command import main
from airflow_resume.errors import StateReferenceError, StoreRefusedError
from tests.support.backends.databases import ask

SCOPE = TaskScope(dag_id="dag", run_id="run", task_id="task")
NOW = datetime(2026, 1, 2, tzinfo=timezone.utc)
HOUR = timedelta(hours=1)
LARGE = "x" * 70_000
FOREIGN = r"is in the database|before it was given a new id"


def keep(backend: SqlStoreBackend, key: str) -> str:
    return backend.serialize_task_state_store_to_ref(value=LARGE, key=key, scope=SCOPE)


def follow(backend: SqlStoreBackend, reference: str) -> Any:
    return backend.deserialize_task_state_store_from_ref(reference)


def give_new_id(url: str, *options: str) -> None:
    assert main(["new-id", url, *options]) == 0


def test_a_process_that_has_a_copy_open_writes_its_new_id_at_once(
    open_backend: Callable[..., SqlStoreBackend], url: str
) -> None:
    backend = open_backend()
    old, before = keep(backend, "key"), backend.store_id
    give_new_id(url)
    new = keep(backend, "key")
    assert new == old.replace(before, backend.store_id) != old
    assert follow(backend, new) == LARGE
    with pytest.raises(StateReferenceError, match="had before it was given a new id") as caught:
        follow(backend, old)
    assert "or in a database that this one is a copy of" in str(caught.value)
    given = backend.store_id
    give_new_id(url, "--back")
    assert (backend.store_id, keep(backend, "key"), follow(backend, old)) == (before, old, LARGE)
    with pytest.raises(StateReferenceError, match=f"has the id {given}, which .* had before .* So it was written here"):
        follow(backend, new)


def test_a_cleanup_keeps_what_the_references_that_were_copied_lead_to(
    open_backend: Callable[..., SqlStoreBackend], url: str
) -> None:
    backend = open_backend(now=lambda: NOW - 3 * HOUR)
    old = [keep(backend, key) for key in ("a", "b")]
    keep(backend, "orphan")
    for _ in range(2):
        give_new_id(url)
    cleaner = open_backend(now=lambda: NOW)
    assert cleaner.clean(live=old, live_as_of=NOW).orphaned == 1
    assert cleaner.clean(live=[*old, keep(backend, "new")], live_as_of=NOW).orphaned == 0
    assert cleaner.scan(SCOPE, "") == ["a", "b", "new"]


def test_an_id_that_is_given_while_references_are_collected_is_known(
    open_backend: Callable[..., SqlStoreBackend], url: str
) -> None:
    backend = open_backend(now=lambda: NOW - 3 * HOUR)
    old = keep(backend, "a")

    def collected() -> Any:
        yield old
        give_new_id(url)
        yield keep(backend, "b")

    assert open_backend(now=lambda: NOW).clean(live=collected(), live_as_of=NOW).orphaned == 0


def test_an_id_that_was_never_another_is_not_given_back(
    backend: SqlStoreBackend, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = backend.store_id
    assert main(["new-id", url, "--back"]) == 1
    assert "has had no other id" in capsys.readouterr().err
    assert backend.store_id == before


def test_tables_that_another_process_made_anew_are_another_database(
    open_backend: Callable[..., SqlStoreBackend], url: str
) -> None:
    backend = open_backend()
    old = keep(backend, "key")
    drop_tables(url)
    assert open_backend().store_id not in old
    assert follow(backend, keep(backend, "key")) == LARGE
    with pytest.raises(StateReferenceError, match=FOREIGN):
        follow(backend, old)
    assert backend.store_id == open_backend().store_id


def test_tables_that_are_gone_are_an_error_once_and_then_made(
    open_backend: Callable[..., SqlStoreBackend], url: str
) -> None:
    backend = open_backend()
    backend.set(SCOPE, "key", "1")
    drop_tables(url)
    with pytest.raises(StoreRefusedError):
        backend.set(SCOPE, "key", "2")
    backend.set(SCOPE, "key", "3")
    assert open_backend().get(SCOPE, "key") == "3"


def drop_tables(url: str) -> None:
    for table in (META, STATE, HISTORY):
        ask(url, f"DROP TABLE {table.name}")


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
@pytest.mark.parametrize("how", ["removed", "moved away", "replaced"])
def test_a_file_that_is_another_one_by_now_is_an_error_once(
    open_backend: Callable[..., SqlStoreBackend], url: str, how: str
) -> None:
    path = Path(str(make_url(url).database))
    backend = open_backend()
    old = keep(backend, "key")
    if how == "removed":
        path.unlink()
    elif how == "moved away":
        path.rename(path.with_suffix(".old"))
    else:
        with open_backend()._database.opened().engine.connect():
            shutil.copy(path, path.with_suffix(".new"))
        path.with_suffix(".new").replace(path)
    with pytest.raises(StoreRefusedError, match="is not the file that was opened"):
        backend.set(SCOPE, "other", "1")
    backend.set(SCOPE, "other", "2")
    assert open_backend().get(SCOPE, "other") == "2"
    with pytest.raises(StateReferenceError, match=FOREIGN) if how != "replaced" else pytest.raises(AssertionError):
        assert follow(backend, old) != LARGE
