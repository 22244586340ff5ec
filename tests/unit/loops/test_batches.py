from __future__ import annotations

import asyncio
import logging
from collections import UserList, deque
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_resume.errors import SourceChangedError, SourceNotReopenableError
from airflow_resume.loops import Batches


class OneByOne(Sequence[int]):
    """A sequence that cannot be sliced, and notes what it is asked for."""

    def __init__(self, length: int) -> None:
        self.length = length
        self.asked: list[int] = []

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: Any) -> Any:
        if not 0 <= index < self.length:
            raise IndexError(index)
        self.asked.append(index)
        return index


class Both:
    """For `for` and for `async for`."""

    def __iter__(self) -> Iterator[int]:
        raise AssertionError

    async def __aiter__(self) -> AsyncIterator[int]:
        yield 1


async def anumbers(count: int = 5) -> AsyncIterator[int]:
    for number in range(count):
        yield number


def delivered(source: Batches[Any], position: Any = None) -> list[Any]:
    return [element for element, _ in source.elements(position)]


def adelivered(source: Batches[Any], position: Any = None) -> list[Any]:
    async def collected() -> list[Any]:
        return [element async for element, _ in source.aelements(position)]

    return asyncio.run(collected())


ITERABLES: dict[str, Callable[[int], Any]] = {
    "list": lambda count: list(range(count)),
    "tuple": lambda count: tuple(range(count)),
    "range": range,
    "deque": lambda count: deque(range(count)),
    "UserList": lambda count: UserList(range(count)),
    "no slices": OneByOne,
    "iterator": lambda count: iter(range(count)),
    "dict": lambda count: dict.fromkeys(range(count)),
    "keys": lambda count: dict.fromkeys(range(count)).keys(),
}


@given(
    count=st.integers(0, 12),
    done=st.integers(0, 12),
    size=st.integers(1, 5),
    kind=st.sampled_from(sorted(ITERABLES)),
)
def test_from_any_position_come_the_elements_behind_it(count: int, done: int, size: int, kind: str) -> None:
    done = min(done, count)
    batches = delivered(Batches(ITERABLES[kind](count), size=size), done)
    flat = batches if size == 1 else [item for batch in batches for item in batch]
    assert flat == list(range(done, count))
    assert size == 1 or all(len(batch) == size for batch in batches[:-1])


@given(count=st.integers(0, 12), done=st.integers(0, 12), size=st.integers(1, 5))
def test_asynchronous_iterables_give_the_same(count: int, done: int, size: int) -> None:
    done = min(done, count)
    assert adelivered(Batches(anumbers(count), size=size), done) == delivered(Batches(range(count), size=size), done)


def test_a_sequence_is_entered_by_its_index() -> None:
    sequence = OneByOne(1000)
    assert delivered(Batches(sequence), 998) == [998, 999]
    assert sequence.asked == [998, 999]


@pytest.mark.parametrize("collect", [delivered, adelivered])
def test_what_is_gone_through_again_is_logged(collect: Callable[..., Any], caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        collect(Batches(anumbers() if collect is adelivered else iter(range(5))), 3)
    assert "Reading past 3 elements that are done" in caplog.text


def test_what_the_body_appends_to_a_list_is_delivered_also_after_a_retry() -> None:
    for done in (0, 2):
        work, seen = [0, 1, 2], list[int]()
        for item, _ in Batches(work).elements(done):
            seen.append(item)
            if item == 2:
                work.append(3)
        assert seen == [0, 1, 2, 3][done:]


@pytest.mark.parametrize("kind", ITERABLES)
def test_less_elements_than_were_done_are_an_error(kind: str) -> None:
    with pytest.raises(SourceChangedError, match="4 elements were done before, and now there are only 3"):
        delivered(Batches(ITERABLES[kind](3)), 4)
    assert delivered(Batches(ITERABLES[kind](3)), 3) == []


def test_less_elements_are_an_error_for_async_for_as_well() -> None:
    with pytest.raises(SourceChangedError, match="4 elements were done before, and now there are only 3"):
        adelivered(Batches(anumbers(3)), 4)


def test_an_asynchronous_iterable_says_how_it_can_be_looped_over() -> None:
    with pytest.raises(TypeError, match=r"async_generator is asynchronous.*\n.*`async for`"):
        delivered(Batches(anumbers()))


def test_what_can_be_iterated_in_both_ways_is_iterated_in_that_of_the_loop() -> None:
    assert adelivered(Batches(Both())) == [1]


def test_sizes_and_names() -> None:
    sources: list[Batches[Any]] = [Batches(range(7)), Batches(range(7), size=3), Batches(iter(range(7)), size=3)]
    one, three, unknown = sources
    assert [source.total(None) for source in (one, three, unknown)] == [7, 3, None]
    assert [source.total_rows(None) for source in (one, three, unknown)] == [None, 7, None]
    assert [source.rows(6) for source in (one, three)] == [None, 6]
    assert [source.noun for source in (one, three)] == ["element", "list"]
    assert one.definition() == three.definition() == {}


@pytest.mark.parametrize(
    ("iterable", "size", "error", "message"),
    [
        ({1}, 1, SourceNotReopenableError, r"A set has no stable order.*\nPass sorted\(\.\.\.\)"),
        (frozenset("a"), 2, SourceNotReopenableError, "A frozenset"),
        ({1: 2}.keys() | {3}, 1, SourceNotReopenableError, "A set"),
        ("text", 1, TypeError, "not str"),
        (b"bytes", 4, TypeError, "not bytes"),
        (5, 1, TypeError, "not int"),
        ([1], 0, ValueError, "size=0"),
        ([1], 2.5, TypeError, r"size=2\.5"),
        ([1], True, TypeError, "size=True"),
    ],
)
def test_bad_arguments_are_refused_at_the_call(iterable: Any, size: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        Batches(iterable, size=size)


class Frame(list[str]):
    """As a data frame of pandas: its iterator gives the names of its columns."""

    columns = ("id", "name")
    shape = (3, 2)


@pytest.mark.parametrize("size", [1, 2])
def test_a_data_frame_is_refused_with_the_line_to_write(size: int) -> None:
    with pytest.raises(TypeError, match=r"gives its columns.*\n.*frame\.to_dict\('records'\)"):
        Batches(Frame(["id", "name"]), size=size)
