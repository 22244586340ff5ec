"""The tests that operators on Airflow's mixin already have, played on both mixins. `pytest -s` prints the table.

Their contexts are plain dicts or mocks, their stores have `get(key)` and `set(key, value)` and nothing else, and their
status hooks give one answer for ever. A line where both mixins differ says why they should.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, NamedTuple
from unittest.mock import MagicMock, patch

import pytest
from airflow.providers.apache.livy.hooks.livy import BatchState
from airflow.providers.apache.livy.operators.livy import LivyOperator
from airflow.sdk import BaseOperator
from airflow.sdk import ResumableJobMixin as AirflowResumableJobMixin
from airflow.sdk._shared.observability.metrics import stats

from airflow_resume import PollPolicy, ResumePolicy
from airflow_resume.testing import FakeJobs, task_context
from airflow_resume_mixins import ResumableJobMixin
from tests.support.jobs.hooks import JobHooks, equipped

NOW = timedelta(0)
POLICY = ResumePolicy(poll=PollPolicy(interval=NOW, max_interval=NOW, jitter=0), confirm_gone=NOW)


class AskedForEverError(BaseException):
    """The status was asked for a hundred times."""


class GoneError(Exception):
    status_code = 404


class Hooks:
    """An operator as the tests of Airflow's mixin have one: it keeps what was asked of it."""

    external_id_key = "test_job_id"

    happened: list[str]
    next_id: Any
    statuses: dict[str, Any]
    questions = 0

    def submit_job(self, context: Any) -> Any:
        self.happened.append(f"submit {self.next_id}")
        return self.next_id

    def get_job_status(self, external_id: Any, context: Any) -> Any:
        self.questions += 1
        if self.questions > 100:
            raise AskedForEverError
        status = self.statuses.get(external_id, "UNKNOWN")
        if isinstance(status, Exception):
            raise status
        return status

    def is_job_active(self, status: str) -> bool:
        return status in {"RUNNING", "PENDING"}

    def is_job_succeeded(self, status: str) -> bool:
        return status == "SUCCEEDED"

    def poll_until_complete(self, external_id: Any, context: Any) -> None:
        self.happened.append(f"poll {external_id}")

    def get_job_result(self, external_id: Any, context: Any) -> Any:
        return f"result of {external_id}"


class Airflows(Hooks, AirflowResumableJobMixin, BaseOperator):
    pass


class Ours(Hooks, ResumableJobMixin, BaseOperator):
    pass


class OursLivy(ResumableJobMixin, LivyOperator):  # type: ignore[misc]
    pass


class Store:
    """The store that such tests write for themselves."""

    def __init__(self, **kept: Any) -> None:
        self.kept = kept

    def get(self, key: str) -> Any:
        return self.kept.get(key)

    def set(self, key: str, value: Any) -> None:
        self.kept[key] = value


Kind = type[Any]


def operator(kind: Kind, **options: Any) -> Any:
    policy = {"resume_policy": POLICY} if kind is Ours else {}
    made = kind(task_id="test_task", **policy, **options)
    return equipped(made, happened=[], next_id="job-1", statuses={"job-1": "SUCCEEDED"})


def ends(made: Any, context: Any) -> str:
    """What the operator did, and what it returned or raised."""
    try:
        end = str(made.execute_resumable(context))
    except (Exception, AskedForEverError) as error:  # noqa: BLE001
        end = type(error).__name__
    return ", ".join([*made.happened, end])


def prior(status: Any, *, following: Any = "SUCCEEDED") -> Callable[[Kind], str]:
    """A retry that finds the id of a job with this status; a job that it submits has the following one."""

    def play(kind: Kind) -> str:
        made = operator(kind)
        made.next_id = "job-2"
        made.statuses = {"job-1": status, "job-2": following}
        return ends(made, {"task_state_store": Store(test_job_id="job-1")})

    return play


def after_the_poll(status: Any) -> Callable[[Kind], str]:
    """A first attempt whose way of waiting returns, and then the status is this."""

    def play(kind: Kind) -> str:
        made = operator(kind)
        made.statuses = {"job-1": status}
        return ends(made, {"task_state_store": Store()})

    return play


