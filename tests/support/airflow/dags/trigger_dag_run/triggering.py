"""A Dag that is triggered, and Dags whose one task triggers it: as it is, and resumable."""

from __future__ import annotations

import os
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

from airflow.providers.standard.operators import trigger_dagrun as upstream
from airflow.sdk import DAG, task

from airflow_resume import PollPolicy, ResumePolicy
from airflow_resume_mixins.providers.standard import TriggerDagRunOperator

FOLDER = Path(os.environ["TRIGGERED_FOLDER"])
SECOND = timedelta(seconds=1)
POLICY = ResumePolicy(poll=PollPolicy(interval=SECOND, max_interval=SECOND))


class Held(TriggerDagRunOperator):
    """In its first attempt it stops between the submit and the save, where the test kills it."""

    def own_execute(self, context: Any) -> Any:
        answer = super().own_execute(context)
        if context["ti"].try_number == 1:
            (FOLDER / "held").touch()
            time.sleep(600)
        return answer


with DAG("child", schedule=None, max_active_runs=16) as child:

    @task
    def wait() -> None:
        while not (FOLDER / "go").exists():
            time.sleep(0.2)

    wait()


def triggering(dag_id: str, kind: Any, **options: Any) -> DAG:
    with DAG(dag_id, schedule=None) as dag:
        kind(
            task_id="run",
            trigger_dag_id="child",
            retries=3,
            retry_delay=SECOND,
            poke_interval=1,
            **{"wait_for_completion": True, **options},
        )
    return dag


alone = triggering("alone", upstream.TriggerDagRunOperator)
wrapped = triggering("wrapped", TriggerDagRunOperator, resume_policy=POLICY)
held = triggering("held", Held, resume_policy=POLICY)
held_fixed = triggering("held_fixed", Held, resume_policy=POLICY, trigger_run_id="of-{{ run_id }}", note="by hand")
at_once = triggering("at_once", Held, resume_policy=POLICY, wait_for_completion=False)
deferred = triggering("deferred", TriggerDagRunOperator, resume_policy=POLICY, deferrable=True)
