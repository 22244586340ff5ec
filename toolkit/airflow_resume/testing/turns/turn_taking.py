"""Runs each run in its own thread, one at a time: the turn changes at points.

Theory of operation. Each run has a thread and a lock that stands for its turn. Only the run that has the turn passes
points; if the schedule switches at a point, the run lets another one continue and waits for its own lock. So nothing
happens at the same time, the order is that of the schedule, and timing plays no part. The thread that called `run_all`
waits for the end. It checks regularly whether points are still passed: a run that waits for something that a frozen
run holds would wait for ever, and is reported as a `DeadlockError`.

What Airflow and this package keep for the running task changes with the turn: the stack of current contexts, of which
there is one in the process, and the `AttemptState`. Context variables belong to a thread anyway.

No thread is left over, however it ends: threads that still wait are released one after the other, die at their next
point as any dead attempt does, and are joined. Only a run that never passes a point again cannot be ended; its thread
is a daemon.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextvars import copy_context
from dataclasses import dataclass, field
from typing import Any

from airflow_resume.testing.errors import DeadlockError
from airflow_resume.testing.fakes.world import attempt_begun
from airflow_resume.testing.points import AttemptState, CrashedError, Point, Points


def _new_turn() -> threading.Lock:
    lock = threading.Lock()
    lock.acquire()
    return lock


@dataclass(eq=False, kw_only=True)
class Runner:
    """One run: what it calls, and its state."""

    number: int
    call: Callable[[], Any]
    turn: threading.Lock = field(default_factory=_new_turn)
    thread: threading.Thread | None = None
    state: AttemptState = field(default_factory=AttemptState)
    contexts: list[Any] = field(default_factory=list)
    result: Any = None
    done: bool = False


@dataclass(frozen=True)
class AttemptStart:
    """The start of an attempt: of which task instance, and whether it replaced another attempt."""

    segment: int
    instance: int
    replaces: bool


class TurnTaking:
    """Lets runs continue in turns.

    Args:
        points: of the world of the runs.
        runs: functions without arguments; an error that one raises ends all of them.
        switches: which run continues at which point (0: at the start). Where a run has ended and no switch is given,
            the next run that has not ended continues.
        name: gives the name of a run, for the point at its end.
        watchdog: if no point is passed for this many seconds, it is a deadlock.

    Attributes:
        passed_by: the run that passed each point.
        begun: the attempts that began, each with the number of points before it.
        fired: the points at which a switch took place.
    """

    def __init__(
        self,
        points: Points,
        runs: Sequence[Callable[[], Any]],
        switches: Mapping[int, int],
        *,
        name: Callable[[int], str],
        watchdog: float,
    ) -> None:
        self.passed_by: list[int] = []
        self.begun: list[AttemptStart] = []
        self.fired: set[int] = set()
        self._points = points
        self._runners = [Runner(number=number, call=call) for number, call in enumerate(runs)]
        self._switches = switches
        self._name = name
        self._watchdog = watchdog
        self._end = _new_turn()
        self._failure: BaseException | None = None
        self._current = self._runners[switches.get(0, 0)]

    def was_frozen(self, run: int) -> bool:
        """Whether a run has handed over at one of its own points."""
        return any(self.passed_by[number - 1] == run for number in self.fired if number)

    def run_all(self) -> list[Any]:
        """Run all of them to the end, and return their results.

        Raises:
            DeadlockError: no run passes a point any more.
            Whatever a run raises, or a signal handler raises meanwhile.
        """
        contexts, before = _current_contexts(), _current_contexts()[:]
        self._points.listener = self._pass_point
        self.fired.add(0)
        try:
            self._resume(self._current)
            self._wait()
        finally:
            self._end_all()
            self._points.listener = None
            contexts[:] = before
        if self._failure is not None:
            raise self._failure
        return [runner.result for runner in self._runners]

    def _wait(self) -> None:
        seen = -1
        while not self._end.acquire(timeout=self._watchdog):
            if seen == len(self._points.passed):
                raise DeadlockError(
                    f"{self._name(self._current.number)} has the turn and has passed no point for {self._watchdog:g} s,"
                    f" after {self._points.passed[-1] if self._points.passed else 'nothing'}.\nDoes it wait for a lock"
                    f" that a frozen run holds, or for another process? Give each run its own client or connection."
                )
            seen = len(self._points.passed)

    def _end_all(self) -> None:
        """End all threads. Waiting runs are ended first, as they may hold what the others wait for."""
        self._points.over = self._failure is not None or not all(runner.done for runner in self._runners)
        started = [runner for runner in self._runners if runner.thread is not None]
        for runner in started:
            if not runner.done and runner is not self._current:
                runner.turn.release()
        for runner in started:
            if runner.thread is not None:
                runner.thread.join(self._watchdog)

    # --- in the threads of the runs -----------------------------------------------------------------------------

    def _resume(self, runner: Runner) -> None:
        self._current = runner
        if runner.thread is None:
            runner.thread = threading.Thread(
                target=copy_context().run, args=[self._live, runner], name=self._name(runner.number), daemon=True
            )
            runner.thread.start()
        else:
            runner.turn.release()

    def _live(self, runner: Runner) -> None:
        _current_contexts()[:] = []
        self._points.state = runner.state

        def note_begun(instance: object, replaces: bool) -> None:  # noqa: FBT001  two facts
            self.begun.append(AttemptStart(len(self._points.passed), id(instance), replaces))

        attempt_begun.set(note_begun)
        try:
            runner.result = runner.call()
        except BaseException as error:  # noqa: BLE001  it is raised again in the thread that waits
            runner.done = True
            if not self._points.over:
                self._failure = error
                self._end.release()
            return
        runner.done = True
        if not self._points.over:
            self._pass_end(runner)

    def _pass_point(self, point: Point, _mark: Any) -> None:
        """Note the run that passed a point, and switch if the schedule says so, before a fault happens there."""
        self.passed_by.append(self._current.number)
        chosen = self._switches.get(point.number)
        if chosen is None or chosen == self._current.number or self._runners[chosen].done:
            return
        self.fired.add(point.number)
        self._hand_over(self._current, self._runners[chosen])

    def _hand_over(self, me: Runner, other: Runner) -> None:
        contexts = _current_contexts()
        me.state, me.contexts = self._points.state, contexts[:]
        self._resume(other)
        me.turn.acquire()
        if self._points.over:
            raise CrashedError("all is over")
        self._points.state, contexts[:] = me.state, me.contexts

    def _pass_end(self, me: Runner) -> None:
        points = self._points
        number = len(points.passed) + 1
        points.passed.append(Point(number, points.attempt, "after", f"the end of {self._name(me.number)}", "end"))
        self.passed_by.append(me.number)
        waiting = [runner for runner in (*self._runners[me.number :], *self._runners) if not runner.done]
        if not waiting:
            self._end.release()
            return
        chosen = self._switches.get(number)
        if chosen is not None and not self._runners[chosen].done:
            self.fired.add(number)
            self._resume(self._runners[chosen])
        else:
            self._resume(waiting[0])


def _current_contexts() -> list[Any]:
    """Airflow's stack of current contexts: one list that all threads share."""
    from airflow.sdk.execution_time import context

    stack: list[Any] = context._CURRENT_CONTEXT  # type: ignore[attr-defined]  # noqa: SLF001  nothing public sets it aside
    return stack
