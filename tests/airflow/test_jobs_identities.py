"""Jobs on a real Airflow where names come back, Dag files change, and records are lost: whose job is it?

A run that is deleted and made again has the names of the old one, and none of its work.
"""

from __future__ import annotations

import pytest

from stage import Stage
from tests.support.airflow.job_dag_files import edit_retries
from tests.support.airflow.job_runs import Run

pytestmark = [pytest.mark.side_by_side, pytest.mark.usefixtures("playing")]


# --- a run that is deleted and made again -------------------------------------------------------------------------


@pytest.mark.parametrize("dag_id", ["by_token", "once", "neither"])
def test_a_run_that_was_made_again_returns_the_result_of_its_own_job(shared_stage: Stage, dag_id: str) -> None:
    run = Run.waiting(shared_stage, dag_id)
    assert run.end() == "success"
    run.make_again()
    assert run.outcome() == "2 jobs, the result of the last"
    assert run.task["try_number"] == 1


def test_a_run_that_was_made_again_and_dies_before_its_submit_adopts_nothing_of_the_old_one(
    shared_stage: Stage,
) -> None:
    run = Run.waiting(shared_stage, "by_token")
    assert run.end() == "success"
    run.make_again(submits_late=600)
    run.until(run.is_about_to_submit, "the intent is saved")
    run.process.kill()
    assert run.outcome() == "2 jobs, the result of the last"


def test_a_run_that_was_made_again_while_its_job_lives_has_one_job(shared_stage: Stage) -> None:
    run = Run.waiting(shared_stage, "by_slot")
    run.make_again()
    run.until(lambda: run.books["submitted"] == 2 and run.state_store(), "the new run has a job of its own")
    assert run.outcome() == "2 jobs, 1 cancelled, the result of the last"


# --- a clear that is hard to see ----------------------------------------------------------------------------------


def test_a_task_whose_retries_were_edited_down_does_its_work_again_when_it_is_cleared(shared_stage: Stage) -> None:
    """Edited by the number of tries that were used, they hide the clear: `max_tries` is what it was."""
    run = Run.waiting(shared_stage, "edited_retries")
    assert run.end() == "success"
    before = run.task["max_tries"]
    edit_retries(shared_stage.dags / "edited_retries.py")
    shared_stage.airflow.parse_again(run.dag_id)
    run.until(lambda: shared_stage.airflow.retries(run.dag_id, "run") == before - 1, "the edit is seen")
    run.clear()
    run.until(lambda: run.task["try_number"] == 2, "another try")
    assert run.outcome() == "2 jobs, the result of the last"
    assert run.task["max_tries"] == before


def test_a_task_keeps_its_job_when_another_one_was_cleared_and_it_is_killed(shared_stage: Stage) -> None:
    run = Run.waiting(shared_stage, "after_another")
    run.clear(tasks=("first",))
    first = (run.dag_id, run.run_id, "first")
    run.until(lambda: shared_stage.airflow.task_instance(*first)["try_number"] == 2, "the other one runs again")
    run.process.kill()
    run.until_taken_up(2)
    assert run.outcome() == "1 job, its result"


# --- coroutines ---------------------------------------------------------------------------------------------------


def test_a_coroutine_that_waits_for_a_job_and_one_that_uses_the_stores_both_finish(shared_stage: Stage) -> None:
    run = Run.waiting(shared_stage, "two_coroutines")
    run.until(lambda: run.state_store()["ticks"] > 1, "the other coroutine goes on")
    assert run.outcome() == "1 job, its result"
    assert run.result()["ticks"] > 1
    assert run.task["try_number"] == 1


def test_a_coroutine_that_is_killed_while_it_waits_for_a_job_takes_it_up(shared_stage: Stage) -> None:
    run = Run.waiting(shared_stage, "two_coroutines")
    run.process.kill()
    run.until_taken_up(2)
    assert run.outcome() == "1 job, its result"


# --- a record that is gone ----------------------------------------------------------------------------------------


def test_a_task_that_dies_when_all_its_state_was_deleted_takes_its_job_up(shared_stage: Stage) -> None:
    run = Run.waiting(shared_stage, "by_slot")
    process = run.process
    run.forget_state()
    process.kill()
    run.until_taken_up(2)
    assert run.outcome() == "1 job, its result"
