"""Jobs that go through states that a test chooses; the fake job services are built on them."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Generic, TypeVar

from json_request import NotFoundError, RequestError

State = TypeVar("State")


class UnavailableError(RequestError):
    """The service cannot answer just now."""

    status = HTTPStatus.SERVICE_UNAVAILABLE


@dataclass(kw_only=True)
class ScriptedJob(Generic[State]):
    """One job. It is in the first of its states; each question moves it on, but never past the last one."""

    number: int
    name: str | None
    states: list[State]

    @property
    def state(self) -> State:
        return self.states[0]

    def look(self) -> State:
        state = self.states[0]
        if len(self.states) > 1:
            del self.states[0]
        return state


@dataclass(kw_only=True)
class ScriptedJobs(Generic[State]):
    """All jobs, under one lock because every request has its own thread.

    Args:
        ends: the states in which a job does nothing any more.
        states: what the next jobs go through.
        first: the number of the first job.

    Attributes:
        events: what was asked and done, such as `"submit 0"`.
        most_alive: the most jobs that were ever alive at once.
        failures: how many of the next questions are answered with HTTP 503.
        looks: how often a state was asked for.
    """

    ends: frozenset[State]
    states: Sequence[State]
    first: int = 0
    jobs: list[ScriptedJob[State]] = field(default_factory=list)
    forgotten: set[int] = field(default_factory=set)
    events: list[str] = field(default_factory=list)
    most_alive: int = 0
    failures: int = 0
    looks: int = 0
    lock: threading.RLock = field(default_factory=threading.RLock)

    def submit(self, name: str | None) -> ScriptedJob[State]:
        with self.lock:
            job = ScriptedJob(number=self.first + len(self.jobs), name=name, states=list(self.states))
            self.jobs.append(job)
            self.events.append(f"submit {job.number}")
            self.most_alive = max(self.most_alive, len(self.alive()))
            return job

    def alive(self) -> list[ScriptedJob[State]]:
        return [job for job in self.jobs if job.state not in self.ends and job.number not in self.forgotten]

    def known(self) -> list[ScriptedJob[State]]:
        return [job for job in self.jobs if job.number not in self.forgotten]

    def get(self, number: int) -> ScriptedJob[State]:
        """The job; 404 when it is not known (any more)."""
        for job in self.known():
            if job.number == number:
                return job
        raise NotFoundError(f"Session '{number}' not found.")

    def named(self, name: str) -> ScriptedJob[State] | None:
        return next((job for job in self.known() if job.name == name), None)

    def look(self, number: int) -> State:
        with self.lock:
            self.looks += 1
            if self.failures:
                self.failures -= 1
                raise UnavailableError("try again")
            return self.get(number).look()

    def end(self, number: int, state: State) -> None:
        """The job is in this state from now on."""
        with self.lock:
            self.get(number).states[:] = [state]

    def delete(self, number: int, state: State) -> None:
        """Cancel the job and forget it."""
        with self.lock:
            self.end(number, state)
            self.events.append(f"delete {number}")
            self.forgotten.add(number)

    def cancel(self, number: int, state: State) -> None:
        """Cancel the job, which is still known."""
        with self.lock:
            self.end(number, state)
            self.events.append(f"cancel {number}")
