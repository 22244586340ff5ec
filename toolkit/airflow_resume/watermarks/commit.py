"""The decision at the end of a window: may the mark move? Pure and total.

The values belong to a cursor type, and are only compared. An *island* is a window that was loaded beyond the mark, with
a gap before it. The record of the mark has them in its field `islands`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Literal, TypeAlias

Island: TypeAlias = "tuple[Any, Any]"
Advance = Literal["window", "observed", "explicit"]
"""What moves the mark: the end of the window, the largest value that was seen, or what the body says."""
OnGap = Literal["hold", "fail", "jump"]

MAX_ISLANDS = 20
"""If there are more islands, the last ones are forgotten, and their rows are read again."""
MAX_TIES = 200
"""If more rows than this have the value of the mark, they are not told apart, and all of them are read again."""


class Outcome(str, Enum):
    """The result of a window's commit. The value is its name in the log."""

    ADVANCED = "advanced"
    """The mark has moved to the end of what was loaded."""
    NOOP = "noop"
    """The mark is already at the window's end or beyond it."""
    GAP = "gap"
    """Something before the window is not loaded: the window is kept as an island, and the mark stays."""
    JUMPED = "jumped"
    """Something before the window is not loaded, and the policy moves the mark over it."""
    REFUSED = "refused"
    """Something before the window is not loaded, and the policy fails."""
    FENCED = "fenced"
    """The mark was set anew since the window began, so the window does not move it."""
    CONFLICT = "conflict"
    """Another run has moved the token, and tokens have no order by which the two could be merged."""
    UNCOMMITTED = "uncommitted"
    """The window is one that does not move the mark: a sample, an isolated backfill, an override."""
    EMPTY = "empty"
    """There was nothing to load."""


@dataclass(frozen=True, kw_only=True)
class MarkState:
    """The part of the mark's record that the decision needs.

    Args:
        at: everything before it is loaded.
        ties: the rows with this value that are loaded, a hash of each; None if that is not known.
    """

    at: Any
    epoch: str
    rev: int = 0
    islands: tuple[Island, ...] = ()
    ties: tuple[str, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class LoadedRange:
    """What a run has loaded: from `start` to `new`.

    Args:
        new: the end of what was loaded; None if no row was seen.
        epoch, base_rev: of the mark's record when the window began.
        ties: as in `MarkState`, at `new`.
    """

    start: Any
    new: Any
    epoch: str
    base_rev: int = 0
    ties: tuple[str, ...] | None = None


def decide_commit(
    mark: MarkState | None, loaded: LoadedRange, *, ordered: bool = True, on_gap: OnGap = "hold"
) -> tuple[Outcome, MarkState | None]:
    """The outcome of a finished window, and the mark to write; None if nothing is to be written."""
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


def _decide_token(mark: MarkState, loaded: LoadedRange) -> tuple[Outcome, MarkState | None]:
    if loaded.new == mark.at:
        return Outcome.NOOP, None
    # The record may have been written without a move, when a run has taken over windows to publish.
    if mark.rev != loaded.base_rev and mark.at != loaded.start:
        return Outcome.CONFLICT, None
    return Outcome.ADVANCED, replace(mark, at=loaded.new)


def _decide_gap(mark: MarkState, loaded: LoadedRange, on_gap: OnGap) -> tuple[Outcome, MarkState | None]:
    if loaded.new <= loaded.start:  # what was loaded failed, or may still change
        return Outcome.NOOP, None
    if on_gap == "fail":
        return Outcome.REFUSED, None
    if on_gap == "jump":
        return Outcome.JUMPED, _absorb(replace(mark, at=loaded.new, ties=loaded.ties))
    return Outcome.GAP, replace(mark, islands=_with_island(mark.islands, (loaded.start, loaded.new)))


def _with_ties(mark: MarkState, loaded: LoadedRange) -> MarkState | None:
    """The mark, with the rows at its value that this window has loaded; None if no row is new."""
    if loaded.new != mark.at or not loaded.ties or mark.ties is None:
        return None
    ties = tuple(sorted({*mark.ties, *loaded.ties}))
    if ties == mark.ties:
        return None
    return replace(mark, ties=ties if len(ties) <= MAX_TIES else None)


def _absorb(mark: MarkState) -> MarkState:
    """The mark, moved to the end of each island that it has reached."""
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
