"""Every snippet of docs/backends.md is run, and its tables name what there is."""

from __future__ import annotations

import re
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.exc import SQLAlchemyError

from airflow_resume import errors
from airflow_resume.backends import Reason, SqlStateStore, SqlStoreBackend
from airflow_resume.backends.backend import MAX_VALUE_BYTES
from airflow_resume.backends.cleanup import BATCH, SETTLED
from airflow_resume.backends.patience import PATIENCE_SECONDS
from airflow_resume.backends.settings import DEFAULTS
from airflow_resume.backends.sweep import MOST

PAGE = (Path(__file__).parents[2] / "docs" / "backends.md").read_text()
SNIPPETS = dict(re.findall(r"<!-- snippet: (\w+) -->\n```python\n(.*?)```", PAGE, re.DOTALL))


def play(name: str, names: dict[str, Any]) -> dict[str, Any]:
    exec(compile(SNIPPETS[name], f"docs/backends.md, {name}", "exec"), names)  # noqa: S102  that is what it is for
    return names


def test_a_script_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    loaded: list[int] = []

    def load(page: int) -> None:
        loaded.append(page)
        if loaded == [1, 2]:
            raise SQLAlchemyError("the warehouse is away")

    with pytest.raises(SQLAlchemyError):
        play("script", {"pages": [1, 2, 3], "load": load})
    play("script", {"pages": [1, 2, 3], "load": load})
    assert loaded == [1, 2, 2, 3]
    assert (tmp_path / "orders.db").exists()


def test_the_abilities_do_what_is_said() -> None:
    store = SqlStateStore(SqlStoreBackend("sqlite://"), "script")
    play("abilities", {"store": store})
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
    names = {"backend": SqlStoreBackend("sqlite://"), "datetime": datetime, "timezone": timezone, "all_references": set}
    assert str(play("sweep", names)["report"]) == "Deleted 0 expired and 0 orphaned values"


def test_every_reason_is_in_the_table() -> None:
    rows = dict(re.findall(r"^\| ([^|]+) \| (yes)? ?\|$", PAGE, re.MULTILINE))
    assert rows == {reason.value: "yes" if reason.deletes else "" for reason in Reason}


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
