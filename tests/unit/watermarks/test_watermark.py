from __future__ import annotations

import asyncio
import logging
import threading
from datetime import datetime, timedelta, timezone
from typing import Any

import pendulum
import pytest
from airflow.sdk import Asset, task
from airflow.sdk.exceptions import AirflowSkipException

from airflow_resume import watermark
from airflow_resume.errors import (
    AssetNotDeclaredError,
    CursorTypeError,
    InvalidKeyError,
    SupersededError,
    UnreadableRecordError,
    UsageError,
    WatermarkInputError,
    WatermarkLostError,
    WatermarkMismatchError,
)
from airflow_resume.testing import TaskAttempt, explore_crashes, task_context
from airflow_resume.watermarks import Window
from airflow_resume.watermarks.commit import Outcome
from airflow_resume.watermarks.windows.window_run import WindowRun
from tests.support.kit.raised import having
from tests.support.watermarks.hourly_orders import (
    MARK,
    ORACLES,
    ORDERS,
    START,
    Clock,
    at,
    load_two_runs,
    orders,
    two_runs,
)

WINDOW = "resume.window.orders~~watermark"
NO_DELAY = timedelta(0)


def a_try(**options: Any) -> TaskAttempt:
    """The first attempt of a task that loads the orders."""
    return task_context(assets=[ORDERS], **options)


def run(attempt: TaskAttempt, mark: Any) -> Window:
    """Let the attempt succeed."""
    with mark.open(attempt.context) as window:
        pass
    attempt.succeed()
    return window  # type: ignore[no-any-return]


def marks(attempt: TaskAttempt) -> dict[str, Any]:
    """What is kept with the asset."""
    return attempt.asset_stores[ORDERS].values


# --- every crash ----------------------------------------------------------------------------------------------


def test_no_hour_is_skipped_and_the_mark_never_goes_back_whenever_the_attempts_die() -> None:
    report = explore_crashes(load_two_runs, oracle=ORACLES, world=two_runs, max_pairs=100)  # tests/crashes has more
    assert report.ways - report.pairs > len(report.points) > 40
    assert report.pairs > 50


# --- windows --------------------------------------------------------------------------------------------------


def test_a_run_loads_what_is_new_since_the_last_one() -> None:
    attempt, clock = a_try(), Clock(5)
    mark = orders(clock, delay=timedelta(hours=1))
    first = run(attempt, mark)
    assert (first.start, first.end, first.is_initial) == (at(0), at(4), True)
    clock.hour = 9
    second = run(attempt.next_run(), mark)
    assert (second.start, second.end, second.is_initial) == (at(4), at(8), False)
    assert marks(attempt)[MARK]["at"] == at(8).isoformat()
    assert [line["to"] for line in marks(attempt)[MARK]["history"]] == [at(4).isoformat(), at(8).isoformat()]


def test_a_retry_loads_the_same_window_although_time_has_passed() -> None:
    first, clock = a_try(), Clock(5)
    with pytest.raises(KeyError), orders(clock).open(first.context):
        raise KeyError
    clock.hour = 9
    window = run(first.retry(), orders(clock))
    assert (window.start, window.end, window.is_retry) == (at(0), at(5), True)
    assert marks(first)[MARK]["at"] == at(5).isoformat()


def test_a_cleared_run_loads_its_own_window_again_and_leaves_the_mark() -> None:
    first, clock = a_try(), Clock(5)
    run(first, orders(clock))
    clock.hour = 9
    run(first.next_run(), orders(clock))
    window = run(first.clear(), orders(clock))
    assert (window.start, window.end, window.is_replay) == (at(0), at(5), True)
    assert marks(first)[MARK]["at"] == at(9).isoformat()


def test_lookback_widens_the_reading_and_never_moves_the_mark_back() -> None:
    first, clock = a_try(), Clock(5)
    mark = orders(clock, lookback=timedelta(hours=2))
    assert run(first, mark).start == at(0)
    clock.hour = 6
    assert (run(first.next_run(), mark).start, marks(first)[MARK]["at"]) == (at(3), at(6).isoformat())


