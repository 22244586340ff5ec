"""What every source must do, and what `checkpoint` makes of what it is given."""

from __future__ import annotations

import asyncio
import enum
import importlib
import json
import pkgutil
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import datetime, timedelta, timezone
from inspect import isabstract
from typing import Any

import pytest

from airflow_resume import values
from airflow_resume.errors import SourceNotReopenableError
from airflow_resume.loops import (
    Batches,
    CursorToken,
    Files,
    Keyset,
    Offset,
    Page,
    PageNumber,
    Source,
    TimeSlices,
    sources,
)
from airflow_resume.loops.serial.each import Each
from airflow_resume.loops.sources.given import as_source
from airflow_resume.loops.sources.places import saved
from airflow_resume.loops.sources.stateful import ResumeFunction, Stateful
from tests.support.loops.worlds import SOURCES

NEW_YEAR = datetime(2026, 1, 1, tzinfo=timezone.utc)
ROWS = [{"id": number, "name": f"row {number}"} for number in range(7)]


def by_token(token: Any) -> Page[int]:
    """Pages of 2, 0, 1, 0, 0 and 3 items; the second token is 0."""
    sizes, number = [2, 0, 1, 0, 0, 3], 0 if token is None else token + 1
    return Page([number] * sizes[number], number if number < 5 else None, total=6)


def by_number(number: int) -> list[int]:
    return list(range(7))[3 * (number - 1) : 3 * number]


def by_offset(offset: int, limit: int) -> Page[int]:
    return Page(list(range(7))[offset : offset + limit], total=7)


def by_key(after: Any, limit: int) -> list[dict[str, Any]]:
    return [row for row in ROWS if after is None or row["id"] > after][:limit]


class Counter:
    """Counts to five, and knows how far it is; its state is one object that it changes."""

    def __init__(self) -> None:
        self.state = {"done": 0}

    def state_dict(self) -> dict[str, int]:
        return self.state

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.state.update(state)

    def __iter__(self) -> Iterator[int]:
        while self.state["done"] < 5:
            self.state["done"] += 1
            yield self.state["done"]


def resumed(position: Any) -> Iterator[tuple[str, Any]]:
    day = position or NEW_YEAR
    while day < NEW_YEAR + timedelta(days=4):
        day += timedelta(days=1)
        yield f"before {day:%d}", day


async def aresumed(position: Any) -> AsyncIterator[tuple[str, Any]]:
    for pair in resumed(position):
        yield pair


async def anumbers() -> AsyncIterator[int]:
    for number in range(5):
        yield number


async def afetch(token: Any) -> Page[int]:
    await asyncio.sleep(0)
    return by_token(token)


FOR_BOTH: dict[str, Callable[[], Source[Any]]] = {
    "tokens": lambda: CursorToken(by_token),
    "page numbers": lambda: PageNumber(by_number),
    "page numbers, stop": lambda: PageNumber(by_number, stop=3),
    "page numbers, total": lambda: PageNumber(lambda number: Page(by_number(number), total=7)),
    "offset": lambda: Offset(by_offset, limit=2),
    "offset, exact": lambda: Offset(by_offset, limit=7),
    "keyset": lambda: Keyset(by_key, key="id", limit=3),
    "list": lambda: Batches(list("abcdefg")),
    "tuple": lambda: Batches(tuple("abcdefg")),
    "range": lambda: Batches(range(6)),
    "deque": lambda: Batches(deque("abcde")),
    "iterator": lambda: Batches(iter("abcdefg")),
    "lists": lambda: Batches(list("abcdefg"), size=3),
    "lists of an iterator": lambda: Batches(iter("abcdefg"), size=3),
    "files": lambda: Files([f"{letter}.csv" for letter in "abcde"]),
    "slices": lambda: TimeSlices(NEW_YEAR, NEW_YEAR + timedelta(hours=10), timedelta(hours=3)),
    "stateful": lambda: Stateful(Counter()),
    "function": lambda: ResumeFunction(resumed),
    "each of tokens": lambda: Each(CursorToken(by_token)),
    "each of page numbers": lambda: Each(PageNumber(by_number)),
    "each of offset": lambda: Each(Offset(by_offset, limit=4)),
    "each of keyset": lambda: Each(Keyset(by_key, key="id", limit=3)),
    "each of lists": lambda: Each(Batches(list("abcdefg"), size=3)),
    "nothing": lambda: Batches([]),
    "no pages": lambda: PageNumber(lambda _number: []),
    "no files": lambda: Files([]),
    "no time": lambda: TimeSlices(NEW_YEAR, NEW_YEAR, timedelta(hours=3)),
}
FOR_ASYNC: dict[str, Callable[[], Source[Any]]] = {
    "tokens, awaited": lambda: CursorToken(afetch),
    "asynchronous iterator": lambda: Batches(anumbers()),
    "lists of an asynchronous iterator": lambda: Batches(anumbers(), size=2),
    "asynchronous function": lambda: ResumeFunction(aresumed),
    "each of tokens, awaited": lambda: Each(CursorToken(afetch)),
}


def found(source: Source[Any], position: Any) -> list[tuple[Any, Any]]:
    return [(element, saved(after)) for element, after in source.elements(position)]


def afound(source: Source[Any], position: Any) -> list[tuple[Any, Any]]:
    async def collected() -> list[tuple[Any, Any]]:
        return [(element, saved(after)) async for element, after in source.aelements(position)]

    return asyncio.run(collected())


LAWFUL = [pytest.param(make, found, id=name) for name, make in FOR_BOTH.items()]
LAWFUL += [pytest.param(make, afound, id=f"{name} (async)") for name, make in (FOR_BOTH | FOR_ASYNC).items()]

