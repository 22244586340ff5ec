"""A mark that a person sets in Airflow's UI."""

from __future__ import annotations

import json
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException
from hourly_orders import ORDERS, Clock, at, orders
from numbered import MARK, NUMBERS, Counter, a_try, load, marks, numbers

from airflow_resume import watermark
from airflow_resume.errors import UnreadableRecordError, WatermarkAheadError, WatermarkChangedError
from airflow_resume.testing import TaskAttempt, task_context
from airflow_resume.watermarks import Cursor


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


def test_a_moment_that_has_not_come_is_refused_until_it_is_put_right() -> None:
    clock = Clock(5)
    attempt = task_context(assets=[ORDERS])
    attempt.asset_stores[ORDERS].set(MARK, at(9).isoformat())
    for _ in range(2):
        with pytest.raises(WatermarkAheadError, match="nothing would be loaded until then") as raised:
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
    with pytest.raises(WatermarkChangedError, match="as JSON"):
        watermark(NUMBERS, initial="a", cursor=Cursor.text()).begin(attempt.next_run().context)


def test_the_record_says_how_far_it_lay_behind_when_it_was_written() -> None:
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
