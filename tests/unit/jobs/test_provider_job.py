"""`ProviderJob` over operators as providers write them, with a job system in memory."""

from __future__ import annotations

import copy
from datetime import timedelta
from typing import Any, Literal

import pytest
from airflow.sdk import DAG, BaseOperator
from airflow.sdk import ResumableJobMixin as AirflowResumableJobMixin
from airflow.sdk.exceptions import TaskDeferred

from airflow_resume import PollPolicy, ResumePolicy
from airflow_resume.errors import JobFailedError, UsageError
from airflow_resume.testing import FakeJobs, TaskAttempt, task_context
from airflow_resume_mixins.providers import ProviderJob

TICK = timedelta(milliseconds=1)
QUICK = ResumePolicy(poll=PollPolicy(interval=TICK, max_interval=TICK))


class KilledError(BaseException):
    """The process is gone."""


class Service(FakeJobs):
    """Kills the process right after a submit, if it is told to."""

    kills = False

    def run(self, token: str | None) -> Any:
        job = self.submit(token)
        if self.kills:
            self.kills = False
            raise KilledError
        return job


@pytest.fixture
def service() -> Service:
    Train.service = Service(scripts=[["RUNNING", "RUNNING", "SUCCEEDED"]], dedupes=True)
    return Train.service


class Train(BaseOperator):
    """Submits and waits in one `execute`, as most providers' operators do."""

    template_fields = ("name",)
    service: Service

    def __init__(self, *, name: str = "n", wait: bool = True, deferrable: bool = False, **options: Any) -> None:
        super().__init__(**options)
        self.name, self.wait, self.deferrable = name, wait, deferrable
        self.request_token: str | None = None
        self.job: Any = None
        self.killed: list[Any] = []

    def execute(self, context: Any) -> Any:
        assert self.request_token is not None
        self.job = self.service.run(self.request_token)
        context["ti"].xcom_push(key="link", value=f"https://jobs/{self.job}")
        assert not self.wait, "the recipe switches it off"
        assert not self.deferrable, "the base switches it off"
        return {"job": self.job, "name": self.name}

    def on_kill(self) -> None:
        self.killed.append(self.job)


class ResumableTrain(ProviderJob, Train):
    submission_is_idempotent = True
    active = frozenset({"RUNNING"})
    succeeded = frozenset({"SUCCEEDED"})
    job_id_attribute = "job"
    job_not_found = Service.job_not_found
    not_waiting = {"wait": False}  # noqa: RUF012

    def put_token(self, token: str) -> None:
        self.request_token = token

    def job_status(self, external_id: Any) -> Any:
        return self.service.status(external_id)


def made(kind: type = ResumableTrain, **options: Any) -> Any:
    return kind(task_id="task", resume_policy=QUICK, **options)


def run(attempt: TaskAttempt, **options: Any) -> Any:
    with attempt:
        return made(**options).execute(attempt.context)


def test_the_operators_own_execute_submits_and_the_engine_waits(service: Service) -> None:
    attempt = task_context()
    assert run(attempt) == {"job": service.jobs[0].id, "name": "n"}
    assert attempt.ti.xcoms == {"link": f"https://jobs/{service.jobs[0].id}"}


def test_what_it_switched_off_for_the_submit_is_as_before_afterwards(service: Service) -> None:
    attempt, operator = task_context(), made()
    with attempt:
        operator.execute(attempt.context)
    assert (operator.wait, operator.deferrable) == (True, False)


