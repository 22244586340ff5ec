"""What a body says that it has loaded of a window, and how far the mark may move for it."""

from __future__ import annotations

import logging
from typing import Any, Generic, Literal, cast

from typing_extensions import TypeVar

from airflow_resume.errors import FullPageError, NothingReadError, WatermarkError, WindowDeferredError
from airflow_resume.watermarks.cursor import CursorType
from airflow_resume.watermarks.cursor_type import refusal
from airflow_resume.watermarks.entry import Origin
from airflow_resume.watermarks.record import MarkRecord, WindowRecord
from airflow_resume.watermarks.scalars import plain
from airflow_resume.watermarks.track import THE_ONE, Tally, kept_ties, warn_of_ties

T = TypeVar("T", default=Any)

log = logging.getLogger(__name__)

Advance = Literal["window", "observed", "explicit"]


class Loading(Generic[T]):
    """What a `Window` is told by those who load it."""

    record: WindowRecord | None
    untold_in: MarkRecord | None = None
    """Where nothing is new, the mark as it stands, if what earlier runs have loaded may not have been told."""
    _cursor: CursorType[T]
    _advance: Advance
    _end: T | None
    _at: T
    _limit: T | None
    _known: frozenset[str]
    _settles: bool
    _must_track: bool
    _reader: CursorType[T]
    """The cursor, reading values as the source's column has them."""

    @property
    def empty(self) -> bool:
        """Whether there is nothing to load."""
        return self.record is None

    @property
    def origin(self) -> Origin:
        """Where the bounds come from: the mark, the run's conf, or a backfill's data interval."""
        return "mark" if self.record is None else self.record.origin

    def _begin_reading(self) -> None:
        self.tally = Tally()
        """What went through `track` and `observe`."""
        self._advanced_to: T | None = None
        self._page_is_full = False
        self._failed_from: T | None = None
        self._sampled = self._has_read = self._has_tracked = self._must_track = False
        self._open_reads = 0

    # --- what the body says -------------------------------------------------------------------------------------

    def observe(self, value: object) -> None:
        """A row with this cursor value was loaded (where `track` does not fit).

        No value (None, NaT, NaN, `pandas.NA`), such as the greatest one of an empty frame, says that the body has
        looked and found nothing. The mark stays then, unless another value is observed.

        Raises:
            CursorTypeError: another type than the cursor's.
        """
        found = plain(value)
        if found is not None:
            self.tally.see(self._reader.parse_row(found, what="observe()"))
        self._has_read = True

    def advance(self, value: object) -> None:
        """Everything before this value is loaded: the mark moves there, and not to what was observed.

        Of several calls the last one counts, so a loop over pages may say it after each. If it is lower than the one
        before, the mark moves to the lower one, and the log has a warning: what lies between is read again.

        Raises:
            CursorTypeError: another type than the cursor's, or no value.
        """
        is_ordered = self._cursor.is_ordered
        found = plain(value) if is_ordered else value
        if found is None and is_ordered:
            remedy = "Where nothing was found, say window.advance(window.start), and the mark stays."
            raise refusal(value, remedy, what="advance()")
        told: Any = self._reader.parse(found, what="advance()")
        before: Any = self._advanced_to
        if is_ordered and before is not None and told < before:
            log.warning(
                "window.advance() was called with %s, and then with the lower %s: the last one counts, and what lies"
                " between is read again.\n"
                "Load pages in the order of the cursor, or call it once, with the greatest value.",
                self._cursor.dump(before),
                self._cursor.dump(told),
            )
        self._advanced_to = told

    def fail_from(self, value: object) -> None:
        """What lies at this value or after it is not loaded: the mark moves no further than to it."""
        if not self._cursor.is_ordered:
            raise WatermarkError(
                f"A {self._cursor.type} has no order, so nothing lies after it.",
                "Raise an error where something could not be loaded: the mark stays, and a retry begins there.",
            )
        failed = self._reader.parse(value, what="fail_from()")
        if self._failed_from is None or failed < self._failed_from:  # type: ignore[operator]
            self._failed_from = failed

    def sampled(self) -> None:
        """This run only looked: the mark does not move."""
        self._sampled = True

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
        page_end = self.tally.top if self._page_is_full else None
        for limit in (self._end, self._limit, self._advanced_to, self._failed_from, page_end):
            if limit is not None and limit < reached:
                reached = limit
        return cast("T", reached)

    @property
    def mark(self) -> T:
        """Where it stood when the window began."""
        return self._at

    def loaded_to(self) -> T | None:
        """Up to where rows were loaded; None: nothing was seen."""
        is_isolated = self.record is not None and self.record.origin != "mark" and not self.record.commits
        is_whole = is_isolated and self._advanced_to is None and self._advance != "explicit"
        return self._limited(self._end) if is_whole and self._end is not None else self.reached()

    @property
    def is_sample(self) -> bool:
        """Whether the run only looked."""
        return self._sampled

    @property
    def _moves_with_window(self) -> bool:
        return self._advance == "window" or self._settles

    def _aim(self) -> T | None:
        if self._advanced_to is not None or self._advance == "explicit":
            return self._advanced_to
        if self._moves_with_window:
            return self._end
        top: T | None = self.tally.top
        return None if top is None else self._cursor.floor(top)

    def includes(self, end: T) -> bool:
        """Whether the row at the end of what was loaded is loaded too, and the only one: values are unique."""
        return self._is_top(end) and THE_ONE in (self.tally.ties or ())

    def _is_top(self, reached: T | None) -> bool:
        return self.tally.top == reached and reached not in (self._advanced_to, self._failed_from)

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
            NothingReadError: it has not. FullPageError: the mark could not move, in this run or another.
        """
        if self._sampled or self.empty:
            return
        if self._open_reads and self._advanced_to is None:
            raise NothingReadError(
                "The rows of track(), or the slices of split(), were not iterated to their end, so it is not known"
                " what was loaded.",
                "Consume them all before returning; if the rest is to be left to another run, say so with"
                " window.advance(value).",
            )
        if (
            self._page_is_full
            and self._advanced_to is None
            and (self.tally.top is None or not self.tally.top > self._at)
        ):
            raise FullPageError(
                "The last page that was read is full, and no row of it lies after the mark, so the mark could never"
                " move on.",
                "Read larger pages; or page after page, until one is not full; or with a keyset of the time and an id."
                " With a lookback, pages may be full of rows that were loaded before.",
            )
        if self._must_track and not self._has_tracked:
            raise NothingReadError(
                "nulls='raise' is given, so the condition of the query lets rows without a value through, and they were"
                " not passed through window.track(rows, ...), which raises on them.",
                "Iterate window.track(rows, ...), or leave nulls= out: the query then leaves such rows out.",
            )
        if self._advanced_to is None and self._advance == "explicit":
            raise NothingReadError(
                "advance='explicit', and the body did not say window.advance(value).",
                "Where it has looked and found nothing, say window.advance(window.start), and the mark stays.",
            )
        if self._advanced_to is None and self._advance == "observed" and not self._has_read and not self._settles:
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
            "has called advance()": self._advanced_to is not None,
            "has read a full page": self._page_is_full,
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
