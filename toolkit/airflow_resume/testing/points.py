"""The points that an attempt passes, and the faults that happen at them.

Theory of operation. Every store call and every outside effect passes two points: *before*, when nothing is applied
yet, and *after*, when it is applied. Points are numbered from 1. The numbers continue over all attempts of one fault
plan, so a number names one moment. A point is recorded before its fault happens, so the trace ends where the attempt
died.

An answer of a job system or source is one point, and the end of an attempt that succeeded is one point. They are points
only if one of the chosen kinds of fault needs them. So the other points have the same numbers without these kinds.

An attempt that crashed in this process still runs its `finally` blocks, which a killed process would not do. So the
dead attempt dies again at each further point, before anything is applied. A store that was watched in one attempt and
is still used in a later one (by a generator that is closed late) belongs to the dead attempt.

An attempt may also be frozen while another one runs. So whether an attempt is dead is kept in its `AttemptState`. When
the turn changes, `airflow_resume.testing.turns.turn_taking` switches to the state of the run whose turn it is.
"""

from __future__ import annotations

import inspect
import os
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import ContextDecorator, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, NamedTuple, NoReturn, TypeAlias, cast, get_args

CrashKind: TypeAlias = Literal[
    "crash", "reply_lost", "refused", "sigkill", "raises_after", "wrong_once", "recreated", "state_cleared", "restored"
]
Phase: TypeAlias = Literal["before", "after", "answer"]
Source: TypeAlias = Literal["store", "effect", "answer", "read", "end"]
"""`"read"`, a question to a job system, is a point only when runs are interleaved."""

CRASH_KINDS: tuple[CrashKind, ...] = get_args(CrashKind)
IN_PROCESS: tuple[CrashKind, ...] = ("crash", "reply_lost", "refused")
"""The kinds that are explored by default: a call dies or fails, and no child process is needed."""

CHANGES_DATABASE: frozenset[str] = frozenset({"recreated", "state_cleared", "restored"})
"""Kinds with which the attempt dies, and the database changes before the next one begins."""

_DEADLY = CHANGES_DATABASE | {"crash", "sigkill"}
_HAPPENS_AT_THE_END = frozenset({"recreated", "restored"})


class CrashedError(BaseException):
    """The process has died. It is a BaseException so that no `except Exception` catches it."""


class Point(NamedTuple):
    """One moment of one attempt, such as point 3 in attempt 1, after `set cursor`."""

    number: int
    attempt: int
    phase: Phase
    what: str
    source: Source
    lies: tuple[str, ...] = ()
    """The wrong answers that are possible here."""

    def allows(self, kind: str) -> bool:
        """Whether a fault such as "crash" or "wrong_once gone" can happen here."""
        name, _, variant = kind.partition(" ")
        match self.source:
            case "answer":
                return name == "wrong_once" and variant in self.lies
            case "end":
                return name in _HAPPENS_AT_THE_END
        match name:
            case "reply_lost":
                return (self.source, self.phase) == ("store", "after")
            case "refused":
                return (self.source, self.phase) == ("store", "before")
            case "raises_after":
                return self.phase == "after"
        return name in _DEADLY

    def __str__(self) -> str:
        return f"{self.phase} {self.what}"


class Effect(NamedTuple):
    """An outside effect that took place, and the attempt that had it."""

    what: str
    attempt: int


@dataclass
class AttemptState:
    """What is known of one attempt.

    Args:
        number: the number of the attempt, from 1; 0 before the first.
        dead: whether it has crashed.
        faulty: whether a fault happened that it may fail from, so that Airflow tries again.
        database_change: the fault that changes the database after its death, if there is one.
        backups: backups of the world that can be restored, by kind of fault.
    """

    number: int = 0
    dead: bool = False
    faulty: bool = False
    database_change: str = ""
    backups: dict[str, Any] = field(default_factory=dict)


_running: ContextVar[Points | None] = ContextVar("_running", default=None)


@contextmanager
def running(points: Points) -> Iterator[None]:
    """In the block, an attempt that passes these points runs."""
    before = _running.set(points)
    try:
        yield
    finally:
        _running.reset(before)


def note_unwatched(call: str) -> None:
    """Record that a fake was called that is not in the world; it counts only while an attempt runs."""
    points = _running.get()
    if points is not None:
        points.unregistered.calls.append(call)


