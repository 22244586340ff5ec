"""What to do about a claim that is stored, and after a commit whose reply did not come. Pure, and total."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Literal

from airflow_resume.sink_protocol import Claimant

OnContention = Literal["take_over", "wait", "fail"]


class Claiming(str, Enum):
    """What to do about the row of a position."""

    INSERT = "insert the row"
    TAKE_OVER = "take the row over"
    SUPERSEDED = "stop, as a later attempt has claimed the row"
    WAIT = "look again later"
    FAIL = "fail, as another run works on it"


class Sign(Enum):
    """Whether another run, whose claim was not given back, has committed since it was first looked at."""

    UNKNOWN = "unknown"
    """It has not yet had the time."""
    ALIVE = "alive"
    SILENT = "silent"
    """It has not committed for as long as one waits for it."""


@dataclass(frozen=True, kw_only=True)
class Held:
    """A claim that is stored.

    Args:
        by: who has claimed the row.
        is_released: whether the claim was given back.
    """

    by: Claimant
    is_released: bool = False


def decide_claim(held: Held | None, ours: Claimant, policy: OnContention, sign: Sign = Sign.UNKNOWN) -> Claiming:
    """What to do about the row.

    Airflow numbers the attempts of a task instance, so a later one always takes over from an earlier one. A process
    that continues in the same try takes over as well. Between two runs that have no order, the policy decides.

    Args:
        held: the claim in the row; None if there is no row.
        ours: who wants the row.
        policy: for runs without an order.
        sign: of the run that holds the row.
    """
    if held is None:
        return Claiming.INSERT
    if ours.owner and held.by.owner == ours.owner:
        return Claiming.SUPERSEDED if ours.is_before(held.by) else Claiming.TAKE_OVER
    if held.is_released or policy == "take_over" or sign is Sign.SILENT:
        return Claiming.TAKE_OVER
    return Claiming.FAIL if policy == "fail" and sign is Sign.ALIVE else Claiming.WAIT


class Committed(str, Enum):
    """What became of a commit."""

    YES = "committed"
    NO = "not committed"
    SUPERSEDED = "not committed, as another attempt has claimed the row"
    GONE = "not committed, as there is no such row any more"


@dataclass(frozen=True)
class Stamp:
    """What a row says of its last commit: by which claim, and the how manieth it was."""

    nonce: str
    version: int


def decide_commit(found: Stamp | None, before: Stamp) -> Committed:
    """What became of a commit that has raised an error, or has changed no row.

    The row may be ahead of the commit only under another claim, because a claim commits one after the other.

    Args:
        found: what the row says now; None if there is no row.
        before: what it said before the commit.
    """
    if found is None:
        return Committed.GONE
    if found == before:
        return Committed.NO
    return Committed.YES if found == Stamp(before.nonce, before.version + 1) else Committed.SUPERSEDED
