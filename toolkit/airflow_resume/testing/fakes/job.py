"""One job of a `FakeJobs`, and what both `FakeJobs` and its HTTP server need to know about jobs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, NamedTuple

_WORDS_OF_AN_END = """
succeeded success successful complete completed done finished ok
failed failure error errored aborted cancelled canceled crashed dead internalerror killed timeout timedout
gone notfound missing
"""
_ENDED = frozenset(_WORDS_OF_AN_END.split())

is_observed: ContextVar[bool] = ContextVar("is_observed", default=True)
"""Whether calls of a `FakeJobs` are reported to its observer; False in the block of `unobserved`."""


@contextmanager
def unobserved() -> Iterator[None]:
    """In the block, calls of this thread on any `FakeJobs` are not reported to its observer."""
    before = is_observed.set(False)
    try:
        yield
    finally:
        is_observed.reset(before)


class UnknownJobError(LookupError):
    """The job system does not know this id."""


@dataclass(kw_only=True)
class FakeJob:
    """One job.

    Args:
        states: its states, one for each question; the last one stays.
        life: how often the Dag run had been deleted and created again before the job was submitted.
    """

    id: Any
    token: str | None
    states: list[str]
    forgotten: bool = False
    life: int = 0

    @property
    def state(self) -> str:
        """The state that the next question gets."""
        return self.states[0]

    @property
    def is_alive(self) -> bool:
        """Whether it may still do something: its state is not one of the words for an end."""
        word = str(getattr(self.state, "value", self.state)).lower()
        return word.replace("_", "").replace("-", "").replace(" ", "") not in _ENDED


class JobEvent(NamedTuple):
    """A call of the job system that was carried out, such as `submit job-0`."""

    call: str
    job: Any
