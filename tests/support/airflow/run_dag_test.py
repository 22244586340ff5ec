"""Run the three surfaces, and every way to loop, under `dag.test()`, and print what they leave.

Its supervisor lives in the task's process.

Run it as a script in an environment with its own AIRFLOW_HOME and a migrated database.
"""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from itertools import count
from typing import Any

from airflow.providers.standard.triggers.temporal import DateTimeTrigger
from airflow.sdk import DAG, Asset, BaseOperator, get_current_context, task

from airflow_resume import PollPolicy, ResumePolicy, checkpoint, run_job, watermark
from airflow_resume.watermarks import Window
from airflow_resume_mixins import WatermarkMixin

SEEN: dict[str, Any] = {}


class Jobs:
    def submit(self, _token: str, /) -> str:
        return "job-0"

    def status(self, _external_id: str, /) -> str:
        return "SUCCEEDED"


mark = watermark(
    Asset("dag_test"), initial="2026-01-01T00:00:00Z", now=lambda: datetime(2026, 1, 2, tzinfo=timezone.utc)
)

with DAG("dag_test", schedule=None) as dag:

    @task
    def surfaces() -> None:
        SEEN["job"] = run_job(Jobs())
        SEEN["loop"] = list(checkpoint([1, 2, 3], name="l"))
        SEEN["record"] = get_current_context()["task_state_store"].get("resume.loop.l")["n"]  # type: ignore[index, call-overload]

    @mark.task
    def load(window: Window) -> None:
        SEEN["window"] = str(window)

    @task
    def loops() -> None:
        SEEN["nested"] = []
        for outer in (tables := checkpoint(["a", "b"], name="outer")):
            SEEN["nested"] += [f"{outer}{inner}" for inner in checkpoint([1, 2], name="inner", within=tables)]
        SEEN["map"] = sorted(checkpoint([1, 2, 3], name="map").map(str, workers=2))

    @task
    async def async_loops() -> None:
        async def text(element: int) -> str:
            return str(element)

        SEEN["async"] = [element async for element in checkpoint([1, 2, 3], name="async")]
        SEEN["amap"] = sorted([each async for each in checkpoint([1, 2, 3], name="amap").amap(text, workers=2)])

    surfaces() >> load() >> loops() >> async_loops()

HOURS = count(1)
hourly = watermark(
    Asset("hourly"),
    initial="2026-01-01T00:00:00Z",
    delay=timedelta(0),
    now=lambda: datetime(2026, 1, 1, next(HOURS), tzinfo=timezone.utc),
)

with DAG("hourly", schedule=None) as hourly_dag:

    @hourly.task(task_id="load")
    def load_hour(window: Window) -> None:
        SEEN.setdefault("hours", []).append([window.start.hour, window.end.hour, window.is_initial])

    load_hour()

TIMES = count(1)


class Deferring(WatermarkMixin, BaseOperator):
    watermark = watermark(
        Asset("deferring"),
        initial="2026-01-01T00:00:00Z",
        delay=timedelta(0),
        now=lambda: datetime(2026, 1, 1, next(TIMES), tzinfo=timezone.utc),
    )

    def execute_window(self, context: Any, window: Window) -> None:
        self.defer(trigger=DateTimeTrigger(datetime(2026, 1, 1, tzinfo=timezone.utc)), method_name="loaded")

    def loaded(self, context: Any, window: Window, event: Any = None) -> None:
        SEEN.setdefault("deferred", []).append([window.start.hour, window.end.hour, window.is_retry])


with DAG("deferring", schedule=None) as deferring_dag:
    Deferring(task_id="load")

STATUSES = iter(["RUNNING", "RUNNING", "SUCCEEDED"])
SOON = PollPolicy(interval=timedelta(seconds=1), max_interval=timedelta(seconds=1))

with DAG("rescheduling", schedule=None) as rescheduling_dag:

    @task
    def wait_without_a_worker() -> None:
        context: Any = get_current_context()

        class Running(Jobs):
            def status(self, _external_id: str, /) -> str:
                return next(STATUSES)

        SEEN.setdefault("looks", []).append([context["ti"].try_number, context["task_reschedule_count"]])
        run_job(Running(), policy=ResumePolicy(wait="reschedule", poll=SOON))

    wait_without_a_worker()

if __name__ == "__main__":
    SEEN["rescheduling"] = str(rescheduling_dag.test().state)
    SEEN["deferring"] = [str(deferring_dag.test().state) for _ in range(2)]
    SEEN["states"] = [str(hourly_dag.test().state) for _ in range(2)]
    SEEN["state"] = str(dag.test().state)
    print(json.dumps(SEEN))
