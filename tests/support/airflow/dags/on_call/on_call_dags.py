"""What somebody on call looks after: 200 mapped loops, 100 mapped jobs, and 20 marks, each moved by a Dag of its own.

What goes wrong does so in the first try of a task instance, by its number. What was done is in files on the board.
"""

from __future__ import annotations

import os
import signal
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, Asset, get_current_context, task

from airflow_resume import PollPolicy, ResumePolicy, checkpoint, run_job, watermark
from airflow_resume.watermarks import Window
from clients import Jobs

BOARD = Path(os.environ["BOARD"])
LOOPS, PAGES, JOBS, MARKS = 200, 10, 100, 20
STOPS = {number: 1 + number // 10 % 8 for number in range(5, LOOPS, 10)}
"""The loops that fail, each at a page of its own. Those with an odd number of tens continue after a clear."""
HELD_LOOP, HELD_PAGES = 0, (3, 6)
LOST, WRONG, HELD_JOB, CANCELLED = 13, 21, 8, (34, 55, 89)
"""Jobs: the submission that is lost, one whose task refuses the result, one that runs, and those that are cancelled."""


def note(name: str, line: object) -> None:
    with (BOARD / name).open("a") as file:
        file.write(f"{line}\n")


def hold(name: str) -> None:
    """Wait until the test lets it go on."""
    (BOARD / f"{name}.held").touch()
    while not (BOARD / f"{name}.go").exists():
        time.sleep(0.1)


def conf() -> dict[str, Any]:
    return dict(get_current_context()["dag_run"].conf or {})  # type: ignore[union-attr]


def is_first_try() -> bool:
    return bool(get_current_context()["ti"].try_number == 1)


# --- loops ------------------------------------------------------------------------------------------------------------

with DAG("on_call_loops", schedule=None):

    @task(task_id="load")
    def load_pages(number: int) -> None:
        on_clear: Any = "resume" if number // 10 % 2 else "restart"
        # It is held soon after it began, and then nothing would be written in the background for a second.
        durability: Any = "sync" if number == HELD_LOOP else "async"
        for page in checkpoint(list(range(PAGES)), name="pages", on_clear=on_clear, durability=durability):
            if is_first_try() and number == HELD_LOOP and page in HELD_PAGES:
                hold(f"loop-{page}")
            if is_first_try() and STOPS.get(number) == page:
                raise RuntimeError("a bad page")
            note(f"loop-{number}", f"{get_current_context()['ti'].try_number} {page}")

    load_pages.expand(number=list(range(LOOPS)))

# --- jobs -------------------------------------------------------------------------------------------------------------

SECOND = timedelta(seconds=1)


class Cluster:
    """The job service, without a way to look a job up by its token."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.jobs = Jobs("JOBS_URL", label=f"job-{number}")
        self.status, self.cancel = self.jobs.status, self.jobs.cancel

    def submit(self, token: str) -> int:
        del token
        job = self.jobs.submit(seconds=3600 if self.number in (HELD_JOB, *CANCELLED) else 0.01)
        if is_first_try() and self.number == LOST:
            os.kill(os.getpid(), signal.SIGKILL)  # the job runs, and its id was never saved
        if is_first_try() and self.number in CANCELLED:
            self.jobs.cancel(job)
        return job


with DAG("on_call_jobs", schedule=None):

    @task(task_id="train")
    def train(number: int) -> int:
        policy = ResumePolicy(
            poll=PollPolicy(interval=SECOND, max_interval=SECOND), on_clear="resume" if number == WRONG else "resubmit"
        )
        job = int(run_job(Cluster(number), name="train", policy=policy))
        if is_first_try() and number == WRONG:
            raise RuntimeError(f"the result of job {job} is wrong")
        return job

    train.expand(number=list(range(JOBS)))

# --- marks ------------------------------------------------------------------------------------------------------------


def clock() -> datetime:
    """The time, or as long ago as the conf of the run says."""
    return datetime.now(timezone.utc) - timedelta(hours=conf().get("hours_ago", 0))


def dag_of_mark(name: str) -> None:
    orders = watermark(Asset(name), initial="2020-01-01T00:00:00Z", delay=timedelta(0), now=clock)

    with DAG(name, schedule=None):

        @orders.task(task_id="load")
        def load(window: Window[datetime]) -> None:
            if conf().get("fails"):
                raise RuntimeError("the source does not answer")
            if conf().get("holds"):
                hold(name)
            note(name, f"{window.start.isoformat()} {window.end.isoformat()}")

        load()


for number in range(MARKS):
    dag_of_mark(f"on_call_{number:02}")
