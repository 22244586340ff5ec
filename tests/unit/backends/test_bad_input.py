"""What cannot be done is refused before anything is written, and the message says what to do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.state import AssetScope, TaskScope

from airflow_resume.backends import SqlStateStore, SqlStoreBackend
from airflow_resume.errors import (
    BackendSettingError,
    InvalidKeyError,
    InvalidValueError,
    StateReferenceError,
    StoreRefusedError,
    StoreUnavailableError,
    UnwritableStoreError,
    ValueTooLargeError,
)
from tests.support.kit.raised import having

SCOPE = TaskScope(dag_id="dag", run_id="run", task_id="task")


@pytest.mark.parametrize(
    "call",
    [
        lambda backend, key: backend.get(SCOPE, key),
        lambda backend, key: backend.set(SCOPE, key, "1"),
        lambda backend, key: backend.set_many(SCOPE, {"good": "1", key: "1"}),
        lambda backend, key: backend.delete(SCOPE, key),
        lambda backend, key: backend.compare_and_set(SCOPE, key, 0, "1"),
        lambda backend, key: backend.history(SCOPE, key),
        lambda backend, key: asyncio.run(backend.aget(SCOPE, key)),
        lambda backend, key: asyncio.run(backend.aset(SCOPE, key, "1")),
        lambda backend, key: asyncio.run(backend.adelete(SCOPE, key)),
        lambda backend, key: backend.serialize_task_state_store_to_ref(value=1, key=key, scope=SCOPE),
        lambda backend, key: backend.serialize_task_state_store_to_ref(value="x" * 9_000, key=key, scope=SCOPE),
    ],
)
def test_a_bad_key_is_refused_everywhere_alike(backend: SqlStoreBackend, call: Callable[..., object]) -> None:
    with pytest.raises(InvalidKeyError, match="Use 1 to 512 characters"):
        call(backend, "k" * 513)
    assert backend.scan(SCOPE, "") == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (1, "is a int; a backend keeps JSON as text"),
        (None, "is a NoneType"),
        ("a\x00", "NUL"),
        ("\ud800", "surrogate"),
    ],
)
def test_what_is_no_text_is_refused(backend: SqlStoreBackend, text: Any, message: str) -> None:
    with pytest.raises(InvalidValueError, match=f"'key'.*{message}"):
        backend.set(SCOPE, "key", text)


def test_what_is_no_json_is_refused_by_the_hooks(backend: SqlStoreBackend) -> None:
    for value in (float("nan"), None, object(), (1,)):
        with pytest.raises(InvalidValueError):
            backend.serialize_task_state_store_to_ref(value=value, key="key", scope=SCOPE)  # type: ignore[arg-type]


def test_too_large_a_value_is_refused_with_its_key_its_size_the_limit_and_the_remedy() -> None:
    backend = SqlStoreBackend("sqlite://", max_value_bytes=1_000)
    with pytest.raises(ValueTooLargeError, match=r"'key' has 2,002 bytes and may have 1,000 \(max_value_bytes\)"):
        SqlStateStore(backend, "script").set("key", "é" * 1_000)


def test_what_does_not_fit_into_a_packet_of_the_server_is_refused(backend: SqlStoreBackend) -> None:
    database: Any = backend._database
    opened = replace(database.opened(), packet_limit=200_000)
    database.opened = database.opened_anew = lambda: opened
    with pytest.raises(ValueTooLargeError, match=r"may have 134,464 \(the server's max_allowed_packet"):
        backend.set(SCOPE, "key", "x" * 150_000)


@pytest.mark.parametrize(
    "url",
    ["", "state.db", "postgresql://user:secret@host:port/database", "oracle://host/database", "redis://:secret@host"],
)
def test_what_is_no_url_of_ours_is_refused_when_the_backend_is_made_and_not_shown(url: str) -> None:
    with pytest.raises(BackendSettingError, check=having(setting="backend_url")) as caught:
        SqlStoreBackend(url)
    assert "secret" not in str(caught.value)


def test_without_a_url_the_setting_is_named() -> None:
    with pytest.raises(BackendSettingError, match="AIRFLOW__AIRFLOW_RESUME__BACKEND_URL"):
        SqlStoreBackend()


def test_airflows_configuration_is_read_when_there_is_no_url(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__AIRFLOW_RESUME__BACKEND_URL", "sqlite://")
    monkeypatch.setenv("AIRFLOW__AIRFLOW_RESUME__BACKEND_INLINE_BYTES", "0")
    backend = SqlStoreBackend()
    assert backend.serialize_task_state_store_to_ref(value=1, key="key", scope=SCOPE).startswith("airflow-resume:1:")


@pytest.mark.parametrize(
    "options",
    [
        {"on_dangling": "ignore"},
        {"inline_bytes": -1},
        {"keep_versions": 0},
        {"max_value_bytes": 0},
        {"patience": -1},
        {"patience": float("nan")},
        {"patience": float("inf")},
    ],
)
def test_a_bad_option_is_refused_by_its_name(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        SqlStoreBackend("sqlite://", **options)


def test_live_references_come_with_their_time(backend: SqlStoreBackend) -> None:
    with pytest.raises(ValueError, match="live and live_as_of go together"):
        backend.clean(live=set())


@pytest.mark.parametrize("stored", ["airflow-resume:2:x:y:z", "airflow-resume:1:x", "airflow-resume:1:a:b:c:d"])
def test_a_reference_of_another_shape_is_refused(backend: SqlStoreBackend, stored: str) -> None:
    with pytest.raises(StateReferenceError, match="is not a reference"):
        backend.deserialize_task_state_store_from_ref(stored)


# --- the database ---------------------------------------------------------------------------------------------


def test_a_file_in_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreRefusedError, match=r"nowhere/state\.db refused the call: unable to open"):
        SqlStoreBackend(f"sqlite:///{tmp_path}/nowhere/state.db").get(SCOPE, "key")


def test_a_database_that_may_only_be_read_is_read(tmp_path: Path) -> None:
    file = tmp_path / "state.db"
    first = SqlStoreBackend(f"sqlite:///{file}")
    first.set(SCOPE, "key", "1")
    first.close()
    reader = SqlStoreBackend(f"sqlite:///file:{file}?mode=ro&uri=true")
    assert reader.get(SCOPE, "key") == "1"
    with pytest.raises(UnwritableStoreError, match="can be read and not written", check=having(problem="read-only")):
        reader.set(SCOPE, "key", "2")
    assert reader.get(SCOPE, "key") == "1"


def test_a_full_disk_is_named_and_loses_nothing(backend: SqlStoreBackend) -> None:
    backend.set(SCOPE, "key", "1")
    backend._database.autocommit(lambda connection: connection.exec_driver_sql("PRAGMA max_page_count = 1").scalar())
    with pytest.raises(UnwritableStoreError, match="Make room", check=having(problem="full")):
        backend.set(SCOPE, "key", "x" * 1_000_000)
    assert backend.get(SCOPE, "key") == "1"


def test_a_server_that_does_not_answer_is_asked_again_for_as_long_as_was_said() -> None:
    waits: list[float] = []
    backend = SqlStoreBackend("postgresql://user:secret@127.0.0.1:1/database", patience=60)
    backend._database._sleep = waits.append
    with pytest.raises(StoreUnavailableError, match=r"user:\*\*\*@127.0.0.1:1/database could not be used for 60 s"):
        backend.get(SCOPE, "key")
    assert sum(waits) >= 60


@pytest.mark.parametrize("patience", [None, "30", True])
def test_a_patience_that_is_no_number_is_refused(patience: Any) -> None:
    with pytest.raises(TypeError, match=r"patience=.* must be a number of seconds"):
        SqlStoreBackend("sqlite://", patience=patience)


def test_in_memory_everything_is_gone_after_closing_and_it_goes_on() -> None:
    backend = SqlStoreBackend("sqlite://")
    backend.set(SCOPE, "key", "1")
    backend.close()
    assert backend.get(SCOPE, "key") is None
    backend.set(SCOPE, "key", "2")
    assert backend.get(SCOPE, "key") == "2"
    backend.close()


def test_what_a_driver_raises_of_its_own_is_named(tmp_path: Path) -> None:
    backend = SqlStoreBackend(f"mysql://root:secret@127.0.0.1:3306/d?ssl_ca={tmp_path}/nowhere.pem", patience=0)
    with pytest.raises(StoreRefusedError, match=r"cannot be connected to, as the driver raised FileNotFoundError"):
        backend.get(SCOPE, "key")


OF_ASSET: Any = AssetScope
OF_TASK: Any = partial(TaskScope, dag_id="dag", run_id="run", task_id="task")
BAD_SCOPES: list[Any] = [
    *(
        OF_TASK(**{name: text})
        for name in ("dag_id", "run_id", "task_id")
        for text in ("a\x00b", "\ud800", "x" * 16_001, b"dag", 7, "\x1b[2J\x00")
    ),
    *(OF_TASK(map_index=index) for index in (2**31, -2, 2**70, "1", 1.5, True)),
    *(OF_ASSET(**{name: text}) for name in ("name", "uri") for text in ("a\x00b", "\ud800", "x" * 16_001, 7)),
    *(OF_ASSET(asset_id=number) for number in (2**63, -1, "1", True)),
]
CALLS: list[Callable[..., object]] = [
    lambda backend, scope: backend.get(scope, "k"),
    lambda backend, scope: backend.set(scope, "k", "1"),
    lambda backend, scope: backend.set_many(scope, {"k": "1"}),
    lambda backend, scope: backend.delete(scope, "k"),
    lambda backend, scope: backend.clear(scope),
    lambda backend, scope: backend.scan(scope, ""),
    lambda backend, scope: backend.history(scope, "k"),
    lambda backend, scope: backend.compare_and_set(scope, "k", 0, "1"),
    lambda backend, scope: asyncio.run(backend.aset(scope, "k", "1")),
    lambda backend, scope: backend.serialize_task_state_store_to_ref(value="x" * 9_000, key="k", scope=scope),
]


@pytest.mark.parametrize("call", CALLS)
def test_a_scope_that_no_database_can_keep_is_refused_before_anything_is_written(
    backend: SqlStoreBackend, call: Callable[..., object]
) -> None:
    for scope in BAD_SCOPES:
        with pytest.raises(InvalidKeyError, match="cannot stand in a scope") as caught:
            call(backend, scope)
        assert "\x1b" not in str(caught.value)
        assert len(str(caught.value)) < 400
    assert list(backend.plan_cleanup()) == []


@pytest.mark.parametrize("version", [2**63, 2**70, -1, -(2**70), "1", 1.0, True, None])
def test_a_version_that_there_cannot_be_is_refused(backend: SqlStoreBackend, version: Any) -> None:
    backend.set(SCOPE, "k", "1")
    for scope in (SCOPE, replace(SCOPE, task_id="other")):
        with pytest.raises(InvalidValueError, match="is no version"):
            backend.compare_and_set(scope, "k", version, "2")
        with pytest.raises(InvalidValueError, match="is no version"):
            SqlStateStore(backend, scope).compare_and_set("k", version, "2")
    assert (backend.get(SCOPE, "k"), backend.get(replace(SCOPE, task_id="other"), "k")) == ("1", None)


def test_a_refused_key_is_shown_short_and_escaped(backend: SqlStoreBackend) -> None:
    for key in ("k" * 100_000, "\x1b[2J\x00\u202e", "\ud800" * 400):
        with pytest.raises(InvalidKeyError) as caught:
            backend.set(SCOPE, key, "1")
        assert len(str(caught.value)) < 400
        assert str(caught.value).replace("\n", "").isprintable()
