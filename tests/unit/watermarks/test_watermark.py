from __future__ import annotations

import asyncio
import logging
import threading
from collections import defaultdict
from datetime import datetime, timedelta, timezone
from types import SimpleNamespace
from typing import Any

import pendulum
import pytest
from airflow.sdk import Asset, task
from airflow.sdk.exceptions import AirflowSkipException
from crashing import World

from airflow_resume import watermark
from airflow_resume.errors import (
    AssetNotDeclaredError,
    CursorTypeError,
    DecoratorOrderError,
    InvalidKeyError,
    PartitionNeededError,
    SupersededError,
    UnreadableRecordError,
    WatermarkChangedError,
    WatermarkLostError,
)
from airflow_resume.watermarks import Window
from airflow_resume.watermarks.commit import Outcome

ORDERS = Asset("orders")
START = datetime(2026, 1, 1, tzinfo=timezone.utc)
MARK, WINDOW = "resume.watermark.watermark", "resume.window.watermark"


def at(hour: int) -> datetime:
    return START + timedelta(hours=hour)


class Clock:
    """The source's clock."""

    def __init__(self, hour: int = 0) -> None:
        self.hour = hour

    def __call__(self) -> datetime:
        return at(self.hour)


def orders(clock: Clock, **options: Any) -> Any:
    return watermark(ORDERS, initial=START, now=clock, **options)


def context_of(world: World) -> dict[str, Any]:
    """An attempt, with the asset events that Airflow would have."""
    context = world.attempt()
    context["outlet_events"] = defaultdict(lambda: SimpleNamespace(extra={}))
    context["inlet_events"] = {ORDERS: [SimpleNamespace(extra=extra) for extra in world.events]}
    return context


def run(world: World, mark: Any) -> Window:
    """An attempt that succeeds."""
    context = context_of(world)
    with mark.open(context) as window:
        pass
    if extra := context["outlet_events"][ORDERS].extra:
        world.events.append(extra)
    return window  # type: ignore[no-any-return]


# --- windows --------------------------------------------------------------------------------------------------


def test_a_run_loads_what_is_new_since_the_last_one() -> None:
    world, clock = World(), Clock(5)
    mark = orders(clock, delay=timedelta(hours=1))
    first = run(world, mark)
    assert (first.start, first.end, first.is_initial) == (at(0), at(4), True)
    world.next_run("second")
    clock.hour = 9
    second = run(world, mark)
    assert (second.start, second.end, second.is_initial) == (at(4), at(8), False)
    assert world.asset_values[MARK]["at"] == at(8).isoformat()
    assert [line["to"] for line in world.asset_values[MARK]["history"]] == [at(4).isoformat(), at(8).isoformat()]


def test_a_retry_loads_the_same_window_although_time_has_passed() -> None:
    world, clock = World(), Clock(5)
    with pytest.raises(KeyError), orders(clock).open(context_of(world)):
        raise KeyError
    clock.hour = 9
    window = run(world, orders(clock))
    assert (window.start, window.end, window.is_retry) == (at(0), at(5), True)
    assert world.asset_values[MARK]["at"] == at(5).isoformat()


def test_a_cleared_run_loads_its_own_window_again_and_leaves_the_mark() -> None:
    world, clock = World(), Clock(5)
    run(world, orders(clock))
    old, old_tries = world.task_values, world.try_number
    world.next_run("second")
    clock.hour = 9
    run(world, orders(clock))
    world.task_values, world.try_number = old, old_tries
    world.clear()
    window = run(world, orders(clock))
    assert (window.start, window.end, window.is_replay) == (at(0), at(5), True)
    assert world.asset_values[MARK]["at"] == at(9).isoformat()


def test_lookback_widens_the_reading_and_never_moves_the_mark_back() -> None:
    world, clock = World(), Clock(5)
    mark = orders(clock, lookback=timedelta(hours=2))
    assert run(world, mark).start == at(0)
    world.next_run("second")
    clock.hour = 6
    assert (run(world, mark).start, world.asset_values[MARK]["at"]) == (at(3), at(6).isoformat())


