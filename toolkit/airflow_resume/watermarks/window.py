"""The window a run loads: its bounds, what went through it, and how far the mark may move for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from copy import copy
from datetime import datetime, timezone
from itertools import chain
from typing import TYPE_CHECKING, Any, Generic, Literal, cast

from typing_extensions import TypeVar

from airflow_resume.errors import NothingReadError, WatermarkError, WindowDeferredError
from airflow_resume.watermarks.cursor import CursorType
from airflow_resume.watermarks.forms import formatted
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
        self._cursor = cursor
        self._advance: Advance = advance
        self._start, self._end, self._at = start, end, at
        self._nulls: Nulls = nulls
        self._future: Future = future
        self._settles = record is not None and record.settles
        limit = None if record is None else record.limit
        self._limit = None if limit is None else cursor.parse(limit, what="the limit")
        self._reset: Pending | None = reset
        self._known = frozenset(() if record is None else record.ties or ())
        self._commit_slice, self._stage = commit_slice, stage
        self._begin_reading()

    def _begin_reading(self) -> None:
        self.tally = Tally()
        """What went through `track` and `observe`."""
        self._told: T | None = None
        self._failed_from: T | None = None
        self._sampled = self._has_read = False
        self._open_reads = 0

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
            raise WatermarkError("This window has no end.", "Load whatever is there from its start on.")
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
        """Nothing was loaded before, by this run or another."""
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
        return chain(elements, self._note_end())

    def _note_end(self) -> Iterator[Any]:
        """Nothing, behind what there was."""
        self._open_reads -= 1
        yield from ()

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
            piece = copy(self)._narrow(start, stop)  # noqa: SLF001  of the same class
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

    def _narrow(self, start: T, stop: T) -> Window[T]:
        """Become a slice, which the whole window commits."""
        self._start, self._end = start, stop
        self._commit_slice = self._stage = None
        self._begin_reading()
        return self

    def stage(self) -> dict[str, JsonValue]:
        """What was loaded, for `Watermark.commit` in a later task of the run: JSON, such as for an XCom.

        Raises:
            NothingReadError: the body has not read what the mark would move over.
            WatermarkError: of a slice.
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
        if self._sampled or self.empty:
            return
        if self._open_reads and self._told is None:
            raise NothingReadError(
                "The rows of track(), or the slices of split(), were not iterated to their end, so it is not known"
                " what was loaded.",
                "Consume them all before returning; if the rest is to be left to another run, say so with"
                " window.advance(value).",
            )
        if self._told is None and self._advance == "explicit":
            raise NothingReadError("advance='explicit', and the body did not say window.advance(value).")
        if self._told is None and self._advance == "observed" and not self._has_read and not self._settles:
            raise NothingReadError(
                "advance='observed', and the body neither iterated window.track(rows, ...) nor called"
                " window.observe(value), so it is not known what was loaded."
            )

    def check_deferral(self, *, goes_on: bool) -> None:
        """See that nothing is lost when the process of the body ends, and another one goes on with this window.

        Args:
            goes_on: the task does, in a method; a trigger may also end it.

        Raises:
            WindowDeferredError: what the body has said about its rows, and so of the mark, would be lost.
        """
        if self.empty:
            return
        said = {
            "iterates track() or split()": self._open_reads > 0,
            "has seen rows in track() or observe()": self._advance == "observed" and self._has_read,
            "has called advance()": self._told is not None,
            "has called fail_from()": self._failed_from is not None,
            "has called sampled()": self._sampled,
        }
        for what, is_so in said.items():
            if is_so:
                raise WindowDeferredError(
                    f"The body defers after it {what}, and that is lost with its process.",
                    "Say it in the method that goes on, which gets the window: hand it what it needs with"
                    " defer(kwargs=...).",
                )
        if not goes_on:
            raise WindowDeferredError(
                "The body defers to a trigger that ends the task itself, so its window would never be committed.",
                "Name the method that goes on: defer(..., method_name=...).",
            )

    def __str__(self) -> str:
        end = "..." if self._end is None else self._cursor.dump(self._end)
        return f"[{self._cursor.dump(self._start)}, {end})"
