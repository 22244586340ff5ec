"""One Dag for each way to use a watermark, and for each thing that may happen to it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import datetime, timedelta, timezone
from typing import Any

from airflow.sdk import DAG, Asset, CronDataIntervalTimetable, get_current_context, task
from load_board import (  # type: ignore[import-not-found]
    BOARD,
    START,
    conf,
    die_if_wanted,
    fail_if_wanted,
    follow,
    load,
    load_it,
    ticking,
    told,
)

from airflow_resume import watermark
from airflow_resume.watermarks import Window, windows_from_events

AT_ONCE: dict[str, Any] = {"retries": 3, "retry_delay": timedelta(0)}
MARK: dict[str, Any] = {"initial": START, "delay": timedelta(0)}


def day(number: int) -> datetime:
    return datetime(2026, 1, number, tzinfo=timezone.utc)


# --- scheduled, and a consumer ----------------------------------------------------------------------------------

NIGHTLY = Asset("nightly")
nightly = watermark(NIGHTLY, now=ticking("nightly"), **MARK)

with DAG("nightly", schedule="@daily", start_date=day(1), end_date=day(3), catchup=True, max_active_runs=1):

    @nightly.task(task_id="run", **AT_ONCE)
    def load_night(window: Window) -> None:
        load(window)
        context = get_current_context()
        if context.get("data_interval_start") == day(2) and context["ti"].try_number == 1:
            raise RuntimeError("the second night fails in the body")

    load_night()

with DAG("morning", schedule=[NIGHTLY], max_active_runs=1):

    @task(task_id="run")
    def use_nights() -> None:
        follow(windows_from_events(get_current_context(), NIGHTLY))

    use_nights()

# --- backfilled --------------------------------------------------------------------------------------------------

DAILY = CronDataIntervalTimetable("@daily", timezone="UTC")  # with "@daily" itself, data intervals are empty
DORMANT: dict[str, Any] = {"start_date": day(1), "end_date": day(20), "catchup": False}

TEN_DAYS = timedelta(days=10)
WAYS: list[tuple[str, Any, dict[str, Any]]] = [
    ("isolated", DAILY, {}),
    ("filled", DAILY, {"backfill": "fill"}),
    ("without_intervals", "@daily", {}),
]

for dag_id, schedule, options in WAYS:
    backfilled = watermark(Asset(dag_id), now=ticking(dag_id, TEN_DAYS), **MARK, **options)
    with DAG(dag_id, schedule=schedule, **DORMANT):
        backfilled.task(task_id="run")(load_it)()

# --- killed ------------------------------------------------------------------------------------------------------

killed = watermark(Asset("killed"), now=ticking("killed"), **MARK)

with DAG("killed", schedule=None):

    @task(task_id="run", **killed.task_options(AT_ONCE))
    def load_and_die() -> None:
        with killed.open() as window:
            load(window)
            die_if_wanted("in the body")
            load(window, again=True)
            die_if_wanted("before the commit")
        die_if_wanted("after the commit")

    load_and_die()

# --- partitioned -------------------------------------------------------------------------------------------------

TABLES = Asset("tables")
tables = watermark(TABLES, now=told, partition=lambda table: table, **MARK)

with DAG("tables", schedule=None):

    @task
    def names() -> list[str]:
        return list(conf()["tables"])

    @tables.task(task_id="run", **AT_ONCE)
    def load_table(window: Window, table: str) -> None:
        load(window, table=table)
        if table == conf().get("dying"):
            die_if_wanted("in the body")

    load_table.expand(table=names())

with DAG("readers", schedule=[TABLES], max_active_runs=1):

    @task(task_id="run")
    def use_tables() -> None:
        follow(windows_from_events(get_current_context(), TABLES))

    use_tables()

# --- staged ------------------------------------------------------------------------------------------------------

staged = watermark(Asset("staged"), now=ticking("staged"), **MARK)

with DAG("staged", schedule=None):

    @task(**staged.task_options(AT_ONCE))  # type: ignore[untyped-decorator]
    def stage() -> Any:
        window = staged.begin(get_current_context())
        load(window)
        die_if_wanted("in the body")
        return window.stage()

    @task(**staged.task_options(AT_ONCE))  # type: ignore[untyped-decorator]
    def commit(token: Any) -> str:
        die_if_wanted("before the commit")
        return staged.commit(get_current_context(), token).value

    commit(stage())

# --- rewound and reset -------------------------------------------------------------------------------------------

rewound = watermark(Asset("rewound"), now=told, **MARK)

with DAG("rewound", schedule=None):

    @task(**rewound.task_options({}))  # type: ignore[untyped-decorator]
    def reset() -> None:
        if "reset" in conf():
            rewound.reset(get_current_context(), conf()["reset"])

    @rewound.task(task_id="run")
    def load_or_fail(window: Window) -> None:
        load(window)
        fail_if_wanted()

    reset() >> load_or_fail()

# --- lost --------------------------------------------------------------------------------------------------------

SHARED = Asset("shared")

RECOVERING: dict[str, Any] = {"on_missing": "recover"}

for dag_id in ("east", "west", "west_recovering"):
    shared = watermark(SHARED, now=told, shared=True, **MARK, **(RECOVERING if dag_id == "west_recovering" else {}))
    with DAG(dag_id, schedule=None):
        shared.task(task_id="run")(load_it)()

# --- counted -----------------------------------------------------------------------------------------------------

counted = watermark(Asset("counted"), initial=0, delay=0)

with DAG("counted", schedule=None):

    @counted.task(task_id="run")
    def load_numbers(window: Window[int]) -> None:
        condition, parameters = window.sql("n")
        with closing(sqlite3.connect(BOARD / "counted.db")) as database:
            database.row_factory = sqlite3.Row
            rows = database.execute(f"SELECT id, n FROM source WHERE {condition} ORDER BY n, id", parameters)  # noqa: S608
            ids = [row["id"] for row in window.track(rows, "n", unique="id")]
        load(window, ids=ids)
        fail_if_wanted()

    load_numbers()
