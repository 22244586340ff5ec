"""The decision at the end of a window: may the mark move? Pure and total.

Values are those of a cursor type, and only compared.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Literal, TypeAlias

Island: TypeAlias = "tuple[Any, Any]"
OnGap = Literal["hold", "fail", "jump"]

MAX_ISLANDS = 20
"""More islands than this are forgotten from the far end: what they covered is then read again."""
MAX_TIES = 200
"""More rows at the mark than this are not told apart, and read again."""


class Outcome(str, Enum):
    """What became of a window. The value is how the log names it."""

    ADVANCED = "advanced"
    NOOP = "noop"
    """The mark is there or beyond already."""
    GAP = "gap"
    """Something before the window is not loaded: the window is remembered, the mark stays."""
    JUMPED = "jumped"
    """Something before the window is not loaded, and the policy moves the mark over it."""
    REFUSED = "refused"
    """Something before the window is not loaded, and the policy fails."""
    FENCED = "fenced"
    """The record was made anew since the window began: whoever did so wants its rows read again."""
    CONFLICT = "conflict"
    """Another run has moved the token, and tokens have no order to merge by."""
    UNCOMMITTED = "uncommitted"
    """The window was not to be committed: a sample, an isolated backfill, an override."""
    EMPTY = "empty"


@dataclass(frozen=True, kw_only=True)
class Mark:
    """What the decision needs of the asset's record.

    Args:
        at: everything before it is loaded.
        ties: which rows at it are, by a hash of each; None when that is not known.
    """

    at: Any
    epoch: str
    rev: int = 0
    islands: tuple[Island, ...] = ()
    ties: tuple[str, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class Loaded:
    """What a run has loaded: from `start` to `new`.

    Args:
        new: where it came to; None: nothing was seen.
        epoch, base_rev: of the record when the window began.
        ties: as in `Mark`, at `new`.
    """

    start: Any
    new: Any
    epoch: str
    base_rev: int = 0
    ties: tuple[str, ...] | None = None


def decide_commit(
    mark: Mark | None, loaded: Loaded, *, ordered: bool = True, on_gap: OnGap = "hold"
) -> tuple[Outcome, Mark | None]:
    """What a finished window does to the mark, and the mark to write (None: do not)."""
    if mark is None or mark.epoch != loaded.epoch:
        return Outcome.FENCED, None
    if loaded.new is None:
        return Outcome.NOOP, None
    if not ordered:
        return _decide_token(mark, loaded)
    if loaded.new <= mark.at:
        return Outcome.NOOP, _with_ties(mark, loaded)
    if loaded.start <= mark.at:
        return Outcome.ADVANCED, _absorb(replace(mark, at=loaded.new, ties=loaded.ties))
    return _decide_gap(mark, loaded, on_gap)


def _decide_token(mark: Mark, loaded: Loaded) -> tuple[Outcome, Mark | None]:
    if loaded.new == mark.at:
        return Outcome.NOOP, None
    # It may have been written without being moved: for what a run tells of another.
    if mark.rev != loaded.base_rev and mark.at != loaded.start:
        return Outcome.CONFLICT, None
    return Outcome.ADVANCED, replace(mark, at=loaded.new)


def _decide_gap(mark: Mark, loaded: Loaded, on_gap: OnGap) -> tuple[Outcome, Mark | None]:
    if loaded.new <= loaded.start:  # what was loaded failed, or may still change
        return Outcome.NOOP, None
    if on_gap == "fail":
        return Outcome.REFUSED, None
    if on_gap == "jump":
        return Outcome.JUMPED, _absorb(replace(mark, at=loaded.new, ties=loaded.ties))
    return Outcome.GAP, replace(mark, islands=_with_island(mark.islands, (loaded.start, loaded.new)))


def _with_ties(mark: Mark, loaded: Loaded) -> Mark | None:
    """More rows at the mark itself were loaded."""
    if loaded.new != mark.at or not loaded.ties or mark.ties is None:
        return None
    ties = tuple(sorted({*mark.ties, *loaded.ties}))
    if ties == mark.ties:
        return None
    return replace(mark, ties=ties if len(ties) <= MAX_TIES else None)


def _absorb(mark: Mark) -> Mark:
    """Islands that the mark has reached are land: the mark stands at their end."""
    at, ties, left = mark.at, mark.ties, []
    for start, end in sorted(mark.islands):
        if start > at:
            left.append((start, end))
        elif end > at:
            at, ties = end, None
    return replace(mark, at=at, ties=ties, islands=tuple(left))


def _with_island(islands: tuple[Island, ...], new: Island) -> tuple[Island, ...]:
    merged: list[Island] = []
    for start, end in sorted((*islands, new)):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return tuple(merged[:MAX_ISLANDS])
