"""The points that an attempt passes, and what happens at an armed one.

Theory of operation. Every store call and every outside effect passes two points: *before*, when nothing is applied
yet, and *after*, when it is. Points are numbered from 1 and the count goes on over all attempts of one way, so a
number names one moment. A point is noted first and fires then, so the trace ends where the attempt died. The answer
of a job system or source is one point, and the end of an attempt that succeeded is one, where a kind of fault asks for
them; explorations without such kinds have neither, and number the others alike.

An attempt that crashed in this process still runs its `finally` blocks, which a killed process would not. So the
dead attempt dies again at each further point, before anything is applied. A store that was watched in one attempt
and is still used in a later one (by a generator that is closed late) belongs to the dead as well.

An attempt may also be frozen while another one runs. So whether an attempt is dead is kept in its `Life`, and
whoever lets it go on (`airflow_resume.testing.relay`) makes that the current one.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple, NoReturn, TypeAlias, cast, get_args

CrashKind: TypeAlias = Literal[
    "crash", "reply_lost", "refused", "sigkill", "raises_after", "wrong_once", "recreated", "state_cleared", "restored"
]
Phase: TypeAlias = Literal["before", "after", "answer"]
Source: TypeAlias = Literal["store", "effect", "answer", "read", "end"]
"""`"read"`, a question to a job system, is a point of interleavings only."""

CRASH_KINDS: tuple[CrashKind, ...] = get_args(CrashKind)
IN_PROCESS: tuple[CrashKind, ...] = ("crash", "reply_lost", "refused")
"""The kinds of a call that dies or fails, and that need no child process: what is explored by default."""

COMES_BACK: frozenset[str] = frozenset({"recreated", "state_cleared", "restored"})
"""The attempt dies, and before the next one begins the database has changed."""

_DEADLY = COMES_BACK | {"crash", "sigkill"}
_HAPPENS_AT_THE_END = frozenset({"recreated", "restored"})


class CrashedError(BaseException):
    """The process is gone: no `except Exception` may notice."""


class Point(NamedTuple):
    """One moment of one attempt, such as point 3 of attempt 1, after `set cursor`."""

    number: int
    attempt: int
    phase: Phase
    what: str
    source: Source
    lies: tuple[str, ...] = ()
    """What may be answered instead of the truth."""

    def allows(self, kind: str) -> bool:
        """Whether this can happen here, such as "crash" or "wrong_once gone"."""
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
    """An outside effect that took place, and in which attempt."""

    what: str
    attempt: int


@dataclass
class Life:
    """What is known of one attempt.

    Args:
        number: of the attempt, from 1; 0 before any.
        dead: it has crashed.
        faulty: something was done to it that it may fail from: Airflow tries again.
        comes_back: what happens to the database once it is dead.
    """

    number: int = 0
    dead: bool = False
    faulty: bool = False
    comes_back: str = ""


class Points:
    """Notes the points of one way, and fires at the armed ones.

    Args:
        armed: what happens at which number, such as "crash" or "raises_after KeyError".
        limit: an attempt that passes more points than this is ended, and `overrun` is set.
    """

    def __init__(self, armed: Mapping[int, str] | None = None, *, limit: int = 100_000) -> None:
        self.armed: dict[int, str] = dict(armed or {})
        self.errors: Mapping[str, Callable[[], BaseException]] = {}
        """What "raises_after" raises, by name."""
        self.answers_count = False
        """Answers are points."""
        self.ends_count = False
        """The end of an attempt that succeeded is a point."""
        self.limit = limit
        self.passed: list[Point] = []
        self.effects: list[Effect] = []
        self.marks: list[Any] = []
        """What `read_mark` returned after each store call."""
        self.fired: dict[int, str] = {}
        self.attempts = 0
        """How many have begun."""
        self.life = Life()
        """Of the attempt that is running."""
        self.backups: dict[str, Any] = {}
        """Those that can be restored, by kind."""
        self.overrun = False
        self.over = False
        """Nobody may go on: every attempt that is still there dies at its next point."""
        self.sees_reads = False
        """Whether questions to a job system are points as well."""
        self.read_mark: Callable[[], Any] | None = None
        self.listener: Callable[[Point, Any], object] | None = None
        """Told of each point before it fires: how a child process reports to its parent."""
        self._blind = False

    def begin_attempt(self) -> None:
        """A new attempt is alive.

        Raises:
            CrashedError: nobody may go on.
        """
        self._check_over()
        self.attempts += 1
        self.life = Life(self.attempts)

    @property
    def attempt(self) -> int:
        """The number of the running attempt, from 1; 0 before any."""
        return self.life.number

    @property
    def dead(self) -> bool:
        """The running attempt has crashed."""
        return self.life.dead

    @dead.setter
    def dead(self, dead: bool) -> None:
        self.life.dead = dead

    @property
    def faulty(self) -> bool:
        """Something was done to the running attempt that it may fail from."""
        return self.life.faulty

    @property
    def comes_back(self) -> str:
        """What happens to the database once the running attempt is dead."""
        return self.life.comes_back

    def _check_over(self) -> None:
        if self.over:
            raise CrashedError("all is over")

    def close(self) -> None:
        """Nothing is noted any more: now the oracle looks."""
        self._blind = True

    def observer(self, source: Source) -> Callable[[str, str], None]:
        """What a store or a job system calls before and after each of its calls.

        Made during an attempt, it belongs to that attempt, and everything fails through it once the attempt is over.
        """
        return partial(self._observe, source, self.attempt)

    def liar(self) -> Callable[[str, tuple[str, ...]], str | None]:
        """What a job system calls before it answers; it belongs to the running attempt like an `observer`."""
        return partial(self._asked, self.attempt)

    def _observe(self, source: Source, attempt: int, phase: str, what: str) -> None:
        if source == "read" and not self.sees_reads:
            return
        self._check_attempt(attempt)
        self.reach(cast("Phase", phase), what, source)

    def _asked(self, attempt: int, what: str, lies: tuple[str, ...]) -> str | None:
        if not self.answers_count:
            return None
        self._check_attempt(attempt)
        return self.answer(what, lies)

    def _check_attempt(self, attempt: int) -> None:
        if attempt not in (0, self.life.number) and not self._blind:
            raise CrashedError(f"attempt {attempt} is over")

    def answer(self, what: str, lies: tuple[str, ...]) -> str | None:
        """Pass an answer that can be wrong in these ways, and return in which it is; None: it is the truth.

        Raises:
            CrashedError: this attempt has ended before.
        """
        if self._blind or not self.answers_count:
            return None
        number = self._pass("answer", what, "answer", lies).number
        return self.fired[number].partition(" ")[2] if number in self.fired else None

    def reach_end(self) -> None:
        """The attempt has returned.

        Raises:
            CrashedError: and ends here all the same.
        """
        if self.ends_count and not self.dead:
            self.reach("after", "the end", "end")

    def reach(self, phase: Phase, what: str, source: Source) -> None:
        """Pass a point.

        Raises:
            CrashedError: this attempt ends here, or has ended before.
            AirflowRuntimeError: the store call fails here (`"reply_lost"`, `"refused"`).
            Exception: whatever `"raises_after"` raises here.
        """
        if self._blind:
            return
        point = self._pass(phase, what, source)
        if point.number in self.fired:
            self._fire(point)

    def _pass(self, phase: Phase, what: str, source: Source, lies: tuple[str, ...] = ()) -> Point:
        # Every call of every attempt comes by here twice, so it calls nothing that it need not.
        life, number = self.life, len(self.passed)
        if self.over:
            self._check_over()
        if life.dead:
            raise CrashedError("this attempt is dead")
        if number >= self.limit:
            self.overrun = life.dead = True
            raise CrashedError("too many points")
        point = Point(number + 1, life.number, phase, what, source, lies)
        mark = None if self.read_mark is None else self._mark(point)
        self.note(point, mark)
        if self.listener is not None:
            self.listener(point, mark)
        return point

    def note(self, point: Point, mark: Any = None) -> None:
        """Take down a point that was passed, here or in a child process, and what it leads to."""
        self.passed.append(point)
        if point.phase == "after":
            self._note_applied(point, mark)
        kind = self.armed.get(point.number)
        if kind is not None and point.allows(kind):
            self.fired[point.number] = kind
            name = kind.partition(" ")[0]
            self.life.dead = name in _DEADLY
            self.life.faulty = self.life.faulty or not self.life.dead
            self.life.comes_back = kind if name in COMES_BACK else ""

    def _note_applied(self, point: Point, mark: Any) -> None:
        if point.source == "effect":
            self.effects.append(Effect(point.what, point.attempt))
        elif point.source == "store" and (self.read_mark is not None or mark is not None):
            self.marks.append(mark)

    def _mark(self, point: Point) -> Any:
        """The mark as it is now; reading it is no point of its own."""
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
                raise self.errors[variant]()  # noqa: RSE102  it is called to make the error
        raise CrashedError(str(point))


def _api_server_error(message: str, **detail: Any) -> Exception:
    """What Airflow raises when a store call fails at the API server."""
    from airflow.sdk.exceptions import AirflowRuntimeError, ErrorType
    from airflow.sdk.execution_time.comms import ErrorResponse

    return AirflowRuntimeError(ErrorResponse(error=ErrorType.API_SERVER_ERROR, detail={"message": message, **detail}))
