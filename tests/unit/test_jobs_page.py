"""Every snippet of docs/jobs.md is run."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowRescheduleException, TaskDeferred

from airflow_resume import ResumePolicy, killed
from airflow_resume.jobs.protocol import ENDED_SOMEHOW, WORDS
from airflow_resume.reschedule import RESCHEDULE_AFTER
from airflow_resume.testing import task_context

PAGE = (Path(__file__).parents[2] / "docs" / "jobs.md").read_text()
SNIPPETS = dict(re.findall(r"<!-- snippet: (\w+) -->\n```python\n(.*?)```", PAGE, re.DOTALL))


@pytest.fixture
def page() -> dict[str, Any]:
    """The names that a reader has who pasted the snippets as they are, one after the other."""
    names: dict[str, Any] = {"__name__": "page"}
    for snippet in SNIPPETS.values():
        exec(snippet, names)  # noqa: S102  our own page
    return names


def test_there_are_no_python_blocks_that_are_not_run() -> None:
    assert PAGE.count("```python") == len(SNIPPETS)


def test_the_smallest_example_submits_once(page: dict[str, Any]) -> None:
    first = task_context()
    page["client"].fail_next("status", KeyboardInterrupt())
    with first, pytest.raises(KeyboardInterrupt):
        page["train"].function()
    with first.retry():
        assert page["train"].function() == {"job": "job-0"}
    assert len(page["client"].jobs) == 1


def test_the_operator_submits_once(page: dict[str, Any]) -> None:
    first = task_context()
    assert page["TrainOperator"](task_id="train").execute_resumable(first.context) == {"job": "job-0"}
    second = first.retry()
    assert page["TrainOperator"](task_id="train").execute_resumable(second.context) == {"job": "job-0"}
    assert len(page["client"].jobs) == 1


def test_the_function_runs_two_jobs(page: dict[str, Any]) -> None:
    with task_context():
        assert page["train_and_evaluate"].function() == {"job": "job-1"}
    assert len(page["client"].jobs) == 2


def test_the_coroutine_runs_one_job(page: dict[str, Any]) -> None:
    with task_context():
        assert asyncio.run(page["train_in_a_coroutine"].function()) == "job-0"


def test_the_words_for_a_status_are_those_that_are_known() -> None:
    table = PAGE.split("<!-- table: words -->")[1].split("\n\n")[0]
    rows = {means: set(re.findall(r"`(\w+)`", words)) for words, means in re.findall(r"\| (.*`) \| (.*) \|", table)}
    assert rows.pop("an error, until you say what it means") == ENDED_SOMEHOW
    assert rows == {status.value: set(words.split()) for status, words in WORDS.items()}


def test_the_policy_is_one(page: dict[str, Any]) -> None:
    assert isinstance(page["policy"], ResumePolicy)


def test_the_deferrable_one_defers_while_its_job_runs(page: dict[str, Any]) -> None:
    attempt = task_context()
    with pytest.raises(TaskDeferred) as raised:
        page["DeferrableTrain"](task_id="train").execute_resumable(attempt.context)
    trigger: Any = raised.value.trigger
    assert type(trigger).__name__ == "PollJobTrigger"
    assert (trigger.external_id, trigger.cancel_on_kill) == ("job-0", True)


def test_the_function_that_waits_by_reschedule_looks_again(page: dict[str, Any]) -> None:
    attempt = task_context()
    for _ in range(2):
        with attempt, pytest.raises(AirflowRescheduleException) as raised:
            page["train_for_hours"].function()
        attempt.world.come_back(raised.value.reschedule_date)
        attempt = attempt.reschedule()
    with attempt:
        assert page["train_for_hours"].function() == {"job": "job-0"}
    assert (attempt.ti.try_number, len(page["client"].jobs)) == (1, 1)


def test_a_reschedule_is_passed_on_and_nothing_is_tidied_up(
    page: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    with task_context(), pytest.raises(AirflowRescheduleException):
        page["train_or_tidy_up"].function()
    with task_context(run_id="another"), pytest.raises(ConnectionRefusedError):
        page["client"].fail_next("submit", ConnectionRefusedError())
        page["train_or_tidy_up"].function()
    assert capsys.readouterr().out == "tidying up\n"


def test_every_reason_and_every_field_is_on_the_page() -> None:
    for field in ResumePolicy.__dataclass_fields__:
        assert f"| `{field}` |" in PAGE
    for reason in ("user", "shutdown", "timeout", "final_failure"):
        assert f'`"{reason}"`' in PAGE
    assert f"A pause has at least {RESCHEDULE_AFTER.seconds} seconds" in PAGE
    assert f"within {killed.ANSWER_SECONDS:.0f} s" in PAGE
