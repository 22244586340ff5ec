"""An attempt that is frozen, given up and replaced, and wakes at the end of its task, with `clear_on_success`."""

from __future__ import annotations

from pathlib import Path

from tests.support.airflow.loop_runs import LoopRun
from tests.support.airflow.sql_backend_stage import CLEAR_ON_SUCCESS, airflow_with_backend

HEARTBEAT_TIMEOUT = 15


def test_a_replaced_attempt_that_ends_with_success_leaves_its_successors_values(tmp_path: Path) -> None:
    """Airflow has the worker clear its backend before it reports the success, which only then would be refused."""
    with airflow_with_backend(tmp_path, progress=print, heartbeat_timeout=HEARTBEAT_TIMEOUT) as stage:
        run = LoopRun.start(
            stage,
            "kept_values",
            environment={CLEAR_ON_SUCCESS: "True"},
            holds=[["values", "kept"], ["values", "looked for"]],
        )
        run.until_held(0)
        old = run.process
        stalled = [run.supervisor, old]
        for process in stalled:
            process.suspend()
        try:
            run.until_held(1)
        finally:
            run.let_go(0)
            for process in reversed(stalled):
                process.resume()
        run.until_gone(old)
        run.let_go(1)
        assert run.end() == "success"
        assert run.result() == [[{"page": 3}, True], [{"page": 3}, True]]
