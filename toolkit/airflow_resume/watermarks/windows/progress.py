"""What a body has loaded of its window, and how far the mark may move for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, cast

from typing_extensions import TypeVar

from airflow_resume.errors import WatermarkError, WindowNotReadError
from airflow_resume.shown import get_logger
from airflow_resume.watermarks.cursors.cursor_type import refusal
from airflow_resume.watermarks.cursors.scalars import plain
from airflow_resume.watermarks.rows.row_values import THE_ONE
from airflow_resume.watermarks.rows.tally import Tally, kept_ties, warn_of_ties

if TYPE_CHECKING:
    from airflow_resume.watermarks.windows.plan import WindowPlan

T = TypeVar("T", default=Any)

log = get_logger(__name__)


class Progress(Generic[T]):
    """What a body has loaded of its window, and how far the mark may move for it.

    Args:
        plan: of the window.
    """

    def __init__(self, plan: WindowPlan[T]) -> None:
        self._plan = plan
        self._limit = plan.limit  # read now, so that a damaged record is refused before the body runs
        self.tally = Tally()
        """The values that `track` and `observe` have seen."""
        self.is_sample = False
        """Whether the run has only looked at the rows, without loading them."""
        self.must_track = False
        """Whether the rows must go through `track`, because a query returns rows without a value and `track` raises on
        them.
        """
        self._advanced_to: T | None = None
        self._failed_from: T | None = None
        self._page_is_full = self._has_read = self._has_tracked = False
        self._open_reads = 0

    # --- what the body reads and says -------------------------------------------------------------------------

    def begin_read(self, *, is_tracked: bool) -> None:
        """Note that the body has asked for rows with `track`, or for slices."""
        self._has_read = True
        self._has_tracked = self._has_tracked or is_tracked
        self._open_reads += 1

    def end_read(self, *, page_is_full: bool) -> None:
        """Note that the body has read all of the rows or slices that it asked for."""
        self._open_reads -= 1
        self._page_is_full = page_is_full

    def observe(self, value: object) -> None:
        """See `Window.observe`."""
        found = plain(value)
        if found is not None:
            self.tally.see(self._plan.reader.parse_row(found, what="observe()"))
        self._has_read = True

    def advance(self, value: object) -> None:
        """See `Window.advance`."""
        cursor = self._plan.cursor
        found = plain(value) if cursor.is_ordered else value
        if found is None and cursor.is_ordered:
            remedy = "If nothing was found, call window.advance(window.start), and the mark stays."
            raise refusal(value, remedy, what="advance()")
        reached: Any = self._plan.reader.parse(found, what="advance()")
        before: Any = self._advanced_to
        if cursor.is_ordered and before is not None and reached < before:
            log.warning(
                "window.advance() was called with %s, and then with the lower %s: the last one counts, and what lies"
                " between is read again.\n"
                "Load pages in the order of the cursor, or call it once, with the greatest value.",
                cursor.dump(before),
                cursor.dump(reached),
            )
        self._advanced_to = reached

    def fail_from(self, value: object) -> None:
        """See `Window.fail_from`."""
        if not self._plan.cursor.is_ordered:
            raise WatermarkError(
                f"A {self._plan.cursor.type} has no order, so nothing lies after it.",
                "Raise an error where something could not be loaded: the mark stays, and a retry begins there.",
            )
        self._fail_from(self._plan.reader.parse(value, what="fail_from()"))

    def _fail_from(self, failed: Any) -> None:
        if self._failed_from is None or failed < self._failed_from:
            self._failed_from = failed

    def add_slice(self, piece: Progress[T]) -> None:
        """Add the progress of a slice to the progress of the whole window.

        Raises:
            WindowNotReadError: as `check_read`, of the slice.
        """
        piece.check_read()
        self.tally.add(piece.tally)
        self.is_sample = self.is_sample or piece.is_sample
        self._has_tracked = self._has_tracked or piece._has_tracked
        if piece._failed_from is not None:
            self._fail_from(piece._failed_from)
        if piece._page_is_full:
            self._fail_from(piece._plan.start if piece.tally.top is None else piece.tally.top)
        advanced_to: Any = piece._advanced_to
        if advanced_to is not None and advanced_to < piece._plan.end:
            self._fail_from(advanced_to)
        if self._plan.advance == "explicit":
            self._advanced_to = piece._advanced_to

    # --- for the commit ---------------------------------------------------------------------------------------

    @property
    def commits(self) -> bool:
        """Whether the mark may move."""
        return self._plan.begun is not None and self._plan.begun.commits and not self.is_sample

    def reached(self) -> T | None:
        """How far the mark may move; None if no value was seen."""
        if self._advanced_to is not None or self._plan.advance == "explicit":
            reached = self._advanced_to
        elif self._plan.follows_end:
            reached = self._plan.end
        else:
            reached = None if self.tally.top is None else self._plan.cursor.floor(self.tally.top)
        return reached if reached is None or not self._plan.cursor.is_ordered else self.limited(reached)

    def reached_in_slices(self, end: T) -> T | None:
        """How far the mark may move when the slices up to `end` are loaded; None if no value was seen."""
        return self.limited(end) if self._plan.follows_end else self.reached()

    def limited(self, value: T) -> T:
        """The value, or a lower one if the mark may not move so far."""
        reached: Any = value
        page_end = self.tally.top if self._page_is_full else None
        for limit in (self._plan.end, self._limit, self._advanced_to, self._failed_from, page_end):
            if limit is not None and limit < reached:
                reached = limit
        return cast("T", reached)

    def loaded_to(self) -> T | None:
        """How far rows were loaded, even if the mark stays; None if no value was seen."""
        begun, end = self._plan.begun, self._plan.end
        is_isolated = begun is not None and begun.origin != "mark" and not begun.commits
        is_whole = is_isolated and self._advanced_to is None and self._plan.advance != "explicit"
        return self.limited(end) if is_whole and end is not None else self.reached()

    def includes(self, end: T) -> bool:
        """Whether the row with the value `end` was loaded, and no other row can have that value."""
        return self._is_top(end) and THE_ONE in (self.tally.ties or ())

    def ties_at(self, reached: T | None) -> tuple[str, ...] | None:
        """Which rows with this value are loaded; None if they cannot be told apart, or if some may have failed."""
        if not self._is_top(reached):
            return None
        plan = self._plan
        if reached is not None and plan.begun is not None:
            kept = plan.begun.ties if reached == plan.at else ()
            warn_of_ties(self.tally.ties, kept, plan.cursor.dump(reached))
        return kept_ties(self.tally.ties)

    def _is_top(self, reached: T | None) -> bool:
        return self.tally.top == reached and reached not in (self._advanced_to, self._failed_from)

    def check_read(self) -> None:
        """Check that the body has read everything that the mark would move over.

        Raises:
            WindowNotReadError: the body has not read it, or the mark could not move, in this run or another.
        """
        plan, is_explicit = self._plan, self._advanced_to is not None
        if self.is_sample or plan.begun is None:
            return
        if self._open_reads and not is_explicit:
            raise WindowNotReadError(
                "The rows of track(), or the slices of split(), were not iterated to their end, so it is not known"
                " what was loaded.",
                "Consume them all before returning; to leave the rest to another run, call window.advance(value).",
                problem="unread",
            )
        if self._page_is_full and not is_explicit and (self.tally.top is None or not self.tally.top > plan.at):
            raise WindowNotReadError(
                "The last page that was read is full, and no row of it lies after the mark, so the mark could never"
                " move on.",
                "Read larger pages; or page after page, until one is not full; or with a keyset of the time and an id."
                " With a lookback, pages may be full of rows that were loaded before.",
                problem="full page",
            )
        if self.must_track and not self._has_tracked:
            raise WindowNotReadError(
                "nulls='raise' is given, so the condition of the query lets rows without a value through, and they were"
                " not passed through window.track(rows, ...), which raises on them.",
                "Iterate window.track(rows, ...), or leave nulls= out: the query then leaves such rows out.",
                problem="unread",
            )
        if plan.advance == "explicit" and not is_explicit:
            raise WindowNotReadError(
                "advance='explicit', and the body did not call window.advance(value).",
                "If it has found nothing, call window.advance(window.start), and the mark stays.",
                problem="unread",
            )
        if plan.advance == "observed" and not (is_explicit or self._has_read or plan.settles):
            raise WindowNotReadError(
                "advance='observed', and the body neither iterated window.track(rows, ...) nor called"
                " window.observe(value), so it is not known what was loaded.",
                "If it has found nothing, call window.observe(None), and the mark stays.",
                problem="unread",
            )

    def check_deferral(self, *, goes_on: bool) -> None:
        """See that nothing is lost when the process of the body ends, and another one continues with this window.

        Args:
            goes_on: a method of the task continues; otherwise the trigger ends the task.

        Raises:
            WindowNotReadError: what the body has said about its rows, and so about the mark, would be lost.
        """
        if self._plan.begun is None:
            return
        said = {
            "iterates track() or split()": self._open_reads > 0,
            "has seen rows in track() or observe()": self._plan.advance == "observed" and self._has_read,
            "has called advance()": self._advanced_to is not None,
            "has read a full page": self._page_is_full,
            "has called fail_from()": self._failed_from is not None,
            "has called sampled()": self.is_sample,
        }
        for what, is_so in said.items():
            if is_so:
                raise WindowNotReadError(
                    f"The body defers after it {what}, and that is lost with its process.",
                    "Call it in the method that continues, which gets the window; pass what it needs with"
                    " defer(kwargs=...).",
                    problem="deferred",
                )
        if not goes_on:
            raise WindowNotReadError(
                "The body defers to a trigger that ends the task itself, so its window would never be committed.",
                "Name the method that continues: defer(..., method_name=...).",
                problem="deferred",
            )
