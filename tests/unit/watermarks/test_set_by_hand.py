"""A mark that a person sets in Airflow's UI."""

from __future__ import annotations

import asyncio
import json
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_resume import watermark
from airflow_resume.errors import UnreadableRecordError, WatermarkInputError, WatermarkMismatchError
from airflow_resume.testing import TaskAttempt, task_context
from airflow_resume.watermarks import Cursor
from airflow_resume.watermarks.trigger import AsyncWatermark
from tests.support.kit.raised import having
from tests.support.watermarks.hourly_orders import ORDERS, Clock, at, orders
from tests.support.watermarks.whole_numbers import MARK, NUMBERS, Counter, a_try, load, marks, numbers

MINUTE = timedelta(minutes=1)


def three_runs(clock: Counter) -> TaskAttempt:
    attempt = a_try()
    for number in (10, 20, 30):
        clock.number = number
        load(attempt, numbers(clock))
        attempt = attempt.next_run()
    return attempt


def test_the_history_outlives_it_and_says_that_a_person_did_it() -> None:
    clock = Counter()
    attempt = three_runs(clock)
    attempt.asset_stores[NUMBERS].set(MARK, 15)
    window = numbers(clock).begin(attempt.context)
    record = marks(attempt)[MARK]
    run_id = attempt.context["run_id"]
    assert (window.start, window.is_reset) == (15, True)
    assert [move["to"] for move in record["history"]] == ["10", "20", "30", "15"]
    when = record["history"][-1].pop("when")
    assert timedelta(0) <= datetime.now(timezone.utc) - datetime.fromisoformat(when.replace("Z", "+00:00")) < MINUTE
    assert record["history"][-1] == {"to": "15", "run_id": run_id, "for_person": True}
    assert record["by"]["for_person"] is True
    assert "for_person" not in record["history"][0]


def test_a_reset_keeps_the_history_too() -> None:
    clock = Counter()
    attempt = three_runs(clock)
    numbers(clock).reset(attempt.context, 15)
    record = marks(attempt)[MARK]
    assert [move["to"] for move in record["history"]] == ["10", "20", "30", "15"]
    assert record["by"]["run_id"] == attempt.context["run_id"]


@pytest.mark.parametrize("by_trigger", [False, True], ids=["task", "trigger"])
def test_a_record_whose_type_was_edited_shows_what_differs(*, by_trigger: bool) -> None:
    attempt = three_runs(Counter())
    attempt.asset_stores[NUMBERS].set(MARK, {**marks(attempt)[MARK], "type": "int2"})
    remedy = r"Its type 'int2' is not that of its definition, 'int', as after an edit by hand\."
    with pytest.raises(
        WatermarkMismatchError, match=rf"a mark of {{'type': 'int2'}}, .* one of {{'type': 'int'}}\.\n{remedy}"
    ) as raised:
        if by_trigger:
            store: Any = attempt.asset_stores[NUMBERS]
            asyncio.run(AsyncWatermark(store, initial=0).at())
        else:
            numbers(Counter(40)).begin(attempt.context)
    assert (raised.value.stored, raised.value.expected) == ({"type": "int2"}, {"type": "int"})


def test_a_moment_that_has_not_come_is_refused_until_it_is_put_right() -> None:
    clock = Clock(5)
    attempt = task_context(assets=[ORDERS])
    attempt.asset_stores[ORDERS].set(MARK, at(9).isoformat())
    for _ in range(2):
        with pytest.raises(
            WatermarkInputError, match="nothing would be loaded until then", check=having(given="mark")
        ) as raised:
            orders(clock).begin(attempt.context)
        assert isinstance(raised.value, AirflowFailException)
        assert '"2026-01-15T00:00:00Z"' in str(raised.value)
        attempt = attempt.clear()
    attempt.asset_stores[ORDERS].set(MARK, at(2).isoformat())
    assert orders(clock).begin(attempt.context).start == at(2)