def test_lookback_never_reads_before_the_start() -> None:
    world, clock = World(), Clock(5)
    mark = orders(clock, lookback=timedelta(days=2))
    run(world, mark)
    world.next_run("second")
    clock.hour = 6
    assert run(world, mark).start == at(0)


@pytest.mark.parametrize("hour", [0, -1])
def test_nothing_new_commits_nothing(hour: int) -> None:
    world, clock = World(), Clock(hour)
    assert run(world, orders(clock)).empty
    assert world.task_values[WINDOW]["state"] == "claimed"
    assert world.asset_values[MARK]["at"] == at(0).isoformat()
    with pytest.raises(AirflowSkipException):
        run(world, orders(clock, when_empty="skip"))


def test_a_failing_body_moves_nothing() -> None:
    world = World()
    with pytest.raises(KeyError), orders(Clock(5)).open(context_of(world)):
        raise KeyError
    assert world.asset_values[MARK]["at"] == at(0).isoformat()
    assert world.task_values[WINDOW]["state"] == "pending"


# --- races and old attempts -----------------------------------------------------------------------------------


def test_a_slow_older_run_never_moves_the_mark_back() -> None:
    world, clock = World(), Clock(5)
    mark, slow = orders(clock), context_of(world)
    window = mark.begin(slow)
    world.next_run("second")
    clock.hour = 9
    run(world, mark)
    assert mark.commit(slow, window) is Outcome.NOOP
    assert world.asset_values[MARK]["at"] == at(9).isoformat()


def test_a_record_made_anew_fences_the_runs_from_before(caplog: pytest.LogCaptureFixture) -> None:
    world, clock = World(), Clock(5)
    mark, slow = orders(clock), context_of(world)
    window = mark.begin(slow)
    del world.asset_values[MARK]
    assert mark.commit(slow, window) is Outcome.FENCED
    assert MARK not in world.asset_values
    world.next_run("second")
    mark.begin(context_of(world))
    assert mark.commit(slow, window) is Outcome.FENCED
    assert world.asset_values[MARK]["at"] == at(0).isoformat()
    assert "fenced" in caplog.text


def test_a_replaced_attempt_does_not_touch_the_mark() -> None:
    world, mark = World(), orders(Clock(5))
    context = context_of(world)
    window = mark.begin(context)
    context["task_state_store"].replaced = True
    before = dict(world.asset_values)
    with pytest.raises(SupersededError):
        mark.commit(context, window)
    assert world.asset_values == before


def test_a_write_that_another_run_overwrote_is_merged_again() -> None:
    world, clock = World(), Clock(5)
    mark = orders(clock)
    context = context_of(world)
    window = mark.begin(context)
    store = context["asset_state_store"][ORDERS]
    lost = dict(world.asset_values[MARK])
    set_value = store.set
    overwritten: list[Any] = []

    def overwritten_once(key: str, value: Any) -> None:
        set_value(key, value)
        if not overwritten:
            overwritten.append(value)
            set_value(key, lost)

    store.set = overwritten_once
    assert mark.commit(context, window) is Outcome.ADVANCED
    assert world.asset_values[MARK]["at"] == at(5).isoformat()


# --- a mark that is missing or not ours -----------------------------------------------------------------------


@pytest.mark.parametrize(("on_missing", "start"), [("recover", 5), ("initial", 0)])
def test_a_lost_mark_is_noticed_and_follows_the_policy(on_missing: str, start: int) -> None:
    world, clock = World(), Clock(5)
    run(world, orders(clock))
    world.asset_values.clear()
    world.next_run("second")
    clock.hour = 9
    with pytest.raises(WatermarkLostError, match=r"stood at 2026-01-01T05:00:00\+00:00.*on_missing='recover'"):
        run(world, orders(clock))
    assert world.asset_values == {}
    assert run(world, orders(clock, on_missing=on_missing)).start == at(start)


