from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_resume.errors import (
    EndlessSourceError,
    InvalidValueError,
    TokenExpiredError,
    ValueTooLargeError,
    WrongAnswerError,
)
from airflow_resume.loops import CursorToken, Page


class GoneError(Exception):
    """The API answered with 410."""


def following(tokens: list[Any]) -> Callable[[Any], Page[Any]]:
    """A fetch whose pages hand out these tokens, one after the other, whatever it is asked for."""
    left = iter(tokens)
    return lambda token: Page([token], next(left))


def items(source: CursorToken[Any], position: Any = None) -> list[list[Any]]:
    return [list(page.items) for page, _ in source.elements(position)]


def test_positions_are_the_next_token_and_count_the_rows() -> None:
    pages = {None: Page([1, 2], "a"), "a": Page([], 0), 0: Page([3], "")}
    source: CursorToken[int] = CursorToken(pages.__getitem__)
    assert [after for _, after in source.elements(None)] == [
        {"token": "a", "rows": 2},
        {"token": 0, "rows": 2},
        {"end": True, "rows": 3},
    ]
    assert source.first() is None
    assert source.rows(None) == 0
    assert source.rows({"end": True, "rows": 3}) == 3


@pytest.mark.parametrize("end", [None, ""])
def test_nothing_follows_the_page_without_a_next(end: Any) -> None:
    assert items(CursorToken(following([end]))) == [[None]]


@pytest.mark.parametrize("token", [0, False, "0", 1.5, [], {}, {"pk": "a", "sk": None}])
def test_any_other_json_is_a_token(token: Any) -> None:
    assert items(CursorToken(following([token, None]))) == [[None], [token]]


def test_behind_the_end_nothing_is_fetched() -> None:
    def fetch(_token: Any) -> Page[int]:
        raise AssertionError

    assert items(CursorToken(fetch), {"end": True, "rows": 9}) == []


def test_items_that_can_be_gone_through_once_only_become_a_list() -> None:
    answer: Any = Page(iter([1, 2]))  # type: ignore[arg-type]
    source: CursorToken[int] = CursorToken(lambda _token: answer)
    page, after = next(source.elements(None))
    assert page.items == [1, 2]
    assert after == {"end": True, "rows": 2}


def test_the_totals_are_those_that_a_page_said_last() -> None:
    pages = {None: Page([1], "a", pages=9, total=9), "a": Page([2], "b", pages=3, total=3), "b": Page([3])}
    source: CursorToken[int] = CursorToken(pages.__getitem__)
    assert (source.total(None), source.total_rows(None)) == (None, None)
    assert [source.total(after) for _, after in source.elements(None)] == [9, 3, 3]
    assert source.total_rows(None) == 3


# --- tokens that come round -----------------------------------------------------------------------------------


@given(tail=st.integers(0, 60), period=st.integers(1, 60), resumed=st.booleans())
def test_tokens_that_come_round_are_found_soon(tail: int, period: int, *, resumed: bool) -> None:
    def fetch(token: Any) -> Page[int]:
        number = -1 if token is None else token
        return Page([number], number + 1 if number + 1 < tail + period else tail)

    delivered = 0
    with pytest.raises(EndlessSourceError, match="would never end"):
        for _ in CursorToken(fetch).elements({"token": 0, "rows": 0} if resumed else None):
            delivered += 1
            assert delivered <= 3 * (tail + period) + 3


@given(tokens=st.lists(st.one_of(st.integers(2, 2**64 - 1), st.text("abcä", min_size=1)), unique=True, max_size=80))
def test_tokens_that_all_differ_are_never_refused(tokens: list[Any]) -> None:
    assert len(items(CursorToken(following([*tokens, None])))) == len(tokens) + 1


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        (["a", "a"], "The page of token 'a' names that same token"),
        (["a", "b", "c", "d", "e", "f", "f"], "The page of token 'f' names that same token"),
        (["a", "b", "a"], "The page of token 'b' names 'a', which was fetched before"),
    ],
)
def test_a_token_that_repeats_is_named_and_its_page_not_delivered(tokens: list[str], message: str) -> None:
    delivered: list[Any] = []
    with pytest.raises(EndlessSourceError, match=message):
        delivered.extend(CursorToken(following(tokens)).elements(None))
    assert len(delivered) < len(tokens)


# --- pages without items --------------------------------------------------------------------------------------


def empty_but(filled: set[int]) -> Callable[[Any], Page[int]]:
    def fetch(token: Any) -> Page[int]:
        number = token or 0
        return Page([number] if number in filled else [], number + 1 if number < 20 else None)

    return fetch


