"""Every page of an API, going on after a crash at the page that was not finished."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, task

from airflow_resume import checkpoint
from airflow_resume.loops import CursorToken, Page
from clients import Flights

flights = Flights("FLIGHTS_URL", label="every_page")


def fetch(token: str | None) -> Page[dict[str, Any]]:
    page = flights.page(token)
    return Page(page["items"], page["next"])


with DAG("every_page", schedule=None):

    @task(retries=4, retry_delay=timedelta(seconds=1))
    def run() -> int:
        with checkpoint(CursorToken(fetch), name="pages", durability="sync") as pages:
            for page in pages:
                flights.load(list(page.items), batch=pages.element.id)
                pages.state["rows"] = pages.state.get("rows", 0) + len(page.items)
        return int(pages.state["rows"])

    run()
