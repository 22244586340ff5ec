"""What a body says by itself: a value it has seen, that there was none, how far it came."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from airflow_resume import watermark
from airflow_resume.errors import CursorTypeError, WindowNotReadError
from airflow_resume.watermarks import Cursor, Window
from tests.support.kit.raised import having
from tests.support.watermarks.whole_numbers import NUMBERS, a_try, load, numbers, stands

NO_VALUES = [
    None,
    float("nan"),
    np.datetime64("NaT"),
    pd.NaT,
    pd.NA,
    pa.scalar(None),
    pd.DataFrame({"n": []})["n"].max(),
]


def sees(window: Window[Any], *values: Any) -> None:
    for value in values:
        window.observe(value)


def says(*values: Any) -> Callable[[Window[Any]], None]:
    def body(window: Window[Any]) -> None:
        for value in values:
            window.advance(value)

    return body


@pytest.mark.parametrize("nothing", NO_VALUES, ids=repr)
def test_a_body_that_has_looked_and_observed_nothing_leaves_the_mark(nothing: Any) -> None:
    first = a_try()
    load(first, numbers(), lambda window: window.observe(nothing))
    assert stands(first) == "0"
    second = first.next_run()
    load(second, numbers(), lambda window: sees(window, 7, nothing))
    assert stands(second) == "7"


@pytest.mark.parametrize(
    "value", [np.int64(7), pa.scalar(7), pd.Series([3, 7]).max(), pl.Series([3, 7]).max()], ids=repr
)
def test_a_value_of_a_library_is_observed_and_advanced_to_as_what_it_means(value: Any) -> None:
    first = a_try()
    load(first, numbers(), lambda window: window.observe(value))
    assert stands(first) == "7"
    explicit = a_try()
    load(explicit, numbers(advance="explicit"), lambda window: window.advance(value))
    assert stands(explicit) == "7"


@pytest.mark.parametrize(
    ("advance", "remedy"), [("observed", r"window\.observe\(None\)"), ("explicit", r"window\.advance\(window\.start\)")]
)
def test_a_body_that_has_not_looked_is_told_how_to_say_that_it_found_nothing(advance: Any, remedy: str) -> None:
    first = a_try()
    with pytest.raises(
        WindowNotReadError,
        match=rf"\nIf it has found nothing, call {remedy}",
        check=having(problem="unread"),
    ):
        load(first, numbers(advance=advance))


def test_a_body_that_found_nothing_may_say_so_in_explicit_mode() -> None:
    first, mark = a_try(), numbers(advance="explicit", lookback=3)
    for told in (7, None):
        load(first, mark, lambda window, told=told: window.advance(window.start if told is None else told))  # type: ignore[misc]
        assert stands(first) == "7"
        first = first.next_run()


@pytest.mark.parametrize("nothing", NO_VALUES, ids=repr)
def test_there_is_no_advancing_to_no_value(nothing: Any) -> None:
    with pytest.raises(
        CursorTypeError, match=r"(?s)advance\(\) is .*\n.*If nothing was found, call window\.advance\(window\.start"
    ):
        numbers(advance="explicit").begin(a_try().context).advance(nothing)


def test_of_several_calls_of_advance_the_last_counts(caplog: pytest.LogCaptureFixture) -> None:
    first, mark = a_try(), numbers(advance="explicit")
    with caplog.at_level(logging.WARNING, "airflow_resume.watermarks"):
        load(first, mark, says(3, 5, 5, 9))
    assert (stands(first), caplog.records) == ("9", [])


def test_a_later_call_of_advance_may_go_back_and_what_lies_between_is_read_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    first, mark = a_try(), numbers(advance="explicit")
    with caplog.at_level(logging.WARNING, "airflow_resume.watermarks"):
        load(first, mark, says(9, 6))
    assert stands(first) == "6"
    assert "called with 9, and then with the lower 6" in caplog.records[0].getMessage()
    assert load(first.next_run(), mark, lambda window: window.advance(9)).start == 6


def test_of_several_tokens_the_last_counts() -> None:
    first, mark = a_try(), watermark(NUMBERS, initial="", cursor=Cursor.token())
    load(first, mark, says("z", "a"))
    assert stands(first) == "a"
