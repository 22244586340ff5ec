"""The window a run loads: its bounds, what went through it, and how far the mark may move for it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from datetime import datetime, timezone
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, overload

from typing_extensions import TypeVar

from airflow_resume.arguments import check_whole
from airflow_resume.errors import WatermarkError
from airflow_resume.watermarks.conditions import QueryConditions
from airflow_resume.watermarks.cursor import CursorType
from airflow_resume.watermarks.forms import formatted
from airflow_resume.watermarks.frames import FrameT, frame_of
from airflow_resume.watermarks.loading import Advance, Loading
from airflow_resume.watermarks.record import Pending, WindowRecord, WindowState
from airflow_resume.watermarks.sql_column import Columns, columns_of
from airflow_resume.watermarks.sql_rows import reading
from airflow_resume.watermarks.track import Future, Key, Nulls, Tracker, Unique, check_rows
from airflow_resume.watermarks.zones import zone_of

if TYPE_CHECKING:
    from pydantic import JsonValue

RowT = TypeVar("RowT")
T = TypeVar("T", default=Any)

CHECK_SECONDS = 5
"""How often `track` and `split` look whether the window is still this attempt's."""


class Count:
    """Rows, or frames of rows, on their way; how many there were."""

    def __init__(self, given: Iterable[Any]) -> None:
        self._given = given
        self.rows = 0

    def __iter__(self) -> Iterator[Any]:
        for row in self._given:
            frame = frame_of(row)
            self.rows += 1 if frame is None else frame.size
            yield row


class Window(Loading[T], QueryConditions[T]):
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
        self._reader = reading(cursor, self._columns)
        self._settles = record is not None and record.settles
        limit = None if record is None else record.limit
        if record is not None and record.state is WindowState.COMMITTED and end is None:
            # A cleared run moves nothing, whatever is there by now.
            limit = cursor.dump(at) if record.reached is None else record.reached
        self._limit = None if limit is None else cursor.parse(limit, what="the limit")
        self._reset: Pending | None = reset
        self._known = frozenset(() if record is None else record.ties or ())
        self._commit_slice, self._stage, self._check = commit_slice, stage, check
        self._checked_at = time.monotonic()
        self._begin_reading()

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

        Rows after the end that the other system then gives, `track` leaves to a later run.
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
        limit: int | None = None,
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
        limit: int | None = None,
    ) -> Iterator[RowT]: ...
    def track(
        self,
        rows: Any,
        key: Any,
        *,
        unique: Any = None,
        version: Any = None,
        ordered: bool = False,
        limit: int | None = None,
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
            limit: how many rows the source gives at most, in the order of the cursor (`ORDER BY ... LIMIT`): of a full
                page the mark moves to the last row, and the next run goes on there. Where the body reads page after
                page, the last one counts.

        Raises:
            CursorColumnError, CursorTypeError, NullCursorError, FutureRowError, UnsortedRowsError: at the row; of a
                frame at the call.
            TypeError: `rows` cannot be iterated, or a function is given for a frame.
            ValueError: a version without `unique`.
        """
        tracker = Tracker(
            cursor=reading(self._cursor, self._columns, refuses_text=self._refuses_text),
            at=self._at,
            start=self._start,
            end=self._end,
            nulls=self._nulls or "raise",
            future=self._future,
            known=self._known,
        )
        if not self._cursor.is_ordered:
            raise WatermarkError(
                f"A {self._cursor.type} has no order, so rows cannot be held against it.",
                "Load them as they come, and say window.advance(token).",
            )
        if limit is not None:
            check_whole("limit", limit, least=1)
            ordered = True  # or the last row would not be the one up to which all are there
        self._check_now_and_then()
        frame = frame_of(rows)
        if frame is None:
            check_rows(rows)
            count = Count(rows)
            given = rows if limit is None else count
            read = tracker.tracked(given, key, self.tally, unique=unique, version=version, ordered=ordered)
            self._has_read = self._has_tracked = True
            self._open_reads += 1
            return self._read_to_its_end(read, count, limit)
        self._has_read = self._has_tracked = True
        self._open_reads += 1  # and it stays so if the frame is refused
        found = tracker.framed(frame, key, self.tally, unique=unique, version=version, ordered=ordered)
        self._open_reads -= 1
        self._page_is_full = limit is not None and frame.size >= limit
        return found

    def _read_to_its_end(
        self, elements: Iterator[RowT], count: Count | None = None, limit: int | None = None
    ) -> Iterator[RowT]:
        return chain(elements, self._note_end(count, limit))

    def _note_end(self, count: Count | None, limit: int | None) -> Iterator[Any]:
        """Nothing, after what there was."""
        self._open_reads -= 1
        self._page_is_full = count is not None and limit is not None and count.rows >= limit
        self._check_now_and_then()
        yield from ()

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
        if piece._page_is_full:
            self.fail_from(piece._start if piece.tally.top is None else piece.tally.top)
        told: Any = piece._advanced_to
        if told is not None and told < stop:
            self.fail_from(told)
        if self._advance == "explicit":
            self._advanced_to = piece._advanced_to

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

    @property
    def remarks(self) -> str:
        """What it is, for the log."""
        remarks = {
            ", nothing is new": self.empty,
            ", the first": self.is_initial,
            ", the mark was set back": self.is_reset,
            ", begun by an earlier attempt": self.is_retry,
            ", finished before": self.is_replay,
        }
        return "".join(remark for remark, applies in remarks.items() if applies)

    def __str__(self) -> str:
        end = "..." if self._end is None else self._cursor.dump(self._end)
        return f"[{self._cursor.dump(self._start)}, {end})"
