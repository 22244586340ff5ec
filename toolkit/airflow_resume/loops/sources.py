"""What `checkpoint` is given, as a source."""

from __future__ import annotations

from collections.abc import AsyncIterable, Callable, Iterable
from typing import Any, TypeVar, cast

from airflow_resume.loops.batches import Batches
from airflow_resume.loops.source import Source
from airflow_resume.loops.stateful import ResumeFunction, Stateful

T = TypeVar("T")


def as_source(source: Source[T] | Iterable[T] | AsyncIterable[T] | Callable[[Any], Any]) -> Source[Any]:
    """The source itself, or the one that an object stands for.

    An object with `state_dict` and `load_state_dict` is `Stateful`, a function is a `ResumeFunction`, and any other
    iterable is `Batches`.

    Raises:
        TypeError: none of these, or a text, whose characters are hardly what is meant.
        SourceNotReopenableError: a set, or half of `state_dict` and `load_state_dict`.
    """
    if isinstance(source, Source):
        return source
    given: Any = source
    if isinstance(given, type):
        return _of_iterable(given)
    if hasattr(given, "state_dict") or hasattr(given, "load_state_dict"):
        return Stateful(given)
    if callable(given):
        return ResumeFunction(cast("Callable[[Any], Any]", given))
    return _of_iterable(given)


def _of_iterable(given: Any) -> Source[Any]:
    """A class may be iterable as well: an enum is."""
    if isinstance(given, (Iterable, AsyncIterable)) and not isinstance(given, (str, bytes, bytearray)):
        return Batches(given)
    raise TypeError(
        f"checkpoint() needs a source of airflow_resume.loops or an iterable, not {_named(given)}.\n"
        f"Put a function that fetches pages into a source: checkpoint(CursorToken(fetch), name=...)."
    )


def _named(given: object) -> str:
    return f"the class {given.__name__}" if isinstance(given, type) else type(given).__name__