def test_lookback_never_reads_before_the_start() -> None:
    first, clock = a_try(), Clock(5)
    mark = orders(clock, lookback=timedelta(days=2))
    run(first, mark)
    clock.hour = 6
    assert run(first.next_run(), mark).start == at(0)


@pytest.mark.parametrize("hour", [0, -1])
def test_nothing_new_commits_nothing(hour: int) -> None:
    first, clock = a_try(), Clock(hour)
    assert run(first, orders(clock)).empty
    assert first.task_store.values[WINDOW]["state"] == "claimed"
    assert marks(first)[MARK]["at"] == at(0).isoformat()
    with pytest.raises(AirflowSkipException):
        run(first.retry(), orders(clock, when_empty="skip"))


def test_a_failing_body_moves_nothing() -> None:
    first = a_try()
    with pytest.raises(KeyError), orders(Clock(5)).open(first.context):
        raise KeyError
    assert marks(first)[MARK]["at"] == at(0).isoformat()
    assert first.task_store.values[WINDOW]["state"] == "pending"


# --- races and old attempts -----------------------------------------------------------------------------------


def test_a_slow_older_run_never_moves_the_mark_back() -> None:
    slow, clock = a_try(), Clock(5)
    mark = orders(clock)
    window = mark.begin(slow.context)
    clock.hour = 9
    run(slow.next_run(), mark)
    assert mark.commit(slow.context, window) is Outcome.NOOP
    assert marks(slow)[MARK]["at"] == at(9).isoformat()


def test_a_record_made_anew_fences_the_runs_from_before(caplog: pytest.LogCaptureFixture) -> None:
    slow, mark = a_try(), orders(Clock(5))
    window = mark.begin(slow.context)
    slow.asset_stores.delete(MARK)
    assert mark.commit(slow.context, window) is Outcome.FENCED
    assert MARK not in marks(slow)
    mark.begin(slow.next_run().context)
    assert mark.commit(slow.context, window) is Outcome.FENCED
    assert marks(slow)[MARK]["at"] == at(0).isoformat()
    assert "fenced" in caplog.text


def test_a_replaced_attempt_does_not_touch_the_mark() -> None:
    first, mark = a_try(), orders(Clock(5))
    window = mark.begin(first.context)
    first.task_store.replaced = True  # the asset's store would refuse as well, and is not even asked
    before = marks(first)
    with pytest.raises(SupersededError):
        mark.commit(first.context, window)
    assert marks(first) == before


def test_a_write_that_another_run_overwrote_is_merged_again() -> None:
    attempt, mark = a_try(), orders(Clock(5))
    window = mark.begin(attempt.context)
    store = attempt.asset_stores[ORDERS]
    lost = marks(attempt)[MARK]
    set_value = store.set
    overwritten: list[Any] = []

    def overwritten_once(key: str, value: Any) -> None:
        set_value(key, value)
        if not overwritten:
            overwritten.append(value)
            set_value(key, lost)

    store.set = overwritten_once  # type: ignore[method-assign]
    assert mark.commit(attempt.context, window) is Outcome.ADVANCED
    assert overwritten
    assert marks(attempt)[MARK]["at"] == at(5).isoformat()


# --- a mark that is missing or not ours -----------------------------------------------------------------------


@pytest.mark.parametrize(("on_missing", "start"), [("recover", 5), ("initial", 0)])
def test_a_lost_mark_is_noticed_and_follows_the_policy(on_missing: str, start: int) -> None:
    first, clock = a_try(), Clock(5)
    run(first, orders(clock))
    first.asset_stores.clear()
    second = first.next_run()
    clock.hour = 9
    with pytest.raises(WatermarkLostError, match=r"stood at '2026-01-01T05:00:00\+00:00'.*\n.*on_missing='recover'"):
        run(second, orders(clock))
    assert marks(first) == {}
    assert run(second.retry(), orders(clock, on_missing=on_missing)).start == at(start)


