"""Two Dags whose file is removed and put back. One has its asset in inlets and outlets, one in outlets only."""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, Asset, task
from load_board import START, load, told  # type: ignore[import-not-found]

from airflow_resume import watermark
from airflow_resume.watermarks import Window

STAYS, GOES = Asset("stays"), Asset("goes")
stays = watermark(STAYS, initial=START, now=told, delay=timedelta(0))
goes = watermark(GOES, initial=START, now=told, delay=timedelta(0))

with DAG("stays", schedule=None):

    @stays.task(task_id="run")
    def load_what_stays(window: Window) -> None:
        load(window)

    load_what_stays()

with DAG("goes", schedule=None):

    @task(task_id="run", outlets=[GOES])
    @goes
    def load_what_goes(window: Window) -> None:
        load(window)

    load_what_goes()
