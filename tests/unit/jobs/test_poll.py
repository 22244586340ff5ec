"""A question that fails in passing is asked again, so often and no oftener, with pauses in between."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from airflow_resume import PollPolicy
from airflow_resume.jobs.poll import Clock, ask_patiently


class Asked:
    """Fails so often, then answers; notes the pauses."""

    def __init__(self, failures: int) -> None:
        self.failures = failures
        self.questions = 0
        self.pauses: list[float] = []

    def __call__(self) -> int:
        self.questions += 1
        if self.questions <= self.failures:
            raise ConnectionResetError(self.questions)
        return self.questions

    def patiently(self, *, most: int, is_transient: Callable[[BaseException], bool] = lambda _error: True) -> int:
        policy = PollPolicy(
            interval=timedelta(seconds=1), max_interval=timedelta(seconds=60), jitter=0, max_consecutive_errors=most
        )
        return ask_patiently(self, is_transient, policy, Clock(sleep=self.pauses.append))


@pytest.mark.parametrize(("failures", "pauses"), [(0, []), (1, [1]), (3, [1, 2, 4])])
def test_each_failure_costs_one_pause_and_the_answer_comes_through(failures: int, pauses: list[float]) -> None:
    asked = Asked(failures)
    assert asked.patiently(most=4) == failures + 1
    assert asked.pauses == pauses


@pytest.mark.parametrize("most", [1, 2, 10])
def test_the_last_failure_that_is_borne_is_raised(most: int) -> None:
    asked = Asked(most)
    with pytest.raises(ConnectionResetError, match=f"^{most}$"):
        asked.patiently(most=most)
    assert (asked.questions, len(asked.pauses)) == (most, most - 1)


@pytest.mark.parametrize("passing", [0, 1])
def test_an_error_that_does_not_pass_is_raised_at_once(passing: int) -> None:
    asked = Asked(9)
    with pytest.raises(ConnectionResetError, match=f"^{passing + 1}$"):
        asked.patiently(most=9, is_transient=lambda error: error.args[0] <= passing)
    assert asked.questions == passing + 1
