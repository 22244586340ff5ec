"""What sinks of every kind share about the claims of others: whether they are alive, and the errors about them."""

from __future__ import annotations

from collections.abc import Callable

from airflow_resume.errors import ResumeError, SinkBusyError, SupersededError
from airflow_resume.shown import short_repr
from airflow_resume.sink_protocol import Claimant
from airflow_resume.sinks.decide import Claiming, Sign, Stamp

LOOK_SECONDS = 0.5
"""How often a claim is looked at while another run has it."""
MOST_RACES = 10
"""How often a claim is decided anew because it has changed in between."""


class Watch:
    """Whether another run still commits. Only this machine's clock counts, as those of two machines may differ.

    Args:
        patience: for how many seconds another run may say nothing.
        monotonic: a clock, in seconds.
    """

    def __init__(self, patience: float, monotonic: Callable[[], float]) -> None:
        self._patience, self._monotonic = patience, monotonic
        self._first: Stamp | None = None
        self._since = 0.0

    def sign_of(self, stamp: Stamp) -> Sign:
        """What the claim, as it is now, says of the run that holds it."""
        if self._first is None:
            self._first, self._since = stamp, self._monotonic()
        if stamp != self._first:
            self._first, self._since = stamp, self._monotonic()
            return Sign.ALIVE
        return Sign.SILENT if self._monotonic() - self._since >= self._patience else Sign.UNKNOWN


def refusal(decision: Claiming, identity: str, by: Claimant, target: str) -> ResumeError:
    """The error of an attempt that may not claim a position.

    Args:
        decision: to be superseded, or to fail.
        identity: of the position.
        by: who has claimed it.
        target: where it is, for messages.
    """
    if decision is Claiming.SUPERSEDED:
        return SupersededError(
            f"A later attempt (try {by.try_number}) has claimed {identity} in {target}.", key=identity
        )
    return SinkBusyError(
        f"{by.owner or 'Another run'} works on {short_repr(identity, most=250)} in {target}.",
        "Wait for its end, or set on_contention='wait' or 'take_over'.",
        sink=target,
        owner=by.owner,
    )


def raced(identity: str, target: str) -> SinkBusyError:
    """The error of an attempt whose claim always came too late."""
    return SinkBusyError(
        f"Others committed to {target}, or claimed {identity} there, in each of {MOST_RACES} tries to claim it.",
        "A retry looks again. If many tasks write there at the same time, let each commit contain more.",
        sink=target,
    )
