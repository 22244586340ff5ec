"""Runs of the Dags in `dags/jobs`, and what the job service and Airflow know of them."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from typing import Any

from stage import Hold, Stage
from tests.support.airflow.task_runs import PATIENCE, TaskRun


@dataclass(frozen=True)
class Run(TaskRun):
    """A run of one of the Dags; its jobs are labelled by it, and end when the test says so."""

    stage: Stage

    @classmethod
    def waiting(cls, stage: Stage, dag_id: str) -> Run:
        """A run whose task has saved the id of its job, and waits for it."""
        run = cls.start(stage, dag_id)
        run.until(run.is_waiting, "the id of the job is saved")
        return run

    @classmethod
    def held_at_submit(cls, stage: Stage, dag_id: str) -> tuple[Run, Hold]:
        """A run whose job was submitted, which the task has not been told yet."""
        run = cls(stage, dag_id, f"held-{dag_id}")
        hold = stage.hold(stage.jobs, label=run.run_id, path_prefix="/jobs")
        stage.airflow.trigger(dag_id, run_id=run.run_id)
        hold.wait(seconds=PATIENCE)
        return run, hold

    @classmethod
    def with_trigger_that_fails(cls, stage: Stage, dag_id: str) -> Run:
        """A run of a Dag that defers, whose first trigger fails at the time of `let_trigger_fail`."""
        run = cls(stage, dag_id, f"failing-{dag_id}")
        stage.airflow.trigger(dag_id, {"first_trigger_fails_at": str(run._file)}, run.run_id)
        return run

    # --- what is seen -----------------------------------------------------------------------------------------

    def is_waiting(self) -> bool:
        """Whether all is saved. Ours logs it; Airflow's mixin logs nothing and saves only the id."""
        log = self.log(1)
        return " wait (" in log or "reconnect (" in log or self.state_store().keys() == {"remote_job_id"}

    def is_about_to_submit(self) -> bool:
        """Whether the intent is saved, and no id."""
        record = self.state_store().get("resume.job.job", {})
        return record.get("phase") == "intent" and record.get("id") is None

    @property
    def books(self) -> dict[str, int]:
        """Jobs submitted, alive now, the most alive at once, and how often one was cancelled."""
        found: dict[str, int] = self.stage.jobs.call("GET", "/stats", label=self.run_id)
        return found

    @property
    def jobs(self) -> list[int]:
        """The ids of the jobs, oldest first."""
        found = self.stage.jobs.call("GET", "/jobs")
        return sorted(job["id"] for job in found if job["label"] == self.run_id)

    # --- what is done and waited for --------------------------------------------------------------------------

    def until_taken_up(self, number: int) -> None:
        """Wait until this try or a later one has reconnected to the job, or has submitted another one."""
        self.until(lambda: "econnect" in self.log_from(number) or self.books["submitted"] > 1, f"try {number} waits")

    def until_told_to_go(self) -> None:
        self.until(lambda: "The task ends (shutdown)" in self.log(1), "the task was told to go")

    def make_again(self, **conf: Any) -> None:
        """Delete the run, ended or not, and start another with its id; its jobs have the same label."""
        airflow = self.stage.airflow
        if airflow.run_state(self.dag_id, self.run_id) not in {"success", "failed"}:
            airflow.end_run(self.dag_id, self.run_id)
        self.until_the_scheduler_lets_go()
        airflow.delete_run(self.dag_id, self.run_id)
        airflow.trigger(self.dag_id, conf, self.run_id)

    def forget_state(self) -> None:
        """Everything that the task has saved."""
        self.stage.airflow.clear_state_store(*self._place)

    def let_jobs_end(self) -> None:
        """End all jobs of the run, now and in the future."""
        self.stage.jobs.call("POST", "/hurry", json={"label": self.run_id})

    def end(self) -> str:
        """Wait until the run has ended; then none of its jobs may be alive."""
        self.let_jobs_end()
        return super().end()

    def expire_what_can(self) -> None:
        """A month goes by, and Airflow cleans up."""
        with sqlite3.connect(self.stage.airflow.database, timeout=60) as database:
            database.execute(
                "UPDATE task_state_store SET expires_at = '2000-01-01' WHERE expires_at IS NOT NULL AND run_id = ?",
                (self.run_id,),
            )
        database.close()
        self.stage.airflow.command("state-store", "clean")

    def let_trigger_fail(self) -> None:
        """That of the first attempt."""
        self._file.touch()

    # --- what came of it --------------------------------------------------------------------------------------

    def outcome(self) -> str:
        """A summary: how many jobs, how many at once, how many cancelled, and what the task returned."""
        state = self.end()
        books = self.books
        assert books["alive"] == 0
        parts = [
            f"{books['submitted']} job{'s' * (books['submitted'] > 1)}",
            f"{books['max_alive']} alive at once" if books["max_alive"] > 1 else "",
            f"{books['cancels']} cancelled" if books["cancels"] else "",
            self._what_was_returned(),
            state if state != "success" else "",
        ]
        return ", ".join(filter(None, parts))

    def _what_was_returned(self) -> str:
        result, jobs = self.result(), self.jobs
        if result is None:
            return "no result"
        assert result["delays"]
        if result["job"] != jobs[-1]:
            return "the result of an earlier one"
        return "its result" if len(jobs) == 1 else "the result of the last"
