"""What docs/backends.md shows of the command is what it prints."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Callable
from contextlib import closing
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.state import AssetScope
from cryptography.fernet import Fernet

from airflow_resume.backends import SqlStoreBackend

Command = Callable[..., Any]

PAGE = (Path(__file__).parents[3] / "docs" / "backends.md").read_text()
BLOCKS = re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL)
FACTORY = re.findall(r"<!-- snippet: factory -->\n```python\n(.*?)```", PAGE, re.DOTALL)[0]


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "places", raising=False)
    (tmp_path / "places.py").write_text(FACTORY)


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__CORE__FERNET_KEY", Fernet.generate_key().decode())


def fill() -> None:
    sales = AssetScope(name="sales")
    with closing(SqlStoreBackend("sqlite:///state.db")) as backend:
        backend.set(sales, "page", "3", expires_at=datetime.now(timezone.utc) - timedelta(hours=1))
        backend.set(sales, "total", "7")


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.split()[2])
def test_every_example_prints_what_is_shown(command: Command, block: str) -> None:
    if any(name in block for name in ("cleanup", "new-id", "rotate")):
        fill()
    for line, shown in re.findall(r"^\$ (.*)\n((?:[^$].*\n)*)", block, re.MULTILINE):
        name, *arguments = shlex.split(line)
        code, out, err = command(*arguments)
        assert (name, code, err) == ("airflow-resume", 0, "")
        assert without_chance(out) == without_chance(shown)


def without_chance(text: str) -> str:
    """The file system depends on the machine, and an id is random."""
    return re.sub(r"\b[0-9a-f]{32}\b", "ID", re.sub(r"^(ok +file system +).*", r"\1", text, flags=re.MULTILINE))


def test_every_subcommand_is_shown() -> None:
    shown = re.findall(r"^\$ airflow-resume ([\w-]+)", PAGE, re.MULTILINE)
    assert set(shown) == {"migrate", "cleanup", "doctor", "conformance", "new-id", "rotate"}
