"""An operator as providers write them: it submits and waits in one `execute`, and cancels when its task is killed."""

from __future__ import annotations

import time
from typing import Any

from airflow.sdk import BaseOperator

from clients import Jobs


class TrainOperator(BaseOperator):
    token: str | None = None
    wait = True
    job: Any = None
    jobs: Any = None

    def __init__(self, *, item: str = "", **options: Any) -> None:
        super().__init__(**options)
        self.item = item

    def execute(self, context: Any) -> Any:
        self.jobs = Jobs("JOBS_URL", label=f"{context['run_id']}{self.item}")
        self.job = self.jobs.submit(self.token, seconds=600, once=self.token is not None)
        while self.wait and (status := self.jobs.status(self.job)) != "SUCCEEDED":
            if status != "RUNNING":
                raise RuntimeError(status)
            time.sleep(0.5)
        return {"job": self.job}

    def on_kill(self) -> None:
        self.jobs.cancel(self.job)