def test_a_mark_of_another_type_is_refused() -> None:
    world = World()
    world.asset_values[MARK] = {"v": 1, "key": MARK, "type": "int", "at": "5", "epoch": "e"}
    with pytest.raises(WatermarkChangedError, match=r"type 'int'.*type 'datetime'.*another name"):
        run(world, orders(Clock(5)))


def test_a_record_of_a_newer_version_stops_before_the_body() -> None:
    world = World()
    world.asset_values[MARK] = {"v": 2, "key": MARK}
    with pytest.raises(UnreadableRecordError, match="newer version"), orders(Clock(5)).open(context_of(world)):
        raise AssertionError
    assert world.task_values == {}


def test_an_asset_that_is_not_declared_stops_before_the_body() -> None:
    context = context_of(World())
    del context["asset_state_store"]
    with pytest.raises(AssetNotDeclaredError, match="inlets"), orders(Clock(5)).open(context):
        raise AssertionError


# --- values ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("initial", "message"),
    [
        ("2026-01-01", "has no offset"),
        (datetime(2026, 1, 1), "has no offset"),  # noqa: DTZ001
        ("yesterday", "not ISO 8601"),
        (5, "a int; this watermark needs a datetime"),
    ],
)
def test_an_initial_value_that_is_no_point_in_time_is_refused_at_the_call(initial: Any, message: str) -> None:
    with pytest.raises(CursorTypeError, match=message):
        watermark(ORDERS, initial=initial)


@pytest.mark.parametrize("now", [datetime(2026, 1, 1), 5, "soon"])  # noqa: DTZ001
def test_a_clock_that_gives_no_point_in_time_stops_before_the_body(now: Any) -> None:
    mark = watermark(ORDERS, initial=START, now=lambda: now)
    with pytest.raises(CursorTypeError, match=r"now\(\)"), mark.open(context_of(World())):
        raise AssertionError


def test_microseconds_offsets_and_the_epoch_are_exact() -> None:
    end = datetime(2026, 10, 25, 2, 30, 0, 123457, tzinfo=timezone(timedelta(hours=2)))
    mark = watermark(ORDERS, initial="1970-01-01T00:00:00Z", now=lambda: end)
    world = World()
    window = run(world, mark)
    assert (window.start.timestamp(), window.end) == (0.0, end)
    assert world.asset_values[MARK]["at"] == "2026-10-25T00:30:00.123457+00:00"


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
    with pytest.raises(TypeError, match="needs an Asset"):
        watermark("orders", initial=START)  # type: ignore[arg-type]


# --- decorating -----------------------------------------------------------------------------------------------


