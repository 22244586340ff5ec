"""The process of a task that runs a `SparkSubmitOperator`: it is started, killed and asked to end by a test.

The state of the task is in a file, so that the next process is the next attempt.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

from airflow.providers.apache.spark.hooks import spark_submit as hooks
from airflow.providers.apache.spark.operators import spark_submit as upstream

from airflow_resume import PollPolicy, ResumePolicy
from airflow_resume.testing import task_context
from airflow_resume_mixins.providers.spark import SparkSubmitOperator

LOOK = timedelta(seconds=0.3)
POLICY = ResumePolicy(poll=PollPolicy(interval=LOOK, max_interval=LOOK), confirm_gone=LOOK)


def main(folder: Path, given: dict[str, Any]) -> None:
    kind: Any = SparkSubmitOperator if given["is_ours"] else upstream.SparkSubmitOperator
    options = {"resume_policy": POLICY} if given["is_ours"] else {"status_poll_interval": 1}
    made: Any = kind(task_id="task", conn_id="spark", retries=9, **given["application"], **options)
    state = json.loads((folder / "state.json").read_text()) if (folder / "state.json").exists() else {}
    attempt = task_context(made, run_id=folder.name)
    for key, value in state.items():
        attempt.task_store.set(key, value)
    for _ in range(given["tries"]):
        attempt = attempt.retry()
    attempt = attempt.clear() if given["is_cleared"] else attempt
    store, keep = attempt.task_store, attempt.task_store.set

    def kept(key: str, value: Any, **options: Any) -> None:
        keep(key, value, **options)
        state[key] = value
        (folder / "state.new").write_text(json.dumps(state))
        (folder / "state.new").rename(folder / "state.json")

    store.set = kept  # type: ignore[method-assign]

    def asked_to_end(_signal: int, _frame: object) -> None:
        if (folder / "marked").exists():
            attempt.mark("failed")
        made.on_kill()
        (folder / "terminated").touch()

    signal.signal(signal.SIGTERM, asked_to_end)
    if given["dies_in_the_window"]:
        submit: Any = hooks.SparkSubmitHook.submit

        def submit_and_die(*args: Any) -> None:
            submit(*args)
            os.kill(os.getpid(), signal.SIGKILL)

        hooks.SparkSubmitHook.submit = submit_and_die
    ask: Any = made.get_job_status

    def asking(*args: Any) -> Any:
        (folder / "asked").touch()
        return ask(*args)

    object.__setattr__(made, "get_job_status", asking)
    try:
        with attempt:
            made.execute(attempt.context)
        ended = {"how": "returned"}
    except Exception as error:  # noqa: BLE001  the test looks at it
        ended = {"how": type(error).__name__, "text": str(error)}
    (folder / "ended.json").write_text(json.dumps({**ended, "id": getattr(made, "external_id", None)}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(sys.argv[2]))