Collect = Callable[[Source[Any], Any], list[tuple[Any, Any]]]


@pytest.mark.parametrize(("make", "collect"), LAWFUL)
def test_from_every_position_comes_exactly_the_rest(make: Callable[[], Source[Any]], collect: Collect) -> None:
    first = make().first()
    everything = collect(make(), first)
    for done, (_, position) in enumerate([(None, first), *everything]):
        stored = json.loads(json.dumps(position))
        assert collect(make(), stored) == everything[done:]


@pytest.mark.parametrize(("make", "collect"), LAWFUL)
def test_every_position_can_be_stored_and_is_another_one(make: Callable[[], Source[Any]], collect: Collect) -> None:
    positions = [position for _, position in collect(make(), make().first())]
    for position in positions:
        values.check(position)
        assert len(values.dumps(position)) < 200
    assert len(set(map(values.dumps, positions))) == len(positions)


@pytest.mark.parametrize(("make", "collect"), LAWFUL)
def test_what_a_source_says_of_its_positions_fits_what_it_gives(
    make: Callable[[], Source[Any]], collect: Collect
) -> None:
    source = make()
    everything = collect(source, source.first())
    rows = 0
    for element, position in everything:
        assert list(source.changes(position)) == []
        assert source.total(position) in (None, len(everything))
        rows += len(element.items) if isinstance(element, Page) else len(element) if isinstance(element, list) else 0
        assert source.rows(position) in (None, rows)
    assert json.loads(json.dumps(dict(source.definition()))) == source.definition()
    assert source.noun.isalpha()


def test_sources_of_different_kinds_are_told_apart() -> None:
    """Else a position of one would be taken for that of another."""
    all_of_them = [make() for make in (FOR_BOTH | FOR_ASYNC).values()]
    classes = {(type(source), type(getattr(source, "_source", None))) for source in all_of_them}
    assert len({source.kind for source in all_of_them}) == len(classes)


DEPENDS_ON_NOTHING = {
    Batches: "a position is a number of elements, whatever the size of the lists",
    CursorToken: "a token means what the API says",
    Files: "a position has the names",
    ResumeFunction: "a position means what the function says",
    Offset: "a position is a number of items, whatever the limit",
}
"""Sources without a `definition` of their own, and why a position means the same whatever they were given."""


def own_sources() -> list[Any]:
    """The sources of the package: of each module in its folder, and `Each`."""
    for module in pkgutil.iter_modules(sources.__path__):
        importlib.import_module(f"{sources.__name__}.{module.name}")

    def below(kind: Any) -> Iterator[Any]:
        for each in kind.__subclasses__():
            yield each
            yield from below(each)

    found = {kind for kind in below(Source) if kind.__module__.startswith("airflow_resume.") and not isabstract(kind)}
    return sorted(found, key=lambda kind: kind.__name__)


@pytest.mark.parametrize("kind", own_sources())
def test_no_source_is_left_out_of_the_laws_and_of_the_crashes(kind: type[Source[Any]]) -> None:
    assert kind in {type(make()) for make in (FOR_BOTH | FOR_ASYNC).values()}
    looped = {type(as_source(given.make(4))) for given in SOURCES.values()}
    assert kind is Each or kind in looped


@pytest.mark.parametrize("kind", own_sources())
def test_each_source_says_what_its_positions_depend_on_or_it_is_written_down_why_on_nothing(
    kind: type[Source[Any]],
) -> None:
    """Else a source with other arguments would continue at a position that means something else."""
    is_defined = kind.definition is not Source.definition
    assert is_defined is (kind not in DEPENDS_ON_NOTHING)


def test_a_coroutine_function_says_how_it_can_be_looped_over() -> None:
    with pytest.raises(TypeError, match="`async for`"):
        found(CursorToken(afetch), None)


# --- as_source ------------------------------------------------------------------------------------------------


class Color(enum.Enum):
    RED = 1
    BLUE = 2


class CallableCounter(Counter):
    def __call__(self) -> None:
        raise AssertionError


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        ([1, 2], Batches),
        (iter([1]), Batches),
        ({"a": 1}, Batches),
        ({"a": 1}.keys(), Batches),
        (anumbers(), Batches),
        (Color, Batches),
        (Counter(), Stateful),
        (CallableCounter(), Stateful),
        (resumed, ResumeFunction),
        (aresumed, ResumeFunction),
        (lambda position: iter([(1, position)]), ResumeFunction),
    ],
)
def test_what_is_given_becomes_a_source(given: Any, kind: type[Source[Any]]) -> None:
    assert type(as_source(given)) is kind


def test_a_source_stays_as_it_is() -> None:
    source = CursorToken(by_token)
    assert as_source(source) is source


class HalfState:
    def state_dict(self) -> dict[str, int]:
        return {}

    def __iter__(self) -> Iterator[int]:
        return iter([1])


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        (5, TypeError, r"not int.*\n.*checkpoint\(CursorToken\(fetch\), name=\.\.\.\)"),
        (None, TypeError, "not NoneType"),
        ("orders", TypeError, "not str"),
        (b"orders", TypeError, "not bytes"),
        (Counter, TypeError, "not the class Counter"),
        (Page([1]), TypeError, "not Page"),
        ({1, 2}, SourceNotReopenableError, r"Pass sorted\(\.\.\.\)"),
        (HalfState(), SourceNotReopenableError, "no method load_state_dict"),
    ],
)
def test_what_can_be_no_source_is_refused(given: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        as_source(given)
