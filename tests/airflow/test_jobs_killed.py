"""Jobs on a real Airflow whose tasks die, are told to go, or wait in the triggerer: one job, and its result.

What is played on Airflow's own mixin as well is in test_jobs_compared.
"""

from __future__ import annotations

import signal

import pytest

from stage import Stage
from tests.support.airflow.job_dag_files import downgrade, upgrade
from tests.support.airflow.job_runs import Run

pytestmark = [pytest.mark.side_by_side, pytest.mark.usefixtures("playing")]


@pytest.mark.parametrize("dag_id", ["ours", "ours_function"])
def test_every_attempt_is_killed_but_the_last_and_there_is_one_job(shared_stage: Stage, dag_id: str) -> None:
    run = Run.waiting(shared_stage, dag_id)
    for number in (2, 3):
        run.process.kill()
        run.until_taken_up(number)
    assert run.outcome() == "1 job, its result"
    record = run.state_store()["resume.job.job"]
    assert (record["id"], record["claim"]["try"], record["generation"]) == (run.jobs[0], run.task["try_number"], 1)


def test_a_function_that_is_killed_before_it_saved_the_id_adopts_its_job(shared_stage: Stage) -> None:
    run, _ = Run.held_at_submit(shared_stage, "ours_function")
    run.process.kill()
    run.until_taken_up(2)
    assert " adopt (slot 'job'" in run.log_from(2)
    assert run.outcome() == "1 job, its result"


@pytest.mark.parametrize("told", ["process", "supervisor"])
@pytest.mark.parametrize("dag_id", ["ours", "ours_function", "ours_once", "two_coroutines"])
def test_a_task_that_is_told_to_go_comes_back_in_the_same_try(shared_stage: Stage, dag_id: str, told: str) -> None:
    """Of `ours_once` there is no other try."""
    run = Run.waiting(shared_stage, dag_id)
    process = run.process
    (process if told == "process" else run.supervisor).send_signal(signal.SIGTERM)
    run.until_told_to_go()
    run.until_gone(process)
    run.until(lambda: "reconnect (" in run.log(1), "the same try waits again")
    assert run.books["alive"] == 1
    assert run.outcome() == "1 job, its result"
    assert run.task["try_number"] == 1


def test_a_task_whose_time_to_go_is_over_leaves_the_job_to_the_next_attempt(shared_stage: Stage) -> None:
    run = Run.waiting(shared_stage, "ours_staying")
    worker = [run.supervisor, run.process]
    worker[0].terminate()
    run.until_told_to_go()
    for process in worker:
        process.kill()
    run.until_taken_up(2)
    assert run.outcome() == "1 job, its result"


def test_a_function_in_a_process_of_its_own_is_told_where_to_run_its_job(shared_stage: Stage) -> None:
    run = Run.start(shared_stage, "ours_external_python")
    assert run.end() == "success"
    what, remedy = run.result()
    assert what.startswith("This process was started by a task, as with @task.virtualenv or @task.external_python")
    assert remedy.startswith("Call it from a plain @task, or pass `store=`")


# --- deferred -------------------------------------------------------------------------------------------------


def test_a_deferred_task_keeps_no_process(shared_stage: Stage) -> None:
    run = Run.start(shared_stage, "ours_deferred")
    run.until_deferred(1)
    with pytest.raises(LookupError, match="deferred, not running"):
        _ = run.process
    assert run.books["alive"] == 1
    assert run.outcome() == "1 job, its result"
    assert run.task["try_number"] == 1


def test_a_deferred_job_outlives_its_triggerer(shared_stage: Stage) -> None:
    run = Run.start(shared_stage, "ours_deferred")
    run.until_deferred(1)
    shared_stage.airflow.restart("triggerer")
    assert run.outcome() == "1 job, its result"
    assert run.task["try_number"] == 1


# --- a Dag file that is edited between two attempts ------------------------------------------------------------


def test_a_task_that_moves_to_our_mixin_in_mid_run_keeps_its_job(shared_stage: Stage) -> None:
    run = Run.waiting(shared_stage, "upgraded")
    upgrade(shared_stage.dags / "upgraded.py")
    run.process.kill()
    run.until_taken_up(2)
    assert f"Adopting the job {run.jobs[0]} " in run.log_from(2)
    assert run.outcome() == "1 job, its result"


def test_a_task_that_moves_back_to_airflows_mixin_in_mid_run_keeps_its_job(shared_stage: Stage) -> None:
    run = Run.waiting(shared_stage, "downgraded")
    assert "resume.job.job" in run.state_store()
    downgrade(shared_stage.dags / "downgraded.py")
    run.process.kill()
    run.until_taken_up(2)
    assert "Reconnecting to existing job" in run.log_from(2)
    assert run.outcome() == "1 job, no result"  # as it is with Airflow's mixin
