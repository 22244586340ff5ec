from __future__ import annotations

import asyncio
import contextlib
import warnings
from datetime import timedelta
from typing import Any

import pytest
from airflow.sdk import DAG, Asset, BaseOperator

from airflow_resume import watermark
from airflow_resume.errors import UnreadableRecordError, WatermarkMismatchError, WatermarkWarning
from airflow_resume.watermarks import AsyncWatermark, Cursor, Outcome
from airflow_resume.watermarks.checks import remarks_on
from airflow_resume_mixins import WatermarkMixin

ORDERS, OTHER = Asset("orders"), Asset("other")
orders = watermark(ORDERS, initial="2026-01-01T00:00:00Z", delay=timedelta(0))


# --- the task around a watermark ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "partitioned", "words"),
    [
        ({"inlets": [ORDERS], "outlets": [ORDERS], "max_active_tis_per_dag": 1}, False, []),
        ({"inlets": [ORDERS], "outlets": [ORDERS]}, False, ["Two runs may load"]),
        ({"inlets": [ORDERS], "outlets": [ORDERS]}, True, []),
        ({"inlets": [Asset.ref(name="orders")], "outlets": [ORDERS]}, True, []),
        ({"outlets": [ORDERS]}, True, ["not among the task's inlets"]),
        ({"inlets": [ORDERS], "outlets": [OTHER]}, True, ["not among the task's outlets"]),
    ],
)
def test_what_the_task_lacks_is_said(options: dict[str, Any], partitioned: bool, words: list[str]) -> None:  # noqa: FBT001
    remarks = remarks_on(BaseOperator(task_id="t", **options), ORDERS, is_partitioned=partitioned)
    assert len(remarks) == len(words)
    assert all(word in remark for word, remark in zip(words, remarks, strict=True))


def test_one_run_at_a_time_is_a_cap_too() -> None:
    with DAG("d", max_active_runs=1, schedule=None):
        task = BaseOperator(task_id="t", inlets=[ORDERS], outlets=[ORDERS])
    assert remarks_on(task, ORDERS, is_partitioned=False) == []
    assert remarks_on(None, ORDERS, is_partitioned=False) == []


TIMES: list[dict[str, Any]] = [
    {"initial": "2026-01-01T00:00:00Z"},
    {"initial": "2026-01-01T00:00:00Z", "advance": "observed"},
    {"initial": "2026-01-01T00:00:00", "cursor": Cursor.datetime(tz=None), "advance": "observed"},
    {"initial": "2026-01-01"},
    {"initial": "2026-01-01", "advance": "observed"},
    {"initial": ("2026-01-01T00:00:00Z", 0), "cursor": Cursor.keyset(Cursor.datetime(), Cursor.int())},
    {"initial": ("2026-01-01", 0), "cursor": Cursor.keyset(Cursor.date(), Cursor.int())},
]
IDS: list[dict[str, Any]] = [
    {"initial": 0},
    {"initial": 0, "cursor": Cursor.decimal()},
    {"initial": "", "cursor": Cursor.text()},
    {"initial": (0, ""), "cursor": Cursor.keyset(Cursor.int(), Cursor.text())},
]


