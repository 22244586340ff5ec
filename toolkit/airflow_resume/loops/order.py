"""What has no order that lasts, as far as that can be known of it without taking anything out."""

from __future__ import annotations

from collections.abc import Iterator, MappingView
from collections.abc import Set as AbstractSet
from inspect import isgenerator
from typing import Any

from airflow_resume.errors import SourceNotReopenableError

_SET_ITERATOR = type(iter(set[int]()))
_OVER_OTHERS = (map, filter, zip, enumerate)
_OF_FOLDERS = {"glob", "os", "pathlib", "pathlib._local"}
"""Modules whose generators give what is in a folder, in the order in which the file system has it."""


def is_unordered(iterable: object) -> bool:
    """Whether it is a set, goes over one, or over a folder. The keys of a dict have an order."""
    if isinstance(iterable, AbstractSet):
        return not isinstance(iterable, MappingView)
    if isinstance(iterable, _SET_ITERATOR) or type(iterable).__name__ == "ScandirIterator":
        return True
    if isinstance(iterable, _OVER_OTHERS):
        return any(map(_goes_over_one, _inside(iterable)))
    return isgenerator(iterable) and _is_unordered_generator(iterable)


def refuse_unordered(iterable: object) -> None:
    """Refuse what has no order that lasts.

    Raises:
        SourceNotReopenableError: saying what to pass.
    """
    if is_unordered(iterable):
        raise SourceNotReopenableError(
            f"A {type(iterable).__name__}{_over(iterable)} has no order that lasts, so no position in it means"
            f" anything.",
            "Pass sorted(...) of it.",
        )


def _inside(iterable: Any) -> list[Any]:
    """What a `map` or the like was made of; a copy of it would have that, and nothing is taken out."""
    made_of = iterable.__reduce__()[1]
    return [made_of[0]] if isinstance(iterable, enumerate) else list(made_of)


def _goes_over_one(part: object) -> bool:
    return isinstance(part, Iterator) and is_unordered(part)


def _is_unordered_generator(generator: Any) -> bool:
    frame = generator.gi_frame
    if frame is None:  # it was gone through
        return False
    if frame.f_globals.get("__name__") in _OF_FOLDERS:
        return True
    over = frame.f_locals.get(".0")  # of a generator expression
    return over is not None and is_unordered(over)


def _over(iterable: object) -> str:
    return "" if isinstance(iterable, AbstractSet) else " over a set or a folder"
