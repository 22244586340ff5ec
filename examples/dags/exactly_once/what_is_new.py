"""What is new since the last run, appended to a table of a database: each row exactly once."""

from __future__ import annotations

import os
from datetime import timedelta

from airflow.sdk import DAG, Asset

from airflow_resume import watermark
from airflow_resume.sinks import SqlSink
from airflow_resume.watermarks import Window
from clients import Flights

FLIGHTS = Asset("exactly_once_flights")
source = Flights("ARRIVALS_URL", label="exactly_once_what_is_new")
sink = SqlSink(f"sqlite:///{os.environ['TARGETS']}/exactly_once_what_is_new.db")

# A flight bears the hour it was planned for, and arrives in the source up to an hour later.
new_flights = watermark(FLIGHTS, initial="2013-01-01T00:00:00Z", delay=timedelta(hours=1), now=source.now)

with DAG("exactly_once_what_is_new", schedule=None):

    @new_flights.task(sink=sink, retries=4, retry_delay=timedelta(seconds=1))
    def run(window: Window) -> None:
        for page in source.pages(**{"from": window.start.isoformat(), "to": window.end.isoformat()}):
            rows = [(row["id"], row["time_hour"]) for row in page]
            window.connection.exec_driver_sql("INSERT INTO flights (id, time_hour) VALUES (?, ?)", rows)

    run()
