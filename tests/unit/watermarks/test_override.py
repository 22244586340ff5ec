"""Windows that do not begin at the mark: a run's conf, a backfill."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_resume import watermark
from airflow_resume.errors import WatermarkInputError, WindowNotReadError
from airflow_resume.testing import TaskAttempt
from airflow_resume.watermarks import Cursor, Outcome
from tests.support.kit.raised import having
from tests.support.watermarks.whole_numbers import (
    NUMBERS,
    WINDOW,
    Counter,
    a_try,
    bounds,
    break_down,
    load,
    numbers,
    stands,
    track,
)

UTC = timezone.utc
NO_DELAY = timedelta(0)


def with_conf(attempt: TaskAttempt, conf: Any) -> TaskAttempt:
    attempt.context["dag_run"].conf = conf
    return attempt


def wishing(attempt: TaskAttempt, wish: Any) -> TaskAttempt:
    return with_conf(attempt, {"watermark": {"watermark": wish}})


def loaded_to(number: int) -> TaskAttempt:
    """An attempt of a run after one that moved the mark there."""
    first = a_try()
    load(first, numbers(Counter(number)))
    return first.next_run()


# --- conf -----------------------------------------------------------------------------------------------------


def test_a_conf_names_the_window_and_the_mark_stays(caplog: pytest.LogCaptureFixture) -> None:
    attempt = wishing(loaded_to(10), {"from": 3, "to": "7"})
    window = load(attempt, numbers(Counter(20)))
    assert (bounds(window), window.origin, stands(attempt)) == ((3, 7), "conf", "10")
    assert "as its conf says" in caplog.text
    assert attempt.task_store.values[WINDOW]["origin"] == "conf"


def test_without_an_end_it_goes_up_to_what_may_still_change() -> None:
    window = load(wishing(loaded_to(10), {"from": 3}), numbers(Counter(20), delay=5))
    assert bounds(window) == (3, 15)
    assert bounds(load(wishing(a_try(), {"from": 3, "to": None}), numbers(), track())) == (3, None)


@pytest.mark.parametrize(
    ("wish", "outcome", "stood"),
    [
        ({"from": 10, "to": 15}, "advanced", "15"),
        ({"from": 3, "to": 7}, "noop", "10"),
        ({"from": 12, "to": 15}, "gap", "10"),
        ({"from": 5, "to": 99}, "advanced", "20"),
        ({"from": 12, "to": 99}, "gap", "10"),
        ({"from": 30, "to": 99}, "noop", "10"),
    ],
)
def test_a_committed_one_moves_the_mark_as_any_window_and_not_over_what_may_still_change(
    wish: Any, outcome: str, stood: str
) -> None:
    attempt, mark = wishing(loaded_to(10), {**wish, "commit": True}), numbers(Counter(23), delay=3)
    window = mark.begin(attempt.context)
    assert bounds(window) == (wish["from"], wish["to"])
    assert mark.commit(attempt.context, window) is Outcome(outcome)
    assert stands(attempt) == stood


def test_a_retry_keeps_to_the_conf_and_what_it_may_commit() -> None:
    attempt = wishing(loaded_to(10), {"from": 10, "to": 99, "commit": True})
    clock = Counter(20)
    break_down(attempt, numbers(clock))
    clock.number = 50
    window = load(attempt.retry(), numbers(clock))
    assert (bounds(window), window.is_retry, window.origin, stands(attempt)) == ((10, 99), True, "conf", "20")


def test_other_conf_and_the_conf_of_another_watermark_change_nothing() -> None:
    for conf in ({}, {"x": 1}, {"watermark": {"other": {"from": 3}}}, None):
        assert load(with_conf(loaded_to(10), conf), numbers(Counter(20))).start == 10


@pytest.mark.parametrize(
    ("conf", "message"),
    [
        ("3", r"\"from\""),
        (["3"], "\nWrite"),
        ({}, "\nWrite"),
        ({"to": 3}, "\nWrite"),
        ({"from": 3, "til": 5}, "\nWrite"),
        ({"from": 3, "commit": "yes"}, "true or false"),
        ({"from": "x"}, "from"),
        ({"from": 3, "to": 0.5}, "to"),
        ({"from": None}, "from"),
        ({"from": 7, "to": 7}, "not after its start"),
        ({"from": 7, "to": 3}, "not after its start"),
        ({"from": 99}, "not after its start"),
    ],
)
def test_a_conf_that_names_no_window_stops_without_a_retry(conf: Any, message: str) -> None:
    attempt = wishing(loaded_to(10), conf)
    with pytest.raises(WatermarkInputError, match=message, check=having(given="window")) as raised:
        load(attempt, numbers(Counter(20)))
    assert isinstance(raised.value, AirflowFailException)
    assert stands(attempt) == "10"


@pytest.mark.parametrize("conf", ["2026-01-01", ["x"], 5])
def test_a_conf_that_is_none_for_any_watermark_is_refused_too(conf: Any) -> None:
    with pytest.raises(WatermarkInputError, match="by the names of watermarks", check=having(given="window")):
        load(with_conf(loaded_to(10), {"watermark": conf}), numbers(Counter(20)))


def test_a_token_is_taken_from_the_conf_and_has_no_end() -> None:
    mark = watermark(NUMBERS, initial={"t": 0}, cursor=Cursor.token())
    attempt = wishing(a_try(), {"from": {"t": 5}, "commit": True})
    assert load(attempt, mark, lambda window: window.advance({"t": 6})).start == {"t": 5}
    assert stands(attempt) == {"t": 6}
    with pytest.raises(WatermarkInputError, match="no order", check=having(given="window")):
        load(wishing(a_try(), {"from": {"t": 5}, "to": {"t": 7}}), mark)


def test_an_override_does_not_pass_over_rows_at_the_mark() -> None:
    first, mark = a_try(), numbers()
    load(first, mark, track(5, unique=True))
    got: list[int] = []
    attempt = wishing(first.next_run(), {"from": 5})
    load(attempt, mark, lambda window: got.extend(track(5, 6, unique=True)(window)))
    assert got == [5, 6]


# --- backfill -------------------------------------------------------------------------------------------------


def day(number: int) -> datetime:
    return datetime(2026, 1, number, tzinfo=UTC)


def backfilling(attempt: TaskAttempt, start: datetime | None, end: datetime | None) -> TaskAttempt:
    attempt.context["dag_run"].run_type = SimpleNamespace(value="backfill")
    attempt.context.update(data_interval_start=start, data_interval_end=end)
    return attempt


def days(now: int, **options: Any) -> Any:
    return watermark(NUMBERS, **{"initial": day(1), "now": lambda: day(now), "delay": NO_DELAY, **options})


def loaded_to_day(number: int) -> TaskAttempt:
    first = a_try()
    load(first, days(number))
    return first.next_run()


def test_a_backfill_loads_its_data_interval_and_leaves_the_mark() -> None:
    attempt = backfilling(loaded_to_day(9), day(2), day(3))
    window = load(attempt, days(9))
    assert (bounds(window), window.origin, stands(attempt)) == ((day(2), day(3)), "backfill", day(9).isoformat())


@pytest.mark.parametrize(
    ("start", "end", "stood"), [(9, 11, 11), (5, 11, 11), (5, 7, 9), (10, 11, 9), (9, 20, 12), (15, 20, 9)]
)
def test_a_backfill_that_fills_moves_the_mark_and_not_over_what_may_still_change(
    start: int, end: int, stood: int
) -> None:
    attempt = backfilling(loaded_to_day(9), day(start), day(end))
    mark = days(14, backfill="fill", delay=timedelta(days=2))
    assert bounds(load(attempt, mark)) == (day(start), day(end))
    assert stands(attempt) == day(stood).isoformat()


def test_an_isolated_backfill_in_slices_leaves_the_mark() -> None:
    attempt = backfilling(loaded_to_day(2), day(2), day(5))
    load(attempt, days(9), lambda window: list(window.split(timedelta(days=1))))
    assert stands(attempt) == day(2).isoformat()


def test_a_backfill_has_to_be_read_too() -> None:
    with pytest.raises(WindowNotReadError, check=having(problem="unread")):
        load(backfilling(a_try(), day(2), day(3)), days(9, advance="observed"))


def test_a_backfill_may_be_forbidden() -> None:
    with pytest.raises(
        WatermarkInputError,
        match=r"'watermark' on 'numbers' cannot .*backfill='forbid'.*\nSet .*'isolated'",
        check=having(given="window"),
    ) as raised:
        load(backfilling(a_try(), day(2), day(3)), days(9, backfill="forbid"))
    assert isinstance(raised.value, AirflowFailException)
    assert load(a_try(), days(9, backfill="forbid")).end == day(9)


@pytest.mark.parametrize(
    ("start", "end", "mark", "message"),
    [
        (None, None, days(9), "it has no data interval.*\n.*conf"),
        (day(2), None, days(9), "it has no data interval"),
        (day(2), day(3), numbers(Counter(9)), "which values of this int cursor"),
    ],
)
def test_a_backfill_without_a_window_says_what_to_do(start: Any, end: Any, mark: Any, message: str) -> None:
    with pytest.raises(WatermarkInputError, match=message, check=having(given="window")):
        load(backfilling(a_try(), start, end), mark)


def test_a_conf_goes_before_the_backfill() -> None:
    attempt = wishing(backfilling(a_try(), day(2), day(3)), {"from": "2026-01-04T00:00:00Z"})
    window = load(attempt, days(9, backfill="forbid"))
    assert (window.start, window.origin) == (day(4), "conf")


def test_a_backfill_of_days_and_of_times_without_a_zone() -> None:
    mark = watermark(NUMBERS, initial=date(2026, 1, 1), now=lambda: date(2026, 1, 9), delay=NO_DELAY)
    assert bounds(load(backfilling(a_try(), day(2), day(3)), mark)) == (date(2026, 1, 2), date(2026, 1, 3))
    naive = watermark(
        NUMBERS,
        initial="2026-01-01T00:00:00",
        cursor=Cursor.datetime(tz=None),
        now=lambda: datetime(2026, 1, 9),  # noqa: DTZ001
        delay=NO_DELAY,
    )
    assert load(backfilling(a_try(), day(2), day(3)), naive).start == datetime(2026, 1, 2)  # noqa: DTZ001


@pytest.mark.parametrize(
    ("wishes", "words"),
    [
        ({"from": 1, "to": 5}, "names no watermark"),
        ({"numbers": {"from": 1, "to": 5}}, "is an asset"),
    ],
)
def test_a_window_for_no_watermark_is_refused(wishes: dict[str, Any], words: str) -> None:
    attempt = a_try()
    attempt.context["dag_run"].conf = {"watermark": wishes}
    with pytest.raises(WatermarkInputError, match=words, check=having(given="window")) as raised:
        numbers(Counter(10)).begin(attempt.context)
    assert '{"watermark": {"watermark": {"from"' in str(raised.value)


def test_a_window_for_another_watermark_is_said_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    attempt = a_try()
    attempt.context["dag_run"].conf = {"watermark": {"others": {"from": 1, "to": 5}}}
    assert numbers(Counter(10)).begin(attempt.context).end == 10
    assert "names windows of 'others', and this watermark is 'watermark'" in caplog.text
