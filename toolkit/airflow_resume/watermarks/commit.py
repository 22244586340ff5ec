"""The decision at the end of a window: may the mark move? Pure and total."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import Enum

Island = tuple[datetime, datetime]

MAX_ISLANDS = 20
"""More islands than this are forgotten from the far end: what they covered is then read again."""


class Outcome(str, Enum):
    """What became of a window. The value is how the log names it."""

    ADVANCED = "advanced"
    NOOP = "noop"
    """The mark is there or beyond already."""
    GAP = "gap"
    """Something before the window is not loaded: the window is remembered, the mark stays."""
    FENCED = "fenced"
    """The record was made anew since the window began: whoever did so wants its rows read again."""
    EMPTY = "empty"


@dataclass(frozen=True, kw_only=True)
class Mark:
    """What the decision needs of the asset's record."""

    at: datetime
    epoch: str
    islands: tuple[Island, ...] = ()


def decide_commit(mark: Mark | None, *, epoch: str, start: datetime, end: datetime) -> tuple[Outcome, Mark | None]:
    """What the finished window `[start, end)` of `epoch` does to the mark, and the mark to write (None: do not)."""
    if mark is None or mark.epoch != epoch:
        return Outcome.FENCED, None
    if end <= mark.at:
        return Outcome.NOOP, None
    if start <= mark.at:
        return Outcome.ADVANCED, _absorb(Mark(at=end, epoch=epoch, islands=mark.islands))
    return Outcome.GAP, Mark(at=mark.at, epoch=epoch, islands=_with_island(mark.islands, (start, end)))


def _absorb(mark: Mark) -> Mark:
    """Islands that the mark has reached are land: the mark stands at their end."""
    at, left = mark.at, []
    for start, end in sorted(mark.islands):
        if start <= at:
            at = max(at, end)
        else:
            left.append((start, end))
    return Mark(at=at, epoch=mark.epoch, islands=tuple(left))


def _with_island(islands: tuple[Island, ...], new: Island) -> tuple[Island, ...]:
    merged: list[Island] = []
    for start, end in sorted((*islands, new)):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return tuple(merged[:MAX_ISLANDS])
