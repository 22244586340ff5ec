"""What users' type checkers see. Checked by mypy and pyright, never executed."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from airflow.sdk import Asset, BaseOperator
from airflow.sdk.state import BaseStoreBackend
from typing_extensions import assert_type

from airflow_resume import JobStatus, checkpoint, run_job, watermark
from airflow_resume.backends import (
    CleanupReport,
    ComparesAndSets,
    KeepsHistory,
    PlansCleanup,
    Scans,
    SqlStateStore,
    SqlStoreBackend,
)
from airflow_resume.loops import Batches, Checkpoint, CursorToken, Page
from airflow_resume.store import StateStore
from airflow_resume.watermarks import Watermark, Window
from airflow_resume_mixins import ResumableJobMixin


class Jobs:
    def submit(self, _token: str, /) -> int:
        return 0

    def status(self, _external_id: int, /) -> JobStatus:
        return JobStatus.ACTIVE


class JobsWithResult(Jobs):
    def result(self, _external_id: int, /) -> list[str]:
        return []


assert_type(run_job(Jobs()), int)
assert_type(run_job(JobsWithResult(), name="a"), list[str])


def fetch(token: Any) -> Page[dict[str, int]]:
    return Page([{"token": token}])


assert_type(checkpoint([1, 2], name="l"), Checkpoint[int])
assert_type(checkpoint(CursorToken(fetch), name="l"), Checkpoint[Page[dict[str, int]]])


def elements(names: list[str]) -> Iterator[str]:
    with checkpoint(names, name="l", durability="sync") as loop:
        assert_type(loop, Checkpoint[str])
        yield from loop


checkpoint(Batches(range(3), size=2), name="l")

orders = watermark(Asset("orders"), initial="2026-01-01T00:00:00Z", delay=timedelta(minutes=1))
assert_type(orders, Watermark[Any])
with orders.open({}) as window:
    assert_type(window, Window)


@orders
def load(window: Window[datetime], table: str) -> int:
    return len(table) + window.end.hour


assert_type(load("t"), int)


@orders.task(retries=3)
def load_task(window: Window) -> None: ...


class Train(ResumableJobMixin, BaseOperator):
    def submit_job(self, context: Any) -> int:
        return 0

    def get_job_status(self, external_id: Any, context: Any) -> str:
        return "DONE"

    def is_job_active(self, status: str) -> bool:
        return status == "RUNNING"

    def is_job_succeeded(self, status: str) -> bool:
        return status == "DONE"


Train(task_id="train", retries=3)

backend = SqlStoreBackend("sqlite://")
airflows: BaseStoreBackend = backend
script = SqlStateStore(backend, "script")
store: StateStore = script
scans: Scans = script
compares: ComparesAndSets = script
keeps: KeepsHistory = script
plans: PlansCleanup = backend
assert_type(script.compare_and_set("key", 0, {"a": [1]}), int | None)
assert_type(backend.clean(), CleanupReport)
checkpoint([1], name="numbers", store=script)