def test_a_mark_that_moved_there_by_itself_is_warned_about(caplog: pytest.LogCaptureFixture) -> None:
    clock, attempt = Counter(20), a_try()
    load(attempt, numbers(clock))
    clock.number = 10
    assert numbers(clock).begin(attempt.next_run().context).empty
    assert "stands at '20', and by the watermark's clock it is 10 now" in caplog.text


def test_an_initial_value_may_lie_ahead_and_is_warned_about(caplog: pytest.LogCaptureFixture) -> None:
    assert numbers(Counter(10), initial=100).begin(a_try().context).empty
    assert "stands at '100', and by the watermark's clock it is 10 now" in caplog.text


@pytest.mark.parametrize("stored", ["2026-01-01", 0.5])
def test_what_to_type_is_json(stored: Any) -> None:
    attempt = a_try()
    attempt.asset_stores[NUMBERS].set(MARK, stored)
    with pytest.raises(
        UnreadableRecordError, match=r'as JSON: a text stands in double quotes, such as "2026-'
    ) as raised:
        numbers().begin(attempt.context)
    assert json.loads(str(raised.value).split("such as ")[-1].split(" ")[0].rstrip(".")) == "2026-01-15T00:00:00Z"
    attempt.asset_stores[NUMBERS].set(MARK, 3)
    load(attempt, numbers(), lambda window: list(window.track([], "n")))
    with pytest.raises(WatermarkMismatchError, match="as JSON"):
        watermark(NUMBERS, initial="a", cursor=Cursor.text()).begin(attempt.next_run().context)


def test_the_record_says_how_much_earlier_than_its_writing_the_mark_was() -> None:
    clock, attempt = Clock(5), task_context(assets=[ORDERS])
    with orders(clock).open(attempt.context):
        pass
    record: Any = attempt.asset_stores[ORDERS].values[MARK]
    assert record["lag_seconds"] > 24 * 3600
    attempt = a_try()
    load(attempt, numbers(Counter(10)))
    assert "lag_seconds" not in marks(attempt)[MARK]


@pytest.mark.parametrize("typed", [{"key": "k7"}, {"v": 3, "epoch": "a"}])
def test_a_token_that_has_some_members_of_a_record_is_none(typed: Any) -> None:
    attempt = a_try()
    mark = watermark(NUMBERS, initial={"key": "k0"}, cursor=Cursor.token())
    load(attempt, mark, lambda window: window.advance({"key": "k5"}))
    attempt = attempt.next_run()
    attempt.asset_stores[NUMBERS].set(MARK, typed)
    window = load(attempt, mark, lambda window: window.advance({"key": "k9"}))
    assert (window.start, window.is_reset) == (typed, True)
    assert marks(attempt)[MARK]["at"] == {"key": "k9"}


@pytest.mark.parametrize("kept", [10, 0])
@pytest.mark.parametrize("advance", ["window", "observed", "explicit"])
def test_a_record_whose_mark_was_changed_to_a_moment_that_has_not_come_is_refused_too(advance: Any, kept: int) -> None:
    mark = watermark(ORDERS, initial=at(1), delay=timedelta(0), advance=advance)
    attempt = task_context(assets=[ORDERS])
    with mark.open(attempt.context) as window:
        if advance == "explicit":
            window.advance(at(2))
        list(window.track([{"t": at(2)}], "t"))
    store: Any = attempt.asset_stores[ORDERS]
    record = store.values[MARK]
    edited = {**record, "at": "2999-01-01T00:00:00+00:00", "history": record["history"][:kept]}
    store.set(MARK, edited)
    for _ in range(2):
        attempt = attempt.next_run()
        with pytest.raises(
            WatermarkInputError, match="nothing would be loaded until then", check=having(given="mark")
        ) as raised:
            mark.begin(attempt.context)
        assert "Type the value to continue from" in (raised.value.remedy or "")
        assert store.values[MARK] == edited
    store.set(MARK, at(2).isoformat())
    assert mark.begin(attempt.next_run().context).start == at(2)
