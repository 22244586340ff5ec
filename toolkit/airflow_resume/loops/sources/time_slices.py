"""Slices of a period of time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, overload

from airflow_resume.arguments import check_duration, check_function
from airflow_resume.attempt import utc_now
from airflow_resume.loops.sources.source import Source, check_place, members

if TYPE_CHECKING:
    from pydantic import JsonValue


@dataclass(frozen=True)
class TimeSlice:
    """A period in UTC, from `start` (inclusive) to `end` (exclusive)."""

    start: datetime
    """In UTC; part of the slice."""
    end: datetime
    """In UTC; not part of the slice."""


class TimeSlices(Source[TimeSlice]):
    """A period of time, cut into slices of equal length.

    Slices are half-open, in UTC, and counted from `start`; the last one is cut at `end`. The position keeps the end
    that the first attempt had. So a later attempt has the same slices, although "now" is later. A position is the start
    of the next slice, and that end: `{"next": ..., "end": ...}`.

    Examples:
        >>> start = datetime(2026, 1, 1, tzinfo=timezone.utc)
        >>> source = TimeSlices(start, start + timedelta(hours=5), timedelta(hours=2))
        >>> [(piece.start.hour, piece.end.hour) for piece, _ in source.elements(source.first())]
        [(0, 2), (2, 4), (4, 5)]

    Args:
        start: of the first slice; any datetime with a time zone.
        end: of the last slice; None (default) means the time at which the loop is first opened.
        step: the length of a slice.
        now: the clock.

    Raises:
        TypeError: not a datetime, or not a timedelta.
        ValueError: a datetime without a time zone, an end before the start, a step that is not positive.
    """

    kind = "time_slices"
    noun = "slice"

    @overload
    def __init__(
        self, start: datetime, end: datetime | None, step: timedelta, *, now: Callable[[], datetime] = ...
    ) -> None: ...

    @overload
    def __init__(
        self, start: datetime, end: datetime | None = None, *, step: timedelta, now: Callable[[], datetime] = ...
    ) -> None: ...

    def __init__(
        self,
        start: datetime,
        end: datetime | None = None,
        step: timedelta | None = None,
        *,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        self._start = _utc("start", start)
        self._end = None if end is None else _utc("end", end)
        if self._end is not None:
            _refuse_backwards(self._start, self._end)
        self._step = _checked_step(step)
        check_function("now", now)
        self._now = now

    def definition(self) -> Mapping[str, object]:
        """Where the slices begin and how long they are."""
        return {"start": self._start.isoformat(), "step": self._step.total_seconds()}

    def first(self) -> JsonValue:
        """The start, and the end for all attempts."""
        end = self._end or _utc("now()", self._now())
        _refuse_backwards(self._start, end)
        return {"next": self._start.isoformat(), "end": end.isoformat()}

    def numbering(self) -> JsonValue:
        """Slices of the same length are counted from the start."""
        return self._step.total_seconds()

    def steps(self, before: JsonValue, after: JsonValue) -> int | None:
        """The number of slices; the last one may be shorter."""
        start, end = (datetime.fromisoformat(members(each or self.first())["next"]) for each in (before, after))
        return -((start - end) // self._step)

    def check(self, position: JsonValue) -> None:
        """It has the start of the next slice, and the end."""
        place = check_place(position)
        if position is None:
            return
        at, end = (_utc(name, datetime.fromisoformat(place[name])) for name in ("next", "end"))
        if end < at:
            raise ValueError(f"the next slice begins after the end, {place['end']}")

    def total(self, position: JsonValue) -> int | None:
        """The number of slices up to the end in the position."""
        kept = members(position).get("end")
        end = self._end if kept is None else datetime.fromisoformat(kept)
        return None if end is None else -((self._start - end) // self._step)

    def elements(self, position: JsonValue) -> Iterator[tuple[TimeSlice, JsonValue]]:
        """The slices, each with the position after it."""
        place = members(self.first() if position is None else position)
        start, end = datetime.fromisoformat(place["next"]), datetime.fromisoformat(place["end"])
        while start < end:
            stop = end if end - start <= self._step else start + self._step
            yield TimeSlice(start, stop), {"next": stop.isoformat(), "end": place["end"]}
            start = stop


def _utc(name: str, value: object) -> datetime:
    """The time as a plain datetime in UTC, whatever subclass or zone it has."""
    if not isinstance(value, datetime):
        raise TypeError(f"{name}={value!r} must be a datetime, such as datetime(2026, 1, 1, tzinfo=timezone.utc)")
    if value.utcoffset() is None:
        raise ValueError(f"{name}={value!r} has no time zone.\nSay which, such as {name}.replace(tzinfo=timezone.utc).")
    utc = value.astimezone(timezone.utc)
    return datetime(
        utc.year, utc.month, utc.day, utc.hour, utc.minute, utc.second, utc.microsecond, tzinfo=timezone.utc
    )


def _checked_step(step: Any) -> timedelta:
    """The length of a slice; months and years, which pendulum has, are no fixed length."""
    check_duration("step", step)
    if step == timedelta(0):
        raise ValueError("step=timedelta(0) would give infinitely many slices.\nSay how long one is.")
    if getattr(step, "months", 0) or getattr(step, "years", 0):
        raise ValueError(f"step={step!r} is no fixed length of time, as months differ.\nUse days.")
    return timedelta(seconds=step.total_seconds())


def _refuse_backwards(start: datetime, end: datetime) -> None:
    if end < start:
        raise ValueError(f"end={end.isoformat()} is before start={start.isoformat()}.\nSwap them, or move one.")