class RegisteredEffect(ContextDecorator):
    """An outside effect between two points, see `CrashWorld.effect`."""

    def __init__(self, points: Points, what: str) -> None:
        self._points = points
        self._what = what
        self._is_noted = True
        points.unregistered.effects.append(what)

    def _note_used(self) -> None:
        if self._is_noted:
            self._is_noted = False
            self._points.unregistered.effects.remove(self._what)

    def __call__(self, function: Callable[..., Any]) -> Any:
        """As a decorator.

        Raises:
            TypeError: the body would run after both points.
        """
        self._note_used()
        if runs_later(function):
            raise TypeError(
                f"{function.__name__} is async or a generator function, and would have its effect after both points."
                f"\nWrite `with world.effect({self._what!r}):` in its body."
            )
        return super().__call__(function)

    def __enter__(self) -> None:
        self._note_used()
        self._points.reach("before", self._what, "effect")

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._points.reach("after", self._what, "effect")


def runs_later(function: Callable[..., Any]) -> bool:
    """Whether a call of the function returns before its body has run."""
    return any(
        asks(function)
        for asks in (inspect.iscoroutinefunction, inspect.isgeneratorfunction, inspect.isasyncgenfunction)
    )


@dataclass(kw_only=True)
class PointRules:
    """What counts as a point, and what happens there.

    Args:
        armed: faults by point number, such as "crash" or "raises_after KeyError".
        errors: what "raises_after" raises, by name.
        answers_count: whether answers are points.
        ends_count: whether the end of an attempt that succeeded is a point.
        sees_reads: whether questions to a job system are points.
        limit: the attempt that passes more points than this is ended, and `Points.overrun` is set.
    """

    armed: Mapping[int, str] = field(default_factory=dict)
    errors: Mapping[str, Callable[[], BaseException]] = field(default_factory=dict)
    answers_count: bool = False
    ends_count: bool = False
    sees_reads: bool = False
    limit: int = 100_000


@dataclass
class Unregistered:
    """What should have been a point and was none.

    Args:
        calls: calls of fakes that are not in the world.
        effects: effects that were made and are not entered yet.
    """

    calls: list[str] = field(default_factory=list)
    effects: list[str] = field(default_factory=list)


