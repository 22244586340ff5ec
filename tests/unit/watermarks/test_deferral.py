"""A body that defers: its window is committed by the process that goes on, or never."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta, timezone
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from airflow.sdk import Asset, BaseOperator, get_current_context
from airflow.sdk.exceptions import AirflowFailException, TaskDeferralError, TaskDeferralTimeout, TaskDeferred
from airflow.triggers.base import StartTriggerArgs

from airflow_resume import PollPolicy, ResumePolicy, watermark
from airflow_resume.errors import WindowNotReadError
from airflow_resume.testing import (
    CrashWorld,
    FakeJobs,
    TaskAttempt,
    World,
    explore_crashes,
    task_context,
)
from airflow_resume.watermarks import Cursor
from airflow_resume_mixins import ResumableJobMixin, WatermarkMixin
from tests.support.jobs.hooks import LookUpHooks, equipped
from tests.support.kit.raised import having

ORDERS = Asset("orders")
START = datetime(2026, 1, 1, tzinfo=timezone.utc)
KEY = "resume.watermark.watermark"


class Clock:
    def __init__(self) -> None:
        self.hour = 1

    def __call__(self) -> datetime:
        return START + timedelta(hours=self.hour)


@pytest.fixture
def clock() -> Clock:
    return Clock()


def mark_over(clock: Clock, **options: Any) -> Any:
    return watermark(ORDERS, initial=START, delay=timedelta(0), now=clock, **options)


class Deferring(WatermarkMixin, BaseOperator):
    """Defers from execute_window, and goes on in `loaded`."""

    before: ClassVar[Any] = staticmethod(lambda window: None)
    """What is done before the deferral."""
    seen: ClassVar[list[Any]]

    def execute_window(self, context: Any, window: Any) -> Any:
        type(self).before(window)
        type(self).seen.append(("begun", str(window), window.is_retry))
        self.defer(trigger="a trigger", method_name="loaded", kwargs={"job": 7})  # type: ignore[arg-type]

    def loaded(self, context: Any, job: int, event: Any = None) -> Any:
        self.seen.append(("loaded", job, event))
        return "result"


class WithWindow(Deferring):
    after: ClassVar[Any] = staticmethod(lambda window: None)

    def loaded(self, context: Any, job: int, event: Any = None, *, window: Any) -> Any:  # type: ignore[override]
        self.seen.append(("loaded", str(window), window.is_retry))
        type(self).after(window)
        return "result"


def operator(kind: type[Deferring], mark: Any, **members: Any) -> type[Deferring]:
    made = {name: staticmethod(value) if callable(value) else value for name, value in members.items()}
    return type(kind.__name__, (kind,), {"watermark": mark, "seen": [], **made})


def attempt_of(kind: Any, world: World | None = None, **options: Any) -> TaskAttempt:
    return task_context(lambda: kind(task_id="load"), world=world or World(), **options)


def defer(attempt: TaskAttempt) -> TaskDeferred:
    with attempt, pytest.raises(TaskDeferred) as deferred:
        attempt.ti.task.execute(attempt.context)
    return deferred.value


def go_on(
    kind: Any, attempt: TaskAttempt, method: str = "loaded", kwargs: dict[str, Any] | None = None
) -> tuple[Any, TaskAttempt]:
    """In another process, and in the same try."""
    resumed = attempt.reschedule()
    with resumed:
        given = {"job": 7, "event": "done"} if kwargs is None else kwargs
        return resumed.ti.task.resume_execution(method, given, resumed.context), resumed


def stands_at(attempt: TaskAttempt) -> Any:
    return attempt.asset_stores[ORDERS].values.get(KEY, {}).get("at")


AN_HOUR = "[2026-01-01T00:00:00+00:00, 2026-01-01T01:00:00+00:00)"


@pytest.mark.parametrize("kind", [Deferring, WithWindow])
def test_the_window_is_committed_when_the_method_that_goes_on_has_returned(kind: Any, clock: Clock) -> None:
    made = operator(kind, mark_over(clock))
    attempt = attempt_of(made)
    defer(attempt)
    assert stands_at(attempt) == START.isoformat()
    clock.hour = 5  # the trigger took long
    result, resumed = go_on(made, attempt)
    assert result == "result"
    assert stands_at(resumed) == "2026-01-01T01:00:00+00:00"
    last = ("loaded", 7, "done") if kind is Deferring else ("loaded", AN_HOUR, True)
    assert made.seen == [("begun", AN_HOUR, False), last]
    resumed.succeed()
    assert resumed.world.events[0].extra["watermark"]["watermark"]["to"] == "2026-01-01T01:00:00+00:00"


def test_a_second_deferral_commits_nothing_and_the_end_does(clock: Clock) -> None:
    class Twice(Deferring):
        def loaded(self, context: Any, job: int, event: Any = None) -> Any:
            self.defer(trigger="another", method_name="published")  # type: ignore[arg-type]

        def published(self, context: Any, event: Any = None) -> str:
            return "published"

    made = operator(Twice, mark_over(clock))
    attempt = attempt_of(made)
    defer(attempt)
    with pytest.raises(TaskDeferred):
        go_on(made, attempt)
    assert stands_at(attempt) == START.isoformat()
    result, resumed = go_on(made, attempt, "published", {})
    assert (result, stands_at(resumed)) == ("published", "2026-01-01T01:00:00+00:00")


@pytest.mark.parametrize(
    ("error", "raised"), [("Trigger timeout", TaskDeferralTimeout), ("Trigger failure", TaskDeferralError)]
)
def test_a_trigger_that_fails_commits_nothing_and_the_retry_has_the_same_window(
    clock: Clock, error: str, raised: type[Exception]
) -> None:
    made = operator(Deferring, mark_over(clock))
    attempt = attempt_of(made)
    defer(attempt)
    with pytest.raises(raised):
        go_on(made, attempt, "__fail__", {"error": error, "traceback": ["..."]})
    assert stands_at(attempt) == START.isoformat()
    clock.hour = 5
    retry = attempt.retry()
    defer(retry)
    assert made.seen[-1] == ("begun", AN_HOUR, True)
    go_on(made, retry)
    assert stands_at(retry) == "2026-01-01T01:00:00+00:00"


def test_a_method_that_raises_commits_nothing(clock: Clock) -> None:
    def fail(window: Any) -> None:
        raise ValueError("the job failed")

    made = operator(WithWindow, mark_over(clock), after=fail)
    attempt = attempt_of(made)
    defer(attempt)
    with pytest.raises(ValueError, match="the job failed"):
        go_on(made, attempt)
    assert stands_at(attempt) == START.isoformat()


def test_a_run_that_is_cleared_goes_on_in_the_window_that_it_had(clock: Clock) -> None:
    made = operator(WithWindow, mark_over(clock))
    attempt = attempt_of(made)
    defer(attempt)
    _, resumed = go_on(made, attempt)
    clock.hour = 9
    cleared = resumed.clear()
    defer(cleared)
    go_on(made, cleared)
    assert {text for _, text, _ in made.seen} == {AN_HOUR}
    assert stands_at(cleared) == "2026-01-01T01:00:00+00:00"


# --- nothing was begun ----------------------------------------------------------------------------------------


def test_what_came_after_an_empty_window_belongs_to_the_next_run(clock: Clock) -> None:
    clock.hour = 0
    made = operator(WithWindow, mark_over(clock))
    attempt = attempt_of(made)
    defer(attempt)  # nothing is new, and it defers all the same
    clock.hour = 3
    go_on(made, attempt)
    assert stands_at(attempt) == START.isoformat()
    following = attempt.next_run()
    defer(following)
    assert made.seen[-1][1] == "[2026-01-01T00:00:00+00:00, 2026-01-01T03:00:00+00:00)"


def test_state_that_was_cleared_while_it_waited_leaves_the_mark(clock: Clock) -> None:
    made = operator(Deferring, mark_over(clock))
    attempt = attempt_of(made)
    defer(attempt)
    attempt.world.clear_state()
    clock.hour = 3
    go_on(made, attempt)
    assert stands_at(attempt) == START.isoformat()


class FromTrigger(WithWindow):
    start_from_trigger = True
    start_trigger_args = StartTriggerArgs(trigger_cls="a.Trigger", next_method="loaded", timeout=None)  # type: ignore[assignment]


def test_an_operator_that_starts_from_its_trigger_begins_where_it_goes_on(clock: Clock) -> None:
    made = operator(FromTrigger, mark_over(clock))
    attempt = attempt_of(made)
    with attempt:
        assert attempt.ti.task.resume_execution("loaded", {"job": 1}, attempt.context) == "result"
    assert made.seen == [("loaded", AN_HOUR, False)]
    assert stands_at(attempt) == "2026-01-01T01:00:00+00:00"


def test_one_that_starts_from_its_trigger_without_a_window_is_refused_when_it_is_made(clock: Clock) -> None:
    class Blind(Deferring):
        start_from_trigger = True
        start_trigger_args = FromTrigger.start_trigger_args

    made = operator(Blind, mark_over(clock))
    with pytest.raises(TypeError, match=r"execute_window is not called.*\nGive loaded\(\) a parameter `window`"):
        made(task_id="load")


def test_one_that_says_so_later_is_refused_before_anything_is_begun(clock: Clock) -> None:
    made = operator(Deferring, mark_over(clock))
    attempt = attempt_of(made)
    with (
        attempt,
        pytest.raises(WindowNotReadError, match="execute_window is not called", check=having(problem="deferred")),
    ):
        attempt.ti.task.start_from_trigger = True
        attempt.ti.task.resume_execution("loaded", {"job": 1}, attempt.context)
    assert attempt.task_store.values == {}


# --- what the body says ---------------------------------------------------------------------------------------


IDS = Cursor.int()


def ids(**options: Any) -> Any:
    return watermark(ORDERS, initial=0, **options)


def test_an_observed_mark_follows_what_the_method_that_goes_on_has_seen() -> None:
    made = operator(WithWindow, ids(), after=lambda window: list(window.track([{"id": 4}, {"id": 9}], "id")))
    attempt = attempt_of(made)
    defer(attempt)
    go_on(made, attempt)
    assert stands_at(attempt) == "9"


def test_a_token_is_said_in_the_method_that_goes_on() -> None:
    mark = watermark(ORDERS, initial="first", cursor=Cursor.token())
    made = operator(WithWindow, mark, after=lambda window: window.advance("second"))
    attempt = attempt_of(made)
    defer(attempt)
    go_on(made, attempt)
    assert stands_at(attempt) == "second"


@pytest.mark.parametrize("mark", [ids(), watermark(ORDERS, initial="first", cursor=Cursor.token())])
def test_a_method_that_never_looks_is_told_how(mark: Any) -> None:
    made = operator(Deferring, mark)
    attempt = attempt_of(made)
    defer(attempt)
    with pytest.raises(
        WindowNotReadError, match="\nGive loaded\\(\\) a parameter `window`", check=having(problem="unread")
    ):
        go_on(made, attempt)
    assert stands_at(attempt) in {"0", "first"}


def test_one_that_has_the_window_and_never_looks_is_told_the_usual() -> None:
    made = operator(WithWindow, ids())
    attempt = attempt_of(made)
    defer(attempt)
    with pytest.raises(WindowNotReadError, match="neither iterated", check=having(problem="unread")) as raised:
        go_on(made, attempt)
    assert "parameter `window`" not in str(raised.value)


ROWS = [{"id": 4, "at": START}]


@pytest.mark.parametrize(
    ("before", "words"),
    [
        (lambda window: next(window.track(ROWS, "at")), "iterates track"),
        (lambda window: next(window.split(timedelta(minutes=20))), "iterates track\\(\\) or split"),
        (lambda window: window.advance(START), "has called advance"),
        (lambda window: window.fail_from(START), "has called fail_from"),
        (lambda window: window.sampled(), "has called sampled"),
    ],
)
def test_what_would_be_lost_with_the_process_is_refused(clock: Clock, before: Any, words: str) -> None:
    made = operator(Deferring, mark_over(clock), before=before)
    attempt = attempt_of(made)
    with attempt, pytest.raises(WindowNotReadError, match=words, check=having(problem="deferred")) as raised:
        attempt.ti.task.execute(attempt.context)
    assert isinstance(raised.value, AirflowFailException)  # another try would end alike
    assert stands_at(attempt) == START.isoformat()


@pytest.mark.parametrize(
    "before", [lambda window: list(window.track([{"id": 4}], "id")), lambda window: window.observe(4)]
)
def test_what_an_observed_mark_has_seen_would_be_lost_as_well(before: Any) -> None:
    made = operator(WithWindow, ids(), before=before)
    attempt = attempt_of(made)
    with (
        attempt,
        pytest.raises(
            WindowNotReadError,
            match=r"has seen rows.*\nCall it in the method that continues",
            check=having(problem="deferred"),
        ),
    ):
        attempt.ti.task.execute(attempt.context)


def test_rows_that_were_read_to_their_end_are_no_matter_for_a_mark_that_follows_the_window(clock: Clock) -> None:
    made = operator(Deferring, mark_over(clock), before=lambda window: list(window.track(ROWS, "at")))
    attempt = attempt_of(made)
    defer(attempt)
    go_on(made, attempt)
    assert stands_at(attempt) == "2026-01-01T01:00:00+00:00"


def test_slices_that_are_done_stay_done(clock: Clock) -> None:
    made = operator(Deferring, mark_over(clock), before=lambda window: list(window.split(timedelta(minutes=20))))
    attempt = attempt_of(made)
    defer(attempt)
    assert stands_at(attempt) == "2026-01-01T00:40:00+00:00"
    go_on(made, attempt)
    assert stands_at(attempt) == "2026-01-01T01:00:00+00:00"


def test_a_trigger_that_ends_the_task_itself_is_refused(clock: Clock) -> None:
    class Ends(Deferring):
        def execute_window(self, context: Any, window: Any) -> Any:
            self.defer(trigger="ends the task", method_name=None)  # type: ignore[arg-type]

    attempt = attempt_of(operator(Ends, mark_over(clock)))
    with attempt, pytest.raises(WindowNotReadError, match="would never be committed", check=having(problem="deferred")):
        attempt.ti.task.execute(attempt.context)


# --- without the mixin ----------------------------------------------------------------------------------------


class Plain(BaseOperator):
    mark: ClassVar[Any]
    deferrable: ClassVar[bool] = True

    def execute(self, context: Any) -> None:
        with self.mark.open(context, deferrable=self.deferrable):
            self.defer(trigger="a trigger", method_name="loaded")  # type: ignore[arg-type]

    def loaded(self, context: Any, event: Any = None) -> str:
        with self.mark.reopen(context) as window:
            return str(window)


def plain(mark: Any, **members: Any) -> Any:
    kind = type("Load", (Plain,), {"mark": mark, **members})
    return lambda: kind(task_id="load", inlets=[ORDERS], outlets=[ORDERS], max_active_tis_per_dag=1)


def test_a_plain_operator_reopens_its_window(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    attempt = task_context(plain(mark_over(clock)))
    defer(attempt)
    result, resumed = go_on(None, attempt, "loaded", {"event": "done"})
    assert (result, stands_at(resumed)) == (AN_HOUR, "2026-01-01T01:00:00+00:00")
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def test_a_window_that_is_left_by_a_deferral_unawares_is_warned_of(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    attempt = task_context(plain(mark_over(clock), deferrable=False))
    defer(attempt)
    assert "Continue in loaded() with reopen(context)" in caplog.text


def test_a_function_that_defers_is_refused(clock: Clock) -> None:
    mark = mark_over(clock)

    def load(window: Any) -> None:
        raise TaskDeferred(trigger="a trigger", method_name="execute")

    with (
        task_context(assets=[ORDERS]) as attempt,
        pytest.raises(
            WindowNotReadError, match="\nWrite an operator with WatermarkMixin", check=having(problem="deferred")
        ),
    ):
        mark(load)()
    assert stands_at(attempt) == START.isoformat()


# --- together with others -------------------------------------------------------------------------------------

FAST = ResumePolicy(poll=PollPolicy(interval=timedelta(0), max_interval=timedelta(0), timeout=timedelta(hours=1)))


class _Jobs(LookUpHooks):
    def execute(self, context: Any) -> Any:
        return WatermarkMixin.execute(self, context)  # type: ignore[arg-type]

    def execute_window(self, context: Any, window: Any) -> Any:
        mixed: Any = self
        return mixed.execute_resumable(context)

    def cancel_job(self, external_id: Any, context: Any) -> None:
        self.jobs.cancel(external_id)

    def job_trigger(self, external_id: Any, context: Any) -> Any:
        return f"trigger for {external_id}"


class WindowFirst(_Jobs, WatermarkMixin, ResumableJobMixin, BaseOperator): ...


class JobFirst(_Jobs, ResumableJobMixin, WatermarkMixin, BaseOperator): ...


@pytest.mark.parametrize("kind", [WindowFirst, JobFirst])
def test_a_job_over_a_window_that_is_waited_for_in_the_triggerer_moves_the_mark_when_it_has_ended(
    kind: Any, clock: Clock
) -> None:
    jobs = FakeJobs(scripts=[["RUNNING", "RUNNING", "SUCCEEDED"]])
    made = type("Job", (kind,), {"watermark": mark_over(clock)})

    def make() -> Any:
        return equipped(made(task_id="load", resume_policy=FAST), jobs=jobs, deferrable=True)

    attempt = task_context(make)
    deferred = defer(attempt)
    assert (deferred.trigger, deferred.method_name) == ("trigger for job-0", "resume_complete")
    jobs.jobs[0].states = ["SUCCEEDED"]
    clock.hour = 4
    result, resumed = go_on(None, attempt, "resume_complete", {"event": "done"})
    assert (result, len(jobs.jobs)) == ({"job": "job-0"}, 1)
    assert stands_at(resumed) == "2026-01-01T01:00:00+00:00"


@pytest.mark.parametrize("kind", [WindowFirst, JobFirst])
def test_a_job_whose_trigger_took_too_long_leaves_the_mark(kind: Any, clock: Clock) -> None:
    jobs = FakeJobs(scripts=[["RUNNING", "RUNNING"]])
    made = type("Job", (kind,), {"watermark": mark_over(clock)})
    attempt = task_context(lambda: equipped(made(task_id="load", resume_policy=FAST), jobs=jobs, deferrable=True))
    defer(attempt)
    with pytest.raises(TaskDeferralTimeout):
        go_on(None, attempt, "__fail__", {"error": "Trigger timeout"})
    assert stands_at(attempt) == START.isoformat()


def test_a_crash_at_any_point_of_both_halves_loads_every_row_before_the_mark_passes_it() -> None:
    rows = range(1, 4)

    class Load(WatermarkMixin, BaseOperator):
        watermark = ids()
        world: Any

        def execute_window(self, context: Any, window: Any) -> Any:
            self.defer(trigger="a trigger", method_name="loaded")  # type: ignore[arg-type]

        def loaded(self, context: Any, window: Any) -> None:
            with self.world.effect("load"):
                self.world.sink.update(row["id"] for row in window.track([{"id": row} for row in rows], "id"))

    def task(world: CrashWorld) -> None:
        def make() -> Any:
            made = Load(task_id="load")
            object.__setattr__(made, "world", world)
            return made

        attempt = task_context(make, world=world.airflow)
        with attempt:
            try:
                attempt.ti.task.execute(attempt.context)
            except TaskDeferred as deferred:
                method = deferred.method_name
        go_on(None, attempt, method, {})

    def mark_is_not_beyond_the_rows(outcome: Any) -> None:
        assert outcome.world.airflow.assets["orders"].rows.values_by_key()[KEY]["at"] == "3"
        assert outcome.world.sink == set(rows)

    report = explore_crashes(
        task, world=lambda: CrashWorld(airflow=World(), sink=set()), oracle=mark_is_not_beyond_the_rows, max_pairs=200
    )
    assert report.ways > 200


def test_airflows_own_runner_goes_on_in_the_window(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    import structlog
    from airflow.sdk.execution_time import task_runner

    made = operator(WithWindow, mark_over(clock))
    attempt = attempt_of(made)
    runner: Any = task_runner
    monkeypatch.setattr(runner, "_run_task_state_change_callbacks", lambda *_: None)

    def run(attempt: TaskAttempt, method: str | None, kwargs: Any) -> Any:
        ti: Any = attempt.ti
        ti._ti_context_from_server = SimpleNamespace(next_method=method, next_kwargs=kwargs)
        with attempt:
            return runner._execute_task(get_current_context(), ti, structlog.get_logger())

    with pytest.raises(TaskDeferred) as deferred:
        run(attempt, None, None)
    from airflow.sdk.serde import serialize

    resumed = attempt.reschedule()
    assert run(resumed, deferred.value.method_name, serialize(deferred.value.kwargs)) == "result"
    assert stands_at(resumed) == "2026-01-01T01:00:00+00:00"
