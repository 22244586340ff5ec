"""The window that a body loads: its bounds, its rows, and what the body says about them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import date, datetime, timezone
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, Protocol, overload

from typing_extensions import TypeVar

from airflow_resume.arguments import check_whole
from airflow_resume.errors import WatermarkError
from airflow_resume.watermarks.cursors.forms import formatted
from airflow_resume.watermarks.cursors.zones import zone_of
from airflow_resume.watermarks.rows.frames import FrameT, frame_of
from airflow_resume.watermarks.rows.tally import Tally
from airflow_resume.watermarks.rows.track import CountedRows, Key, Tracker, Unique, check_rows
from airflow_resume.watermarks.sql.column import reading
from airflow_resume.watermarks.windows.conditions import QueryConditions
from airflow_resume.watermarks.windows.progress import Progress

if TYPE_CHECKING:
    from pydantic import JsonValue

    from airflow_resume.watermarks.marks.mark_record import MarkRecord, WindowRecord
    from airflow_resume.watermarks.marks.outbox import Origin
    from airflow_resume.watermarks.windows.plan import WindowPlan

RowT = TypeVar("RowT")
T = TypeVar("T", default=Any)

CHECK_SECONDS = 5
"""How often, at most, `track` and `split` check that this attempt was not replaced."""


def lag_of(value: object, home: str | None, now: datetime | None = None) -> float | None:
    """How many seconds a time, a day, or a keyset that begins with one, is earlier than now; None of other values.

    Args:
        value: of a cursor.
        home: the zone of a day or a naive time.
        now: the present time unless it is given.
    """
    first = value[0] if isinstance(value, tuple) and value else value
    if isinstance(first, date) and not isinstance(first, datetime):
        first = datetime.combine(first, datetime.min.time())
    if not isinstance(first, datetime):
        return None
    moment = first if first.tzinfo is not None else first.replace(tzinfo=zone_of(home))
    return ((now or datetime.now(tz=timezone.utc)) - moment).total_seconds()


class Keeper(Protocol):
    """Keeps the record of a window, and moves the mark."""

    def check(self, window: Window[Any]) -> None:
        """Check that no other attempt has taken the window over.

        Raises:
            SupersededError: another attempt has taken it over.
        """

    def commit_slice(self, window: Window[Any], end: Any, reached: Any) -> None:
        """Commit a slice: everything before `end` is loaded, and the mark may move to `reached` if that is not None."""

    def stage(self, window: Window[Any]) -> dict[str, JsonValue]:
        """What was loaded, as a token for a later task."""
        ...

    @property
    def connection(self) -> Any:
        """The connection of the sink, in a transaction."""
        ...


class Window(QueryConditions[T]):
    """Load the rows with `start <= value < end`, and replace what an earlier attempt may have loaded of them.

    It has many methods, because a body works with it. Each method is one question or one statement about the rows.
    `Progress` decides how far the mark may move after these statements.

    Args:
        plan: what there is to load.
        keeper: keeps its record and moves the mark; None if nothing is kept, as in a test.
        partition: of the asset.
        is_retry: an earlier attempt of this run began the same window, and may have loaded a part of it.
    """

    unpublished_in: MarkRecord | None = None
    """Set only if nothing is new and events may not have published all windows of earlier runs: then it is the mark."""

    def __init__(
        self,
        plan: WindowPlan[T],
        *,
        keeper: Keeper | None = None,
        partition: JsonValue = None,
        is_retry: bool = False,
    ) -> None:
        self.partition, self.is_retry = partition, is_retry
        self.record: WindowRecord | None = plan.begun
        """The record of the window; None if there is nothing to load."""
        self.plan, self.keeper = plan, keeper
        self.progress = Progress(plan)
        """What the body has loaded, and how far the mark may move for it."""
        self._checked_at = time.monotonic()

    # --- what there is to load --------------------------------------------------------------------------------

    @property
    def start(self) -> T:
        """The first value; it is included."""
        return self.plan.cursor.present(self.plan.start)

    @property
    def end(self) -> T:
        """The value before which the window ends; it is not included.

        Raises:
            WatermarkError: the window has no end; see `has_end`.
        """
        if self.plan.end is None:
            raise WatermarkError("This window has no end.", "Load all rows from its start on.")
        return self.plan.cursor.present(self.plan.end)

    @property
    def has_end(self) -> bool:
        """Whether there is an end; with `advance="observed"` and no clock there is none."""
        return self.plan.end is not None

    @property
    def empty(self) -> bool:
        """Whether there is nothing to load."""
        return self.record is None

    @property
    def origin(self) -> Origin:
        """Where the bounds come from: the mark, the run's conf, or a backfill's data interval."""
        return "mark" if self.record is None else self.record.origin

    @property
    def mark(self) -> T:
        """The mark when the window began."""
        return self.plan.at

    @property
    def is_initial(self) -> bool:
        """Whether nothing was loaded before, by this run or another one."""
        return self.plan.reset in {"initial", "reset"}

    @property
    def is_reset(self) -> bool:
        """Whether a person or a program has set the mark, and nothing was loaded from there yet."""
        return self.plan.reset in {"rewind", "reset"}

    @property
    def is_replay(self) -> bool:
        """Whether this run has committed the window before, and its task was cleared after that."""
        return self.plan.is_replay

    @property
    def connection(self) -> Any:
        """The connection of the sink, in the transaction that is committed together with the mark.

        Raises:
            WatermarkError: the watermark has no `sink=`.
        """
        if self.keeper is None:
            raise WatermarkError("This window was not begun by a watermark, and has no connection.")
        return self.keeper.connection

    def append(self, rows: Any) -> None:
        """Append rows to the table of the sink, such as a `DeltaSink`. They are committed together with the mark.

        Args:
            rows: a list of dicts, an Arrow table, a record batch, or a data frame of pandas or polars.

        Raises:
            WatermarkError: the watermark has no `sink=`.
            TypeError, ValueError: the sink is none of a table, or the rows do not fit it. Nothing was appended.
        """
        from airflow_resume.sink_protocol import append_to  # few windows have a sink

        append_to(self.connection, rows)

    def check(self) -> None:
        """Check that no other attempt has replaced this one, for example after a lost worker. It costs one request.

        Call it between the steps of a long body, and right before a step that must not be done twice. `track` and
        `split` call it themselves, when some seconds have passed.

        Raises:
            SupersededError: another attempt loads the window. Stop, and leave it to that one.
        """
        self._checked_at = time.monotonic()
        if self.keeper is not None:
            self.keeper.check(self)

    def check_if_due(self) -> None:
        """As `check`, but not again within a few seconds.

        Raises:
            SupersededError: another attempt loads the window.
        """
        if time.monotonic() - self._checked_at > CHECK_SECONDS:
            self.check()

    def start_as(self, form: str, tz: str | None = None) -> str | int:
        """The start in the form that another system needs; rounded down, never up.

        Args:
            form: `"iso"`, `"date"`, `"epoch"`, `"epoch_ms"`, `"epoch_us"`, or a format of `strftime`.
            tz: the zone of the text, such as `"Europe/Berlin"`; by default the cursor's zone for days and naive times,
                and UTC for others.
        """
        return formatted(self.plan.start, form, tz, home=self.plan.cursor.home)

    def end_as(self, form: str, tz: str | None = None) -> str | int:
        """The end in the same forms, rounded up, because the mark moves over everything before the end.

        So the other system may return rows after the end. `track` leaves these to a later run.

        Args:
            form: as for `start_as`.
            tz: as for `start_as`.
        """
        _ = self.end
        return formatted(self.plan.end, form, tz, up=True, home=self.plan.cursor.home)

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
        """The rows to load, counted and checked: iterate the result to its end.

        For a DataFrame of pandas or polars, and a Table or RecordBatch of Arrow, the result is a frame of the same kind
        with the rows to load, and it counts as loaded at once. Frames may also come in parts (`chunksize=`,
        `to_batches()`).

        Args:
            rows: of the source: dicts, tuples, objects, or rows of a database driver; or a frame.
            key: the name of the cursor's column (`a.b`: that of `b` in `a`), the position in a tuple, a list of these
                for a keyset, or a function of the row.
            unique: what identifies a row among those with the same cursor value (a column, several or a function; True
                if the value is unique by itself). Rows at the mark that were loaded before are then left out.
            version: what changes when such a row is changed (a column, several or a function). Then a row that was
                changed without a new cursor value is loaded again.
            ordered: the rows come in the order of the cursor; an error if they do not.
            limit: how many rows the source gives at most, in the order of the cursor (`ORDER BY ... LIMIT`). After a
                full page the mark moves to the last row, and the next run continues there. If the body reads several
                pages, the last one counts.

        Raises:
            ColumnError, CursorTypeError, RowOrderError: when the row is read, or for a frame at the call.
            TypeError: `rows` cannot be iterated, or a function is given for a frame.
            ValueError: a version without `unique`.
            WatermarkError: the cursor has no order, such as a cursor of tokens.
        """
        plan, progress, tally = self.plan, self.progress, self.tally
        tracker = Tracker(
            cursor=reading(plan.cursor, plan.columns, refuses_text=self._refuses_text, checks_form=self._checks_form),
            at=plan.at,
            start=plan.start,
            end=plan.end,
            nulls=plan.nulls or "raise",
            future=plan.future,
            known=plan.known,
            column=key if isinstance(key, (str, int)) else None,
        )
        if not plan.cursor.is_ordered:
            raise WatermarkError(
                f"A {plan.cursor.type} has no order, so rows cannot be compared with it.",
                "Load all of them, and call window.advance(token).",
            )
        if limit is not None:
            check_whole("limit", limit, least=1)
            ordered = True  # otherwise rows before the last one may be missing
        self.check_if_due()
        frame = frame_of(rows)
        if frame is not None:
            progress.begin_read(is_tracked=True)  # if the frame is refused, the read stays open
            found = tracker.framed(frame, key, tally, unique=unique, version=version, ordered=ordered)
            progress.end_read(page_is_full=limit is not None and frame.size >= limit)
            return found
        check_rows(rows)
        counted = None if limit is None else CountedRows(rows)
        read = tracker.tracked(counted or rows, key, tally, unique=unique, version=version, ordered=ordered)
        progress.begin_read(is_tracked=True)
        return chain(read, self._end_read(lambda: counted is not None and counted.count >= (limit or 0)))

    def _end_read(self, is_full: Callable[[], bool] = lambda: False) -> Iterator[Any]:
        """Yields nothing. It is chained after the rows, and notes that the body has read all of them."""
        self.progress.end_read(page_is_full=is_full())
        self.check_if_due()
        yield from ()

    def split(self, step: Any) -> Iterator[Window[T]]:
        """The window in slices. Each is committed when the body asks for the next one; a retry continues after them.

        Args:
            step: the length of a slice.

        Raises:
            WatermarkError: the window has no end.
            ValueError: the step is 0.
        """
        self.plan.cursor.check_span("step", step)
        if not step:
            raise ValueError("step must be above 0.\nGive the length of a slice, such as timedelta(hours=1).")
        from airflow_resume.watermarks.windows.slices import slices_of  # few bodies need it

        _ = self.end
        self.progress.begin_read(is_tracked=False)
        return chain(slices_of(self, step), self._end_read())

    # --- what the body says -----------------------------------------------------------------------------------

    def observe(self, value: object) -> None:
        """Say that a row with this cursor value was loaded, in a body that cannot use `track`.

        A missing value (None, NaT, NaN, `pandas.NA`), such as the greatest one of an empty frame, says that the body
        has looked and found nothing. The mark then stays, unless another value is observed.

        Args:
            value: of the cursor.

        Raises:
            CursorTypeError: another type than the cursor's.
        """
        self.progress.observe(value)

    def advance(self, value: object) -> None:
        """Say that everything before this value is loaded. The mark moves there, and not to an observed value.

        If it is called several times, the last call counts. So a loop over pages may call it after each page. If a
        value is lower than the previous one, the mark moves to the lower one, the rows between the two are read again,
        and a warning is logged.

        Args:
            value: of the cursor; a row with this value itself is not loaded.

        Raises:
            CursorTypeError: another type than the cursor's, or no value.
        """
        self.progress.advance(value)

    def fail_from(self, value: object) -> None:
        """Say that rows with this value or a greater one are not loaded. The mark does not move beyond the value.

        Args:
            value: of the cursor: the lowest one of the rows that could not be loaded.

        Raises:
            CursorTypeError: another type than the cursor's. WatermarkError: its values have no order.
        """
        self.progress.fail_from(value)

    def sampled(self) -> None:
        """Say that this run has only looked at the rows. Then the mark does not move."""
        self.progress.is_sample = True

    # --- what was loaded, for others --------------------------------------------------------------------------

    @property
    def tally(self) -> Tally:
        """What went through `track` and `observe`."""
        return self.progress.tally

    def stage(self) -> dict[str, JsonValue]:
        """What was loaded, for `Watermark.commit` in a later task of the run: JSON, such as for an XCom.

        Raises:
            WindowNotReadError: the body has not read what the mark would move over.
            WatermarkError: the window is a slice.
        """
        self.progress.check_read()
        if self.keeper is None:
            raise WatermarkError(
                "This window was not begun by a watermark, so there is nothing to commit.",
                "Begin it by Watermark.begin(context).",
            )
        return self.keeper.stage(self)

    def lag(self) -> float | None:
        """How many seconds the window's end is earlier than now; None if it is neither a time nor a day."""
        return lag_of(self.plan.end, self.plan.cursor.home)

    def summary(self) -> dict[str, JsonValue]:
        """What went through, as JSON."""
        plan, tally = self.plan, self.tally
        return {
            "from": plan.cursor.dump(plan.start),
            "to": None if plan.end is None else plan.cursor.dump(plan.end),
            "rows": tally.rows,
            "late": tally.late,
            "nulls": tally.nulls,
            "future": tally.future,
            "known": tally.known,
            "max": None if tally.top is None else plan.cursor.dump(tally.top),
        }

    def __str__(self) -> str:
        plan = self.plan
        return f"[{plan.cursor.dump(plan.start)}, {'...' if plan.end is None else plan.cursor.dump(plan.end)})"