def saved_when_polling(kind: Kind) -> str:
    made, store = operator(kind), Store()
    made.poll_until_complete = lambda _id, _context: made.happened.append(f"saved {store.get('test_job_id')}")
    return ends(made, {"task_state_store": store})


def own_key(kind: Kind) -> str:
    store = Store()
    ends(operator(type("Own", (kind,), {"external_id_key": "mine"})), {"task_state_store": store})
    return f"saved {store.get('mine')}"


def no_id(kind: Kind) -> str:
    made = operator(kind)
    made.next_id = None
    return ends(made, {"task_state_store": Store()})


def not_durable(store: Callable[[], Any]) -> Callable[[Kind], str]:
    def play(kind: Kind) -> str:
        made, used = operator(kind, durable=False), store()
        made.next_id = "job-2"
        made.statuses = {"job-1": "RUNNING", "job-2": "SUCCEEDED"}
        return f"{ends(made, {'task_state_store': used})}, kept {list(used.kept)}"

    return play


class DeletingStore(Store):
    def delete(self, key: str) -> None:
        self.kept.pop(key, None)


def poll_raises(kind: Kind) -> str:
    made, store = operator(kind), Store()
    made.statuses = {"job-1": "FAILED"}
    made.poll_until_complete = MagicMock(side_effect=RuntimeError("job-1 failed"))
    return f"{ends(made, {'task_state_store': store})}, saved {store.get('test_job_id')}"


def submit_raises(kind: Kind) -> str:
    made = operator(kind)
    made.statuses = {"job-1": "FAILED"}
    made.submit_job = MagicMock(side_effect=ValueError("bad spec"))
    return ends(made, {"task_state_store": Store(test_job_id="job-1")})


def counters(status: str | None, **context: Any) -> Callable[[Kind], str]:
    """The counters that move, and their tags, when there is a job with this status, or no job (None)."""

    def play(kind: Kind) -> str:
        made = operator(kind)
        made.next_id = "job-2"
        made.statuses = {"job-1": status, "job-2": "SUCCEEDED"}
        store = Store() if status is None else Store(test_job_id="job-1")
        with patch.object(stats, "incr") as incr:
            ends(made, {"task_state_store": store, **context})
        moved = [call.args[0].removeprefix("resumable_job.") for call in incr.call_args_list]
        tags = {tuple(call.kwargs["tags"]) for call in incr.call_args_list}
        assert all(call.kwargs["tags"].get("operator", kind.__name__) == kind.__name__ for call in incr.call_args_list)
        return f"{'+'.join(moved)} {' '.join(sorted({name for names in tags for name in names}))}"

    return play


class TaggedTask:
    """A task instance of which only the tags are there."""

    stats_tags = {"dag_id": "d", "team_name": "ml"}  # noqa: RUF012


def twice_on_one_store(kind: Kind) -> str:
    store = Store()
    first = ends(operator(kind), {"ti": MagicMock(), "task_state_store": store})
    return f"{first}; {ends(operator(kind), {'ti': MagicMock(), 'task_state_store': store})}"


@contextmanager
def livy(kind: Kind, state: BatchState) -> Iterator[Any]:
    """The operator of a provider, whose hook is a mock that knows one state."""
    wrapped = OursLivy if kind is Ours else LivyOperator
    with patch.object(LivyOperator, "hook", new_callable=MagicMock) as hook:
        hook.post_batch.return_value = 7
        hook.get_batch_state.return_value = state
        hook.TERMINAL_STATES = [BatchState.SUCCESS, BatchState.ERROR]
        hook.get_batch.return_value = {"appId": "app"}
        yield wrapped(file="sparkapp", polling_interval=1, task_id="livy", deferrable=False)


def livy_ends(state: BatchState, context: Callable[[], Any]) -> Callable[[Kind], str]:
    def play(kind: Kind) -> str:
        with livy(kind, state) as made:
            try:
                end = str(made.execute(context()))
            except Exception as error:  # noqa: BLE001
                end = type(error).__name__
            return f"submitted {made.hook.post_batch.call_count}, {end}"

    return play


def livy_of_a_mocked_context(kind: Kind) -> str:
    """Only that it ends, and how: the id that a mock of a store answers with is nobody's."""
    return "returns" if "Error" not in livy_ends(BatchState.SUCCESS, MagicMock)(kind) else "raises"


