"""Every snippet of docs/backends.md is run, and its tables name what there is."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.exc import SQLAlchemyError

from airflow_resume import errors
from airflow_resume.backends import Reason, SqlStateStore, SqlStoreBackend
from airflow_resume.backends.backend import MAX_VALUE_BYTES
from airflow_resume.backends.rows.cleanup import BATCH, SETTLED
from airflow_resume.backends.rows.sweep import MOST
from airflow_resume.backends.settings import DEFAULTS
from airflow_resume.backends.span import PATIENCE_SECONDS
from airflow_resume.provider import get_provider_info

PAGE = (Path(__file__).parents[2] / "docs" / "backends.md").read_text()
SNIPPETS = dict(re.findall(r"<!-- snippet: (\w+) -->\n```python\n(.*?)```", PAGE, re.DOTALL))


LOAD = "load = print\n"


def play(name: str, names: dict[str, Any], *, without: str = "") -> dict[str, Any]:
    snippet = SNIPPETS[name].replace(without, "")
    exec(compile(snippet, f"docs/backends.md, {name}", "exec"), names)  # noqa: S102  that is what it is for
    return names


def test_the_page_runs_as_it_is_pasted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "page"}
    for name in SNIPPETS:
        play(name, names)
    shown = capsys.readouterr().out
    assert "[1, 2]\n[3, 4]\n[5]\n" in shown
    assert shown.splitlines()[-1] == "0 0 ()"
    assert LOAD in SNIPPETS["script"]
    assert PAGE.count("```python") == len(SNIPPETS)


def test_a_script_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    loaded: list[int] = []

    def load(page: list[int]) -> None:
        loaded.append(page[0])
        if loaded == [1, 3]:
            raise SQLAlchemyError("the warehouse is away")

    with pytest.raises(SQLAlchemyError):
        play("script", {"load": load}, without=LOAD)
    play("script", {"load": load}, without=LOAD)
    assert loaded == [1, 3, 3, 5]
    assert (tmp_path / "orders.db").exists()


def test_the_abilities_do_what_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store = play("abilities", {"SqlStateStore": SqlStateStore, "SqlStoreBackend": SqlStoreBackend})["store"]
    assert [store.get(key) for key in store.scan("")] == ["mine", 3, 1300]


def test_the_cleanup_prints_reasons_and_counts(capsys: pytest.CaptureFixture[str]) -> None:
    backend = SqlStoreBackend("sqlite://")
    SqlStateStore(backend, "script").set("key", 1)
    play("cleanup", {"backend": backend})
    first, last = capsys.readouterr().out.splitlines()
    assert first.startswith("key {")
    assert first.endswith("False it is kept until it is deleted")
    assert last == "0 0 ()"


def test_the_sweep_takes_references() -> None:
    names = {"backend": SqlStoreBackend("sqlite://")}
    assert str(play("sweep", names)["report"]) == "Deleted 0 expired and 0 orphaned values"


def test_a_codec_of_ones_own_encrypts_the_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    backend = play("codec", {"SqlStoreBackend": SqlStoreBackend})["backend"]
    store = SqlStateStore(backend, "script")
    store.set("key", "hunter2secret")
    assert store.get("key") == "hunter2secret"
    shown = backend.serialize_task_state_store_to_ref(value=1, key="key", scope=store._scope)
    assert re.search(r'"(airflow-resume:enc:1:gAAAA)\.\.\."', PAGE)
    assert shown.startswith("airflow-resume:enc:1:gAAAA")
    assert str(backend.rotate()) == "Encrypted 0 values anew, and 1 were under the newest key already"
    backend.close()
    assert b"hunter2secret" not in (tmp_path / "state.db").read_bytes()


def test_every_option_of_a_snippet_is_one_that_airflow_is_told_of() -> None:
    shown = {
        option
        for block in re.findall(r"```ini\n(.*?)```", PAGE, re.DOTALL)
        for section in re.findall(r"\[airflow_resume\]\n((?:\w+ = .*\n)+)", block)
        for option in re.findall(r"^(\w+) =", section, re.MULTILINE)
    }
    known = get_provider_info()["config"]["airflow_resume"]["options"]
    assert shown == {"backend_url", "backend_conn_id", "backend_codec", "state_url"}
    assert shown <= set(known)
    assert set(re.findall(r"^\| `(backend_\w+)` \|", PAGE, re.MULTILINE)) == {
        name for name in known if "backend" in name
    }


def test_every_reason_is_in_the_table() -> None:
    rows = dict(re.findall(r"^\| ([^|]+) \| (yes|no) \|$", PAGE, re.MULTILINE))
    assert rows == {reason.value: "yes" if reason.deletes else "no" for reason in Reason}


def test_the_settings_are_those_that_are_read() -> None:
    rows = dict(re.findall(r"^\| `backend_(\w+)` \|.*\| `?(\w*)`? \|$", PAGE, re.MULTILINE))
    assert rows == {name: str(value) for name, value in DEFAULTS.items()}


def test_the_numbers_are_the_defaults() -> None:
    assert f"`patience={PATIENCE_SECONDS:g}`" in PAGE
    assert f"{MAX_VALUE_BYTES // 2**20} MiB (`max_value_bytes`)" in PAGE
    assert f"{BATCH:,} at a time (`batch=`, at most {MOST:,})" in PAGE
    assert SETTLED.total_seconds() == 3600


def test_the_errors_exist() -> None:
    assert all(hasattr(errors, name) for name in re.findall(r"`(\w+Error)`", PAGE))
