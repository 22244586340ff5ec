"""The base of cursors over time, which have a clock, and lengths of time as spans."""

from __future__ import annotations

from abc import abstractmethod
from datetime import date, timedelta
from typing import Any, ClassVar, TypeVar

from airflow_resume.arguments import check_duration
from airflow_resume.watermarks.cursors.cursor_type import CursorType, Span, refusal
from airflow_resume.watermarks.cursors.scalars import plain

D = TypeVar("D", bound=date)


class TimedCursor(CursorType[D]):
    """Points in time, or days."""

    has_spans: ClassVar[bool] = True
    has_clock: ClassVar[bool] = True

    @property
    @abstractmethod
    def _bounds(self) -> tuple[D, D]:
        """The first and the last value that Python has."""

    @property
    def no_span(self) -> timedelta:
        """A length of 0."""
        return timedelta(0)

    def check_span(self, name: str, span: object) -> None:
        """Refuse a span that is not a length of time.

        Raises:
            CursorTypeError: not a timedelta, or for days not a whole number of days. ValueError: a negative one.
        """
        self._length(name, span)

    def plus(self, value: D, span: Span) -> D:
        """The value `span` later, or the greatest one."""
        length = self._length("span", span)
        try:
            return value + length
        except OverflowError:
            return self._bounds[1]

    def minus(self, value: D, span: Span) -> D:
        """The value `span` earlier, or the least one."""
        length = self._length("span", span)
        try:
            return value - length
        except OverflowError:
            return self._bounds[0]

    def _length(self, name: str, span: object) -> timedelta:
        if not isinstance(span, timedelta):
            raise refusal(span, f"Write a length of time, such as {name}=timedelta(days=1).", what=name)
        check_duration(name, span)
        return plain_length(span)


def plain_length(span: timedelta) -> timedelta:
    """A plain timedelta; one of pandas would give a Timestamp when it is added to a datetime."""
    return timedelta(days=span.days, seconds=span.seconds, microseconds=span.microseconds)


def checked_granularity(granularity: timedelta | None) -> timedelta | None:
    """The granularity as a plain timedelta.

    Raises:
        TypeError: not a timedelta. ValueError: 0 or negative.
    """
    if granularity is None:
        return None
    check_duration("granularity", granularity)
    if not granularity:
        raise ValueError("granularity must be above 0, such as timedelta(seconds=1).\nGive that, or leave it out.")
    return plain_length(granularity)


def whole_days(span: timedelta) -> int:
    """How many days it is; 0 if it is not a whole number of days."""
    return 0 if span % timedelta(days=1) else span.days


def unboxed(value: Any) -> Any:
    """A datetime64 of NumPy as a datetime or date; anything else, and NaT, unchanged."""
    kind = type(value)
    if (kind.__module__, kind.__name__) != ("numpy", "datetime64"):
        return value
    found = plain(value)
    return value if found is None else found
