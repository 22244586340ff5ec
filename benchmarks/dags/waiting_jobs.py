"""Two tasks that wait for a job: one in its worker, the other by reschedule. Both ask as often.

Whenever a task asks, it writes a line: its name, the processor time that its process has taken so far, and how long the
process has existed, both in seconds.
"""

from __future__ import annotations

import json
import os
import time
from datetime import timedelta
from pathlib import Path

import psutil
from airflow.sdk import DAG, task

from airflow_resume import PollPolicy, ResumePolicy, run_job
from airflow_resume.reschedule import RESCHEDULE_AFTER

LOOKS = int(os.environ.get("BENCHMARK_LOOKS", "6"))
POLL = PollPolicy(interval=RESCHEDULE_AFTER, max_interval=RESCHEDULE_AFTER, backoff=1, jitter=0)


class Waiting:
    """A job system in a file: a job has ended when it has been asked for often enough."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lines = Path(os.environ["BENCHMARK_FILE"])

    def submit(self, _token: str) -> str:
        return self._name

    def status(self, name: str) -> str:
        lived = time.time() - psutil.Process().create_time()
        with self._lines.open("a") as lines:
            print(json.dumps([name, time.process_time(), lived]), file=lines)
        asked = sum(json.loads(line)[0] == name for line in self._lines.read_text().splitlines())
        return "RUNNING" if asked < LOOKS else "SUCCEEDED"


with DAG("waiting_jobs", schedule=None, default_args={"execution_timeout": timedelta(minutes=30)}):
    for way in ("worker", "reschedule"):
        policy = ResumePolicy(wait=way, poll=POLL)  # type: ignore[arg-type]
        task(task_id=way)(lambda way=way, policy=policy: run_job(Waiting(way), policy=policy))()
