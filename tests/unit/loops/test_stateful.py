from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import datetime, timezone
from functools import partial
from typing import Any

import pytest

from airflow_resume.errors import InvalidValueError, SourceNotReopenableError, ValueTooLargeError, WrongAnswerError
from airflow_resume.loops import Page, Source
from airflow_resume.loops.sources.stateful import ResumeFunction, Stateful


class Reader:
    """Numbers up to three; its state is one object that it changes, with whatever else is given beside it."""

    def __init__(self, **more: Any) -> None:
        self.state: dict[str, Any] = {"done": 0, **more}
        self.calls: list[str] = []

    def state_dict(self) -> Any:
        self.calls.append(f"state {self.state['done']}")
        return self.state

    def load_state_dict(self, state: Any) -> None:
        self.calls.append(f"load {state['done']}")
        self.state = state

    def __iter__(self) -> Iterator[int]:
        while self.state["done"] < 3:
            self.state["done"] += 1
            self.calls.append(f"give {self.state['done']}")
            yield self.state["done"]


class AsyncReader(Reader):
    __iter__ = None  # type: ignore[assignment]

    async def __aiter__(self) -> AsyncIterator[int]:
        for number in Reader.__iter__(self):
            yield number


class SizedReader(Reader):
    def __len__(self) -> int:
        return 3


def found(source: Source[Any], position: Any = None) -> list[Any]:
    return list(source.elements(position))


def afound(source: Source[Any], position: Any = None) -> list[Any]:
    async def collected() -> list[Any]:
        return [pair async for pair in source.aelements(position)]

    return asyncio.run(collected())


# --- objects --------------------------------------------------------------------------------------------------


def test_the_state_is_taken_behind_each_element_before_the_next_is_asked_for() -> None:
    reader = Reader()
    found(Stateful(reader))
    assert reader.calls == ["give 1", "state 1", "give 2", "state 2", "give 3", "state 3"]
    reader = Reader()
    found(Stateful(reader), {"done": 2})
    assert reader.calls == ["load 2", "give 3", "state 3"]


@pytest.mark.parametrize(("reader", "collect"), [(Reader, found), (Reader, afound), (AsyncReader, afound)])
def test_a_position_stays_when_the_object_moves_on(reader: type[Any], collect: Callable[..., Any]) -> None:
    pairs = collect(Stateful(reader()))
    assert pairs == [(1, {"done": 1}), (2, {"done": 2}), (3, {"done": 3})]
    assert collect(Stateful(reader()), pairs[0][1]) == pairs[1:]
    assert pairs[0][1] == {"done": 1}, "nor does the object change what it was given"


def test_states_may_have_the_types_that_can_be_encoded() -> None:
    at = datetime(2026, 1, 1, tzinfo=timezone.utc)
    _, position = found(Stateful(Reader(at=at, pair=(1, 2))))[0]
    again = Reader()
    found(Stateful(again), position)
    assert (again.state["at"], again.state["pair"]) == (at, (1, 2))


@pytest.mark.parametrize(
    ("more", "error", "message"),
    [
        ({"rng": object()}, InvalidValueError, r"Reader\.state_dict\(\)\.rng is a object"),
        ({"loss": float("nan")}, InvalidValueError, r"Reader\.state_dict\(\)\.loss is nan"),
        ({"seen": {1: "a"}}, InvalidValueError, "has the key 1"),
        ({"buffer": "x" * 70_000}, ValueTooLargeError, r"biggest part is \$\.buffer"),
    ],
)
def test_a_state_that_cannot_be_saved_is_named_and_its_element_not_delivered(
    more: dict[str, Any], error: type[Exception], message: str
) -> None:
    delivered: list[Any] = []
    with pytest.raises(error, match=message):
        delivered.extend(Stateful(Reader(**more)).elements(None))
    assert delivered == []


def test_an_asynchronous_object_says_how_it_can_be_looped_over() -> None:
    with pytest.raises(TypeError, match=r"AsyncReader is asynchronous.*\n.*`async for`"):
        found(Stateful(AsyncReader()))


def test_the_class_is_what_states_depend_on() -> None:
    assert Stateful(Reader()).definition() == {"class": "Reader"}
    assert (Stateful(Reader()).total(None), Stateful(SizedReader()).total(None)) == (None, 3)


class OnlySaves:
    def state_dict(self) -> dict[str, int]:
        return {}

    def __iter__(self) -> Iterator[int]:
        return iter([1])


class OnlyLoads:
    def load_state_dict(self, state: Any) -> None: ...

    def __iter__(self) -> Iterator[int]:
        return iter([1])