def test_the_decorated_function_gets_the_window_and_everything_else(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    monkeypatch.setattr("airflow_resume.watermarks.mark.current_context", lambda: context_of(world))

    @orders(Clock(5))  # type: ignore[untyped-decorator]
    def load(window: Window, table: str, ti: Any = None) -> tuple[datetime, str]:
        """Load."""
        return window.end, table

    assert load("t") == (at(5), "t")
    assert load.__doc__ == "Load."
    assert world.asset_values[MARK]["at"] == at(5).isoformat()


def test_an_async_function_is_committed_when_it_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    monkeypatch.setattr("airflow_resume.watermarks.mark.current_context", lambda: context_of(world))

    @orders(Clock(5))  # type: ignore[untyped-decorator]
    async def load(window: Window) -> datetime:
        assert world.asset_values[MARK]["at"] == at(0).isoformat()
        return window.end

    assert asyncio.run(load()) == at(5)
    assert world.asset_values[MARK]["at"] == at(5).isoformat()


def test_the_windows_parameter_is_hidden_from_taskflow() -> None:
    mark = orders(Clock(5))

    @mark.task(retries=3)  # type: ignore[untyped-decorator]
    def load(window: Window, table: str) -> None: ...

    operator = load.override(task_id="x")("orders").operator
    assert (operator.inlets, operator.outlets) == ([ORDERS], [ORDERS])
    assert (operator.retries, operator.max_active_tis_per_dag) == (3, 1)


def test_the_wrong_order_of_decorators_names_the_right_one() -> None:
    with pytest.raises(DecoratorOrderError, match="@task stands above"):

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
        run(World(), orders(Clock(5)))
    assert "the first" in caplog.messages[0]
    assert caplog.messages[1].endswith("advanced, the mark stands at its end")


# --- found by trying ------------------------------------------------------------------------------------------


def test_a_mapped_task_is_refused_before_its_instances_skip_each_others_rows() -> None:
    context = context_of(World())
    context["ti"].map_index = 0
    with pytest.raises(PartitionNeededError, match="skip each other's"), orders(Clock(5)).open(context):
        raise AssertionError


def lazily(window: Window) -> Any:
    return (window for _ in range(1))


async def later(window: Window) -> Window:
    return window


def wrapped_coroutine(window: Window) -> Any:
    return later(window)


@pytest.mark.parametrize("function", [lazily, wrapped_coroutine])
def test_a_body_that_returns_its_work_undone_commits_nothing(
    function: Any, monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder
) -> None:
    world = World()
    monkeypatch.setattr("airflow_resume.watermarks.mark.current_context", lambda: context_of(world))
    with pytest.raises(TypeError, match="its work is not done"):
        orders(Clock(5))(function)()
    assert world.asset_values[MARK]["at"] == at(0).isoformat()
    recwarn.clear()  # the coroutine that nobody awaited


def test_a_pendulum_clock_is_a_clock() -> None:
    """Pendulum is what Airflow's context hands out."""
    world = World()
    mark = watermark(ORDERS, initial=pendulum.datetime(2026, 1, 1), now=lambda: pendulum.datetime(2026, 1, 2))
    assert run(world, mark).end == at(24)
    assert world.asset_values[MARK]["at"] == at(24).isoformat()


def test_a_replaced_attempt_makes_no_mark() -> None:
    world = World()
    context = context_of(world)
    context["task_state_store"].replaced = True
    with pytest.raises(SupersededError):
        orders(Clock(5)).begin(context)
    assert world.asset_values == {}


def keyword_only(table: str, *rest: str, window: Window) -> Any:
    return table, rest, window.end


def in_the_middle(table: str, window: Window, *rest: str) -> Any:
    return table, rest, window.end


def positional_only(window: Window, /, table: str, *rest: str) -> Any:
    return table, rest, window.end


@pytest.mark.parametrize("function", [keyword_only, in_the_middle, positional_only])
def test_the_window_is_put_where_the_function_has_it(function: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("airflow_resume.watermarks.mark.current_context", lambda: context_of(World()))
    load = orders(Clock(5))(function)
    assert load("t", "a", "b") == ("t", ("a", "b"), at(5))
    assert load(table="t") == ("t", (), at(5))


@pytest.mark.parametrize("given", [None, Asset("x"), [Asset("x")], [ORDERS, Asset("x")]])
def test_other_assets_are_declared_beside_it_and_none_twice(given: Any) -> None:
    @orders(Clock(5)).task(inlets=given)  # type: ignore[untyped-decorator]
    def load(window: Window) -> None: ...

    inlets = load.override(task_id="x")().operator.inlets
    assert inlets == [ORDERS] if given is None else inlets == [ORDERS, Asset("x")]


def test_a_body_that_leaves_a_store_call_in_flight_does_not_block_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """In an async task, begin and commit are made off the event loop, which may be what the channel waits for."""
    world, loop_threads = World(), list[int]()
    monkeypatch.setattr("airflow_resume.watermarks.mark.current_context", lambda: context_of(world))
    mark = orders(Clock(5))
    commit = mark.commit

    def noted(*arguments: Any) -> Any:
        loop_threads.append(threading.get_ident())
        return commit(*arguments)

    monkeypatch.setattr(mark, "commit", noted)
    asyncio.run(mark(later)())
    assert loop_threads
    assert threading.get_ident() not in loop_threads
