"""Recognises iterables without a stable order, as far as possible without taking an element."""

from __future__ import annotations

from collections.abc import Iterator, MappingView
from collections.abc import Set as AbstractSet
from inspect import isgenerator
from pathlib import PurePath
from typing import Any

from airflow_resume.errors import SourceNotReopenableError

_SET_ITERATOR = type(iter(set[int]()))
_OVER_OTHERS = (map, filter, zip, enumerate)
_OF_FOLDERS = {"glob", "os", "pathlib", "pathlib._local"}
"""Modules whose generators list a folder, in the arbitrary order of the file system."""


def is_unordered(iterable: object) -> bool:
    """Whether it is a set, or iterates over a set or a folder. The keys of a dict have an order."""
    if isinstance(iterable, AbstractSet):
        return not isinstance(iterable, MappingView)
    if isinstance(iterable, _SET_ITERATOR) or type(iterable).__name__ == "ScandirIterator":
        return True
    if isinstance(iterable, _OVER_OTHERS):
        # These are the iterators of which a copy would be made. Nothing is taken from them.
        inner: Any = iterable.__reduce__()[1]
        if isinstance(iterable, map) and _makes_paths(inner[0]):
            return True
        inner = inner[:1] if isinstance(iterable, enumerate) else inner
        return any(isinstance(part, Iterator) and is_unordered(part) for part in inner)
    return isgenerator(iterable) and _is_unordered_generator(iterable)


def refuse_unordered(iterable: object) -> None:
    """Refuse an iterable without a stable order.

    Raises:
        SourceNotReopenableError: saying what to pass.
    """
    if is_unordered(iterable):
        over = "" if isinstance(iterable, AbstractSet) else " over a set or a folder"
        raise SourceNotReopenableError(
            f"A {type(iterable).__name__}{over} has no stable order, so a position in it means nothing in the next"
            f" attempt.",
            "Pass sorted(...) of it.",
            type_name=type(iterable).__name__,
        )


def _makes_paths(function: Any) -> bool:
    """Whether it is what `pathlib` maps over the names in a folder, from Python 3.13 on: a private method of a path."""
    return isinstance(getattr(function, "__self__", None), PurePath) and function.__name__.startswith("_")


def _is_unordered_generator(generator: Any) -> bool:
    frame = generator.gi_frame
    if frame is None:  # it is exhausted
        return False
    if frame.f_globals.get("__name__") in _OF_FOLDERS:
        return True
    over = frame.f_locals.get(".0")  # of a generator expression
    return over is not None and is_unordered(over)
