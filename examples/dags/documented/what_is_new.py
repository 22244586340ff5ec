"""The same increments by the pattern of Airflow's documentation ("Watermark pattern")."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, Asset, task

from clients import Flights

FLIGHTS = Asset("documented_flights")
source = Flights("ARRIVALS_URL", label="documented_what_is_new")

with DAG("documented_what_is_new", schedule=None):

    @task(inlets=[FLIGHTS], outlets=[FLIGHTS], retries=4, retry_delay=timedelta(seconds=1))
    def run(asset_state_store: Any = None) -> None:
        watermark = asset_state_store.get("watermark", default="2013-01-01T00:00:00Z")
        newest = watermark
        for rows in source.pages(since=watermark):
            source.load(rows)
            newest = max([newest, *(row["time_hour"] for row in rows)])
        if newest != watermark:
            asset_state_store.set("watermark", newest)

    run()
