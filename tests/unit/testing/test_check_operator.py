"""`check_operator`, on an operator that submits and waits, and on the same one wrapped."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from airflow.sdk import DAG, BaseOperator, TaskGroup

from airflow_resume.testing import ServiceJobs, check_operator
from airflow_resume.testing.errors import CannotKillError, NeverFiredError, UndisturbedRunError
from airflow_resume.testing.operators import SCENARIOS, OperatorReport
from airflow_resume.testing.operators.comparison import comparable
from tests.support.kit.printing_service import AT_ONCE, PrintingService, PrintOperator, ResumingPrintOperator

OPTIONS: dict[str, Any] = {"not_waiting": {"waits": False}, "deferrable": {"deferrable": True}, "grace": 0.2}


@pytest.fixture(scope="module")
def service() -> Iterator[PrintingService]:
    with PrintingService() as running:
        yield running


def plain(service: PrintingService, kind: type[PrintOperator] = PrintOperator, **options: Any) -> PrintOperator:
    return kind(task_id="task", retries=3, url=service.url, document="{{ run_id }}", **options)


def resuming(service: PrintingService, **options: Any) -> PrintOperator:
    return plain(service, ResumingPrintOperator, resume_policy=AT_ONCE, **options)


def cells(report: OperatorReport) -> dict[str, str]:
    return {scenario: str(played) for scenario, played in report.items()}


def test_an_operator_that_resumes(service: PrintingService) -> None:
    report = check_operator(partial(resuming, service), service.jobs, same_as=partial(plain, service), **OPTIONS)
    assert list(report) == list(SCENARIOS)
    # The XCom is made of what the service knows of the job, and it knows nothing of it any more.
    assert {name: (str(row), row.detail) for name, row in report.problems.items()} == {
        "forgotten, job done": ("1 / 1 / 0, other result", "['the job', {}]")
    }, f"\n{report}"
    assert cells(report)["cleared, job alive"] == "2 / 1 / 1, same result"
    assert cells(report)["marked failed on a retry"] == "1 / 1 / 1, no job left"


def test_an_operator_that_submits_and_waits(service: PrintingService) -> None:
    report = check_operator(partial(plain, service), service.jobs, **OPTIONS)
    assert cells(report) == {
        "plain": "1 / 1 / 0, same result",
        "crash while waiting": "2 / 2 / 0, same result",
        "crash after all is done": "2 / 1 / 0, same result",
        "crash in the window": "2 / 2 / 0, same result",
        "job fails": "2 / 1 / 0, same result",
        "deploy": "2 / 1 / 1, same result",
        "marked failed": "1 / 1 / 1, no job left",
        "marked failed on a retry": "2 / 2 / 1, a job lives on",
        "forgotten, job done": "2 / 1 / 0, same result",
        "forgotten, job running": "2 / 1 / 0, same result",
        "cleared, job done": "2 / 1 / 0, same result",
        "cleared, job alive": "2 / 2 / 0, same result",
        "not waiting": "2 / 2 / 0, returns at once",
        "deferrable": "2 / 2 / 0, same result",
        "mapped": "1 / 1 / 0, same result",
        "503 once": "1 / 1 / 0, PrintError",
        "unknown status": "1 / 1 / 0, RuntimeError",
    }
    assert "crash in the window" in report.problems
    assert "plain" not in report.problems


def test_the_report_is_a_table(service: PrintingService) -> None:
    report = check_operator(partial(plain, service), service.jobs, scenarios=["crash in the window", "503 once"])
    assert str(report).splitlines() == [
        "PrintOperator        jobs  alive at once  cancelled  result",
        "crash in the window  2     2              0          same result",
        "503 once             1     1              0          PrintError: HTTP 503",
    ]


# --- what is mapped ---------------------------------------------------------------------------------------------


def test_an_operator_that_is_made_in_a_dag_and_a_group_is_mapped(service: PrintingService) -> None:
    def in_a_dag() -> BaseOperator:
        with DAG("d", schedule=None, default_args={"retries": 5}), TaskGroup("g", prefix_group_id=False):
            return PrintOperator(task_id="task", url=service.url, document="{{ run_id }}")

    report = check_operator(in_a_dag, service.jobs, scenarios=["mapped"])
    assert cells(report) == {"mapped": "1 / 1 / 0, same result"}


def test_an_argument_that_is_not_given_is_mapped_with_its_default(service: PrintingService) -> None:
    report = check_operator(partial(plain, service), service.jobs, scenarios=["mapped"], expand="waits")
    assert cells(report) == {"mapped": "1 / 1 / 0, same result"}


@pytest.mark.parametrize("name", ["nothing", "retries_", "options", "self"])
def test_an_argument_that_there_is_not_is_refused_before_anything_is_played(
    name: str, service: PrintingService
) -> None:
    service.jobs.reset()
    with pytest.raises(
        ValueError, match=rf"expand='{name}' is no argument that PrintOperator .*\nName one of these: "
    ) as raised:
        check_operator(partial(plain, service), service.jobs, expand=name)
    assert "document" in str(raised.value)
    assert service.jobs.jobs == []


class Passing(PrintOperator):
    """Its `__init__` passes an argument on that it does not take itself."""

    def __init__(self, **options: Any) -> None:
        super().__init__(waits=True, **options)


def test_an_operator_that_passes_an_argument_of_its_own_to_its_base_is_mapped(service: PrintingService) -> None:
    report = check_operator(partial(plain, service, Passing), service.jobs, scenarios=["mapped"])
    assert cells(report) == {"mapped": "1 / 1 / 0, same result"}


def test_default_arguments_of_the_dag_are_those_of_the_mapped_task(service: PrintingService) -> None:
    def in_a_dag() -> BaseOperator:
        with DAG("d", schedule=None, default_args={"url": service.url}):
            return PrintOperator(task_id="task", document="{{ run_id }}")  # type: ignore[call-arg]

    report = check_operator(in_a_dag, service.jobs, scenarios=["mapped"])
    assert cells(report) == {"mapped": "1 / 1 / 0, same result"}


# --- what is compared -------------------------------------------------------------------------------------------


class Forgetful(PrintOperator):
    """It pushes its XCom only in a first attempt."""

    def done(self, context: Any, print_id: Any) -> Any:
        if context["ti"].try_number > 1:
            return print_id
        return super().done(context, print_id)


def test_an_xcom_that_is_missing_is_another_result(service: PrintingService) -> None:
    report = check_operator(partial(plain, service, Forgetful), service.jobs, scenarios=["crash after all is done"])
    assert report["crash after all is done"].result == "other result"
    assert report["crash after all is done"].detail == "['the job', {}]"


class Ghost(ResumingPrintOperator):
    """It returns the job of before a clear."""

    first: Any = None

    def done(self, context: Any, print_id: Any) -> Any:
        Ghost.first = Ghost.first or print_id
        return super().done(context, Ghost.first)


def test_the_job_of_before_a_clear_is_another_result(service: PrintingService) -> None:
    Ghost.first = None
    make = partial(plain, service, Ghost, resume_policy=AT_ONCE)
    same_as = partial(resuming, service)
    report = check_operator(make, service.jobs, scenarios=["cleared, job done"], same_as=same_as)
    assert report["cleared, job done"].result == "other result"
    assert report["cleared, job done"].detail.startswith("['job 1 of 2', ")


def test_values_that_differ_from_run_to_run_can_be_made_comparable(service: PrintingService) -> None:
    class Dated(PrintOperator):
        def done(self, context: Any, print_id: Any) -> Any:
            return super().done(context, print_id), context["ti"].try_number

    make = partial(plain, service, Dated)
    (scenario,) = scenarios = ["crash after all is done"]
    assert check_operator(make, service.jobs, scenarios=scenarios)[scenario].result == "other result"
    report = check_operator(make, service.jobs, scenarios=scenarios, normalise=lambda value: value[0][0])
    assert report[scenario].result == "same result"


def test_ids_are_replaced_where_they_are_ids() -> None:
    value = {"id": 127, "url": "http://127.0.0.1:8/jobs/127", "of": (1127, "127", "x127", True)}
    assert comparable(value, [127], "run-9") == {
        "id": "the job",
        "url": "http://127.0.0.1:8/jobs/the job",
        "of": [1127, "the job", "x127", True],
    }
    assert comparable([1, 2, "run-9"], [1, 2], "run-9") == ["job 1 of 2", "the job", "the run"]
    assert comparable(True, [1], "run") is True


# --- how attempts die -------------------------------------------------------------------------------------------


class Tidy(PrintOperator):
    """It cancels its job in a finally, which a killed process does not."""

    def wait(self, print_id: int) -> None:
        try:
            super().wait(print_id)
        finally:
            self.client.call("DELETE", f"/prints/{print_id}")


def test_what_a_dead_attempt_still_asks_for_is_not_done(service: PrintingService) -> None:
    report = check_operator(partial(plain, service, Tidy), service.jobs, scenarios=["crash while waiting"])
    assert cells(report) == {"crash while waiting": "2 / 2 / 0, same result"}


class Saving(PrintOperator):
    """It saves that it is over in a finally."""

    def wait(self, print_id: int) -> None:
        from airflow.sdk import get_current_context

        store: Any = get_current_context()["task_state_store"]  # type: ignore[typeddict-item]
        if store.get("over"):
            raise RuntimeError("the dead attempt has written")
        try:
            super().wait(print_id)
        finally:
            store.set("over", True)


def test_what_a_dead_attempt_still_saves_is_not_saved(service: PrintingService) -> None:
    report = check_operator(partial(plain, service, Saving), service.jobs, scenarios=["crash while waiting"])
    assert cells(report) == {"crash while waiting": "2 / 2 / 0, same result"}


class Stubborn(PrintOperator):
    """It goes on after SIGTERM."""

    def on_kill(self) -> None:
        """Do nothing."""


def test_an_attempt_that_goes_on_after_sigterm_is_killed(service: PrintingService) -> None:
    make = partial(plain, service, Stubborn)
    report = check_operator(make, service.jobs, scenarios=["deploy", "marked failed"], grace=0.05)
    assert cells(report) == {"deploy": "2 / 2 / 0, same result", "marked failed": "1 / 1 / 0, a job lives on"}
    assert report["marked failed"].detail == "killed"


class Endless(PrintOperator):
    """It waits for ever in a retry."""

    def wait(self, print_id: int) -> None:
        if self._seen():
            threading.Event().wait()
        super().wait(print_id)

    def _seen(self) -> bool:
        from airflow.sdk import get_current_context

        context: Any = get_current_context()
        return bool(context["ti"].try_number > 1)


def test_an_attempt_that_does_not_end_hangs(service: PrintingService) -> None:
    make = partial(plain, service, Endless)
    report = check_operator(make, service.jobs, scenarios=["crash after all is done"], seconds=0.5)
    assert report["crash after all is done"].result == "hangs"


def test_the_service_may_be_in_the_thread_of_the_attempt() -> None:
    jobs = ServiceJobs(running="on", succeeded="ok", failed="no", cancelled="off")

    class InProcess(BaseOperator):
        def execute(self, context: Any) -> str:
            store = context["task_state_store"]
            job = store.get("job")
            if job is None:
                jobs.begin()
                job = jobs.make(f"job-{len(jobs.jobs)}").id
                store.set("job", job)
            while (state := jobs.ask(job)) == "on":
                pass
            return str(state)

    report = check_operator(lambda: InProcess(task_id="task"), jobs, scenarios=list(SCENARIOS)[:4])
    assert cells(report) == {
        "plain": "1 / 1 / 0, same result",
        "crash while waiting": "1 / 1 / 0, same result",
        "crash after all is done": "1 / 1 / 0, same result",
        "crash in the window": "2 / 2 / 0, same result",
    }


# --- what is refused --------------------------------------------------------------------------------------------


def test_handlers_and_the_service_are_as_before(service: PrintingService) -> None:
    def mine(*_: Any) -> None: ...

    before = signal.signal(signal.SIGTERM, mine)
    try:
        check_operator(partial(plain, service), service.jobs, scenarios=["crash while waiting"])
        assert signal.getsignal(signal.SIGTERM) is mine
    finally:
        signal.signal(signal.SIGTERM, before)
    assert signal.getsignal(signal.SIGUSR1) == signal.SIG_DFL
    service.jobs.tell("request")


def test_in_another_thread_it_is_refused(service: PrintingService) -> None:
    errors: list[BaseException] = []

    def check() -> None:
        try:
            check_operator(partial(plain, service), service.jobs)
        except CannotKillError as error:
            errors.append(error)

    thread = threading.Thread(target=check, name="tests")
    thread.start()
    thread.join()
    assert "the thread 'tests'" in str(errors[0])


def test_on_a_platform_without_such_signals_it_is_refused(
    service: PrintingService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(signal, "pthread_kill")
    with pytest.raises(CannotKillError, match=r"no signal\.pthread_kill"):
        check_operator(partial(plain, service), service.jobs)


def test_a_service_that_does_not_tell_is_noticed(service: PrintingService) -> None:
    with pytest.raises(NeverFiredError, match=r"'asked' number 50\. It returned, and the service had told of 7"):
        check_operator(partial(plain, service), service.jobs, scenarios=["crash while waiting"], at_question=50)


def test_an_operator_that_fails_by_itself_is_not_compared(service: PrintingService) -> None:
    class Broken(PrintOperator):
        def wait(self, print_id: int) -> None:
            raise RuntimeError("no permission")

    with pytest.raises(UndisturbedRunError, match="RuntimeError: no permission"):
        check_operator(partial(plain, service, Broken), service.jobs)


@pytest.mark.parametrize(
    ("scenario", "message"),
    [
        ("crash", "There is no scenario 'crash'"),
        ("not waiting", "The scenario 'not waiting' needs not_waiting="),
        ("deferrable", "The scenario 'deferrable' needs deferrable="),
    ],
)
def test_a_scenario_that_cannot_be_played_is_refused(service: PrintingService, scenario: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check_operator(partial(plain, service), service.jobs, scenarios=[scenario])


def test_without_options_what_needs_them_is_left_out() -> None:
    jobs = ServiceJobs(running="on", succeeded="ok", failed="no", cancelled="off")

    class Quick(BaseOperator):
        template_fields = ("what",)

        def __init__(self, what: str, **options: Any) -> None:
            super().__init__(**options)
            self.what = what

        def execute(self, context: Any) -> None:
            jobs.make(len(jobs.jobs))
            while jobs.ask(len(jobs.jobs) - 1) == "on":
                pass

    report = check_operator(lambda: Quick(task_id="task", what="a"), jobs)
    assert set(SCENARIOS) - set(report) == {"not waiting", "deferrable", "unknown status"}
