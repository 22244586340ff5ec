from __future__ import annotations

from typing import Any

import pytest
from crashing import Store, World
from fake_jobs import JobSystem as FakeJobs

from airflow_resume.errors import InvalidJobIdError
from airflow_resume.jobs import JobRun, JobStatus
from airflow_resume.jobs.orphan import Fate, checked_id, decide_fate
from airflow_resume.jobs.protocol import JobSystem


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


class Cancelling(FakeJobs):
    def cancel(self, external_id: Any) -> None:
        self.jobs[external_id].status = self.ends[0]


def test_whatever_the_write_raised_the_job_is_seen_to_and_that_error_raised(caplog: pytest.LogCaptureFixture) -> None:
    """Of a state backend, say, whose connection broke: an error of no name of ours."""

    class Broken(Store):
        def set(self, key: str, value: Any) -> None:
            if value.get("phase") == "submitted":
                raise ConnectionResetError("redis")
            super().set(key, value)

    jobs = Cancelling()
    context = {**World().attempt(), "task_state_store": Broken({})}
    with pytest.raises(ConnectionResetError, match="redis"):
        JobRun(jobs, context=context).run()
    assert jobs.alive() == 0
    assert "cancelled" in caplog.text


def test_after_a_cancelled_orphan_the_next_attempt_submits_another() -> None:
    """The id could not be saved once; that it was cancelled could."""

    class Once(Store):
        refusals = 1

        def set(self, key: str, value: Any) -> None:
            if value.get("phase") == "submitted" and self.refusals:
                self.refusals -= 1
                raise ConnectionResetError("redis")
            super().set(key, value)

    world, jobs = World(), Cancelling(ends=[JobStatus.FAILED, JobStatus.SUCCEEDED], active_for=0)
    with pytest.raises(ConnectionResetError):
        JobRun(jobs, context={**world.attempt(), "task_state_store": Once(world.task_values)}).run()
    assert JobRun(jobs, context=world.attempt()).run()["job"] == 1
    assert jobs.most_alive == 1


def test_a_cancel_that_fails_does_not_hide_what_was_wrong_with_the_id(caplog: pytest.LogCaptureFixture) -> None:
    class Stubborn(Cancelling):
        def cancel(self, external_id: Any) -> None:
            raise KeyError(external_id)

    answer = object()
    with pytest.raises(InvalidJobIdError, match="Return the id of the job"):
        checked_id(JobSystem(Stubborn()), "token", answer)
    assert "MAY BE ORPHANED" in caplog.text
    assert repr(answer) in caplog.text
