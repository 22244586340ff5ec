from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import pendulum
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_resume.loops import TimeSlice, TimeSlices

NEW_YEAR = datetime(2026, 1, 1, tzinfo=timezone.utc)
HOUR = timedelta(hours=1)
BERLIN = ZoneInfo("Europe/Berlin")


def slices(source: TimeSlices, position: Any = None) -> list[TimeSlice]:
    return [element for element, _ in source.elements(source.first() if position is None else position)]


@given(
    length=st.timedeltas(timedelta(0), timedelta(days=2)),
    step=st.timedeltas(timedelta(hours=3), timedelta(days=3)),
)
def test_slices_cover_the_stretch_without_gap_or_overlap(length: timedelta, step: timedelta) -> None:
    source = TimeSlices(NEW_YEAR, NEW_YEAR + length, step)
    pieces = slices(source)
    edges = [NEW_YEAR, *(piece.end for piece in pieces)]
    assert [piece.start for piece in pieces] == edges[:-1]
    assert edges[-1] == NEW_YEAR + length
    assert all(piece.end - piece.start == step for piece in pieces[:-1])
    assert all(timedelta(0) < piece.end - piece.start <= step for piece in pieces)
    assert source.total(source.first()) == len(pieces)


def test_now_is_the_time_of_the_first_open_for_every_attempt() -> None:
    clock = iter([NEW_YEAR + 2.5 * HOUR, NEW_YEAR + 9 * HOUR])
    first = TimeSlices(NEW_YEAR, step=HOUR, now=lambda: next(clock)).first()
    assert first == {"next": "2026-01-01T00:00:00+00:00", "end": "2026-01-01T02:30:00+00:00"}
    later = TimeSlices(NEW_YEAR, step=HOUR, now=lambda: next(clock))
    assert later.total(None) is None
    assert later.total(first) == 3
    assert [piece.end.hour + piece.end.minute / 60 for piece in slices(later, first)] == [1, 2, 2.5]
    assert list(later.elements(first))[0][1] == {"next": "2026-01-01T01:00:00+00:00", "end": first["end"]}  # noqa: RUF015


def test_an_end_that_was_moved_since_does_not_count() -> None:
    first = TimeSlices(NEW_YEAR, NEW_YEAR + 2 * HOUR, HOUR).first()
    moved = TimeSlices(NEW_YEAR, NEW_YEAR + 5 * HOUR, HOUR)
    assert len(slices(moved, first)) == moved.total(first) == 2


def test_no_time_is_no_slice() -> None:
    assert slices(TimeSlices(NEW_YEAR, NEW_YEAR, HOUR)) == []
    assert slices(TimeSlices(NEW_YEAR, step=HOUR, now=lambda: NEW_YEAR)) == []
    assert TimeSlices(NEW_YEAR, NEW_YEAR, HOUR).total(None) == 0


def test_the_last_slice_may_end_with_time_itself() -> None:
    end = datetime.max.replace(tzinfo=timezone.utc)
    (piece,) = slices(TimeSlices(end - HOUR, end, timedelta(days=9)))
    assert piece.end == end


@pytest.mark.parametrize(
    "start",
    [
        datetime(2026, 1, 1, 1, tzinfo=BERLIN),
        pendulum.datetime(2026, 1, 1, 1, tz="Europe/Berlin"),
        pendulum.datetime(2026, 1, 1),
    ],
)
def test_any_aware_datetime_becomes_a_plain_one_in_utc(start: datetime) -> None:
    source = TimeSlices(start, start + HOUR, pendulum.duration(minutes=40))
    first, second = slices(source)
    assert first == TimeSlice(NEW_YEAR, NEW_YEAR + timedelta(minutes=40))
    assert {type(edge) for piece in (first, second) for edge in (piece.start, piece.end)} == {datetime}
    assert {edge.tzinfo for piece in (first, second) for edge in (piece.start, piece.end)} == {timezone.utc}
    assert source.definition() == {"start": "2026-01-01T00:00:00+00:00", "step": 2400.0}


def test_slices_do_not_shift_with_the_clocks() -> None:
    start = datetime(2026, 3, 29, 0, tzinfo=BERLIN)
    assert len(slices(TimeSlices(start, datetime(2026, 3, 30, 0, tzinfo=BERLIN), HOUR))) == 23


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: TimeSlices(datetime(2026, 1, 1), NEW_YEAR, HOUR), ValueError, "no time zone.*\n.*timezone.utc"),  # noqa: DTZ001
        (lambda: TimeSlices(NEW_YEAR, datetime(2027, 1, 1), HOUR), ValueError, "end=.*no time zone"),  # noqa: DTZ001
        (lambda: TimeSlices("2026-01-01", NEW_YEAR, HOUR), TypeError, "start='2026-01-01' must be a datetime"),  # type: ignore[call-overload]
        (lambda: TimeSlices(date(2026, 1, 1), NEW_YEAR, HOUR), TypeError, "must be a datetime"),  # type: ignore[call-overload]
        (lambda: TimeSlices(NEW_YEAR, NEW_YEAR - HOUR, HOUR), ValueError, "end=2025.* is before start=2026"),
        (lambda: TimeSlices(NEW_YEAR, NEW_YEAR), TypeError, "step=None must be a timedelta"),  # type: ignore[call-overload]
        (lambda: TimeSlices(NEW_YEAR, step=5), TypeError, "step=5"),  # type: ignore[call-overload]
        (lambda: TimeSlices(NEW_YEAR, step=timedelta(0)), ValueError, "infinitely many slices"),
        (lambda: TimeSlices(NEW_YEAR, step=-HOUR), ValueError, "negative"),
        (lambda: TimeSlices(NEW_YEAR, step=pendulum.duration(months=1)), ValueError, "months differ"),
        (lambda: TimeSlices(NEW_YEAR, step=HOUR, now=lambda: NEW_YEAR - HOUR).first(), ValueError, "is before"),
        (lambda: TimeSlices(NEW_YEAR, step=HOUR, now=datetime.now).first(), ValueError, r"now\(\)=.*no time zone"),
    ],
)
def test_bad_arguments_are_refused(make: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()
