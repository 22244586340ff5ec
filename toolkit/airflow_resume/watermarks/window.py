"""The window a run loads: its bounds, what went through it, and how far the mark may move for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import date, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, Generic, Literal, cast
from zoneinfo import ZoneInfo

from typing_extensions import TypeVar

from airflow_resume.errors import NothingReadError, WatermarkError
from airflow_resume.watermarks.cursor import CursorType
from airflow_resume.watermarks.record import Origin, Pending, WindowRecord, WindowState
from airflow_resume.watermarks.sql import Style, predicate
from airflow_resume.watermarks.track import THE_ONE, Future, Nulls, Tally, Tracker, Unique, kept_ties

if TYPE_CHECKING:
    from pydantic import JsonValue

RowT = TypeVar("RowT")
T = TypeVar("T", default=Any)

Advance = Literal["window", "observed", "explicit"]


class Window(Generic[T]):
    """Load the rows with `start <= value < end`, and replace what an earlier attempt may have loaded of them.

    Args:
        record: as it is kept; None when there is nothing to load.
        start, end: half-open, in the cursor's zone; no end: whatever is there.
        at: where the mark stands. With a lookback the window starts before it.
        partition: of the asset that is loaded.
    """

    def __init__(
        self,
        *,
        cursor: CursorType[T],
        start: T,
        end: T | None,
        at: T,
        record: WindowRecord | None,
        advance: Advance = "window",
        nulls: Nulls = "raise",
        future: Future = "exclude",
        partition: JsonValue = None,
        is_retry: bool = False,
        reset: Pending | None = None,
        commit_slice: Callable[[Window[T], T], None] | None = None,
        stage: Callable[[Window[T]], dict[str, JsonValue]] | None = None,
    ) -> None:
        self.record = record
        self.partition = partition
        self.is_retry = is_retry
        """An earlier attempt of this run began the same window, and may have loaded a part of it."""
        self._cursor, self._advance = cursor, advance
        self._start, self._end, self._at = start, end, at
        self._nulls, self._future = nulls, future
        self._settles = record is not None and record.settles
        limit = None if record is None else record.limit
        self._limit = None if limit is None else cursor.parse(limit, what="the limit")
        self.tally = Tally()
        """What went through `track` and `observe`."""
        self._told: T | None = None
        self._failed_from: T | None = None
        self._reset = reset
        self._known = frozenset(() if record is None else record.ties or ())
        self._sampled = self._has_read = False
        self._open_reads = 0
        self._commit_slice, self._stage = commit_slice, stage

    # --- what there is to load --------------------------------------------------------------------------------

    @property
    def start(self) -> T:
        """Where to begin; this value included."""
        return self._cursor.present(self._start)

    @property
    def end(self) -> T:
        """Where to end; this value not included.

        Raises:
            WatermarkError: the window has no end; see `has_end`.
        """
        if self._end is None:
            raise WatermarkError("This window has no end: load whatever is there from its start on.")
        return self._cursor.present(self._end)

    @property
    def has_end(self) -> bool:
        """Whether there is an end; a window of `advance="observed"` without a clock has none."""
        return self._end is not None

    @property
    def empty(self) -> bool:
        """Whether there is nothing to load."""
        return self.record is None

    @property
    def is_initial(self) -> bool:
        """Nothing was loaded before."""
        return self._reset in {"initial", "reset"}

    @property
    def is_reset(self) -> bool:
        """A person or a program has set the mark back, and nothing was loaded from there yet."""
        return self._reset in {"rewind", "reset"}

    @property
    def is_replay(self) -> bool:
        """This run finished the window before; its task was cleared."""
        return self.record is not None and self.record.state is WindowState.COMMITTED

    @property
    def origin(self) -> Origin:
        """Where the bounds come from: the mark, the run's conf, or a backfill's data interval."""
        return "mark" if self.record is None else self.record.origin

    def sql(self, column: str | list[str], *, style: Style = "named") -> tuple[str, dict[str, Any] | list[Any]]:
        """The condition of a query for these rows, and its parameters.

        Args:
            column: the cursor's; several for a keyset. It goes into the text as it is.
            style: of the placeholders, as the driver's `paramstyle` has it.
        """
        return predicate(
            column,
            start=self.start,
            end=None if self._end is None else self.end,
            after=self._start == self._at and THE_ONE in self._known,
            keeps_nulls=self._nulls == "keep",
            style=style,
        )

    def start_as(self, form: str, tz: str | None = None) -> str | int:
        """The start as another system wants it; rounded down, never up.

        Args:
            form: `"iso"`, `"date"`, `"epoch"`, `"epoch_ms"`, `"epoch_us"`, or a format of `strftime`.
            tz: the zone of the text, such as `"Europe/Berlin"`; UTC by default.
        """
        return formatted(self._start, form, tz)

    def end_as(self, form: str, tz: str | None = None) -> str | int:
        """The end, in the same forms; rounded up, as the mark moves over all that lies before the end.

        Rows behind the end that the other system then gives, `track` leaves to a later run.
        """
        _ = self.end
        return formatted(self._end, form, tz, up=True)

    # --- what was loaded --------------------------------------------------------------------------------------

    def track(
        self,
        rows: Iterable[RowT],
        key: str | Callable[[RowT], Any],
        *,
        unique: Unique[RowT] = None,
        ordered: bool = False,
    ) -> Iterator[RowT]:
        """The rows, on their way to be loaded, watched: iterate what comes back, to its end.

        Args:
            rows: of the source.
            key: the name of the cursor's column, or a function of the row.
            unique: what tells rows with the same cursor value apart (a column or a function; True if the value is
                unique by itself): rows at the mark that were loaded before are passed over then, not loaded again.
            ordered: the rows come in the order of the cursor; an error if they do not.

        Raises:
            CursorColumnError, CursorTypeError, NullCursorError, FutureRowError, UnsortedRowsError: at the row.
        """
        tracker = Tracker(
            cursor=self._cursor,
            at=self._at,
            start=self._start,
            end=self._end,
            nulls=self._nulls,
            future=self._future,
            known=self._known,
        )
        self._has_read = True
        self._open_reads += 1
        return self._read_to_its_end(tracker.tracked(rows, key, self.tally, unique=unique, ordered=ordered))

    def _read_to_its_end(self, elements: Iterator[RowT]) -> Iterator[RowT]:
        yield from elements
        self._open_reads -= 1

    def observe(self, value: object) -> None:
        """A row with this cursor value was loaded (where `track` does not fit)."""
        self._has_read = True
        self.tally.see(self._cursor.parse(value, what="observe()"))

    def advance(self, value: object) -> None:
        """Everything before this value is loaded: the mark moves there, and not to what was observed."""
        self._told = self._cursor.parse(value, what="advance()")

    def fail_from(self, value: object) -> None:
        """What lies at this value or behind it is not loaded: the mark moves no further than to it."""
        failed = self._cursor.parse(value, what="fail_from()")
        if self._failed_from is None or failed < self._failed_from:  # type: ignore[operator]
            self._failed_from = failed

    def sampled(self) -> None:
        """This run only looked: the mark does not move."""
        self._sampled = True

    def split(self, step: Any) -> Iterator[Window[T]]:
        """The window in slices, each committed when the next is asked for; a retry goes on at the first that is not.

        Args:
            step: the length of a slice.

        Raises:
            WatermarkError: the window has no end.
            ValueError: a step of nothing.
        """
        self._cursor.check_span("step", step)
        if not step:
            raise ValueError("step must be longer than nothing")
        _ = self.end
        self._has_read = True
        self._open_reads += 1
        return self._read_to_its_end(self._slices(step))

    def _slices(self, step: Any) -> Iterator[Window[T]]:
        start: Any = self._start
        if self.record is not None and self.record.done is not None:
            start = self._cursor.parse(self.record.done, what="the slices done")
        end: Any = self._end
        while start < end:
            later: Any = self._cursor.plus(start, step)
            stop = min(later, end)
            piece = self._slice(start, stop)
            yield piece
            self._take_up(piece, stop)
            if stop < end and self._commit_slice is not None and self.commits:
                self._commit_slice(self, self._limited(stop))
            start = stop

    def _take_up(self, piece: Window[T], stop: T) -> None:
        """What the body has said about a slice holds for the whole window."""
        piece.check_read()
        self.tally.add(piece.tally)
        self._sampled = self._sampled or piece._sampled
        if piece._failed_from is not None:
            self.fail_from(piece._failed_from)
        told: Any = piece._told
        if told is not None and told < stop:
            self.fail_from(told)
        if self._advance == "explicit":
            self._told = piece._told

    def _slice(self, start: T, stop: T) -> Window[T]:
        """A window of its own, which the whole one commits."""
        return Window(
            cursor=self._cursor,
            start=start,
            end=stop,
            at=self._at,
            record=self.record,
            advance=self._advance,
            nulls=self._nulls,
            future=self._future,
            partition=self.partition,
            is_retry=self.is_retry,
            reset=self._reset,
        )

    def stage(self) -> dict[str, JsonValue]:
        """What was loaded, for `Watermark.commit` in a later task of the run: JSON, such as for an XCom.

        Raises:
            NothingReadError: the body has not read what the mark would move over.
            WatermarkError: there is nothing to stage.
        """
        self.check_read()
        if self._stage is None:
            raise WatermarkError("A slice is committed by itself, and cannot be staged.")
        return self._stage(self)

    def lag(self) -> float | None:
        """How many seconds the window's end lies behind this moment; None where it is no point in time."""
        if not isinstance(self._end, datetime):
            return None
        end = self._end if self._end.tzinfo is not None else self._end.replace(tzinfo=timezone.utc)
        return (datetime.now(tz=timezone.utc) - end).total_seconds()

    def summary(self) -> dict[str, JsonValue]:
        """What went through, as JSON."""
        tally = self.tally
        return {
            "from": self._cursor.dump(self._start),
            "to": None if self._end is None else self._cursor.dump(self._end),
            "rows": tally.rows,
            "late": tally.late,
            "nulls": tally.nulls,
            "future": tally.future,
            "known": tally.known,
            "max": None if tally.top is None else self._cursor.dump(tally.top),
        }

    # --- for the commit ---------------------------------------------------------------------------------------

    @property
    def commits(self) -> bool:
        """Whether the mark may move."""
        return self.record is not None and self.record.commits and not self._sampled

    def reached(self) -> T | None:
        """How far the mark may move; None: nothing was seen."""
        reached = self._aim()
        return reached if reached is None or not self._cursor.is_ordered else self._limited(reached)

    def _limited(self, value: T) -> T:
        """The value, or what holds the mark back before it."""
        reached: Any = value
        for limit in (self._end, self._limit, self._told, self._failed_from):
            if limit is not None and limit < reached:
                reached = limit
        return cast("T", reached)

    def _aim(self) -> T | None:
        if self._told is not None or self._advance == "explicit":
            return self._told
        if self._advance == "window" or self._settles:
            return self._end
        top: T | None = self.tally.top
        return None if top is None else self._cursor.floor(top)

    def ties_at(self, reached: T | None) -> tuple[str, ...] | None:
        """Which rows at this value are loaded; None where they cannot be told apart, or some may have failed."""
        is_held_back = reached in (self._told, self._failed_from)
        return kept_ties(self.tally.ties) if self.tally.top == reached and not is_held_back else None

    def check_read(self) -> None:
        """See that the body has read what the mark is to move over.

        Raises:
            NothingReadError: it has not.
        """
        if self._open_reads and self._told is None:
            raise NothingReadError(
                "The rows of track(), or the slices of split(), were not iterated to their end, so it is not known what"
                " was loaded. Consume them all before returning; if the rest is to be left to another run, say so with"
                " window.advance(value)."
            )
        if self._told is None and self._advance == "explicit":
            raise NothingReadError("advance='explicit', and the body did not say window.advance(value).")
        if self._told is None and self._advance == "observed" and not self._has_read and not self._settles:
            raise NothingReadError(
                "advance='observed', and the body neither iterated window.track(rows, ...) nor called"
                " window.observe(value), so it is not known what was loaded."
            )

    def __str__(self) -> str:
        end = "..." if self._end is None else self._cursor.dump(self._end)
        return f"[{self._cursor.dump(self._start)}, {end})"


