"""A window notices that another attempt has taken it over, while its body runs."""

from __future__ import annotations

import pytest

from airflow_resume.errors import SupersededError
from airflow_resume.watermarks.windows import window as window_module
from tests.support.watermarks.whole_numbers import Counter, a_try, numbers, rows


def test_the_check_raises_once_another_attempt_has_replaced_this_one() -> None:
    attempt, mark = a_try(), numbers(Counter(10))
    window = mark.begin(attempt.context)
    window.check()
    attempt.supersede()
    with pytest.raises(SupersededError):
        window.check()


def test_an_empty_window_has_nothing_to_check() -> None:
    attempt = a_try()
    window = numbers(Counter(0)).begin(attempt.context)
    attempt.supersede()
    window.check()


@pytest.fixture
def time_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some seconds, each time that somebody looks."""
    now = iter(range(0, 10**6, window_module.CHECK_SECONDS + 1))
    monkeypatch.setattr("airflow_resume.watermarks.windows.window.time.monotonic", lambda: next(now))


@pytest.mark.usefixtures("time_passes")
def test_rows_are_not_read_to_their_end_by_a_replaced_attempt() -> None:
    attempt, mark, written = a_try(), numbers(), []
    window = mark.begin(attempt.context)
    with pytest.raises(SupersededError):
        for row in window.track(rows(1, 2), "n"):
            attempt.supersede()
            written.append(row)
    with pytest.raises(SupersededError):
        window.track(rows(3), "n")


@pytest.mark.usefixtures("time_passes")
def test_slices_that_commit_nothing_are_checked_too() -> None:
    attempt, mark, loaded = a_try(), numbers(Counter(10)), []
    window = mark.begin(attempt.context)
    window.sampled()
    with pytest.raises(SupersededError):
        for piece in window.split(5):
            attempt.supersede()
            loaded.append(piece.start)
    assert loaded == [0]


def test_a_check_costs_no_request_where_no_time_has_passed() -> None:
    attempt, mark = a_try(), numbers()
    window = mark.begin(attempt.context)
    attempt.supersede()  # which the next request would notice
    assert [row["n"] for row in window.track(rows(1), "n")] == [1]
