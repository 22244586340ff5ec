"""Every snippet of docs/jobs.md is run."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import TaskDeferred

from airflow_resume import ResumePolicy, killed
from airflow_resume.jobs.protocol import ENDED_SOMEHOW, WORDS
from airflow_resume.testing import FakeJobs, task_context
from airflow_resume.testing.jobs import UnknownJobError

PAGE = (Path(__file__).parents[2] / "docs" / "jobs.md").read_text()
SNIPPETS = dict(re.findall(r"<!-- snippet: (\w+) -->\n```python\n(.*?)```", PAGE, re.DOTALL))


class Client:
    """The job system that the page talks to."""

    def __init__(self) -> None:
        self.jobs = FakeJobs(scripts=[["SUCCEEDED"]])
        self.find, self.cancel, self.status = self.jobs.find, self.jobs.cancel, self.jobs.status

    def submit(self, _what: str, *, token: str) -> Any:
        return self.jobs.submit(token)

    def result(self, external_id: str) -> str:
        return f"model-of-{external_id}"


class AsyncClient:
    """The same in coroutines."""

    def __init__(self, jobs: FakeJobs) -> None:
        self.jobs = jobs

    async def submit(self, _what: str, *, token: str) -> Any:
        return self.jobs.submit(token)

    async def find(self, token: str) -> Any:
        return self.jobs.find(token)

    async def status(self, external_id: str) -> str:
        return self.jobs.status(external_id)


@pytest.fixture
def page() -> dict[str, Any]:
    """The names that the snippets make, one after the other."""
    client = Client()
    names: dict[str, Any] = {
        "__name__": "page",
        "client": client,
        "async_client": AsyncClient(client.jobs),
        "NotFound": UnknownJobError,
    }
    for snippet in SNIPPETS.values():
        exec(snippet, names)  # noqa: S102  our own page
    return names


def test_there_are_no_python_blocks_that_are_not_run() -> None:
    assert PAGE.count("```python") == len(SNIPPETS)


def test_the_operator_submits_once(page: dict[str, Any]) -> None:
    first = task_context()
    assert page["TrainOperator"](task_id="train").execute_resumable(first.context) == "model-of-job-0"
    second = first.retry()
    assert page["TrainOperator"](task_id="train").execute_resumable(second.context) == "model-of-job-0"


def test_the_function_runs_two_jobs(page: dict[str, Any]) -> None:
    with task_context():
        assert page["train"].function() == "model-of-job-1"
    assert len(page["client"].jobs.jobs) == 2


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
    page["client"].jobs.scripts = [["RUNNING", "SUCCEEDED"]]
    attempt = task_context()
    with pytest.raises(TaskDeferred) as raised:
        page["DeferrableTrain"](task_id="train").execute_resumable(attempt.context)
    trigger: Any = raised.value.trigger
    assert type(trigger).__name__ == "PollJobTrigger"
    assert (trigger.external_id, trigger.cancel_on_kill) == ("job-0", True)


def test_every_reason_and_every_field_is_on_the_page() -> None:
    for field in ResumePolicy.__dataclass_fields__:
        assert f"| `{field}` |" in PAGE
    for reason in ("user", "shutdown", "timeout", "final_failure"):
        assert f'`"{reason}"`' in PAGE
    assert f"within {killed.ANSWER_SECONDS:.0f} s" in PAGE
