"""A setting that is wrong, or whose command fails: one line and exit code 1, and a named error in Python."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from airflow_resume.backends import SqlStoreBackend
from airflow_resume.errors import BackendSettingError
from tests.support.kit.raised import having

SECRET = "hunter2secret"  # noqa: S105  of nobody
SECTION = "AIRFLOW__AIRFLOW_RESUME__BACKEND_"
WRONG = {
    "KEEP_VERSIONS": ["abc", "0", "-1", "1.5", "None", "9" * 30],
    "INLINE_BYTES": ["abc", "-1", "4k", "1e3"],
    "ON_DANGLING": ["ignore", "None"],
    "URL_CMD": ["false", "/nowhere/command", "'", "sh -c 'echo SECRET; echo SECRET >&2; exit 3'"],
}
CASES = [(name, value) for name, values in WRONG.items() for value in values]


@pytest.mark.parametrize(("name", "value"), CASES)
def test_a_setting_that_is_wrong_is_one_line_and_a_named_error(
    name: str, value: str, command: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name != "URL_CMD":
        monkeypatch.setenv(f"{SECTION}URL", f"sqlite:///{tmp_path}/state.db")
    monkeypatch.setenv(f"{SECTION}{name}", value.replace("SECRET", SECRET))
    for subcommand in ("doctor", "migrate", "cleanup", "new-id"):
        code, out, err = command(subcommand)
        assert (code, out, err.count("\n")) == (1, "", 1), err
        assert f"[airflow_resume] backend_{name.removesuffix('_CMD').lower()}" in err
        assert SECRET not in err
        assert "Traceback" not in err
    setting = f"backend_{name.removesuffix('_CMD').lower()}"
    with pytest.raises(BackendSettingError, check=having(setting=setting)) as caught:
        SqlStoreBackend()
    assert SECRET not in "".join(traceback.format_exception(caught.value))
    assert caught.value.remedy


def test_an_empty_setting_is_the_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"{SECTION}URL", f"sqlite:///{tmp_path}/state.db")
    for name in ("KEEP_VERSIONS", "INLINE_BYTES", "ON_DANGLING", "CODEC", "CONN_ID"):
        monkeypatch.setenv(f"{SECTION}{name}", "")
    assert SqlStoreBackend().store_id