class NotIterable:
    def state_dict(self) -> dict[str, int]:
        return {}

    def load_state_dict(self, state: Any) -> None: ...


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        (OnlySaves(), SourceNotReopenableError, "no method load_state_dict, so its state cannot be restored"),
        (OnlyLoads(), SourceNotReopenableError, "no method state_dict, so its state cannot be saved"),
        ([1, 2], SourceNotReopenableError, "list has no method state_dict and no method load_state_dict"),
        (NotIterable(), TypeError, "Give it __iter__"),
        (Reader, TypeError, "needs an object"),
    ],
)
def test_an_object_without_all_that_is_needed_is_refused(given: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        Stateful(given)


# --- functions ------------------------------------------------------------------------------------------------


def letters(position: Any) -> Iterator[tuple[str, int]]:
    for number in range(position or 0, 3):
        yield "abc"[number], number + 1


async def aletters(position: Any) -> AsyncIterator[tuple[str, int]]:
    for pair in letters(position):
        yield pair


def from_start(start: int, position: Any) -> Iterator[tuple[str, int]]:
    return letters(position or start)


@pytest.mark.parametrize(("function", "collect"), [(letters, found), (letters, afound), (aletters, afound)])
def test_a_function_is_given_the_position_it_yielded(function: Any, collect: Callable[..., Any]) -> None:
    assert collect(ResumeFunction(function)) == [("a", 1), ("b", 2), ("c", 3)]
    assert collect(ResumeFunction(function), 2) == [("c", 3)]
    assert collect(ResumeFunction(function), 3) == []


def test_anything_that_can_be_called_is_a_function() -> None:
    assert found(ResumeFunction(partial(from_start, 1))) == [("b", 2), ("c", 3)]


def test_positions_may_have_the_types_that_can_be_encoded() -> None:
    at = datetime(2026, 1, 1, tzinfo=timezone.utc)
    given: list[Any] = []

    def function(position: Any) -> Iterator[tuple[int, Any]]:
        given.append(position)
        yield 1, (at, b"x")

    ((_, position),) = found(ResumeFunction(function))
    found(ResumeFunction(function), position)
    assert given == [None, (at, b"x")]


def test_a_position_stays_when_the_function_changes_its_own_object() -> None:
    def function(_position: Any) -> Iterator[tuple[int, Any]]:
        place = {"n": 0}
        for number in range(3):
            place["n"] += 1
            yield number, place

    assert [position for _, position in found(ResumeFunction(function))] == [{"n": 1}, {"n": 2}, {"n": 3}]


@pytest.mark.parametrize("asynchronous", [False, True])
def test_what_the_function_opened_is_closed_when_the_loop_is_left(*, asynchronous: bool) -> None:
    closed: list[str] = []

    def function(position: Any) -> Iterator[tuple[str, int]]:
        try:
            yield from letters(position)
        finally:
            closed.append("sync")

    async def afunction(position: Any) -> AsyncIterator[tuple[str, int]]:
        try:
            for pair in letters(position):
                yield pair
        finally:
            closed.append("async")

    async def left() -> None:
        elements: Any = ResumeFunction(afunction).aelements(None)
        await anext(elements)
        await elements.aclose()

    if asynchronous:
        asyncio.run(left())
    else:
        elements: Any = ResumeFunction(function).elements(None)
        next(elements)
        elements.close()
    assert closed == ["async" if asynchronous else "sync"]


async def coroutine(_position: Any) -> Page[int]:
    raise AssertionError


NO_ITERATORS: dict[str, tuple[Any, str]] = {
    "a page": (lambda _token: Page([1]), r"returned a Page.*\n.*checkpoint\(CursorToken\(fetch\), name=\.\.\.\)"),
    "nothing": (lambda _token: None, r"returned None.*\n.*CursorToken\(fetch\)"),
    "a list": (lambda _page: [1, 2], "returned a list instead of an iterator\\.\nMake it a generator function"),
    "a coroutine": (coroutine, r"coroutine returned a coroutine.*\n.*CursorToken\(fetch\)"),
    "elements": (
        lambda _position: iter([1, 2]),
        r"yielded a int instead of a pair\.\nYield \(element, next_",
    ),
    "lists": (lambda _position: iter([[1, 2]]), "yielded a list instead of a pair"),
    "text": (lambda _position: iter(["ab"]), "yielded a str instead of a pair"),
    "triples": (lambda _position: iter([(1, 2, 3)]), "yielded a tuple instead of a pair"),
}


@pytest.mark.parametrize("collect", [found, afound])
@pytest.mark.parametrize("answer", NO_ITERATORS)
def test_an_answer_that_is_no_iterator_of_pairs_is_named(answer: str, collect: Callable[..., Any]) -> None:
    function, message = NO_ITERATORS[answer]
    with pytest.raises(WrongAnswerError, match=message):
        collect(ResumeFunction(function))


def test_an_asynchronous_function_says_how_it_can_be_looped_over() -> None:
    with pytest.raises(WrongAnswerError, match=r"aletters is asynchronous.*\n.*`async for`"):
        found(ResumeFunction(aletters))


@pytest.mark.parametrize(
    ("position", "message"),
    [
        (None, "the position that function yielded with an element is None"),
        (object(), "is a object"),
        ({1}, "is a set"),
    ],
)
def test_a_position_that_cannot_be_saved_is_named(position: Any, message: str) -> None:
    def function(_position: Any) -> Iterator[tuple[int, Any]]:
        yield 1, position

    with pytest.raises(InvalidValueError, match=message):
        found(ResumeFunction(function))


def test_what_cannot_be_called_is_no_function() -> None:
    with pytest.raises(TypeError, match="needs a function of a position, not list"):
        ResumeFunction([1])  # type: ignore[arg-type]
