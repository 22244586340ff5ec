"""The points that an attempt passes, and what happens at an armed one.

Theory of operation. Every store call and every outside effect passes two points: *before*, when nothing is applied
yet, and *after*, when it is. Points are numbered from 1 and the count goes on over all attempts of one way, so a
number names one moment. A point is noted first and fires then, so the trace ends where the attempt died.

An attempt that crashed in this process still runs its `finally` blocks, which a killed process would not. So the
dead attempt dies again at each further point, before anything is applied. A store that was watched in one attempt
and is still used in a later one (by a generator that is closed late) belongs to the dead as well.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Literal, NamedTuple, NoReturn, TypeAlias, cast, get_args

CrashKind: TypeAlias = Literal["crash", "reply_lost", "refused", "sigkill"]
Phase: TypeAlias = Literal["before", "after"]
Source: TypeAlias = Literal["store", "effect"]

CRASH_KINDS: tuple[CrashKind, ...] = get_args(CrashKind)
IN_PROCESS: tuple[CrashKind, ...] = ("crash", "reply_lost", "refused")
"""The kinds that need no child process."""


class CrashedError(BaseException):
    """The process is gone: no `except Exception` may notice."""


class Point(NamedTuple):
    """One moment of one attempt, such as point 3 of attempt 1, after `set cursor`."""

    number: int
    attempt: int
    phase: Phase
    what: str
    source: Source

    def allows(self, kind: CrashKind) -> bool:
        """Whether this kind of crash can happen here: only a store call has a reply that is lost or refused."""
        match kind:
            case "crash" | "sigkill":
                return True
            case "reply_lost":
                return (self.source, self.phase) == ("store", "after")
            case "refused":
                return (self.source, self.phase) == ("store", "before")

    def __str__(self) -> str:
        return f"{self.phase} {self.what}"


class Effect(NamedTuple):
    """An outside effect that took place, and in which attempt."""

    what: str
    attempt: int


class Points:
    """Notes the points of one way, and fires at the armed ones.

    Args:
        armed: what happens at which number.
        limit: an attempt that passes more points than this is ended, and `overrun` is set.
    """

    def __init__(self, armed: Mapping[int, CrashKind] | None = None, *, limit: int = 100_000) -> None:
        self.armed: dict[int, CrashKind] = dict(armed or {})
        self.limit = limit
        self.passed: list[Point] = []
        self.effects: list[Effect] = []
        self.marks: list[Any] = []
        """What `read_mark` returned after each store call."""
        self.fired: dict[int, CrashKind] = {}
        self.attempt = 0
        self.dead = False
        """This attempt has crashed."""
        self.faulty = False
        """A store call of this attempt was made to fail."""
        self.overrun = False
        self.read_mark: Callable[[], Any] | None = None
        self.listener: Callable[[Point, Any], object] | None = None
        """Told of each point before it fires: how a child process reports to its parent."""
        self._blind = False

    def begin_attempt(self) -> None:
        """A new attempt is alive."""
        self.attempt += 1
        self.dead = self.faulty = False

    def close(self) -> None:
        """Nothing is noted any more: now the oracle looks."""
        self._blind = True

    def observer(self, source: Source) -> Callable[[str, str], None]:
        """What a store or a job system calls before and after each of its calls.

        Made during an attempt, it belongs to that attempt, and everything fails through it once the attempt is over.
        """
        return partial(self._observe, source, self.attempt)

    def _observe(self, source: Source, attempt: int, phase: str, what: str) -> None:
        if attempt not in {0, self.attempt} and not self._blind:
            raise CrashedError(f"attempt {attempt} is over")
        self.reach(cast("Phase", phase), what, source)

    def reach(self, phase: Phase, what: str, source: Source) -> None:
        """Pass a point.

        Raises:
            CrashedError: this attempt ends here, or has ended before.
            AirflowRuntimeError: the store call fails here (`"reply_lost"`, `"refused"`).
        """
        if self._blind:
            return
        if self.dead:
            raise CrashedError("this attempt is dead")
        if len(self.passed) >= self.limit:
            self.overrun = self.dead = True
            raise CrashedError("too many points")
        point = Point(len(self.passed) + 1, self.attempt, phase, what, source)
        mark = self._mark(point)
        self.note(point, mark)
        if self.listener is not None:
            self.listener(point, mark)
        if point.number in self.armed:
            _fire(self.armed[point.number], point)

    def note(self, point: Point, mark: Any = None) -> None:
        """Take down a point that was passed, here or in a child process, and what it leads to."""
        self.passed.append(point)
        if point.phase == "after":
            self._note_applied(point, mark)
        kind = self.armed.get(point.number)
        if kind is not None:
            self.fired[point.number] = kind
            self.dead = kind in {"crash", "sigkill"}
            self.faulty = self.faulty or not self.dead

    def _note_applied(self, point: Point, mark: Any) -> None:
        if point.source == "effect":
            self.effects.append(Effect(point.what, point.attempt))
        elif self.read_mark is not None or mark is not None:
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


def _fire(kind: CrashKind, point: Point) -> NoReturn:
    match kind:
        case "crash":
            raise CrashedError(str(point))
        case "sigkill":
            os.kill(os.getpid(), signal.SIGKILL)
            raise AssertionError  # pragma: no cover  nobody is left
        case "reply_lost":
            raise _api_server_error("no answer came (and the call was applied)")
        case "refused":
            raise _api_server_error("the call was refused", status_code=403)


def _api_server_error(message: str, **detail: Any) -> Exception:
    """What Airflow raises when a store call fails at the API server."""
    from airflow.sdk.exceptions import AirflowRuntimeError, ErrorType
    from airflow.sdk.execution_time.comms import ErrorResponse

    return AirflowRuntimeError(ErrorResponse(error=ErrorType.API_SERVER_ERROR, detail={"message": message, **detail}))
