"""All flights, page by page, appended to a table of the warehouse that is named like the run."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, get_current_context, task
from diary import Diary, options  # type: ignore[import-not-found]

from airflow_resume import checkpoint
from airflow_resume.loops import CursorToken, Page
from clients import Flights

with DAG("all_flights", schedule=None, default_args={"retries": 8, "retry_delay": timedelta(seconds=0.1)}):

    @task(task_id="run")
    def flights() -> int:
        diary = Diary()
        service = Flights(diary.conf["service"], label=get_current_context()["run_id"])

        def fetch(token: str | None) -> Page[dict[str, Any]]:
            time.sleep(diary.conf["latency"])
            page = service.call("GET", "/flights", token=token, limit=diary.conf["limit"])
            return Page(page["items"], page["next"])

        diary.write("opening", None)
        with checkpoint(CursorToken(fetch), name="loop", **options(diary)) as pages:
            for page in pages:
                service.load(list(page.items))
                diary.write("loop", pages.element.number)
                pages.state["rows"] = pages.state.get("rows", 0) + len(page.items)
        diary.write("end", None)
        return int(pages.state["rows"])

    flights()
