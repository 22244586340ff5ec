"""A source that gives at most so many rows: the mark moves to the last row of a full page."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_resume import watermark
from airflow_resume.errors import ColumnError, CursorTypeError, RowOrderError, WatermarkError, WindowNotReadError
from airflow_resume.watermarks import Cursor, Window
from tests.support.kit.raised import having
from tests.support.watermarks.whole_numbers import NUMBERS, Counter, a_try, load, numbers, rows, stands

LIMIT = 3


def page_of(*source: int, limit: int = LIMIT, **options: Any) -> Callable[[Window[Any]], list[int]]:
    """A body that reads one page of the source."""

    def body(window: Window[Any]) -> list[int]:
        found = [n for n in sorted(source) if n >= window.start and (not window.has_end or n < window.end)][:limit]
        return [row["n"] for row in window.track(rows(*found), "n", limit=limit, **options)]

    return body


@pytest.mark.parametrize("mode", ["window", "observed"])
def test_all_pages_are_loaded_run_by_run(mode: str) -> None:
    mark, attempt, got = numbers(Counter(10), advance=mode), a_try(), []
    for _ in range(5):
        window = load(attempt, mark, lambda window: got.extend(page_of(1, 2, 3, 4, 5, 6, 7)(window)))
        attempt = attempt.next_run()
    assert sorted(set(got)) == [1, 2, 3, 4, 5, 6, 7]
    assert (window.empty, stands(attempt)) == ((True, "10") if mode == "window" else (False, "7"))


def test_a_page_that_is_not_full_moves_the_mark_to_the_end() -> None:
    attempt = a_try()
    load(attempt, numbers(Counter(10)), page_of(1, 2))
    assert stands(attempt) == "10"


@pytest.mark.parametrize(
    "make",
    [
        lambda found: pd.DataFrame({"n": found}),
        lambda found: pa.table({"n": found}),
        lambda found: iter([pd.DataFrame({"n": found[:2]}), pd.DataFrame({"n": found[2:]})]),
    ],
)
def test_frames_are_pages_too(make: Callable[[list[int]], Any]) -> None:
    attempt = a_try()
    load(attempt, numbers(Counter(10)), lambda window: list(window.track(make([1, 2, 4]), "n", limit=3)))
    assert stands(attempt) == "4"


def test_page_after_page_the_last_one_counts() -> None:
    attempt = a_try()

    def body(window: Window[Any]) -> None:
        for found in ((1, 2, 3), (3, 4, 5), (5, 6)):
            list(window.track(rows(*found), "n", limit=LIMIT))

    load(attempt, numbers(Counter(10)), body)
    assert stands(attempt) == "10"


def test_in_slices_the_mark_stops_at_the_first_full_page() -> None:
    attempt = a_try()

    def body(window: Window[Any]) -> None:
        for piece in window.split(5):
            found = [n for n in (1, 2, 3, 4, 6) if piece.start <= n < piece.end][:LIMIT]
            list(piece.track(rows(*found), "n", limit=LIMIT))

    load(attempt, numbers(Counter(10)), body)
    assert stands(attempt) == "3"


@pytest.mark.parametrize("options", [{}, {"lookback": 5}])
def test_a_full_page_without_a_row_after_the_mark_is_an_error(options: dict[str, Any]) -> None:
    clock, attempt = Counter(8), a_try()
    mark = numbers(clock, **options)
    load(attempt, mark)
    clock.number = 20
    with pytest.raises(WindowNotReadError, match=r"keyset.*lookback", check=having(problem="full page")) as raised:
        load(attempt.next_run(), mark, page_of(8, 8, 8, 9) if not options else page_of(3, 4, 5, 9))
    assert isinstance(raised.value, AirflowFailException)
    assert stands(attempt) == "8"


def test_a_keyset_goes_on_within_a_value() -> None:
    cursor = Cursor.keyset(Cursor.int(), Cursor.int())
    mark = watermark(NUMBERS, initial=(0, 0), cursor=cursor, now=lambda: (9, 0), delay=0)
    attempt, got = a_try(), []
    source = [{"n": 5, "id": number} for number in range(7)]
    for _ in range(4):
        with mark.open(attempt.context) as window:
            there = [row for row in source if window.start <= (row["n"], row["id"])][:LIMIT]
            got += [row["id"] for row in window.track(there, ["n", "id"], unique=True, limit=LIMIT)]
        attempt.succeed()
        attempt = attempt.next_run()
    assert got == list(range(7))


def test_a_page_is_in_the_order_of_the_cursor() -> None:
    with pytest.raises(RowOrderError, match=r"in the order of|comes after one"):
        load(a_try(), numbers(Counter(10)), lambda window: list(window.track(rows(2, 1), "n", limit=2)))


def test_a_limit_is_a_number_above_nothing() -> None:
    with pytest.raises(ValueError, match="limit"):
        numbers(Counter(10)).begin(a_try().context).track(rows(1), "n", limit=0)


def test_a_full_page_is_lost_by_a_deferral() -> None:
    window = numbers(Counter(10)).begin(a_try().context)
    list(window.track(rows(1), "n", limit=1))
    with pytest.raises(WindowNotReadError, match="full page", check=having(problem="deferred")):
        window.progress.check_deferral(goes_on=True)


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (lambda window: list(window.track(rows(2, 1), "n", ordered=True)), RowOrderError),
        (lambda window: list(window.track(rows(1), "other")), ColumnError),
        (lambda window: list(window.track([{"n": "x"}], "n")), CursorTypeError),
        (lambda _window: None, WindowNotReadError),
    ],
)
def test_an_error_of_a_row_is_told_by_the_mark_and_the_asset(
    body: Callable[[Window[Any]], object], kind: type[WatermarkError]
) -> None:
    with pytest.raises(kind) as told:
        load(a_try(), numbers(None, advance="observed", delay=None), body)
    assert told.value.asset == NUMBERS.name
    assert str(told.value.key).startswith("resume.watermark.")
