"""One Dag for each use of a state backend; the task is `run`, and the `conf` of the run has its settings."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, Asset, get_current_context, task
from diary import Diary, options  # type: ignore[import-not-found]
from job_operators import POLL, Ours, OursDeferred, OursMapped  # type: ignore[import-not-found]

from airflow_resume import ResumePolicy, checkpoint


def configure(context: Any) -> None:
    """Apply the settings of the run and of the try, before the backend of this process is made."""
    conf, number = context["dag_run"].conf, str(context["ti"].try_number)
    os.environ.update(conf.get("environment", {}), TRY_NUMBER=number)
    os.environ.update(conf.get("of_tries", {}).get(number, {}))


ONCE: dict[str, Any] = {"pre_execute": configure}
RETRIES: dict[str, Any] = {**ONCE, "retries": 20, "retry_delay": timedelta(seconds=1)}
POLICY: dict[str, Any] = {"resume_policy": ResumePolicy(poll=POLL)}

for dag_id, operator in [("kept_job", Ours), ("kept_job_deferred", OursDeferred)]:
    with DAG(dag_id, schedule=None, default_args=RETRIES):
        operator(task_id="run", **POLICY)


with DAG("kept_jobs_mapped", schedule=None, default_args=RETRIES):
    OursMapped.partial(task_id="run", **POLICY).expand(item=[601.0, 602.0])


def go_through() -> int:
    diary = Diary()
    with checkpoint(range(diary.conf["count"]), name="loop", **options(diary)) as loop:
        for element in loop:
            diary.deliver("loop", element, number=loop.element.number)
            loop.state["sum"] = loop.state.get("sum", 0) + element
    return int(loop.state["sum"])


for dag_id, arguments in [("kept_loop", RETRIES), ("kept_loop_once", ONCE)]:
    with DAG(dag_id, schedule=None, default_args=arguments):
        task(task_id="run")(go_through)()


BOOK = Asset("kept_book")

with DAG("kept_values", schedule=None, default_args=RETRIES):

    @task(task_id="run", inlets=[BOOK], outlets=[BOOK])
    def values(task_state_store: Any = None, asset_state_store: Any = None) -> list[Any]:
        """Keep a small value and one of 200 KB, stay until killed, and return what the next attempt finds of them."""
        diary, large = Diary(), "0123456789" * 20_000
        if diary.try_number == 1:
            for store in (task_state_store, asset_state_store[BOOK]):
                store.set("small", {"page": 3})
                store.set("large", large)
        diary.deliver("values", "kept" if diary.try_number == 1 else "looked for")
        stores = task_state_store, get_current_context()["asset_state_store"][BOOK]
        return [[store.get("small"), store.get("large") == large] for store in stores]

    values()
