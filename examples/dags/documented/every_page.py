"""The same pages in the loop of Airflow's documentation ("Intra-task checkpointing"), with a token for a number."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, task

from clients import Flights

flights = Flights("FLIGHTS_URL", label="documented_every_page")

with DAG("documented_every_page", schedule=None):

    @task(retries=4, retry_delay=timedelta(seconds=1))
    def run(task_state_store: Any = None) -> int:
        rows, token = 0, task_state_store.get("next_page")
        while True:
            page = flights.page(token)
            flights.load(page["items"])
            rows += len(page["items"])
            token = page["next"]
            if token is None:
                return rows
            task_state_store.set("next_page", token)

    run()
