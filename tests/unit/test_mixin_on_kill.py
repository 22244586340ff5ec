"""`on_kill` of an operator is under the policy, wherever in the method resolution order it stands."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from airflow.sdk import BaseOperator
from airflow.sdk import ResumableJobMixin as AirflowResumableJobMixin

from airflow_resume import PollPolicy, ResumePolicy
from airflow_resume.testing import FakeJobs, TaskAttempt, task_context
from airflow_resume_mixins import ResumableJobMixin
from tests.support.jobs.hooks import JobHooks, equipped


class Hooks(JobHooks):
    """What both kinds of operators have; `event` happens to the task while its job runs."""

    event: Callable[[], object]
    log_of_kills: list[str]

    def get_job_status(self, external_id: Any, context: Any) -> str:
        event, self.event = self.event, lambda: None
        event()
        return super().get_job_status(external_id, context)

    def is_job_active(self, status: str) -> bool:
        return status in {"RUNNING", "CANCELLING"}


class ProviderOperator(Hooks, AirflowResumableJobMixin, BaseOperator):
    """Uses Airflow's mixin, and cancels its job whenever it is killed, as provider operators do."""

    def poll_until_complete(self, external_id: Any, context: Any) -> None:
        while self.is_job_active(self.get_job_status(external_id, context)):
            pass

    def get_job_result(self, external_id: Any, context: Any) -> Any:
        return external_id

    def on_kill(self) -> None:
        self.log_of_kills.append("provider's")


class Wrapped(ResumableJobMixin, ProviderOperator):
    """The one line."""


class WrappedWithCancel(Wrapped):
    def cancel_job(self, external_id: Any, context: Any) -> None:
        self.jobs.cancel(external_id)


class Own(Hooks, ResumableJobMixin, BaseOperator):
    """Written for ours, with an `on_kill` as one writes it for Airflow."""

    def on_kill(self) -> None:
        self.log_of_kills.append("own")
        super().on_kill()


class OwnOverWrapped(Wrapped):
    def on_kill(self) -> None:
        self.log_of_kills.append("own")
        super().on_kill()


FAST = PollPolicy(interval=timedelta(0), max_interval=timedelta(0))


def killed(
    kind: type[Any],
    happens: Callable[[TaskAttempt], object],
    *,
    policy: ResumePolicy = ResumePolicy(poll=FAST),  # noqa: B008  frozen
    **options: Any,
) -> tuple[list[str], FakeJobs]:
    """What was called when the attempt was killed after something happened to its task."""
    made, attempt = kind(task_id="task", **options), task_context()
    jobs, kills = FakeJobs(scripts=[["RUNNING", "RUNNING", "SUCCEEDED"]]), list[str]()

    def event() -> None:
        happens(attempt)
        made.on_kill()

    equipped(made, resume_policy=policy, jobs=jobs, event=event, log_of_kills=kills)
    try:
        made.execute_resumable(attempt.context)
    except Exception as error:  # noqa: BLE001  how a killed attempt ends is not the question here
        print(repr(error))
    return kills, jobs


def deploy(_attempt: TaskAttempt) -> None:
    """Nothing happens to the task; its worker goes."""


def marked_failed(attempt: TaskAttempt) -> None:
    attempt.mark("failed")


def cleared(attempt: TaskAttempt) -> None:
    attempt.clear(while_running=True)


def replaced(attempt: TaskAttempt) -> None:
    attempt.supersede()


@pytest.mark.parametrize("happens", [deploy, marked_failed, cleared, replaced])
@pytest.mark.parametrize(
    ("kind", "when_it_goes"),
    [
        (ProviderOperator, ["provider's"]),
        (Wrapped, ["provider's"]),
        (WrappedWithCancel, ["provider's"]),
        (Own, ["own"]),
        (OwnOverWrapped, ["own", "provider's"]),
    ],
)
def test_on_kill_is_called_when_a_person_ends_the_task_and_by_airflows_own_mixin_always(
    kind: type[Any], when_it_goes: list[str], happens: Callable[[TaskAttempt], object]
) -> None:
    kills, jobs = killed(kind, happens)
    goes = happens in {marked_failed, cleared} or kind is ProviderOperator
    assert kills == (when_it_goes if goes else [])
    cancels = sum(event.call == "cancel" for event in jobs.events)
    assert cancels == (1 if goes and kind is WrappedWithCancel else 0)


def test_a_job_that_the_operators_own_on_kill_ends_is_not_said_to_live_on(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        killed(Wrapped, marked_failed)
    assert "the operator's own on_kill is to end its job 'job-0'" in caplog.text
    assert "keeps running" not in caplog.text


def test_the_policy_may_let_a_deploy_end_the_job() -> None:
    kills, _ = killed(Wrapped, deploy, policy=ResumePolicy(cancel_on={"shutdown"}, poll=FAST))
    assert kills == ["provider's"]


def test_a_job_that_is_not_durable_ends_with_its_task_as_nobody_comes_back_for_it() -> None:
    kills, jobs = killed(WrappedWithCancel, deploy, durable=False)
    assert kills == ["provider's"]
    assert [event.call for event in jobs.events].count("cancel") == 1


def test_an_operator_that_never_began_is_killed_as_it_was_written() -> None:
    kills = list[str]()
    made = equipped(Wrapped(task_id="task"), log_of_kills=kills)
    made.on_kill()
    assert kills == ["provider's"]


def test_the_wrong_order_of_bases_is_refused_when_the_class_is_made() -> None:
    with pytest.raises(TypeError, match=r"class Wrong\(ResumableJobMixin, ProviderOperator\)"):

        class Wrong(ProviderOperator, ResumableJobMixin):
            pass


def test_a_policy_of_another_type_is_refused_when_the_operator_is_made() -> None:
    with pytest.raises(TypeError, match="must be a ResumePolicy"):
        Wrapped(task_id="task", resume_policy={"on_clear": "resume"})  # type: ignore[arg-type]
