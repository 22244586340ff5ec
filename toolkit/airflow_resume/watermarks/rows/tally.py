"""The rows that went through a window: their counts, and the greatest value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from airflow_resume.shown import get_logger
from airflow_resume.watermarks.commit import MAX_TIES

log = get_logger(__name__)


@dataclass(kw_only=True)
class Tally:
    """The counts of the rows that went through a window, and the greatest value.

    Args:
        rows: how many rows the body got. `late`: how many of them are before the mark, because of a lookback.
        nulls: rows without a cursor value. `future`: rows at or after the window's end. `known`: rows that were loaded
            before, and were left out.
        top: the greatest value of a row to which the mark may move.
        ties: the ties of the rows with that value, if they can be told apart. If there are too many, only some of them.
    """

    rows: int = 0
    late: int = 0
    nulls: int = 0
    future: int = 0
    known: int = 0
    top: Any = None
    ties: set[str] | None = None

    def add(self, other: Tally) -> None:
        """Add the rows of a slice."""
        self.rows += other.rows
        self.late += other.late
        self.nulls += other.nulls
        self.future += other.future
        self.known += other.known
        if other.top is not None:
            self.see(other.top, other.ties)

    def see(self, value: Any, ties: set[str] | None = None) -> None:
        """Note that a row with this value was loaded. The caller may add to `ties` later."""
        if self.top is None or value > self.top:
            self.top, self.ties = value, ties
        elif value == self.top:
            if self.ties is None or ties is None:
                self.ties = None
            elif len(self.ties) <= MAX_TIES:  # more are not kept anyway
                self.ties |= ties


def kept_ties(ties: set[str] | None) -> tuple[str, ...] | None:
    """The ties to keep in the record; None if there are too many."""
    return None if ties is None or len(ties) > MAX_TIES else tuple(sorted(ties))


def warn_of_ties(ties: set[str] | None, before: tuple[str, ...] | None, value: object) -> None:
    """Warn once that there are more rows at the mark than can be told apart.

    Args:
        ties: of this run.
        before: the ties that are kept with the mark, if it already has this value. None if they were too many. Then the
            warning was logged at that time.
        value: of the mark.
    """
    if ties is None or before is None or len({*before, *ties}) <= MAX_TIES:
        return
    log.warning(
        "More than %d rows have the cursor value %s, where the mark will stand. They are too many to tell apart, so"
        " every run reads them again until the mark moves on.\n"
        "Use a finer time, or a second column: Cursor.keyset(Cursor.datetime(), Cursor.int()).",
        MAX_TIES,
        value,
    )
