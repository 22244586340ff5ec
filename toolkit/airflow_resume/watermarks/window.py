"""The window a run loads: its bounds, what went through it, and how far the mark may move for it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from datetime import datetime, timezone
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, cast, overload

from typing_extensions import TypeVar

from airflow_resume.errors import NothingReadError, WatermarkError, WindowDeferredError
from airflow_resume.watermarks.conditions import QueryConditions
from airflow_resume.watermarks.cursor import CursorType
from airflow_resume.watermarks.cursor_type import refusal
from airflow_resume.watermarks.forms import formatted
from airflow_resume.watermarks.frames import FrameT, frame_of
from airflow_resume.watermarks.record import Origin, Pending, WindowRecord, WindowState
from airflow_resume.watermarks.scalars import plain
from airflow_resume.watermarks.sql_column import Columns, columns_of, reading
from airflow_resume.watermarks.track import (
    THE_ONE,
    Future,
    Key,
    Nulls,
    Tally,
    Tracker,
    Unique,
    check_rows,
    kept_ties,
    warn_of_ties,
)
from airflow_resume.watermarks.zones import zone_of

if TYPE_CHECKING:
    from pydantic import JsonValue

RowT = TypeVar("RowT")
T = TypeVar("T", default=Any)

log = logging.getLogger(__name__)

Advance = Literal["window", "observed", "explicit"]

CHECK_SECONDS = 5
"""How often `track` and `split` look whether the window is still this attempt's."""


