"""What is new since the last run, never skipping a row."""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, Asset

from airflow_resume import watermark
from airflow_resume.watermarks import Window
from clients import Flights

FLIGHTS = Asset("flights")
source = Flights("ARRIVALS_URL", label="what_is_new")

# A flight bears the hour it was planned for, and arrives in the source up to an hour later.
new_flights = watermark(FLIGHTS, initial="2013-01-01T00:00:00Z", delay=timedelta(hours=1), now=source.now)

with DAG("what_is_new", schedule=None):

    @new_flights.task(retries=4, retry_delay=timedelta(seconds=1))
    def run(window: Window) -> None:
        pages = source.pages(**{"from": window.start.isoformat(), "to": window.end.isoformat()})
        for number, rows in enumerate(pages):
            source.load(rows, batch=f"{window} {number}")

    run()