_UNITS = {"epoch": 1_000_000, "epoch_ms": 1_000, "epoch_us": 1}


def formatted(value: object, form: str, tz: str | None, *, up: bool = False) -> str | int:
    """A point in time or a date in another system's form; what the form has no room for is rounded down, or up.

    Raises:
        TypeError: the value is neither. ValueError: the form is none.
    """
    if not isinstance(value, date):
        raise TypeError(f"{value!r} is not a point in time, so it has no form {form!r}; use it as it is")
    zone = timezone.utc if tz is None else ZoneInfo(tz)
    if not isinstance(value, datetime):
        if form in {"iso", "date"}:
            return value.isoformat()
        moment = datetime(value.year, value.month, value.day, tzinfo=zone)
    else:
        moment = value if value.tzinfo is None else value.astimezone(zone)
    if form in _UNITS:
        microseconds = _microseconds_since_1970(moment)
        return -(-microseconds // _UNITS[form]) if up else microseconds // _UNITS[form]
    return _as_text(_rounded_up(moment, form) if up else moment, form)


def _as_text(moment: datetime, form: str) -> str:
    if form in {"iso", "date"}:
        return moment.isoformat() if form == "iso" else moment.date().isoformat()
    if "%" not in form:
        raise ValueError(f"form={form!r} is none; take 'iso', 'date', 'epoch', 'epoch_ms', 'epoch_us', or '%Y-%m-%d'")
    return moment.strftime(form)


def _rounded_up(moment: datetime, form: str) -> datetime:
    """The next moment that the form can show; the moment itself where it can show that."""
    text = _as_text(moment, form)
    is_first = moment == datetime.min.replace(tzinfo=moment.tzinfo)
    if is_first or _as_text(moment - timedelta(microseconds=1), form) != text:
        return moment
    return next((later for later in _next_units(moment) if _as_text(later, form) != text), moment)


def _next_units(moment: datetime) -> Iterator[datetime]:
    """Where the next second, minute, hour, day, month and year begin."""
    second = moment.replace(microsecond=0)
    yield second + timedelta(seconds=1)
    minute = second.replace(second=0)
    yield minute + timedelta(minutes=1)
    hour = minute.replace(minute=0)
    yield hour + timedelta(hours=1)
    day = hour.replace(hour=0)
    yield day + timedelta(days=1)
    month = day.replace(day=1)
    yield (month + timedelta(days=31)).replace(day=1)
    yield month.replace(year=month.year + 1, month=1)


def _microseconds_since_1970(moment: datetime) -> int:
    """Exact, where `timestamp()` is a float; a naive time counts as UTC."""
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=timezone.utc)
    passed = aware - datetime(1970, 1, 1, tzinfo=timezone.utc)
    return (passed.days * 86_400 + passed.seconds) * 1_000_000 + passed.microseconds