class Window(QueryConditions[T]):
    """Load the rows with `start <= value < end`, and replace what an earlier attempt may have loaded of them.

    Args:
        record: as it is kept; None when there is nothing to load.
        start, end: half-open, in the cursor's zone; no end: whatever is there.
        at: where the mark stands. With a lookback the window starts before it.
        sql: what the column or columns are in the source's database.
        label: of the watermark, unlike that of others.
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
        nulls: Nulls | None = None,
        future: Future = "exclude",
        sql: Columns = None,
        label: str = "",
        partition: JsonValue = None,
        is_retry: bool = False,
        reset: Pending | None = None,
        commit_slice: Callable[[Window[T], T, T | None], None] | None = None,
        stage: Callable[[Window[T]], dict[str, JsonValue]] | None = None,
        check: Callable[[Window[T]], None] | None = None,
    ) -> None:
        self.record = record
        self.partition = partition
        self.is_retry = is_retry
        """An earlier attempt of this run began the same window, and may have loaded a part of it."""
        self._cursor = cursor
        self._advance: Advance = advance
        self._start, self._end, self._at = start, end, at
        self._nulls: Nulls | None = nulls
        self._future: Future = future
        self._columns, self._label = columns_of(sql, cursor), label
        self._settles = record is not None and record.settles
        limit = None if record is None else record.limit
        self._limit = None if limit is None else cursor.parse(limit, what="the limit")
        self._reset: Pending | None = reset
        self._known = frozenset(() if record is None else record.ties or ())
        self._commit_slice, self._stage, self._check = commit_slice, stage, check
        self._checked_at = time.monotonic()
        self._begin_reading()

    def _begin_reading(self) -> None:
        self.tally = Tally()
        """What went through `track` and `observe`."""
        self._told: T | None = None
        self._failed_from: T | None = None
        self._sampled = self._has_read = self._has_tracked = self._must_track = False
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

    def check(self) -> None:
        """See that no other attempt has taken this window over, such as after a lost worker; one request.

        To be called between the steps of a long body, and right before one that must not be done twice. `track` and
        `split` do so themselves, when some seconds have passed.

        Raises:
            SupersededError: another attempt loads the window. Leave it to that one.
        """
        self._checked_at = time.monotonic()
        if self._check is not None:
            self._check(self)

    def _check_now_and_then(self) -> None:
        if time.monotonic() - self._checked_at > CHECK_SECONDS:
            self.check()

    def start_as(self, form: str, tz: str | None = None) -> str | int:
        """The start as another system wants it; rounded down, never up.

        Args:
            form: `"iso"`, `"date"`, `"epoch"`, `"epoch_ms"`, `"epoch_us"`, or a format of `strftime`.
            tz: the zone of the text, such as `"Europe/Berlin"`; by default UTC, or that of a cursor of days or of
                naive times.
        """
        return formatted(self._start, form, tz, home=self._cursor.home)

    def end_as(self, form: str, tz: str | None = None) -> str | int:
        """The end, in the same forms; rounded up, as the mark moves over all that lies before the end.

        Rows behind the end that the other system then gives, `track` leaves to a later run.
        """
        _ = self.end
        return formatted(self._end, form, tz, up=True, home=self._cursor.home)

    # --- what was loaded --------------------------------------------------------------------------------------

    @overload
    def track(
        self,
        rows: FrameT,
        key: str | int | Sequence[str | int],
        *,
        unique: str | int | Sequence[str | int] | Literal[True] | None = None,
        version: str | int | Sequence[str | int] | None = None,
        ordered: bool = False,
    ) -> FrameT: ...
    @overload
    def track(
        self,
        rows: Iterable[RowT],
        key: Key[RowT],
        *,
        unique: Unique[RowT] = None,
        version: Key[RowT] | None = None,
        ordered: bool = False,
    ) -> Iterator[RowT]: ...
    def track(
        self,
        rows: Any,
        key: Any,
        *,
        unique: Any = None,
        version: Any = None,
        ordered: bool = False,
    ) -> Any:
        """The rows, on their way to be loaded, watched: iterate what comes back, to its end.

        A DataFrame of pandas or polars, and a Table or RecordBatch of Arrow, comes back as one at once, with the rows
        that are to be loaded, and is counted as loaded; of frames in parts (`chunksize=`, `to_batches()`) each part.

        Args:
            rows: of the source: dicts, tuples, objects, whatever a cursor of a database gives; or a frame.
            key: the name of the cursor's column (`a.b`: that of `b` in `a`), the position in a tuple, a list of these
                for a keyset, or a function of the row.
            unique: what tells rows with the same cursor value apart (a column, several or a function; True if the value
                is unique by itself): rows at the mark that were loaded before are passed over then, not loaded again.
            version: what is another value when such a row was changed (a column, several or a function): one that was
                changed without another cursor value is loaded again then.
            ordered: the rows come in the order of the cursor; an error if they do not.

        Raises:
            CursorColumnError, CursorTypeError, NullCursorError, FutureRowError, UnsortedRowsError: at the row; of a
                frame at the call.
            TypeError: `rows` cannot be iterated, or a function is given for a frame.
            ValueError: a version without `unique`.
        """
        tracker = Tracker(
            cursor=reading(self._cursor, self._columns),
            at=self._at,
            start=self._start,
            end=self._end,
            nulls=self._nulls or "raise",
            future=self._future,
            known=self._known,
        )
        self._check_now_and_then()
        frame = frame_of(rows)
        if frame is None:
            check_rows(rows)
            read = tracker.tracked(rows, key, self.tally, unique=unique, version=version, ordered=ordered)
            self._has_read = self._has_tracked = True
            self._open_reads += 1
            return self._read_to_its_end(read)
        self._has_read = self._has_tracked = True
        self._open_reads += 1  # and it stays so if the frame is refused
        found = tracker.framed(frame, key, self.tally, unique=unique, version=version, ordered=ordered)
        self._open_reads -= 1
        return found

    def _read_to_its_end(self, elements: Iterator[RowT]) -> Iterator[RowT]:
        return chain(elements, self._note_end())

    def _note_end(self) -> Iterator[Any]:
        """Nothing, behind what there was."""
        self._open_reads -= 1
        self._check_now_and_then()
        yield from ()

    def observe(self, value: object) -> None:
        """A row with this cursor value was loaded (where `track` does not fit).

        No value (None, NaT, NaN, `pandas.NA`), such as the greatest one of an empty frame, says that the body has
        looked and found nothing. The mark stays then, unless another value is observed.

        Raises:
            CursorTypeError: another type than the cursor's.
        """
        found = plain(value)
        if found is not None:
            self.tally.see(self._cursor.parse_row(found, what="observe()"))
        self._has_read = True

    def advance(self, value: object) -> None:
        """Everything before this value is loaded: the mark moves there, and not to what was observed.

        Of several calls the last one counts, so a loop over pages may say it behind each. If it is lower than the one
        before, the mark moves to the lower one, and the log has a warning: what lies between is read again.

        Raises:
            CursorTypeError: another type than the cursor's, or no value.
        """
        is_ordered = self._cursor.is_ordered
        found = plain(value) if is_ordered else value
        if found is None and is_ordered:
            remedy = "Where nothing was found, say window.advance(window.start), and the mark stays."
            raise refusal(value, remedy, what="advance()")
        told: Any = self._cursor.parse(found, what="advance()")
        before: Any = self._told
        if is_ordered and before is not None and told < before:
            log.warning(
                "window.advance() was called with %s, and then with the lower %s: the last one counts, and what lies"
                " between is read again.\n"
                "Load pages in the order of the cursor, or call it once, with the greatest value.",
                self._cursor.dump(before),
                self._cursor.dump(told),
            )
        self._told = told

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
            later: Any = self._cursor.step(start, step)
            stop = min(later, end)
            piece = copy(self)._narrow(start, stop)  # noqa: SLF001  of the same class
            yield piece
            self._take_up(piece, stop)
            if stop < end and self._commit_slice is not None and self.commits:
                self._commit_slice(self, self._limited(stop), self._reached_in_slices(stop))
            else:
                self._check_now_and_then()
            start = stop

    def _reached_in_slices(self, stop: T) -> T | None:
        """How far the mark may move when the slices up to `stop` are loaded: in an observed mode, to what was seen."""
        return self._limited(stop) if self._moves_with_window else self.reached()

    def _take_up(self, piece: Window[T], stop: T) -> None:
        """What the body has said about a slice holds for the whole window."""
        piece.check_read()
        self.tally.add(piece.tally)
        self._sampled = self._sampled or piece._sampled
        self._has_tracked = self._has_tracked or piece._has_tracked
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
        self._commit_slice = self._stage = None  # it has the check of the whole window
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
        end = self._end
        if end.tzinfo is None:
            end = end.replace(tzinfo=zone_of(self._cursor.home))
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

    def loaded_to(self) -> T | None:
        """Up to where rows were loaded; None: nothing was seen."""
        is_whole = self.origin != "mark" and self._told is None and self._advance != "explicit"
        return self._limited(self._end) if is_whole and self._end is not None else self.reached()

    @property
    def begins_after_start(self) -> bool:
        """Whether the row at the start is loaded already, as with an id that is unique."""
        return self._start == self._at and THE_ONE in self._known

    @property
    def is_sample(self) -> bool:
        """Whether the run only looked."""
        return self._sampled

    @property
    def _moves_with_window(self) -> bool:
        return self._advance == "window" or self._settles

    def _aim(self) -> T | None:
        if self._told is not None or self._advance == "explicit":
            return self._told
        if self._moves_with_window:
            return self._end
        top: T | None = self.tally.top
        return None if top is None else self._cursor.floor(top)

    def includes(self, end: T) -> bool:
        """Whether the row at the end of what was loaded is loaded too, and the only one: values are unique."""
        return self._is_top(end) and THE_ONE in (self.tally.ties or ())

    def _is_top(self, reached: T | None) -> bool:
        return self.tally.top == reached and reached not in (self._told, self._failed_from)

    def ties_at(self, reached: T | None) -> tuple[str, ...] | None:
        """Which rows at this value are loaded; None where they cannot be told apart, or some may have failed."""
        if not self._is_top(reached):
            return None
        if reached is not None and self.record is not None:
            warn_of_ties(self.tally.ties, self.record.ties if reached == self._at else (), self._cursor.dump(reached))
        return kept_ties(self.tally.ties)

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
        if self._must_track and not self._has_tracked:
            raise NothingReadError(
                "nulls='raise' is given, so the condition of the query lets rows without a value through, and they were"
                " not passed through window.track(rows, ...), which raises on them.",
                "Iterate window.track(rows, ...), or leave nulls= out: the query then leaves such rows out.",
            )
        if self._told is None and self._advance == "explicit":
            raise NothingReadError(
                "advance='explicit', and the body did not say window.advance(value).",
                "Where it has looked and found nothing, say window.advance(window.start), and the mark stays.",
            )
        if self._told is None and self._advance == "observed" and not self._has_read and not self._settles:
            raise NothingReadError(
                "advance='observed', and the body neither iterated window.track(rows, ...) nor called"
                " window.observe(value), so it is not known what was loaded.",
                "Where it has looked and found nothing, say window.observe(None), and the mark stays.",
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
