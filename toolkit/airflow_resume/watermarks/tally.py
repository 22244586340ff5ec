"""What went through a window."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

from airflow_resume.watermarks.commit import MAX_TIES

log = logging.getLogger(__name__)


@dataclass(kw_only=True)
class Tally:
    """What went through a window.

    Args:
        rows: delivered to the body. `late`: those of them that lie before the mark, as a lookback reads them again.
        nulls: without a cursor value. `future`: at or after the window's end. `known`: loaded before, so passed over.
        top: the greatest value of a row that counts.
        ties: which rows had it, where they can be told apart; of more than are kept, some.
    """

    rows: int = 0
    late: int = 0
    nulls: int = 0
    future: int = 0
    known: int = 0
    top: Any = None
    ties: set[str] | None = None

    def add(self, other: Tally) -> None:
        """What went through a slice."""
        self.rows += other.rows
        self.late += other.late
        self.nulls += other.nulls
        self.future += other.future
        self.known += other.known
        if other.top is not None:
            self.see(other.top, other.ties)

    def see(self, value: Any, ties: set[str] | None = None) -> None:
        """A value was loaded; `ties` may be added to later."""
        if self.top is None or value > self.top:
            self.top, self.ties = value, ties
        elif value == self.top:
            if self.ties is None or ties is None:
                self.ties = None
            elif len(self.ties) <= MAX_TIES:  # beyond that they are too many anyway
                self.ties |= ties


def kept_ties(ties: set[str] | None) -> tuple[str, ...] | None:
    """The ties as they are kept; None when there are too many to tell apart."""
    return None if ties is None or len(ties) > MAX_TIES else tuple(sorted(ties))


def warn_of_ties(ties: set[str] | None, before: tuple[str, ...] | None, value: object) -> None:
    """Say once that there are more rows at the mark than can be told apart.

    The `ties` are those of this run, and `before` those kept with the mark if it stands at the value already: None
    where they were too many to keep, as the log said then.
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