class Line(NamedTuple):
    """A case of their tests, what is to come of it on either mixin, and why that differs."""

    play: Callable[[Kind], str]
    airflows: str
    ours: str
    meant: str = ""


def same(play: Callable[[Kind], str], outcome: str) -> Line:
    return Line(play, outcome, outcome)


FIRST = "submit job-1, poll job-1, result of job-1"
AGAIN = "submit job-2, poll job-2, result of job-2"
POLL_FAILS = "the poll should have raised: a job that is known to have failed is no success"

WAITED_FOR = "a job that says it runs is waited for, whatever the poll did"


def with_store(**context: Any) -> Callable[[Kind], str]:
    return lambda kind: ends(operator(kind), {"task_state_store": Store(), **context})


def mocked_ti(**kept: Any) -> Callable[[], Any]:
    return lambda: {"ti": MagicMock(), "task_state_store": Store(**kept)}


LINES = {
    # a first attempt
    "the first attempt": same(with_store(), FIRST),
    "the id is saved before the poll": same(saved_when_polling, "submit job-1, saved job-1, result of job-1"),
    "a key of its own": same(own_key, "saved job-1"),
    "the poll raises": same(poll_raises, "submit job-1, RuntimeError, saved job-1"),
    "submit_job returns None": Line(
        no_id, "submit None, poll None, result of None", "submit None, JobHookError", "None is no id"
    ),
    # a retry
    "a retry, RUNNING": Line(prior("RUNNING"), "poll job-1, None", "poll job-1, AskedForEverError", WAITED_FOR),
    "a retry, PENDING": Line(prior("PENDING"), "poll job-1, None", "poll job-1, AskedForEverError", WAITED_FOR),
    "a retry, FAILED": same(prior("FAILED"), AGAIN),
    "a retry, KILLED": same(prior("KILLED"), AGAIN),
    "a retry, ERROR": same(prior("ERROR"), AGAIN),
    "a retry, SUCCEEDED": same(prior("SUCCEEDED"), "result of job-1"),
    "a retry, UNKNOWN": Line(prior("UNKNOWN"), AGAIN, "poll job-1, result of job-1", "unknown is not failed"),
    "a retry, not found": Line(prior(GoneError()), "GoneError", AGAIN, "a job that is gone is submitted again"),
    "a retry, the submit raises": Line(
        submit_raises, "ValueError", "LostSubmissionError", "an error is no proof that nothing was created"
    ),
    "executed twice on one store": Line(
        twice_on_one_store,
        f"{FIRST}; result of job-1",
        f"{FIRST}; UsageError",
        "two jobs of an attempt need two names; a retry has a store of its own",
    ),
    # the poll has returned, and a status hook with one answer for ever is asked
    "after the poll, FAILED": Line(
        after_the_poll("FAILED"), FIRST, "submit job-1, poll job-1, JobFailedError", POLL_FAILS
    ),
    "after the poll, the old job's FAILED": Line(
        prior("FAILED", following="FAILED"), AGAIN, "submit job-2, poll job-2, JobFailedError", POLL_FAILS
    ),
    "after the poll, RUNNING": Line(
        after_the_poll("RUNNING"), FIRST, "submit job-1, poll job-1, AskedForEverError", WAITED_FOR
    ),
    "after the poll, a word that no hook knows": same(after_the_poll("RELAUNCHING"), FIRST),
    "after the poll, a mock": same(after_the_poll(MagicMock()), FIRST),
    "after the poll, not found": same(after_the_poll(GoneError()), FIRST),
    "after the poll, the question raises": Line(
        after_the_poll(KeyError("state")),
        FIRST,
        "submit job-1, poll job-1, KeyError",
        "an error says nothing; the retry reconnects",
    ),
    # not durable
    "not durable": same(not_durable(DeletingStore), f"{AGAIN}, kept []"),
    "not durable, a retry": Line(
        not_durable(lambda: DeletingStore(test_job_id="job-1")),
        f"{AGAIN}, kept ['test_job_id']",
        f"{AGAIN}, kept []",
        "a job that nobody looks after must not come back",
    ),
    "not durable, a store that cannot delete": same(not_durable(Store), f"{AGAIN}, kept []"),
    # counters
    "counters, first": same(counters(None), "fresh_submit operator"),
    "counters, RUNNING": same(counters("RUNNING"), "reconnect_attempt+reconnect_success operator"),
    "counters, SUCCEEDED": same(counters("SUCCEEDED"), "reconnect_attempt+already_succeeded operator"),
    "counters, FAILED": same(counters("FAILED"), "reconnect_attempt+terminal_resubmit operator"),
    "counters, with a team": same(counters(None, ti=TaggedTask()), "fresh_submit operator team_name"),
    "counters, ti is a mock": same(counters(None, ti=MagicMock(stats_tags={})), "fresh_submit operator"),
    # contexts
    "no store": Line(
        lambda kind: ends(operator(kind), {}), FIRST, "NoStateStoreError", "without a store nothing can be promised"
    ),
    "ti has tags and nothing else": same(with_store(ti=TaggedTask()), FIRST),
    "ti is a mock": same(with_store(ti=MagicMock()), FIRST),
    "ti is a mock of its tags": same(with_store(ti=MagicMock(spec_set=["stats_tags"], stats_tags={})), FIRST),
    "ti and dag_run are mocks": same(with_store(ti=MagicMock(), dag_run=MagicMock()), FIRST),
    "the store is a mock without an id": same(
        with_store(ti=MagicMock(), task_state_store=MagicMock(**{"get.return_value": None})), FIRST
    ),
    "the store is a mock": same(with_store(ti=MagicMock(), task_state_store=MagicMock()), FIRST),
    # an operator of a provider
    "Livy, success": same(livy_ends(BatchState.SUCCESS, mocked_ti()), "submitted 1, 7"),
    "Livy, error": same(livy_ends(BatchState.ERROR, mocked_ti()), "submitted 1, AirflowException"),
    "Livy, a retry": same(livy_ends(BatchState.SUCCESS, mocked_ti(livy_batch_id=7)), "submitted 0, 7"),
    "Livy, the context is a mock": same(livy_of_a_mocked_context, "returns"),
}