@pytest.mark.parametrize("options", TIMES)
def test_a_time_without_a_delay_is_warned_of_when_the_file_is_read(options: dict[str, Any]) -> None:
    with pytest.warns(WatermarkWarning, match="has no delay=: a row") as warned:
        watermark(ORDERS, **options)
    (one,) = warned
    assert one.filename == __file__
    assert str(one.message).splitlines()[1] == (
        "Say how long that may take, or delay=timedelta(0) if it cannot happen."
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        watermark(ORDERS, **options, delay=timedelta(0))


@pytest.mark.parametrize("options", IDS)
def test_ids_that_are_observed_are_warned_of_unless_it_is_said_what_holds_for_them(options: dict[str, Any]) -> None:
    with pytest.warns(WatermarkWarning, match="and no now=: a row") as warned:
        watermark(ORDERS, **options)
    (one,) = warned
    assert one.filename == __file__
    assert str(one.message).splitlines()[1].startswith("Give now= a function that asks for a value below which")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        watermark(ORDERS, **options, delay=0)
        watermark(ORDERS, **options, now=lambda: options["initial"])
        watermark(ORDERS, **options, advance="explicit")
        watermark(ORDERS, initial=0, lookback=1000)


def test_times_without_a_zone_have_no_clock_but_the_one_that_is_given() -> None:
    naive: dict[str, Any] = {"initial": "2026-01-01T00:00:00", "cursor": Cursor.datetime(tz=None)}
    with pytest.raises(ValueError, match="a datetime has no clock of its own\\.\nGive now="):
        watermark(ORDERS, advance="window", **naive)
    watermark(ORDERS, advance="observed", delay=timedelta(0), **naive)


class LoadOrders(WatermarkMixin, BaseOperator):
    watermark = orders

    def execute_window(self, context: Any, window: Any) -> Any:
        return (context, window)


def test_the_mixin_declares_what_the_watermark_needs_beside_what_is_declared() -> None:
    task = LoadOrders(task_id="t", outlets=[OTHER], max_active_tis_per_dag=2)
    assert (task.inlets, task.outlets, task.max_active_tis_per_dag) == ([ORDERS], [ORDERS, OTHER], 2)


def test_an_operator_without_a_watermark_is_refused_when_it_is_made() -> None:
    class Without(WatermarkMixin, BaseOperator):
        def execute_window(self, context: Any, window: Any) -> Any:
            raise NotImplementedError

    with pytest.raises(TypeError, match="Without needs `watermark = watermark"):
        Without(task_id="t")


# --- event triggers -------------------------------------------------------------------------------------------


class AsyncDict:
    """The asset's state, as a trigger has it."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}

    async def aget(self, key: str, default: Any = None) -> Any:
        return self.values.get(key, default)

    async def aset(self, key: str, value: Any) -> None:
        self.values[key] = value


KEY = "resume.watermark.watermark"


def test_a_trigger_goes_on_where_it_was_and_never_back() -> None:
    async def run() -> None:
        store = AsyncDict()
        mark = AsyncWatermark[int](store, initial=0)
        assert await mark.at() == 0
        assert await mark.advance(5) is Outcome.ADVANCED
        assert await mark.advance(3) is Outcome.NOOP
        again = AsyncWatermark[int](store, initial=0)
        assert await again.at() == 5
        assert (store.values[KEY]["at"], store.values[KEY]["rev"]) == ("5", 1)

    asyncio.run(run())


class TriggererDied(BaseException):
    """Ends a trigger where no handler runs."""


@pytest.mark.parametrize("point", range(20))
def test_wherever_a_triggerer_dies_every_event_is_fired_and_none_twice_but_the_one_in_hand(point: int) -> None:
    """Points are before and after each call of the store, and each event."""
    store, fired, left = AsyncDict(), list[int](), [point]

    def pass_by() -> None:
        left[0] -= 1
        if left[0] == -1:
            raise TriggererDied

    class Mortal(AsyncDict):
        async def aget(self, key: str, default: Any = None) -> Any:
            pass_by()
            return await store.aget(key, default)

        async def aset(self, key: str, value: Any) -> None:
            pass_by()
            await store.aset(key, value)
            pass_by()

    async def watch() -> None:
        mark = AsyncWatermark[int](Mortal(), initial=0)
        for event in range(await mark.at(), 4):
            pass_by()
            fired.append(event)
            pass_by()
            await mark.advance(event + 1)

    with contextlib.suppress(TriggererDied):
        asyncio.run(watch())
    asyncio.run(watch())
    assert sorted(set(fired)) == [0, 1, 2, 3]
    assert len(fired) <= 5
    assert fired == sorted(fired)


def test_a_mark_that_a_trigger_misses_is_said_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    asyncio.run(AsyncWatermark[int](AsyncDict(), initial=7).at())
    assert "The mark 'resume.watermark.watermark' was missing; beginning at '7'" in caplog.text


def test_a_trigger_notices_that_the_mark_was_set() -> None:
    async def run() -> None:
        store = AsyncDict()
        mark = AsyncWatermark[int](store, initial=0)
        assert await mark.advance(5) is Outcome.ADVANCED
        store.values[KEY] = 2
        assert await mark.advance(7) is Outcome.FENCED
        assert await mark.at() == 2
        assert await mark.advance(7) is Outcome.ADVANCED

    asyncio.run(run())


def test_a_trigger_takes_up_a_typed_token_that_is_an_object() -> None:
    async def run() -> None:
        store = AsyncDict()
        mark = AsyncWatermark[Any](store, initial={"upto": 0}, cursor=Cursor.token())
        assert await mark.advance({"upto": 5}) is Outcome.ADVANCED
        store.values[KEY] = {"upto": 2}
        assert await mark.advance({"upto": 7}) is Outcome.FENCED
        assert await mark.at() == {"upto": 2}

    asyncio.run(run())


def test_a_mark_that_a_trigger_cannot_use_is_named() -> None:
    async def run(value: Any, **options: Any) -> Any:
        store = AsyncDict()
        store.values[KEY] = value
        return await AsyncWatermark[Any](store, **options).at()

    with pytest.raises(UnreadableRecordError, match="neither a mark nor a value"):
        asyncio.run(run("soon", initial=0))
    record = {"v": 1, "key": KEY, "type": "int", "definition": {"type": "int"}, "at": "5", "epoch": "e"}
    with pytest.raises(WatermarkMismatchError, match="another name"):
        asyncio.run(run(record, initial="a", cursor=Cursor.text()))