def test_a_mark_of_another_type_is_refused() -> None:
    first = a_try()
    first.asset_stores.set(MARK, {"v": 1, "key": MARK, "type": "int", "at": "5", "epoch": "e"})
    with pytest.raises(WatermarkMismatchError, match=r"a mark of 'int'.*'type': 'datetime'.*\n.*another name"):
        run(first, orders(Clock(5)))


def test_a_record_of_a_newer_version_stops_before_the_body() -> None:
    first = a_try()
    first.asset_stores.set(MARK, {"v": 2, "key": MARK})
    with pytest.raises(UnreadableRecordError, match="newer version"), orders(Clock(5)).open(first.context):
        raise AssertionError
    assert first.task_store.values == {}


def test_an_asset_that_is_not_declared_stops_before_the_body() -> None:
    context = task_context().context
    assert "asset_state_store" not in context
    with pytest.raises(AssetNotDeclaredError, match="inlets"), orders(Clock(5)).open(context):
        raise AssertionError


# --- values ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("initial", "message"),
    [
        (datetime(2026, 1, 1), "has no offset"),  # noqa: DTZ001
        ("yesterday", r"cursor=Cursor\.text\(\)"),
        (0.5, "float"),
        (("a", 1), r"Cursor\.keyset"),
        (None, r"cursor="),
    ],
)
def test_an_initial_value_that_is_no_point_in_time_is_refused_at_the_call(initial: Any, message: str) -> None:
    with pytest.raises(CursorTypeError, match=message):
        watermark(ORDERS, initial=initial)


@pytest.mark.parametrize("now", [datetime(2026, 1, 1), 5, "soon"])  # noqa: DTZ001
def test_a_clock_that_gives_no_point_in_time_stops_before_the_body(now: Any) -> None:
    mark = watermark(ORDERS, initial=START, delay=timedelta(0), now=lambda: now)
    with pytest.raises(CursorTypeError, match=r"now\(\)"), mark.open(a_try().context):
        raise AssertionError


