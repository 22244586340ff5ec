"""Every page of an API, appended to a table of a database: each row exactly once."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, task

from airflow_resume import checkpoint
from airflow_resume.loops import CursorToken, Page
from airflow_resume.sinks import SqlSink
from clients import Flights

flights = Flights("FLIGHTS_URL", label="exactly_once_every_page")
sink = SqlSink(f"sqlite:///{os.environ['TARGETS']}/exactly_once_every_page.db")


def fetch(token: str | None) -> Page[dict[str, Any]]:
    page = flights.page(token)
    return Page(page["items"], page["next"])


with DAG("exactly_once_every_page", schedule=None):

    @task(retries=4, retry_delay=timedelta(seconds=1))
    def run() -> int:
        with checkpoint(CursorToken(fetch), name="pages", sink=sink) as pages:
            for page in pages:
                rows = [(row["id"], row["time_hour"]) for row in page.items]
                pages.connection.exec_driver_sql("INSERT INTO flights (id, time_hour) VALUES (?, ?)", rows)
                pages.state["rows"] = pages.state.get("rows", 0) + len(rows)
        return int(pages.state["rows"])

    run()