@pytest.mark.parametrize("what", LINES)
def test_what_their_tests_see(what: str) -> None:
    line = LINES[what]
    seen = line.play(Airflows), line.play(Ours)
    print(f"| {what} | {seen[0]} | {seen[1]} | {line.meant or 'same'} |")
    assert seen == (line.airflows, line.ours)


def test_lines_that_differ_say_why() -> None:
    assert all((line.airflows != line.ours) is bool(line.meant) for line in LINES.values())


class WithoutPoll(ResumableJobMixin, BaseOperator):
    """It leaves the waiting to the engine, so nothing but its status says that the job has ended."""

    statuses: Iterator[str]

    def submit_job(self, context: Any) -> Any:
        return "job-1"

    def get_job_status(self, external_id: Any, context: Any) -> str:
        return next(self.statuses)

    def is_job_active(self, status: str) -> bool:
        return status == "RUNNING"

    def is_job_succeeded(self, status: str) -> bool:
        return status == "SUCCEEDED"


def test_without_a_poll_of_its_own_a_word_that_no_hook_knows_is_waited_out() -> None:
    made = WithoutPoll(task_id="test_task", resume_policy=POLICY)
    statuses = iter(["RELAUNCHING", "RELAUNCHING", "RUNNING", "SUCCEEDED"])
    equipped(made, statuses=statuses)
    context: Any = {"task_state_store": Store()}
    assert made.execute_resumable(context) == "job-1"
    assert list(statuses) == []


class Bypassing(JobHooks, ResumableJobMixin, BaseOperator):
    """Its `execute` submits and waits by itself, as `LivyOperator` does with `polling_interval=0`."""

    def execute(self, context: Any) -> Any:
        del context
        return "a result"


class Resuming(JobHooks, ResumableJobMixin, BaseOperator):
    pass


def test_an_execute_that_bypasses_the_mixin_is_told_when_it_has_ended(caplog: pytest.LogCaptureFixture) -> None:
    resuming = equipped(Resuming(task_id="task", resume_policy=POLICY), jobs=FakeJobs())
    for operator in (Bypassing(task_id="task"), resuming):
        with task_context() as attempt:
            operator.post_execute(attempt.context, operator.execute(attempt.context))
    (said,) = [line for line in caplog.messages if "has ended without ResumableJobMixin" in line]
    assert said.startswith("The execute() of Bypassing has ended")
