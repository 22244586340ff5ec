from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import closing
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.state import AssetScope, TaskScope
from sqlalchemy import create_engine, text

from airflow_resume.backends import CleanupReport, Reason, SqlStoreBackend

Command = Callable[..., Any]

NOW = datetime.now(timezone.utc)
TASK = TaskScope(dag_id="dag", run_id="run", task_id="task", map_index=3)
ASSET = AssetScope(name="orders")


@pytest.fixture
def filled(url: str) -> str:
    """A database with expired, unexpired, endless and referenced values in two scopes."""
    with closing(SqlStoreBackend(url, inline_bytes=0)) as backend:
        for scope in (TASK, ASSET):
            for number in range(3):
                backend.set(scope, f"over.{number}", "1", expires_at=NOW - timedelta(hours=1))
            backend.set(scope, "later", "1", expires_at=NOW + timedelta(hours=1))
            backend.set(scope, "endless\n", "1")
        backend.serialize_task_state_store_to_ref(value=1, key="reference", scope=TASK)
    return url


def rows(url: str) -> list[tuple[str, str | None]]:
    engine = create_engine(url)
    with engine.connect() as connection:
        found = connection.execute(text("SELECT key, dag_id FROM airflow_resume_state ORDER BY id")).all()
    engine.dispose()
    return [(key, dag_id) for key, dag_id in found]


def test_the_dry_run_and_the_real_one_agree_row_by_row(command: Command, filled: str) -> None:
    before = rows(filled)
    plan = json.loads(command("cleanup", filled, "--dry-run", "-o", "json").out)
    assert rows(filled) == before == [(row["key"], row["scope"].get("dag_id")) for row in plan["plan"]]

    code, out, _ = command("cleanup", filled, "-o", "json")
    kept = [(row["key"], row["scope"].get("dag_id")) for row in plan["plan"] if row["outcome"] == "kept"]
    assert rows(filled) == kept
    assert json.loads(out) == {"dry_run": False, "expired": plan["deleted"], "orphaned": 0, "failures": []}
    assert (code, plan["deleted"], plan["kept"]) == (0, 6, 5)


def test_every_row_of_the_plan_has_its_reason(command: Command, filled: str) -> None:
    plan = json.loads(command("cleanup", filled, "--dry-run", "-o", "json").out)["plan"]
    assert plan[0] == {
        "key": "over.0",
        "scope": {
            "dag_id": "dag",
            "run_id": "run",
            "task_id": "task",
            "map_index": 3,
            "region_id": "00000000-0000-0000-0000-000000000000",
        },
        "outcome": "deleted",
        "reason": Reason.EXPIRED.value,
    }
    reasons = {Reason.EXPIRED, Reason.NOT_EXPIRED, Reason.NO_EXPIRY, Reason.UNKNOWN}
    assert {row["reason"] for row in plan} == {reason.value for reason in reasons}


def test_the_table_has_the_rows_of_the_json(command: Command, filled: str) -> None:
    plan = json.loads(command("cleanup", filled, "--dry-run", "-o", "json").out)["plan"]
    heading, *lines, last = command("cleanup", filled, "--dry-run").out.splitlines()
    assert heading.split() == ["KEY", "SCOPE", "OUTCOME", "REASON"]
    columns = [re.split(r" {2,}", line) for line in lines]
    assert [(line[2], line[3]) for line in columns] == [(row["outcome"], row["reason"]) for row in plan]
    assert columns[4][0] == '"endless\\n"'
    assert last == "Of 11 values 6 would be deleted, and 5 kept"


def test_nothing_to_plan_is_a_document_too(command: Command, made: str) -> None:
    out = command("cleanup", made, "--dry-run", "-o", "json").out
    assert json.loads(out) == {"dry_run": True, "plan": [], "deleted": 0, "kept": 0}


def test_a_mistyped_url_is_refused_and_makes_no_file(command: Command, tmp_path: Path) -> None:
    for more in ([], ["--dry-run"]):
        code, out, err = command("cleanup", f"sqlite:///{tmp_path}/other.db", *more)
        assert (code, out) == (1, "")
        assert "other.db has no tables of ours. See whether the URL is right" in err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("output", ["json", "table"])
def test_a_batch_that_failed_ends_with_1(
    command: Command, filled: str, monkeypatch: pytest.MonkeyPatch, output: str
) -> None:
    report = CleanupReport(expired=2, orphaned=0, failures=("the disk is full",))
    monkeypatch.setattr(SqlStoreBackend, "clean", lambda _: report)
    code, out, _ = command("cleanup", filled, "-o", output)
    assert code == 1
    assert "the disk is full" in out
