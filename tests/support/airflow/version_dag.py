"""A Dag whose options are sets and objects; every Dag processor must serialise it to the same text."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

from airflow.sdk import DAG, Asset, BaseOperator, task

from airflow_resume import PollPolicy, ResumePolicy, checkpoint, watermark
from airflow_resume.watermarks import Window
from airflow_resume_mixins import ResumableJobMixin, WatermarkMixin

REASONS: Any = ["user", "shutdown", "timeout", "final_failure"]
POLICY = ResumePolicy(cancel_on=frozenset(REASONS), poll=PollPolicy(timeout=timedelta(hours=1)))


def utc_now() -> datetime:
    return datetime.now(tz=timezone.utc)


orders = watermark(
    Asset("version_orders"),
    initial="2026-01-01T00:00:00Z",
    delay=timedelta(minutes=2),
    lookback=timedelta(minutes=5),
    max_span=timedelta(days=1),
    now=utc_now,
)


class Train(ResumableJobMixin, BaseOperator):
    def execute(self, context: Any) -> Any:
        return self.execute_resumable(context)

    def submit_job(self, context: Any) -> str:
        return "job"

    def get_job_status(self, external_id: Any, context: Any) -> str:
        return "SUCCEEDED"

    def is_job_active(self, status: str) -> bool:
        return False

    def is_job_succeeded(self, status: str) -> bool:
        return True


class LoadOrders(WatermarkMixin, BaseOperator):
    watermark = orders

    def execute_window(self, context: Any, window: Window[Any]) -> None: ...


with DAG("version", schedule=None, default_args={"resume_policy": POLICY, "retries": 2}):
    Train(task_id="by_default")
    Train(task_id="by_argument", resume_policy=ResumePolicy(cancel_on=set(REASONS)))
    Train.partial(task_id="mapped", resume_policy=POLICY).expand(doc=["a", "b"])
    LoadOrders(task_id="load_by_operator")

    @orders.task
    def load(window: Window[Any]) -> None: ...

    @task
    def loop() -> None:
        for _ in checkpoint([1, 2], name="numbers", interval=timedelta(seconds=1)):
            pass

    load()
    loop()
