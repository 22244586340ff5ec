"""Jobs on a real Airflow whose tasks are marked and cleared by a person: never two jobs alive.

What is played on Airflow's own mixin as well is in test_jobs_compared.
"""

from __future__ import annotations

import pytest

from stage import Stage
from tests.support.airflow.job_runs import Run

WAITS_FOR_END = " wait for the end (slot 'job'"

pytestmark = [pytest.mark.side_by_side, pytest.mark.usefixtures("playing")]


@pytest.mark.parametrize("state", ["failed", "success"])
def test_marking_a_function_that_waits_cancels_its_job_once(shared_stage: Stage, state: str) -> None:
    run = Run.waiting(shared_stage, "ours_function")
    process = run.process
    run.mark(state)
    run.until_gone(process)
    assert run.outcome().removesuffix(", failed") == "1 job, 1 cancelled, no result"
    assert run.task["state"] == state


def test_a_job_that_cannot_be_cancelled_is_waited_for_before_another_is_submitted(shared_stage: Stage) -> None:
    run = Run.waiting(shared_stage, "ours_without_cancelling")
    process = run.process
    run.mark("failed")
    run.until_gone(process)
    assert run.books["alive"] == 1
    run.clear()
    run.until(lambda: WAITS_FOR_END in run.log_from(2), "the job is waited for")
    assert run.outcome() == "2 jobs, the result of the last"


def test_a_job_that_cannot_be_cancelled_when_its_task_is_cleared_is_taken_up_or_waited_for(shared_stage: Stage) -> None:
    """The next attempt cannot always tell such a clear from a retry: Airflow may leave `max_tries` as it is."""
    run = Run.waiting(shared_stage, "ours_without_cancelling")
    before = run.task["max_tries"]
    run.clear()
    run.until(lambda: "reconnect (" in run.log_from(2) or WAITS_FOR_END in run.log_from(2), "the job is seen to")
    if run.task["max_tries"] > before:
        assert run.outcome() == "2 jobs, the result of the last"
    else:
        assert "A task of this run was cleared since try 1" in run.log_from(2)
        assert run.outcome() == "1 job, its result"


def test_a_task_that_shall_resume_keeps_its_job_when_it_is_cleared_while_it_runs(shared_stage: Stage) -> None:
    run = Run.waiting(shared_stage, "ours_resuming")
    run.clear()
    run.until_taken_up(2)
    assert run.outcome() == "1 job, its result"


def test_a_task_that_shall_resume_returns_what_it_has_when_it_is_cleared_after_its_success(shared_stage: Stage) -> None:
    run = Run.waiting(shared_stage, "ours_resuming")
    assert run.end() == "success"
    before = run.task["try_number"]
    run.clear()
    run.until(lambda: run.task["try_number"] > before, "another try")
    assert run.outcome() == "1 job, its result"
