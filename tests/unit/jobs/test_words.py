"""What a status is taken for: the words known, those that say too little, and a mapping that is stronger than both."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from enum import Enum
from typing import Any

import pytest

from airflow_resume import PollPolicy, ResumePolicy, run_job
from airflow_resume.errors import JobFailedError, JobStatusUnknownError
from airflow_resume.jobs import JobStatus
from airflow_resume.jobs.protocol import ENDED_SOMEHOW, WORDS
from airflow_resume.testing import FakeJobs, task_context
from tests.support.kit.raised import having

NOW = timedelta(0)
POLICY = ResumePolicy(poll=PollPolicy(interval=NOW, max_interval=NOW), confirm_gone=NOW, unknown_timeout=NOW)


class SayingJobs(FakeJobs):
    """Its one job says something of any kind."""

    def __init__(self, *said: Any) -> None:
        super().__init__()
        self.said = list(said)

    def status(self, external_id: Any, /) -> Any:
        super().status(external_id)
        return self.said.pop(0) if len(self.said) > 1 else self.said[0]


class Classifying(SayingJobs):
    def classify(self, status: Any) -> Any:
        return {"DONE": JobStatus.SUCCEEDED, "BROKEN": "failed"}.get(status)


def ran(*said: Any, statuses: Any = None, kind: type[SayingJobs] = SayingJobs) -> Any:
    return run_job(kind(*said), policy=POLICY, statuses=statuses, context=task_context(retries=0).context)


SPELLINGS = [str.lower, str.upper, str.title, "_".join, "-".join, " ".join]


@pytest.mark.parametrize("spelt", SPELLINGS, ids=lambda spelt: getattr(spelt, "__qualname__", ""))
@pytest.mark.parametrize("word", sorted(ENDED_SOMEHOW))
def test_a_word_for_any_end_is_an_error_that_leaves_the_job_and_says_what_to_write(word: str, spelt: Any) -> None:
    said = spelt(word)
    with pytest.raises(JobStatusUnknownError, match="The job was left alone", check=having(seconds=None)) as raised:
        ran("RUNNING", said)
    remedy = f"\nIf it means success here, declare it: run_job(..., statuses={{{said!r}: 'succeeded'}})"
    assert remedy in str(raised.value)
    assert ran("RUNNING", said, statuses={said: "succeeded"}) == {"job": "job-0"}


class State(Enum):
    COMPLETED = "completed"


def test_the_remedy_for_a_member_of_an_enum_is_one_that_helps() -> None:
    with pytest.raises(
        JobStatusUnknownError, match=r"statuses=\{'completed': 'succeeded'\}", check=having(seconds=None)
    ):
        ran(State.COMPLETED)
    assert ran(State.COMPLETED, statuses={"completed": "succeeded"}) == {"job": "job-0"}
    assert ran(State.COMPLETED, statuses={State.COMPLETED: "succeeded"}) == {"job": "job-0"}


def test_no_word_has_two_meanings() -> None:
    words = [word for known in WORDS.values() for word in known.split()]
    assert len(words) == len(set(words))
    assert ENDED_SOMEHOW.isdisjoint(words)


@pytest.mark.parametrize("kind", [SayingJobs, Classifying])
@pytest.mark.parametrize(
    "statuses", [{"DONE": "failed"}, {"done": JobStatus.FAILED}, {"D-O_N E": "failed", "RUNNING": "active"}]
)
def test_a_mapping_is_stronger_than_the_usual_words_and_than_classify(
    statuses: Mapping[str, Any], kind: type[SayingJobs]
) -> None:
    with pytest.raises(JobFailedError):
        ran("DONE", statuses=statuses, kind=kind)
    assert ran("FAILED", "SUCCEEDED", statuses={"FAILED": "active"}) == {"job": "job-0"}
    with pytest.raises(JobFailedError):
        ran("SUCCEEDED", statuses={"succeeded": "failed"}, kind=kind)


def test_what_it_does_not_name_keeps_its_meaning() -> None:
    assert ran("RUNNING", "SUCCEEDED", statuses={"DONE": "failed"}) == {"job": "job-0"}
    with pytest.raises(JobStatusUnknownError):
        ran("HM", statuses={"DONE": "failed"})


CHOICES = "'active', 'cancelling', 'succeeded', 'failed', 'gone', 'unknown'"


@pytest.mark.parametrize("meaning", ["DONE", "fine", "", None, True, 0, [], ["failed"]])
def test_a_meaning_that_does_not_exist_is_refused_before_anything_is_submitted(meaning: Any) -> None:
    jobs, attempt = SayingJobs("DONE"), task_context()
    with pytest.raises(ValueError, match=r"statuses\['DONE'\] is .*, which is not a status\.\nTake one of ") as raised:
        run_job(jobs, policy=POLICY, statuses={"RUNNING": "active", "DONE": meaning}, context=attempt.context)
    assert str(raised.value).endswith(f"Take one of {CHOICES}.")
    assert jobs.events == []
    assert attempt.task_store.get("resume.job.job") is None


@pytest.mark.parametrize("meaning", ["SUCCESS", "ok", JobStatus.SUCCEEDED])
def test_a_meaning_may_be_one_of_the_usual_words(meaning: Any) -> None:
    assert run_job(SayingJobs("DONE"), policy=POLICY, statuses={"DONE": meaning}, context=task_context().context)


def test_a_classify_that_says_nothing_leaves_the_word_to_the_usual_ones() -> None:
    jobs, attempt = Classifying("HM"), task_context()
    with pytest.raises(JobStatusUnknownError, match="the last answer was 'HM'"):
        run_job(jobs, policy=POLICY, context=attempt.context)
    jobs.said = ["DONE"]
    assert run_job(jobs, policy=POLICY, context=attempt.retry().context) == {"job": "job-0"}
    assert len(jobs.jobs) == 1
