"""What sinks of every kind share about the claims of others: whether they are alive, and the errors about them."""

from __future__ import annotations

import random
from collections.abc import Callable

from airflow_resume.errors import ResumeError, SinkBusyError, SupersededError
from airflow_resume.shown import short_repr
from airflow_resume.sink_protocol import Claimant
from airflow_resume.sinks.decide import Claiming, Sign, Stamp

LOOK_SECONDS = 0.5
"""How often a claim is looked at while another run has it."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 2.0
"""How long one waits at most before a lost race is run again: the first time, and ever. In seconds."""


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


class Races:
    """Commits, or claims, that others came before, and which are tried again.

    Args:
        patience: for how many seconds after the first one that was lost.
        monotonic: a clock, in seconds.
        sleep: waits for a number of seconds.
    """

    def __init__(self, patience: float, monotonic: Callable[[], float], sleep: Callable[[float], None]) -> None:
        self.patience, self._monotonic, self._sleep = patience, monotonic, sleep
        self._lost = 0
        self._until = 0.0

    @property
    def are_over(self) -> bool:
        """Whether one more that is lost was the last one. The first one never is."""
        return self._lost > 0 and self._monotonic() >= self._until

    def lost(self) -> None:
        """Wait before the next one, longer each time, and randomly, so that two do not meet again and again."""
        if self._lost == 0:
            self._until = self._monotonic() + self.patience
        longest = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2**self._lost)
        self._lost += 1
        self._sleep(random.uniform(0.1, 1) * longest)  # noqa: S311  no secret


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


def raced(identity: str, target: str, races: Races) -> SinkBusyError:
    """The error of an attempt whose claim or commit always came too late.

    Args:
        identity: of the position.
        target: where it is, for messages.
        races: that were lost.
    """
    return SinkBusyError(
        f"Others always committed to {target} before {identity}, or claimed it, for {races.patience:g} s. Nothing of"
        " this commit was kept.",
        "A retry does it again. If many tasks write there at the same time, let each commit contain more, or give the"
        " sink a longer patience=.",
        sink=target,
    )