def test_microseconds_offsets_and_the_epoch_are_exact() -> None:
    end = datetime(2026, 10, 25, 2, 30, 0, 123457, tzinfo=timezone(timedelta(hours=2)))
    mark = watermark(ORDERS, initial="1970-01-01T00:00:00Z", delay=timedelta(0), now=lambda: end)
    first = a_try()
    window = run(first, mark)
    assert (window.start.timestamp(), window.end) == (0.0, end)
    assert marks(first)[MARK]["at"] == "2026-10-25T00:30:00.123457+00:00"


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"name": "a b"}, InvalidKeyError),
        ({"delay": timedelta(-1)}, ValueError),
        ({"when_empty": "maybe"}, ValueError),
        ({"on_missing": "maybe"}, ValueError),
    ],
)
def test_bad_arguments_are_refused_at_the_call(arguments: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        watermark(ORDERS, initial=START, **arguments)
    with pytest.raises(TypeError, match="asset='orders' must be an Asset"):
        watermark("orders", initial=START)  # type: ignore[arg-type]


# --- decorating -----------------------------------------------------------------------------------------------


def test_the_decorated_function_gets_the_window_and_everything_else() -> None:
    @orders(Clock(5))  # type: ignore[untyped-decorator]
    def load(window: Window, table: str, ti: Any = None) -> tuple[datetime, str]:
        """Load."""
        return window.end, table

    with a_try() as attempt:
        assert load("t") == (at(5), "t")
    assert load.__doc__ == "Load."
    assert marks(attempt)[MARK]["at"] == at(5).isoformat()


def test_an_async_function_is_committed_when_it_is_done() -> None:
    attempt = a_try()

    @orders(Clock(5))  # type: ignore[untyped-decorator]
    async def load(window: Window[datetime]) -> datetime:
        assert marks(attempt)[MARK]["at"] == at(0).isoformat()
        return window.end

    with attempt:
        assert asyncio.run(load()) == at(5)
    assert marks(attempt)[MARK]["at"] == at(5).isoformat()


def test_the_windows_parameter_is_hidden_from_taskflow() -> None:
    mark = orders(Clock(5))

    @mark.task(retries=3)  # type: ignore[untyped-decorator]
    def load(window: Window, table: str) -> None: ...

    operator = load.override(task_id="x")("orders").operator
    assert (operator.inlets, operator.outlets) == ([ORDERS], [ORDERS])
    assert (operator.retries, operator.max_active_tis_per_dag) == (3, 1)


def test_the_wrong_order_of_decorators_names_the_right_one() -> None:
    with pytest.raises(UsageError, match="@task above"):

        @orders(Clock(5))  # type: ignore[untyped-decorator]
        @task
        def load(window: Window) -> None: ...


def test_a_function_that_cannot_be_decorated_says_why() -> None:
    with pytest.raises(TypeError, match="must take a parameter `window`"):
        orders(Clock(5))(lambda: None)

    def rows(window: Window) -> Any:
        yield window

    with pytest.raises(TypeError, match="is a generator"):
        orders(Clock(5))(rows)


def test_the_log_says_what_became_of_the_window(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        run(a_try(), orders(Clock(5)))
    assert "the first" in caplog.messages[0]
    assert caplog.messages[1].endswith("advanced, the mark stands after it")


# --- found by trying ------------------------------------------------------------------------------------------


def test_a_mapped_task_is_refused_before_its_instances_skip_each_others_rows() -> None:
    mapped = a_try(map_index=0)
    with (
        pytest.raises(WatermarkInputError, match="skip each other's", check=having(given="partition")),
        orders(Clock(5)).open(mapped.context),
    ):
        raise AssertionError


async def later(window: Window) -> Window:
    return window


def test_a_pendulum_clock_is_a_clock() -> None:
    """Pendulum is what Airflow's context hands out."""
    first = a_try()
    mark = watermark(
        ORDERS, initial=pendulum.datetime(2026, 1, 1), delay=NO_DELAY, now=lambda: pendulum.datetime(2026, 1, 2)
    )
    assert run(first, mark).end == at(24)
    assert marks(first)[MARK]["at"] == at(24).isoformat()


def test_a_replaced_attempt_makes_no_mark() -> None:
    first = a_try()
    first.task_store.replaced = True  # the asset's store would refuse as well, and is not even asked
    with pytest.raises(SupersededError):
        orders(Clock(5)).begin(first.context)
    assert marks(first) == {}


def keyword_only(table: str, *rest: str, window: Window) -> Any:
    return table, rest, window.end


def in_the_middle(table: str, window: Window, *rest: str) -> Any:
    return table, rest, window.end


def positional_only(window: Window, /, table: str, *rest: str) -> Any:
    return table, rest, window.end


@pytest.mark.parametrize("function", [keyword_only, in_the_middle, positional_only])
def test_the_window_is_put_where_the_function_has_it(function: Any) -> None:
    load = orders(Clock(5))(function)
    with a_try():
        assert load("t", "a", "b") == ("t", ("a", "b"), at(5))
    with a_try():
        assert load(table="t") == ("t", (), at(5))


@pytest.mark.parametrize("given", [None, Asset("x"), [Asset("x")], [ORDERS, Asset("x")]])
def test_other_assets_are_declared_beside_it_and_none_twice(given: Any) -> None:
    @orders(Clock(5)).task(inlets=given)  # type: ignore[untyped-decorator]
    def load(window: Window) -> None: ...

    inlets = load.override(task_id="x")().operator.inlets
    assert inlets == [ORDERS] if given is None else inlets == [ORDERS, Asset("x")]


def test_a_body_that_leaves_a_store_call_in_flight_does_not_block_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """In an async task, begin and commit are made off the event loop, which may be what the channel waits for."""
    loop_threads = list[int]()
    mark = orders(Clock(5))
    commit = WindowRun.commit

    def noted(*arguments: Any) -> Any:
        loop_threads.append(threading.get_ident())
        return commit(*arguments)

    monkeypatch.setattr(WindowRun, "commit", noted)
    with a_try():
        asyncio.run(mark(later)())
    assert loop_threads
    assert threading.get_ident() not in loop_threads
