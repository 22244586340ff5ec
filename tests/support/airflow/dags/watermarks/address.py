"""Dags whose assets get another URI when a test edits `ADDRESS`."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

from airflow.sdk import DAG, Asset, get_current_context, task
from load_board import START, load_it, ticking, told  # type: ignore[import-not-found]

from airflow_resume import watermark

ADDRESS = "old"
NIGHTS = 2

SCHEDULED: dict[str, Any] = {
    "schedule": "@daily",
    "start_date": START,
    "end_date": datetime(2026, 1, NIGHTS, tzinfo=timezone.utc),
    "catchup": True,
    "max_active_runs": 1,
}

WAYS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("address", {}, {"now": told}),
    ("address_recovered", {}, {"now": told, "on_missing": "recover"}),
    ("address_nightly", SCHEDULED, {"now": ticking("address_nightly")}),
]

for dag_id, dag_options, options in WAYS:
    with DAG(dag_id, **{"schedule": None, **dag_options}):  # noqa: AIR002  it is among them
        addressed = watermark(
            Asset(dag_id, uri=f"s3://{ADDRESS}/{dag_id}"), initial=START, delay=timedelta(0), **options
        )
        addressed.task(task_id="run")(load_it)()

staged = watermark(
    Asset("address_staged", uri=f"s3://{ADDRESS}/address_staged"), initial=START, delay=timedelta(0), now=told
)

with DAG("address_staged", schedule=None):

    @task(task_id="run", **staged.task_options({}))
    def stage() -> Any:
        return staged.begin(get_current_context()).stage()

    @task(**staged.task_options({}))  # type: ignore[untyped-decorator]
    def commit(token: Any) -> None:
        staged.commit(get_current_context(), token)

    commit(stage())
