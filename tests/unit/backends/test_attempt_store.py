"""State by `[airflow_resume] state_url`: what Airflow's stores do for an attempt, a database does too."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from airflow_resume import PollPolicy, ResumePolicy, checkpoint, run_job
from airflow_resume.attempt import Epoch
from airflow_resume.backends import SqlStateStore, SqlStoreBackend
from airflow_resume.backends.attempt_store import FENCE, AttemptStore, is_another_life
from airflow_resume.compat import AssetScope, TaskScope
from airflow_resume.errors import AssetNotDeclaredError, BackendSettingError, NoStateStoreError, SupersededError
from airflow_resume.store import MemoryStore
from airflow_resume.task_stores import asset_store, find_task_store, open_task_store, task_store
from airflow_resume.testing import FakeJobs

STARTED = datetime(2026, 1, 1, tzinfo=timezone.utc)
SCOPE = TaskScope(dag_id="dag", run_id="run", task_id="task", map_index=-1)


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/state.db"


@pytest.fixture
def configured(url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("AIRFLOW__AIRFLOW_RESUME__STATE_URL", url)
    return url


@pytest.fixture
def kept(configured: str) -> Iterator[SqlStateStore]:
    """What is kept of the task, as `airflow-resume` and scripts read it."""
    backend = SqlStoreBackend(configured)
    yield SqlStateStore(backend, SCOPE)
    backend.close()


def attempt(
    number: int,
    *,
    born: int | None = None,
    started: datetime = STARTED,
    clear_number: int = 0,
    assets: tuple[str, ...] = (),
) -> dict[str, Any]:
    """The context of a try, as Airflow 3.0 to 3.2 make it. `born`: the order in which ids are made."""
    task = SimpleNamespace(retries=3, inlets=[SimpleNamespace(name=name) for name in assets], outlets=[])
    ti = SimpleNamespace(
        dag_id="dag",
        run_id="run",
        task_id="task",
        map_index=-1,
        try_number=number,
        max_tries=3,
        id=UUID(int=(number if born is None else born) << 80 | 7 << 76 | 2 << 62),
        task=task,
    )
    dag_run = SimpleNamespace(start_date=started, clear_number=clear_number)
    return {"ti": ti, "task": task, "dag_run": dag_run}


def test_the_next_try_reads_what_the_last_one_wrote(kept: SqlStateStore) -> None:
    task_store(attempt(1)).set("resume.loop.pages", {"n": 3})
    assert task_store(attempt(2)).get("resume.loop.pages") == {"n": 3}
    assert kept.get("resume.loop.pages") == {"n": 3}
    task_store(attempt(2)).delete("resume.loop.pages")
    assert task_store(attempt(2)).get("resume.loop.pages", "gone") == "gone"


def test_a_replaced_attempt_reads_defaults_and_cannot_write(kept: SqlStateStore) -> None:
    old, new = task_store(attempt(1)), task_store(attempt(2))
    old.set("a", 1)
    assert new.get("b") is None  # it has only read, and nothing of what the old one writes
    assert old.get("a", "default") == "default"
    changes: list[Callable[[], None]] = [
        lambda: old.set("b", 1),
        lambda: old.set("a", 2),
        lambda: old.delete("a"),
    ]
    for change in changes:
        with pytest.raises(SupersededError):
            change()
    assert (kept.get("a"), kept.get("b")) == (1, None)


def test_a_replaced_attempt_that_opens_the_store_last_is_refused_too(configured: str) -> None:
    task_store(attempt(2)).set("a", 1)
    assert task_store(attempt(1)).get("a") is None
    with pytest.raises(SupersededError):
        task_store(attempt(1)).set("a", 2)


def test_a_replaced_attempt_cannot_move_the_mark_of_an_asset(configured: str) -> None:
    asset: Any = SimpleNamespace(name="orders")
    old = asset_store(attempt(1, assets=("orders",)), asset)
    old.set("resume.watermark.watermark", 1)
    assert task_store(attempt(2)).get("a") is None
    with pytest.raises(SupersededError):
        old.set("resume.watermark.watermark", 2)
    assert asset_store(attempt(2, assets=("orders",)), asset).get("resume.watermark.watermark") == 1
    backend = SqlStoreBackend(configured)
    assert SqlStateStore(backend, AssetScope(name="orders")).get("resume.watermark.watermark") == 1
    backend.close()


def test_a_run_that_is_made_again_with_its_id_finds_nothing(kept: SqlStateStore) -> None:
    task_store(attempt(3)).set("a", 1)
    again = task_store(attempt(1, born=9, started=STARTED + timedelta(days=1)))
    assert again.get("a") is None
    again.set("b", 2)
    assert (kept.get("a"), kept.get("b")) == (None, 2)


@pytest.mark.parametrize(
    ("before", "now", "same_id", "expected"),
    [
        pytest.param((1, "a", 0), (1, "b", 0), False, True, id="made again, in its first try"),
        pytest.param((3, "a", 0), (2, "b", 0), False, True, id="made again, in a try before the last one of then"),
        pytest.param((1, "a", 2), (1, "b", 0), False, True, id="made again after clears"),
        pytest.param((1, "a", 0), (2, "b", 0), False, False, id="set back to queued, and tried again"),
        pytest.param((1, "a", 0), (1, "b", 0), True, False, id="set back to queued during a reschedule"),
        pytest.param((1, "a", 0), (2, "b", 1), False, False, id="cleared"),
        pytest.param((1, "a", 0), (1, "a", 0), False, False, id="the same start"),
        pytest.param((1, None, 0), (1, "b", 0), False, False, id="an unknown start"),
        pytest.param((1, "a", 0), (1, None, 0), False, False, id="a start that is unknown now"),
    ],
)
def test_another_life_is_told_from_a_run_that_goes_on(
    before: tuple[int, str | None, int],
    now: tuple[int, str | None, int],
    same_id: bool,  # noqa: FBT001
    expected: bool,  # noqa: FBT001
) -> None:
    def epoch(facts: tuple[int, str | None, int]) -> Epoch:
        number, start, clears = facts
        day = None if start is None else STARTED + timedelta(days=ord(start))
        return Epoch.model_validate(
            {"try": number, "run_started": None if day is None else day.isoformat(), "clear_number": clears}
        )

    assert is_another_life(before=epoch(before), now=epoch(now), same_id=same_id) is expected


def test_a_run_that_is_set_back_to_queued_keeps_what_its_tasks_had(configured: str) -> None:
    task_store(attempt(1)).set("a", 1)
    assert task_store(attempt(2, started=STARTED + timedelta(hours=1))).get("a") == 1


def test_a_task_that_is_cleared_in_a_finished_run_still_reads_its_record(configured: str) -> None:
    """The record itself says from which epoch it is, and what becomes of it is decided by that."""
    task_store(attempt(1)).set("a", 1)
    assert task_store(attempt(2, started=STARTED + timedelta(days=1), clear_number=1)).get("a") == 1


def test_a_try_that_goes_on_after_a_reschedule_is_the_same_attempt(configured: str) -> None:
    task_store(attempt(1)).set("a", 1)
    assert task_store(attempt(1)).get("a") == 1


def test_an_attempt_writes_its_fence_once_and_has_one_store(kept: SqlStateStore) -> None:
    context = attempt(1)
    assert find_task_store(context) == find_task_store(dict(context))
    store, found = open_task_store(context)
    store.set("a", 1)
    assert kept.get(FENCE) == {"try": 1, "run_started": STARTED.isoformat(), "clear_number": 0}
    assert found.process is not None
    assert open_task_store(dict(context))[1].process is found.process
    assert open_task_store(attempt(2))[1].process is not found.process


def test_a_loop_continues_and_a_job_is_submitted_once(configured: str) -> None:
    seen, jobs = [], FakeJobs()

    def body(context: dict[str, Any], stop_at: int | None) -> None:
        for element in checkpoint([1, 2, 3], name="numbers", context=context, durability="sync"):
            if element == stop_at:
                raise KeyboardInterrupt
            seen.append(element)
        moment = timedelta(milliseconds=1)
        quick = ResumePolicy(poll=PollPolicy(interval=moment), confirm_gone=moment)
        assert run_job(jobs, name="train", policy=quick, context=context) is not None

    with pytest.raises(KeyboardInterrupt):
        body(attempt(1), stop_at=3)
    body(attempt(2), stop_at=None)
    body(attempt(3), stop_at=None)
    assert seen == [1, 2, 3]
    assert len(jobs.jobs) == 1


def test_a_task_in_a_loop_of_tasks_is_refused(configured: str) -> None:
    context = attempt(1)
    context["loop"] = SimpleNamespace(index=1)
    context["ti"].region_id, context["ti"].region_index = UUID(int=7), 1
    with pytest.raises(BackendSettingError, match="loop of tasks"):
        task_store(context)


def test_an_asset_that_the_task_does_not_declare_is_refused(configured: str) -> None:
    with pytest.raises(AssetNotDeclaredError) as caught:
        asset_store(attempt(1, assets=("others",)), SimpleNamespace(name="orders"))  # type: ignore[arg-type]
    assert caught.value.asset == "orders"


def test_without_the_setting_the_error_says_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AIRFLOW__AIRFLOW_RESUME__STATE_URL", raising=False)
    with pytest.raises(NoStateStoreError, match="state_url"):
        task_store(attempt(1))


def test_a_url_and_a_connection_are_not_both_taken(configured: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__AIRFLOW_RESUME__STATE_CONN_ID", "resume_state")
    with pytest.raises(BackendSettingError) as caught:
        task_store(attempt(1))
    assert caught.value.setting == "state_url"


def test_a_store_that_is_passed_or_faked_is_used_all_the_same(configured: str) -> None:
    given = MemoryStore()
    assert open_task_store(attempt(1), given)[0] is given
    assert task_store({**attempt(1), "task_state_store": given}) is given


@pytest.mark.parametrize("setting", ["accessor", "none"])
def test_the_setting_wins_over_airflows_own_store(setting: str, configured: str) -> None:
    accessor: Callable[[], Any] = type("Accessor", (), {"__module__": "airflow.sdk.execution_time.context"})
    context = {**attempt(1), **({"task_state_store": accessor()} if setting == "accessor" else {})}
    assert isinstance(getattr(task_store(context), "store", None), AttemptStore)


def test_nothing_is_read_when_a_dag_file_is_imported() -> None:
    code = (
        "import sys\nfrom airflow_resume import checkpoint, run_job, watermark\n"
        "from airflow_resume_mixins import ResumableJobMixin\nimport airflow_resume.task_stores as stores\n"
        "print(stores._place_in.cache_info().misses, 'sqlalchemy' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert ran.stdout.split()[0] == "0"


def test_a_wrong_url_is_named_by_its_own_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__AIRFLOW_RESUME__STATE_URL", "oracle://somewhere")
    with pytest.raises(BackendSettingError) as caught:
        task_store(attempt(1)).get("a")
    assert caught.value.setting == "state_url"


def test_a_missing_connection_is_named_by_its_own_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__AIRFLOW_RESUME__STATE_CONN_ID", "nowhere_at_all")
    with pytest.raises(BackendSettingError) as caught:
        task_store(attempt(1)).get("a")
    assert caught.value.setting == "state_conn_id"