def test_after_a_failed_submit_too(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_token: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(service, "run", fail)
    attempt, operator = task_context(), made()
    with attempt, pytest.raises(ZeroDivisionError):
        operator.execute(attempt.context)
    assert operator.wait


def test_a_retry_after_the_end_gives_the_same_result_and_xcoms(service: Service) -> None:
    attempt = task_context()
    first = run(attempt), dict(attempt.ti.xcoms)
    retry = attempt.retry()
    assert (run(retry), retry.ti.xcoms) == first
    assert len(service.jobs) == 1


def test_a_retry_after_the_end_gives_them_even_if_the_service_has_forgotten_the_job(service: Service) -> None:
    attempt = task_context()
    first = run(attempt), dict(attempt.ti.xcoms)
    service.forget(service.jobs[0].id)
    retry = attempt.retry()
    assert (run(retry), retry.ti.xcoms) == first
    assert len(service.jobs) == 1


def test_a_recipe_may_submit_in_another_way_than_by_execute_alone(service: Service) -> None:
    class Raising(ResumableTrain):
        def own_execute(self, context: Any) -> Any:
            answer = super().own_execute(context)
            context["ti"].xcom_push(key="more", value=1)
            return answer

    attempt = task_context()
    with attempt:
        made(Raising).execute(attempt.context)
    retry = attempt.retry()
    with retry:
        made(Raising).execute(retry.context)
    assert retry.ti.xcoms["more"] == 1


def test_when_the_job_has_failed_the_recipe_is_told_before_the_attempt_fails(service: Service) -> None:
    seen: list[Any] = []

    class Telling(ResumableTrain):
        def after_failure(self, external_id: Any, context: Any) -> None:
            seen.append((external_id, context["ti"].try_number))
            raise ZeroDivisionError  # the error of the job is what is raised

    service.scripts = [["RUNNING", "FAILED"]]
    attempt = task_context()
    with attempt, pytest.raises(JobFailedError):
        made(Telling).execute(attempt.context)
    assert seen == [(service.jobs[0].id, 1)]


def test_arguments_that_cannot_resume_are_left_to_the_operator_and_the_log_says_so(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    class InClientMode(ResumableTrain):
        def cannot_resume(self) -> str | None:
            return "client mode"

    attempt, operator = task_context(), made(InClientMode, wait=False)
    operator.request_token = "mine"  # noqa: S105
    with attempt:
        assert operator.execute(attempt.context) == {"job": service.jobs[0].id, "name": "n"}
    assert "InClientMode does not resume: client mode. Every retry submits another job." in caplog.text
    assert attempt.task_store.get("resume.job.job") is None


def test_a_crash_in_the_window_leaves_one_job(service: Service) -> None:
    service.kills, attempt = True, task_context()
    with pytest.raises(KilledError):
        run(attempt)
    retry = attempt.retry()
    assert run(retry) == {"job": service.jobs[0].id, "name": "n"}
    assert len(service.jobs) == 1
    assert retry.ti.xcoms == {"link": f"https://jobs/{service.jobs[0].id}"}


def test_a_retry_whose_job_is_forgotten_returns_the_saved_result_with_its_xcoms(service: Service) -> None:
    attempt = task_context()
    first = run(attempt), dict(attempt.ti.xcoms)
    service.jobs.clear()
    retry = attempt.retry()
    assert (run(retry), retry.ti.xcoms) == first
    assert not service.jobs


class Late(Train):
    """Pushes its XCom only while it waits."""

    def execute(self, context: Any) -> Any:
        self.job = self.service.run(self.request_token)
        return {"job": self.job, "name": self.name}


class ResumableLate(ResumableTrain, Late):
    can_restore = True

    def restore(self, external_id: Any, context: Any) -> None:
        if not self.can_restore:
            raise ConnectionError
        context["ti"].xcom_push(key="link", value=f"https://jobs/{external_id}")


@pytest.mark.parametrize("waits", [True, False])
def test_the_id_is_saved_right_after_the_submit_and_then_xcoms_are_restored(
    service: Service, monkeypatch: pytest.MonkeyPatch, *, waits: bool
) -> None:
    attempt, events = task_context(), []

    def noting(event: str, call: Any) -> Any:
        def noted(*args: Any, **options: Any) -> Any:
            answer = call(*args, **options)
            events.append(event)
            return answer

        return noted

    monkeypatch.setattr(service, "run", noting("submit", service.run))
    monkeypatch.setattr(service, "status", noting("ask", service.status))
    monkeypatch.setattr(ResumableLate, "restore", noting("restore", ResumableLate.restore))
    monkeypatch.setattr(type(attempt.task_store), "set", noting("save", type(attempt.task_store).set))
    run(attempt, kind=ResumableLate, wait=waits)
    after = events[events.index("submit") + 1 :]
    assert after[0] == "save"
    assert after.count("restore") == 1
    assert "ask" not in after[: after.index("restore")], "links are wanted most while the job runs"


def test_xcoms_that_the_submit_does_not_push_are_restored_and_noted_by_the_end(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempt = task_context()
    first = run(attempt, kind=ResumableLate), dict(attempt.ti.xcoms)
    assert first[1] == {"link": f"https://jobs/{service.jobs[0].id}"}
    monkeypatch.setattr(ResumableLate, "can_restore", False)
    retry = attempt.retry()
    assert (run(retry, kind=ResumableLate), retry.ti.xcoms) == first


@pytest.mark.parametrize("waits", [True, False])
def test_an_attempt_that_dies_while_it_restores_leaves_one_job_and_its_xcoms_to_the_next(
    service: Service, monkeypatch: pytest.MonkeyPatch, *, waits: bool
) -> None:
    def die(_self: Any, _external_id: Any, _context: Any) -> None:
        raise KilledError

    attempt, restore = task_context(), ResumableLate.restore
    monkeypatch.setattr(ResumableLate, "submission_is_idempotent", False)
    monkeypatch.setattr(ResumableLate, "restore", die)
    with pytest.raises(KilledError):
        run(attempt, kind=ResumableLate, wait=waits)
    monkeypatch.setattr(ResumableLate, "restore", restore)
    retry = attempt.retry()
    assert run(retry, kind=ResumableLate, wait=waits) == {"job": service.jobs[0].id, "name": "n"}
    assert retry.ti.xcoms == {"link": f"https://jobs/{service.jobs[0].id}"}
    assert len(service.jobs) == 1


def test_xcoms_restored_after_a_crash_in_the_window_are_noted_too(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    def find(self: Any, token: str, _context: Any) -> Any:
        return self.service.find(token)

    monkeypatch.setattr(ResumableLate, "submission_is_idempotent", False)
    monkeypatch.setattr(ResumableLate, "find_job", find, raising=False)
    service.kills, attempt = True, task_context()
    with pytest.raises(KilledError):
        run(attempt, kind=ResumableLate)
    second = attempt.retry()
    run(second, kind=ResumableLate)
    monkeypatch.setattr(ResumableLate, "can_restore", False)
    third = second.retry()
    run(third, kind=ResumableLate)
    assert third.ti.xcoms == second.ti.xcoms == {"link": f"https://jobs/{service.jobs[0].id}"}
    assert len(service.jobs) == 1


def test_xcoms_that_cannot_be_restored_after_the_submit_are_restored_later(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    def status(external_id: Any) -> Any:
        monkeypatch.setattr(ResumableLate, "can_restore", True)
        return FakeJobs.status(service, external_id)

    monkeypatch.setattr(ResumableLate, "can_restore", False)
    monkeypatch.setattr(service, "status", status)
    attempt = task_context()
    run(attempt, kind=ResumableLate)
    assert attempt.ti.xcoms == {"link": f"https://jobs/{service.jobs[0].id}"}
    assert len(service.jobs) == 1


def test_not_waiting_submits_once_and_returns_at_once(service: Service) -> None:
    attempt = task_context()
    first = run(attempt, wait=False), dict(attempt.ti.xcoms)
    assert service.jobs[0].is_alive
    retry = attempt.retry()
    assert (run(retry, wait=False), retry.ti.xcoms) == first
    assert len(service.jobs) == 1


def test_without_a_trigger_it_waits_in_the_worker_and_says_so(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    assert run(task_context(), deferrable=True)["job"] == service.jobs[0].id
    assert "the task waits in its worker instead" in caplog.text


def test_with_a_trigger_every_attempt_defers_for_the_same_job(service: Service) -> None:
    class Deferring(ResumableTrain):
        def job_trigger(self, external_id: Any, context: Any) -> Any:
            return TRIGGER

    attempt = task_context()
    for _ in range(2):
        with attempt, pytest.raises(TaskDeferred) as deferral:
            made(Deferring, deferrable=True).execute(attempt.context)
        assert deferral.value.method_name == "resume_complete"
        attempt = attempt.retry()
    service.jobs[0].states = ["SUCCEEDED"]
    with attempt:
        assert made(Deferring, deferrable=True).resume_complete(attempt.context, {}) == {
            "job": service.jobs[0].id,
            "name": "n",
        }
    assert len(service.jobs) == 1


TRIGGER: Any = object()


def test_the_operators_on_kill_knows_the_job_and_ends_it_only_if_that_is_wanted(service: Service) -> None:
    attempt = task_context()
    operator = made()

    def killed_by(mark: Literal["failed"] | None) -> list[Any]:
        def status(_external_id: Any) -> str:
            if mark is not None:
                attempt.mark(mark)
            operator.on_kill()
            raise KilledError

        service.status = status  # type: ignore[method-assign]
        with attempt, pytest.raises(KilledError):
            operator.execute(attempt.context)
        return list(operator.killed)

    assert killed_by(None) == []
    attempt = attempt.retry()
    assert killed_by("failed") == [service.jobs[0].id]


class Own(AirflowResumableJobMixin, Train):
    """An operator that uses Airflow's mixin, and defers in its own way."""

    def execute(self, context: Any) -> Any:
        assert not self.deferrable
        return self.execute_resumable(context)

    def submit_job(self, context: Any) -> Any:
        self.job = self.service.run(self.request_token)
        context["ti"].xcom_push(key="link", value=f"https://jobs/{self.job}")
        return self.job

    def get_job_status(self, external_id: Any, context: Any) -> Any:
        return self.service.status(external_id)

    def is_job_active(self, status: Any) -> bool:
        return bool(status == "RUNNING")

    def is_job_succeeded(self, status: Any) -> bool:
        return bool(status == "SUCCEEDED")

    def poll_until_complete(self, external_id: Any, context: Any) -> None:
        while self.is_job_active(self.get_job_status(external_id, context)):
            pass

    def get_job_result(self, external_id: Any, context: Any) -> Any:
        return f"result of {external_id}"


class ResumableOwn(ProviderJob, Own):
    submission_is_idempotent = True
    job_id_attribute = "job"

    def put_token(self, token: str) -> None:
        self.request_token = token


def test_an_operator_with_airflows_mixin_keeps_its_own_hooks(service: Service) -> None:
    service.kills, attempt = True, task_context()
    with attempt, pytest.raises(KilledError):
        made(ResumableOwn).execute(attempt.context)
    retry = attempt.retry()
    with retry:
        assert made(ResumableOwn).execute(retry.context) == f"result of {service.jobs[0].id}"
    assert retry.ti.xcoms == {"link": f"https://jobs/{service.jobs[0].id}"}
    assert len(service.jobs) == 1


def test_an_operators_own_way_of_waiting_is_not_used_so_the_policy_may_have_a_time_out(service: Service) -> None:
    class Endless(Own):
        def poll_until_complete(self, external_id: Any, context: Any) -> None:
            raise AssertionError

    class Wrapped(ProviderJob, Endless):
        pass

    policy = ResumePolicy(poll=PollPolicy(interval=TICK, max_interval=TICK, timeout=timedelta(hours=1)))
    attempt = task_context()
    with attempt:
        operator: Any = Wrapped(task_id="task", resume_policy=policy)
        assert operator.execute(attempt.context) == f"result of {service.jobs[0].id}"


# --- what real operators have shown -----------------------------------------------------------------------------


class Deferring(Train):
    """Always waits, or defers; its `execute_complete` has the result."""

    def execute(self, context: Any) -> Any:
        assert self.job is None, "an id that is set counts as a job that runs"
        self.job = self.service.run(self.request_token)
        context["ti"].xcom_push(key="link", value=f"https://jobs/{self.job}")
        assert self.deferrable
        self.defer(trigger=TRIGGER, method_name="execute_complete")

    def execute_complete(self, context: Any, event: Any) -> Any:
        return f"result of {event['job']}"


class ResumableDeferring(ProviderJob, Deferring):
    submission_is_idempotent = True
    active = frozenset({"RUNNING"})
    succeeded = frozenset({"SUCCEEDED"})
    job_id_attribute = "job"
    while_submitting = {"deferrable": True}  # noqa: RUF012
    job_not_found = FakeJobs.job_not_found

    put_token = ResumableTrain.put_token
    job_status = ResumableTrain.job_status

    def success_event(self, external_id: Any) -> Any:
        return {"job": external_id}

    def restore(self, external_id: Any, context: Any) -> None:
        context["ti"].xcom_push(key="link", value=f"https://jobs/{external_id}")


def test_an_operators_own_deferral_can_end_the_submit(service: Service) -> None:
    attempt = task_context()
    with attempt:
        assert made(ResumableDeferring).execute(attempt.context) == f"result of {service.jobs[0].id}"
    assert attempt.ti.xcoms == {"link": f"https://jobs/{service.jobs[0].id}"}


def test_the_id_of_an_earlier_job_is_not_there_when_the_next_one_is_submitted(service: Service) -> None:
    attempt = task_context()
    with attempt:
        made(ResumableDeferring).execute(attempt.context)
    cleared = attempt.clear()
    with cleared:
        assert made(ResumableDeferring).execute(cleared.context) == f"result of {service.jobs[1].id}"


def test_a_retry_pushes_the_xcoms_when_it_begins_to_wait(service: Service) -> None:
    attempt, seen = task_context(), []

    def die(_external_id: Any) -> Any:
        raise KilledError

    alive, service.status = service.status, die  # type: ignore[method-assign]
    with attempt, pytest.raises(KilledError):
        made(ResumableDeferring).execute(attempt.context)
    retry = attempt.retry()

    def see(external_id: Any) -> Any:
        seen.append(dict(retry.ti.xcoms))
        return alive(external_id)

    service.status = see  # type: ignore[method-assign]
    with retry:
        made(ResumableDeferring).execute(retry.context)
    assert seen[:2] == [{}, {"link": f"https://jobs/{service.jobs[0].id}"}]


def test_xcoms_are_pushed_although_the_service_has_forgotten_the_job(service: Service) -> None:
    attempt = task_context()
    with attempt:
        first = made(ResumableDeferring).execute(attempt.context)
    service.jobs[0].forgotten = True
    retry = attempt.retry()
    with retry:
        assert made(ResumableDeferring).execute(retry.context) == first
    assert retry.ti.xcoms == {"link": f"https://jobs/{service.jobs[0].id}"}


def test_after_a_crash_in_the_window_the_answer_without_waiting_is_made_again(service: Service) -> None:
    class Quiet(Train):
        def execute(self, context: Any) -> Any:
            super().execute(context)

    class Found(ProviderJob, Quiet):
        active = frozenset({"RUNNING"})
        not_waiting = {"wait": False}  # noqa: RUF012
        job_id_attribute = "job"
        put_token = ResumableTrain.put_token
        job_status = ResumableTrain.job_status

        def find_job(self, token: str, context: Any) -> Any:
            return self.service.find(token)

        def answer(self, external_id: Any, context: Any) -> Any:
            return None

    service.kills, attempt = True, task_context()
    with attempt, pytest.raises(KilledError):
        made(Found, wait=False).execute(attempt.context)
    retry = attempt.retry()
    with retry:
        assert made(Found, wait=False).execute(retry.context) is None
    assert len(service.jobs) == 1


def test_an_operator_that_calls_itself_is_told_so(service: Service) -> None:
    class Recursive(Train):
        def execute(self, context: Any) -> Any:
            return type(self).execute(self, context)

    class Wrapped(ProviderJob, Recursive):
        def job_status(self, external_id: Any) -> Any:
            raise AssertionError(external_id)

    attempt = task_context()
    with attempt, pytest.raises(UsageError, match="Wrapped calls itself"):
        made(Wrapped).execute(attempt.context)


def test_it_is_mapped_copied_and_templated_as_before(service: Service) -> None:
    with DAG("dag", schedule=None):
        mapped = ResumableTrain.partial(task_id="m").expand(name=["a", "b"])
    assert type(mapped).__name__ == "MappedOperator"
    assert tuple(ResumableTrain.template_fields) == ("name",)
    assert copy.deepcopy(made(name="x")).name == "x"