def test_endless_pages_without_items_are_an_error_that_names_the_remedy() -> None:
    with pytest.raises(EndlessSourceError, match=r"6 pages in a row.*\n.*max_empty="):
        items(CursorToken(empty_but({3}), max_empty=5))


def test_a_few_pages_without_items_are_delivered() -> None:
    assert len(items(CursorToken(empty_but({5, 11, 17}), max_empty=5))) == 21
    assert len(items(CursorToken(empty_but(set()), max_empty=20))) == 21, "the last page ends the loop by itself"
    assert len(items(CursorToken(empty_but(set(range(21))), max_empty=0))) == 21


# --- tokens that are too old ----------------------------------------------------------------------------------


def too_old(error: Exception) -> bool:
    return "410" in str(error)


EXPIRED: list[Any] = [GoneError, (KeyError, GoneError), too_old]


def failing_at(token: Any) -> Callable[[Any], Page[int]]:
    def fetch(asked: Any) -> Page[int]:
        if asked == token:
            raise GoneError("410")
        return Page([1], "t")

    return fetch


@pytest.mark.parametrize("expired", EXPIRED)
def test_an_expired_token_is_told_from_other_failures(expired: Any) -> None:
    source = CursorToken(failing_at("t"), expired=expired)
    delivered: list[Any] = []
    with pytest.raises(TokenExpiredError, match="'t'") as caught:
        delivered.extend(source.elements(None))
    assert isinstance(caught.value.__cause__, GoneError)


@pytest.mark.parametrize("expired", EXPIRED)
def test_the_first_page_has_no_token_that_could_expire(expired: Any) -> None:
    with pytest.raises(GoneError):
        items(CursorToken(failing_at(None), expired=expired))


@pytest.mark.parametrize("expired", [None, KeyError, (), lambda _error: False])
def test_another_failure_stays_what_it_is(expired: Any) -> None:
    with pytest.raises(GoneError):
        items(CursorToken(failing_at("t"), expired=expired), {"token": "t", "rows": 1})


def test_a_fetch_that_is_a_coroutine_function_is_no_expired_token() -> None:
    async def fetch(_token: Any) -> Page[int]:
        raise AssertionError

    with pytest.raises(WrongAnswerError, match="`async for`"):
        items(CursorToken(fetch, expired=Exception), {"token": "t", "rows": 1})


def test_a_fetch_that_raises_stop_iteration_does_not_end_the_loop() -> None:
    def fetch(_token: Any) -> Page[int]:
        raise StopIteration

    with pytest.raises(RuntimeError, match="StopIteration"):
        items(CursorToken(fetch))


def test_age_and_policy_are_for_the_loop_to_read() -> None:
    source = CursorToken(failing_at("t"), max_age=timedelta(hours=1), on_expired="fail")
    assert (source.max_age, source.on_expired) == (timedelta(hours=1), "fail")
    assert CursorToken(failing_at("t")).on_expired is None


# --- bad input ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "error", "message"),
    [
        ([1], WrongAnswerError, r"fetch\('t'\) returned a list\.\nReturn a Page\(items, next\)"),
        (None, WrongAnswerError, "returned a NoneType"),
        (Page(None), WrongAnswerError, "returned None instead of the items of a page"),  # type: ignore[arg-type]
        (Page("text"), WrongAnswerError, "a str instead of the items"),
        (Page({"a": 1}), WrongAnswerError, "a dict instead of the items"),  # type: ignore[arg-type]
        (Page([], total="9"), WrongAnswerError, "total='9'\\.\nGive a whole number"),  # type: ignore[arg-type]
        (Page([], pages=True), WrongAnswerError, "pages=True"),
        (Page([1], float("nan")), InvalidValueError, "the token after 't' is nan"),
        (Page([1], {"at": object()}), InvalidValueError, r"the token after 't'\.at"),  # type: ignore[dict-item]
        (Page([1], "x" * 70_000), ValueTooLargeError, "the token"),
    ],
)
def test_a_fetch_that_answers_nonsense_is_named(answer: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        items(CursorToken(lambda _token: answer), {"token": "t", "rows": 1})


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"fetch": [1]}, TypeError, "needs a function to fetch with"),
        ({"expired": int}, TypeError, "expired="),
        ({"expired": "410"}, TypeError, "expired="),
        ({"expired": (KeyError, 5)}, TypeError, "expired="),
        ({"max_age": 5}, TypeError, "max_age="),
        ({"on_expired": "again"}, ValueError, "on_expired='again'"),
        ({"max_empty": -1}, ValueError, "max_empty=-1"),
        ({"max_empty": 1.5}, TypeError, "max_empty=1.5"),
    ],
)
def test_bad_arguments_are_refused_at_the_call(arguments: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        CursorToken(**{"fetch": failing_at("t"), **arguments})
