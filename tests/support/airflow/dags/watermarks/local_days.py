"""Days, naive times and points in time of two zones, to be backfilled by local days."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

from airflow.sdk import DAG, Asset, CronDataIntervalTimetable
from load_board import START, post  # type: ignore[import-not-found]

from airflow_resume import watermark
from airflow_resume.watermarks import Cursor, Window

ZONES = {"west": "America/Los_Angeles", "east": "Asia/Tokyo"}
DORMANT: dict[str, Any] = {"start_date": datetime(2026, 1, 1, tzinfo=timezone.utc), "catchup": False}
LATER = datetime(2026, 1, 31, 12, tzinfo=timezone.utc)

for name, zone in ZONES.items():
    schedule = CronDataIntervalTimetable("@daily", timezone=zone)
    local: dict[str, tuple[Any, Any]] = {
        "days": ("2026-01-01", Cursor.date(zone)),
        "times": ("2026-01-01T00:00:00", Cursor.datetime(zone, naive=True)),
        "moments": (START, Cursor.datetime(zone)),
    }
    for kind, (initial, cursor) in local.items():
        dag_id = f"{kind}_{name}"
        of_zone = watermark(
            Asset(dag_id), initial=initial, cursor=cursor, now=lambda: LATER, delay=timedelta(0), name=kind
        )
        with DAG(dag_id, schedule=schedule, is_paused_upon_creation=False, end_date=START, **DORMANT):

            @of_zone.task(task_id="run")
            def load_local(window: Window) -> None:
                post({"window": str(window), "start": str(window.start), "end": str(window.end)})

            load_local()
