"""Jobs on a real Airflow, with our mixin and with Airflow's own: `pytest -s` prints the table of the page.

A scenario ends when the attempt that shall finish the job has taken it up; then the job may end, and the run is looked
at. So no job has to last for as long as a slow machine may need.
"""

from __future__ import annotations

from pathlib import Path

from stage import Stage
from tests.support.airflow.job_runs import Run
from tests.support.jobs.comparison import Comparison, as_markdown

COMPARISON = Comparison(Path(__file__).parents[2] / "docs" / "jobs-compared.md")
line = COMPARISON.line


# --- processes that die, stall, and are told to go ------------------------------------------------------------


@line("SIGKILL of the task while its job runs")
def test_only_ours_returns_the_result_when_the_task_was_killed(shared_stage: Stage, kind: str) -> Run:
    run = Run.waiting(shared_stage, kind)
    run.process.kill()
    run.until_taken_up(2)
    return run


@line("SIGKILL of the task when the job is submitted and its id not saved")
def test_only_ours_submits_once_when_the_task_was_killed_before_it_saved_the_id(shared_stage: Stage, kind: str) -> Run:
    run, _ = Run.held_at_submit(shared_stage, kind)
    run.process.kill()
    run.until_taken_up(2)
    return run


@line("SIGKILL of the task's supervisor; the orphaned task goes on")
def test_an_orphan_harms_neither_and_only_ours_returns_the_result(shared_stage: Stage, kind: str) -> Run:
    run = Run.waiting(shared_stage, kind)
    orphan = run.process
    run.supervisor.kill()
    run.until_taken_up(2)
    assert orphan.is_running()
    run.let_jobs_end()
    run.until_gone(orphan)
    return run


@line("SIGTERM: a deploy, a spot instance that goes")
def test_only_ours_leaves_the_job_alone_in_a_deploy(shared_stage: Stage, kind: str) -> Run:
    run = Run.waiting(shared_stage, kind)
    run.supervisor.terminate()
    run.until(lambda: run.books["cancels"] or "The task ends (shutdown)" in run.log(1), "the task was told")
    return run


@line("the task stalls, is replaced by a retry, and wakes up")
def test_only_ours_leaves_the_job_of_its_successor_alone(shared_stage: Stage, kind: str) -> Run:
    run = Run.waiting(shared_stage, kind)
    old = run.process
    stalled = [run.supervisor, old]
    for process in stalled:
        process.suspend()
    try:
        run.until_taken_up(2)
    finally:
        for process in stalled:
            process.resume()
    run.until_gone(old)
    return run


@line("`execution_timeout` is shorter than the job")
def test_only_ours_finishes_a_job_that_takes_longer_than_any_attempt(shared_stage: Stage, kind: str) -> Run:
    run = Run.start(shared_stage, f"{kind}_short")
    run.until(lambda: "reconnect (" in run.log_from(3) or run.task["state"] == "failed", "a third try, or the last")
    return run


# --- persons --------------------------------------------------------------------------------------------------


def marked(shared_stage: Stage, kind: str, state: str) -> Run:
    run = Run.waiting(shared_stage, kind)
    process = run.process
    run.mark(state)
    run.until_gone(process)
    return run


@line("marked failed while the job runs")
def test_both_cancel_the_job_of_a_task_that_was_marked_failed(shared_stage: Stage, kind: str) -> Run:
    return marked(shared_stage, kind, "failed")


@line("marked success while the job runs")
def test_both_cancel_the_job_of_a_task_that_was_marked_success(shared_stage: Stage, kind: str) -> Run:
    return marked(shared_stage, kind, "success")


@line("cleared while the job runs")
def test_both_cancel_the_job_of_a_task_that_was_cleared_and_submit_another(shared_stage: Stage, kind: str) -> Run:
    run = Run.waiting(shared_stage, kind)
    run.clear()
    run.until_taken_up(2)
    return run


@line("cleared after its success")
def test_only_ours_does_the_work_again_when_the_task_is_cleared(shared_stage: Stage, kind: str) -> Run:
    run = Run.waiting(shared_stage, kind)
    assert run.end() == "success"
    before = run.task["try_number"]
    run.clear()
    run.until(lambda: run.task["try_number"] > before, "another try")
    return run


@line("a mapped task is cleared, and its list has changed")
def test_only_ours_gives_each_item_its_own_result(shared_stage: Stage, kind: str) -> str:
    before, after = [1.0, 1.25], [1.25, 1.5, 1.0]
    run = Run.over(shared_stage, f"{kind}_mapped", items=before)
    assert run.end() == "success"
    run.write_items(after)
    run.clear(tasks=("items", "run"))
    run.until(lambda: run.result(2) is not None, "the new item has a result")
    assert run.end() == "success"
    wrong = sum(run.result(index)["item"] != item for index, item in enumerate(after))
    return f"{wrong} of {len(after)} items have the result of another" if wrong else "each item has its own result"


# --- what is between two attempts -----------------------------------------------------------------------------


@line("deferred, and the trigger fails")
def test_only_ours_takes_up_the_job_whose_trigger_has_failed(shared_stage: Stage, kind: str) -> Run:
    run = Run.with_trigger_that_fails(shared_stage, f"{kind}_deferred")
    run.until_deferred(1)
    run.let_trigger_fail()
    run.until_deferred(2)
    return run


@line("a month, and `airflow state-store clean`; then SIGKILL of the task")
def test_only_ours_finds_a_job_that_has_outlived_the_retention(shared_stage: Stage, kind: str) -> Run:
    run = Run.waiting(shared_stage, kind)
    run.expire_what_can()
    assert ("remote_job_id" in run.state_store()) == (kind == "ours")
    run.process.kill()
    run.until_taken_up(2)
    return run


# --------------------------------------------------------------------------------------------------------------


def test_the_page_has_these_lines_and_no_others() -> None:
    table = COMPARISON.table()
    print(as_markdown(table))
    assert [name for name, *_ in COMPARISON.page()] == [name for name, *_ in table]
