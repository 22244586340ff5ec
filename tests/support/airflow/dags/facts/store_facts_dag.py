"""Runs the cases of `store_facts` in real tasks, which write what they saw to files in the folder FACTS."""

from __future__ import annotations

import json
import os
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, Asset, get_current_context, task
from airflow.sdk.exceptions import AirflowFailException, AirflowRescheduleException, AirflowSkipException

from airflow_client import AirflowClient
from airflow_resume.attempt import utc_now
from airflow_resume.last_message import before_last_message
from tests.support.kit import store_facts as facts

DAG_ID = "store_facts"


def keep(name: str, seen: Any) -> None:
    """Write a file in one step, so that a reader never sees half of it."""
    folder = Path(os.environ["FACTS"])
    unfinished = folder / f".{name}"
    unfinished.write_text(json.dumps(seen))
    unfinished.rename(folder / f"{name}.json")


def how_many_kept(prefix: str) -> int:
    return len(list(Path(os.environ["FACTS"]).glob(f"{prefix}*")))


with DAG(DAG_ID, schedule=None, default_args={"retry_delay": timedelta(0)}):

    @task(inlets=[facts.ONE], outlets=[facts.ONE])
    def task_cases() -> None:
        context: Any = get_current_context()
        keep("task", facts.all_of(context["task_state_store"], facts.TASK_CASES))

    @task(inlets=[facts.ONE], outlets=[facts.ONE])
    def asset_cases() -> None:
        context: Any = get_current_context()
        keep("asset", facts.all_of(context["asset_state_store"], facts.ASSET_CASES))

    @task(
        inlets=[facts.FIRST, Asset.ref(uri="s3://facts/first")],
        outlets=[facts.FIRST, facts.SECOND, Asset.ref(name="facts_one")],
    )
    def look_ups() -> None:
        context: Any = get_current_context()
        keep("look_ups", facts.asset_look_ups(context["asset_state_store"]))

    @task(outlets=[Asset.ref(uri="s3://facts/nowhere")])
    def unknown() -> None:
        context: Any = get_current_context()
        keep("unknown", facts.look_ups_of_an_unknown_asset(context["asset_state_store"]))

    @task(inlets=[facts.LIFE], outlets=[facts.LIFE], retries=2)
    def life() -> None:
        """Fails once, and then is cleared by the test."""
        context: Any = get_current_context()
        number = context["ti"].try_number
        keep(f"life_{number}", facts.seen_by_an_attempt(context, number))
        keep(f"start_of_life_{number}", str(context["dag_run"].start_date))
        if number == 1:
            raise RuntimeError("to be retried")

    @task(inlets=[facts.CLEARED], outlets=[facts.CLEARED], retries=2)
    def cleared_while_running() -> None:
        """Clears itself, and records what it sees until it is killed."""
        context: Any = get_current_context()
        ti = context["ti"]
        keep(f"cleared_{ti.try_number}", facts.seen_by_an_attempt(context, ti.try_number))
        keep(f"start_of_cleared_{ti.try_number}", str(context["dag_run"].start_date))
        if ti.try_number == 1:
            AirflowClient(os.environ["AIRFLOW__API__BASE_URL"]).clear(DAG_ID, ti.run_id, ti.task_id)
            keep("replaced", facts.seen_when_replaced(context))
            time.sleep(60)

    @task
    def items() -> list[str]:
        listed: list[str] = json.loads((Path(os.environ["FACTS"]) / "items").read_text())
        return listed

    @task(inlets=[facts.MAPPED], outlets=[facts.MAPPED], retries=1, max_active_tis_per_dagrun=1)
    def mapped(item: str) -> None:
        context: Any = get_current_context()
        number = len(json.loads((Path(os.environ["FACTS"]) / "items").read_text()))
        keep(f"mapped_{number}_{item}", facts.seen_by_an_attempt(context, item))

    task_cases()
    asset_cases()
    look_ups() >> unknown() >> life() >> cleared_while_running() >> (listed := items())
    mapped.expand(item=listed)

with DAG(f"{DAG_ID}_ends", schedule=None):

    def ends(name: str, *endings: BaseException | None, **options: Any) -> None:
        """A task whose tries end in these ways; its state is recorded just before Airflow is told of the end."""

        @task(task_id=name, retry_delay=timedelta(0), **options)
        async def end() -> None:
            context: Any = get_current_context()
            number = how_many_kept(f"end_of_{name}_")
            left = facts.LeftOpen(context)
            before_last_message(
                lambda _: keep(f"end_of_{name}_{number}", left.seen()),
                owner=None,
                key=name,
                is_abandoned=lambda: False,
            )
            async for _ in left.elements:
                error = endings[number]
                if error is not None:
                    raise error
                break

        end()

    soon = AirflowRescheduleException(utc_now() + timedelta(seconds=15))  # type: ignore[no-untyped-call]
    ends("succeeds", None)
    ends("fails", RuntimeError("to be retried"), None, retries=1)
    ends("gives_up", AirflowFailException("for good"), retries=1)
    ends("skips", AirflowSkipException("enough"))
    ends("exits", SystemExit(3), None, retries=1)
    ends("reschedules", soon, None)

with DAG(f"{DAG_ID}_runs", schedule=None):

    @task(inlets=[facts.RUNS], outlets=[facts.RUNS])
    def run() -> None:
        context: Any = get_current_context()
        run_id = context["run_id"]
        keep(run_id, facts.seen_by_an_attempt(context, run_id))
        keep(f"events_{run_id}", facts.seen_of_events(context, run_id))
        keep(f"xcoms_{run_id}", facts.seen_of_xcoms(context, run_id))
        keep(f"attributes_{run_id}", facts.attributes_of(context))

    run()
