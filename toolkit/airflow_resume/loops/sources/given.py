"""Making a source from the first argument of `checkpoint`."""

from __future__ import annotations

from collections.abc import AsyncIterable, Callable, Iterable
from typing import Any, TypeVar, cast

from airflow_resume.loops.sources.batches import Batches
from airflow_resume.loops.sources.source import Source
from airflow_resume.loops.sources.stateful import ResumeFunction, Stateful

T = TypeVar("T")


def as_source(source: Source[T] | Iterable[T] | AsyncIterable[T] | Callable[[Any], Any]) -> Source[Any]:
    """The argument itself if it is a source, or else a source made from it.

    An object with `state_dict` and `load_state_dict` becomes a `Stateful`, a function a `ResumeFunction`, and any other
    iterable a `Batches`.

    Raises:
        TypeError: it is none of these. A `str` is refused too: a loop over its characters is hardly intended.
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
    """The source of an iterable. A class may be iterable too, such as an enum."""
    if isinstance(given, (Iterable, AsyncIterable)) and not isinstance(given, (str, bytes, bytearray)):
        return Batches(given)
    what = f"the class {given.__name__}" if isinstance(given, type) else type(given).__name__
    raise TypeError(
        f"checkpoint() needs a source of airflow_resume.loops or an iterable, not {what}.\n"
        f"Put a function that fetches pages into a source: checkpoint(CursorToken(fetch), name=...)."
    )