class Points:
    """Records the points that the attempts of one fault plan pass, and makes faults happen at the armed ones."""

    def __init__(self, rules: PointRules | None = None) -> None:
        self.rules = rules or PointRules()
        self.passed: list[Point] = []
        self.marks: list[Any] = []
        """The results of `read_mark` after each store call."""
        self.fired: dict[int, str] = {}
        self.attempts = 0
        """How many attempts have begun."""
        self.state = AttemptState()
        """The state of the running attempt."""
        self.overrun = False
        """Whether an attempt passed more points than the limit."""
        self.over = False
        """Whether every attempt that is still there dies at its next point."""
        self.unregistered = Unregistered()
        self.read_mark: Callable[[], Any] | None = None
        self.listener: Callable[[Point, Any], object] | None = None
        """Called with each point before its fault happens: how a child process reports to its parent."""
        self._blind = False

    def begin_attempt(self) -> None:
        """Begin a new attempt.

        Raises:
            CrashedError: all attempts are to end.
        """
        self._check_over()
        self.attempts += 1
        self.state = AttemptState(self.attempts)

    @property
    def attempt(self) -> int:
        """The number of the running attempt, from 1; 0 before any."""
        return self.state.number

    @property
    def effects(self) -> list[Effect]:
        """The outside effects that took place, in order."""
        return [
            Effect(point.what, point.attempt)
            for point in self.passed
            if point.source == "effect" and point.phase == "after"
        ]

    def _check_over(self) -> None:
        if self.over:
            raise CrashedError("all is over")

    def close(self) -> None:
        """Record nothing any more, because the oracles look now."""
        self._blind = True

    def observer(self, source: Source) -> Callable[[str, str], None]:
        """The function that a store or a job system calls before and after each of its calls.

        One that is made during an attempt belongs to that attempt, and raises once the attempt is over.
        """
        return partial(self._observe, source, self.attempt)

    def liar(self) -> Callable[[str, tuple[str, ...]], str | None]:
        """The function that a job system calls before it answers; it belongs to the attempt like an `observer`."""
        return partial(self._asked, self.attempt)

    def _observe(self, source: Source, attempt: int, phase: str, what: str) -> None:
        if source == "read" and not self.rules.sees_reads:
            return
        if attempt:  # what was watched before any attempt belongs to all
            self._check_attempt(attempt)
        self.reach(cast("Phase", phase), what, source)

    def _asked(self, attempt: int, what: str, lies: tuple[str, ...]) -> str | None:
        if not self.rules.answers_count:
            return None
        self._check_attempt(attempt)
        return self.answer(what, lies)

    def _check_attempt(self, attempt: int) -> None:
        if attempt not in (0, self.state.number) and not self._blind:
            raise CrashedError(f"attempt {attempt} is over")

    def answer(self, what: str, lies: tuple[str, ...]) -> str | None:
        """Pass an answer that has these wrong variants, and return the one to give; None for the right answer.

        Raises:
            CrashedError: this attempt has ended already.
        """
        if self._blind or not self.rules.answers_count:
            return None
        number = self._pass("answer", what, "answer", lies).number
        return self.fired[number].partition(" ")[2] if number in self.fired else None

    def reach_end(self) -> None:
        """Pass the end of an attempt that has returned.

        Raises:
            CrashedError: a fault happens here.
        """
        if self.rules.ends_count and not self.state.dead:
            self.reach("after", "the end", "end")

    def reach(self, phase: Phase, what: str, source: Source) -> None:
        """Pass a point.

        Raises:
            CrashedError: this attempt ends here, or has ended already.
            AirflowRuntimeError: the store call fails here (`"reply_lost"`, `"refused"`).
            Exception: whatever `"raises_after"` raises here.
        """
        if self._blind:
            return
        point = self._pass(phase, what, source)
        if point.number in self.fired:
            self._fire(point)

    def _pass(self, phase: Phase, what: str, source: Source, lies: tuple[str, ...] = ()) -> Point:
        # Every call of every attempt passes here twice, so it avoids every call that it can.
        state, number = self.state, len(self.passed)
        if self.over:
            self._check_over()
        if state.dead:
            raise CrashedError("this attempt is dead")
        if number >= self.rules.limit:
            self.overrun = state.dead = True
            raise CrashedError("too many points")
        point = Point(number + 1, state.number, phase, what, source, lies)
        mark = None if self.read_mark is None else self._mark(point)
        self.note(point, mark)
        if self.listener is not None:
            self.listener(point, mark)
        return point

    def note(self, point: Point, mark: Any = None) -> None:
        """Record a point that was passed, here or in a child process, and what happens there."""
        self.passed.append(point)
        if point.source == "store" and point.phase == "after" and (self.read_mark is not None or mark is not None):
            self.marks.append(mark)
        kind = self.rules.armed.get(point.number)
        if kind is not None and point.allows(kind):
            self.fired[point.number] = kind
            name = kind.partition(" ")[0]
            self.state.dead = name in _DEADLY
            self.state.faulty = self.state.faulty or not self.state.dead
            self.state.database_change = kind if name in CHANGES_DATABASE else ""

    def _mark(self, point: Point) -> Any:
        """The mark after a store call; reading it is not a point."""
        if self.read_mark is None or (point.source, point.phase) != ("store", "after"):
            return None
        self._blind = True
        try:
            return self.read_mark()
        finally:
            self._blind = False

    def _fire(self, point: Point) -> NoReturn:
        name, _, variant = self.fired[point.number].partition(" ")
        match name:
            case "sigkill":
                os.kill(os.getpid(), signal.SIGKILL)
            case "reply_lost":
                raise _api_server_error("no answer came (and the call was applied)")
            case "refused":
                raise _api_server_error("the call was refused", status_code=403)
            case "raises_after":
                raise self.rules.errors[variant]()  # noqa: RSE102  it is called to make the error
        raise CrashedError(str(point))


def _api_server_error(message: str, **detail: Any) -> Exception:
    """What Airflow raises when a store call fails at the API server."""
    from airflow.sdk.exceptions import AirflowRuntimeError, ErrorType
    from airflow.sdk.execution_time.comms import ErrorResponse

    return AirflowRuntimeError(ErrorResponse(error=ErrorType.API_SERVER_ERROR, detail={"message": message, **detail}))
