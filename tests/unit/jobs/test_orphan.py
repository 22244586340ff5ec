from __future__ import annotations

from typing import Any

import pytest

from airflow_resume.errors import JobHookError
from airflow_resume.jobs import JobRun
from airflow_resume.jobs.orphan import Fate, checked_id, decide_fate
from airflow_resume.jobs.poll import Clock
from airflow_resume.jobs.protocol import JobSystem
from airflow_resume.testing import FakeJobs, FakeTaskStore, task_context
from tests.support.kit.raised import having


@pytest.mark.parametrize(
    ("known_by_token", "can_cancel", "fate"),
    [
        (True, True, Fate.LEAVE),
        (True, False, Fate.LEAVE),
        (False, True, Fate.CANCEL),
        (False, False, Fate.NAME),
    ],
)
def test_fate(known_by_token: bool, can_cancel: bool, fate: Fate) -> None:  # noqa: FBT001
    assert decide_fate(known_by_token=known_by_token, can_cancel=can_cancel) is fate


class Unsaved(FakeTaskStore):
    """So many ids cannot be saved."""

    failures = 1

    def set(self, key: str, value: Any, **options: Any) -> None:
        if value.get("phase") == "submitted" and self.failures:
            self.failures -= 1
            raise ConnectionResetError("redis")
        super().set(key, value, **options)


def test_whatever_the_write_raised_the_job_is_seen_to_and_that_error_raised(caplog: pytest.LogCaptureFixture) -> None:
    """Of a state backend, say, whose connection broke: an error of no name of ours."""

    jobs = FakeJobs(can_find=False)
    context = {**task_context().context, "task_state_store": Unsaved()}
    with pytest.raises(ConnectionResetError, match="redis"):
        JobRun(jobs, context=context).run()
    assert [event.call for event in jobs.events] == ["submit", "cancel"]
    assert "cancelled" in caplog.text


class CancelsAtOnce(FakeJobs):
    def cancel(self, external_id: Any, /) -> None:
        super().cancel(external_id)
        self.status(external_id)  # it said that it was cancelling


@pytest.mark.parametrize("kind", [CancelsAtOnce, FakeJobs])
def test_after_a_cancelled_orphan_the_next_attempt_submits_another(kind: type[FakeJobs]) -> None:
    """The id could not be saved once; that it was cancelled could."""
    first = task_context()
    jobs = kind(can_find=False, scripts=[["RUNNING"], ["RUNNING", "SUCCEEDED"]])
    unsaved = Unsaved(first.task_store.rows)
    with pytest.raises(ConnectionResetError):
        JobRun(jobs, context={**first.context, "task_state_store": unsaved}).run()
    assert JobRun(jobs, context=first.retry().context, clock=Clock(sleep=lambda _: None)).run() == {"job": "job-1"}
    assert jobs.most_alive == 1


def test_a_cancel_that_fails_does_not_hide_what_was_wrong_with_the_id(caplog: pytest.LogCaptureFixture) -> None:
    class Stubborn(FakeJobs):
        def cancel(self, external_id: Any, /) -> None:
            raise KeyError(external_id)

    answer = object()
    with pytest.raises(JobHookError, match="Return the id of the job", check=having(hook="submit")):
        checked_id(JobSystem(Stubborn(can_find=False)), "token", answer)
    assert "MAY BE ORPHANED" in caplog.text
    assert repr(answer) in caplog.text
