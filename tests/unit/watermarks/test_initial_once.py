"""A function that gives the initial value is asked once in the life of a mark."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_resume.watermarks import Watermark
from tests.support.watermarks.whole_numbers import MARK, NUMBERS, Counter, a_try, load, marks, numbers, stands


class Asked:
    """An initial value which is another one each time that it is asked for."""

    def __init__(self, first: int = 5) -> None:
        self.answers: list[int] = []
        self.first = first

    def __call__(self) -> int:
        self.answers.append(self.first + len(self.answers))
        return self.answers[-1]


def asking(asked: Asked, clock: Counter, **options: Any) -> Watermark[Any]:
    from airflow_resume.watermarks import Cursor

    return numbers(clock, initial=asked, cursor=Cursor.int(), **options)


def test_it_is_not_asked_when_the_dag_file_is_read() -> None:
    asked = Asked()
    asking(asked, Counter())
    assert asked.answers == []


def test_a_lookback_is_clipped_to_what_it_said_first() -> None:
    asked, clock = Asked(), Counter(8)
    mark = asking(asked, clock, lookback=100)
    attempt = a_try()
    for number in (8, 12, 16):
        clock.number = number
        window = load(attempt, mark)
        assert window.start == 5
        attempt = attempt.next_run()
    assert asked.answers == [5]


def test_a_reset_to_the_initial_value_goes_where_the_first_run_began() -> None:
    asked, clock = Asked(), Counter(8)
    mark = asking(asked, clock)
    attempt = a_try()
    load(attempt, mark)
    again = attempt.next_run()
    mark.reset(again.context)
    assert (stands(again), asked.answers) == ("5", [5])


def test_an_initial_value_that_was_edited_is_what_a_reset_goes_to() -> None:
    attempt = a_try()
    load(attempt, numbers(Counter(8)))
    again = attempt.next_run()
    numbers(Counter(8), initial=3).reset(again.context)
    assert stands(again) == "3"


@pytest.mark.parametrize("how", ["typed", "recovered"])
def test_it_outlives_a_record_that_was_replaced_or_lost(how: str) -> None:
    asked, clock = Asked(), Counter(20)
    mark = asking(asked, clock, lookback=100, on_missing="recover")
    attempt = a_try()
    load(attempt, mark)
    store = attempt.asset_stores[NUMBERS]
    store.set(MARK, 9) if how == "typed" else store.delete(MARK)
    clock.number = 30
    second = attempt.next_run()
    load(second, mark)
    clock.number = 40
    assert load(second.next_run(), mark).start == 5
    assert asked.answers == [5]


def test_a_mark_of_0_1_keeps_the_answer_from_its_next_move_on() -> None:
    asked, clock = Asked(), Counter(8)
    mark = asking(asked, clock, lookback=100)
    attempt = a_try()
    load(attempt, mark)
    store = attempt.asset_stores[NUMBERS]
    record = {key: value for key, value in marks(attempt)[MARK].items() if key != "first"}
    store.set(MARK, record)
    clock.number = 12
    second = attempt.next_run()
    load(second, mark)
    clock.number = 16
    load(second.next_run(), mark)
    assert asked.answers == [5, 6]
