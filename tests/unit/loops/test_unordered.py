"""Sets and folders are refused wherever they come from, as far as that can be known."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Any

import pytest

from airflow_resume import checkpoint
from airflow_resume.errors import LoopError, SourceNotReopenableError, WrongAnswerError
from airflow_resume.loops import Batches, CursorToken, Files, Keyset, Offset, Page, PageNumber
from airflow_resume.loops.sources.order import is_unordered
from airflow_resume.store import MemoryStore

NUMBERS = {1, 2}
UNORDERED: dict[str, Callable[[], Any]] = {
    "set": lambda: {1, 2},
    "frozenset": lambda: frozenset([1, 2]),
    "iterator": lambda: iter({1, 2}),
    "map": lambda: map(str, {1, 2}),
    "filter": lambda: filter(None, {1, 2}),
    "zip": lambda: zip([1], {2}, strict=False),
    "enumerate": lambda: enumerate({1, 2}),
    "map of a filter": lambda: map(str, filter(None, {1, 2})),
    "generator expression": lambda: (number for number in NUMBERS),
    "generator expression over a map": lambda: (number for number in map(str, {1, 2})),
    "difference of keys": lambda: {1: 1}.keys() - {2},
}
FOLDERS: dict[str, Callable[[Path], Any]] = {
    "scandir": os.scandir,
    "iterdir": lambda path: path.iterdir(),
    "glob": lambda path: path.glob("*"),
    "rglob": lambda path: path.rglob("*"),
    "walk": os.walk,
    "names of iterdir": lambda path: (each.name for each in path.iterdir()),
}
ORDERED: dict[str, Callable[[], Iterable[Any]]] = {
    "list": lambda: [1, 2],
    "keys": {1: 1, 2: 2}.keys,
    "values": {1: 1}.values,
    "items": {1: 1}.items,
    "counter": lambda: Counter("ab").keys(),
    "map": lambda: map(str, [1, 2]),
    "zip": lambda: zip([1], (2,), strict=True),
    "enumerate": lambda: enumerate("ab"),
    "generator expression": lambda: (number for number in [1, 2]),
    "sorted": lambda: sorted({1, 2}),
    "over a dict": lambda: (name for name in {"a": 1}),
}


def generator(items: Iterable[Any]) -> Iterable[Any]:
    yield from items


@pytest.mark.parametrize("kind", UNORDERED)
def test_what_has_no_order_is_refused_as_a_source(kind: str) -> None:
    for make in (Batches, Files, lambda given: checkpoint(given, name="l", store=MemoryStore())):
        with pytest.raises(SourceNotReopenableError, match=r"no stable order.*\n.*sorted"):
            make(UNORDERED[kind]())  # type: ignore[operator]


@pytest.mark.parametrize("kind", UNORDERED)
def test_and_as_the_items_of_a_page(kind: str) -> None:
    make = UNORDERED[kind]
    for source in (
        CursorToken(lambda _token: Page(make())),
        PageNumber(lambda _number: make()),
        PageNumber(lambda _number: Page(make())),
        Offset(lambda _offset, _limit: make(), limit=9),
        Keyset(lambda _after, _limit: make(), key=lambda row: row, limit=9),
    ):
        for each in (False, True):
            with pytest.raises(WrongAnswerError, match=r"no stable order.*\n.*sorted"):
                list(checkpoint(source, name="l", each=each, store=MemoryStore()))  # type: ignore[call-overload]


@pytest.mark.parametrize("kind", UNORDERED)
def test_and_as_an_element_that_is_delivered_row_by_row(kind: str) -> None:
    def resuming(position: Any) -> Any:
        yield UNORDERED[kind](), 1

    for source in ([UNORDERED[kind]()], resuming):
        with pytest.raises(LoopError, match="each=True needs pages or lists"):
            list(checkpoint(source, name="l", each=True, store=MemoryStore()))  # type: ignore[call-overload]


@pytest.mark.parametrize("kind", FOLDERS)
def test_a_folder_is_in_the_order_of_the_file_system(kind: str, tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    listing = FOLDERS[kind](tmp_path)
    closed = closing(listing) if hasattr(listing, "close") else nullcontext()
    with closed, pytest.raises(SourceNotReopenableError, match="over a set or a folder"):
        Files(listing)


@pytest.mark.parametrize("kind", ORDERED)
def test_what_has_an_order_is_taken_and_nothing_of_it_is_lost_by_looking(kind: str) -> None:
    given = ORDERED[kind]()
    assert not is_unordered(given)
    assert list(given) == list(ORDERED[kind]())
    assert list(checkpoint(ORDERED[kind](), name="l", store=MemoryStore())) == list(ORDERED[kind]())


def test_what_was_gone_through_and_generator_functions_are_looked_at_as_well() -> None:
    finished = (number for number in [1])
    assert list(finished) == [1]
    assert not is_unordered(finished)
    assert not is_unordered(generator({1, 2})), "what is inside a function of the user's cannot be known"
