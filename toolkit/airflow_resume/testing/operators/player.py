"""One task in one scenario: its attempts, and what the service and Airflow do to them."""

from __future__ import annotations

import asyncio
import gc
import itertools
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from airflow_resume.shown import short_repr
from airflow_resume.testing.errors import NeverFiredError
from airflow_resume.testing.fakes.context import TaskAttempt, task_context
from airflow_resume.testing.fakes.world import World
from airflow_resume.testing.operators.comparison import comparable
from airflow_resume.testing.operators.report import HANGS, OTHER, SAME, Played
from airflow_resume.testing.operators.service import JobService, Moment
from airflow_resume.testing.operators.signals import HangsError, Signals, listening
from airflow_resume.testing.points import CrashedError

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator

MakeOperator: TypeAlias = "Callable[..., BaseOperator]"

_run_numbers = itertools.count(1)
"""Every task is in a run of its own: a service may remember the tokens and names of an earlier one."""


@dataclass(frozen=True)
class Ended:
    """How an attempt has ended.

    Args:
        how: it returned, raised an error, was killed, did not end in time, deferred, or has Airflow start it again.
        value: what it returned, and its XComs, comparable with those of other scenarios.
        error: that it raised.
    """

    how: Literal["returned", "raised", "killed", "hangs", "deferred", "rescheduled"]
    value: Any = None
    error: BaseException | None = None


@dataclass(frozen=True, kw_only=True)
class Case:
    """What `check_operator` was given, with its defaults."""

    service: JobService
    not_waiting: Mapping[str, Any] | None
    deferrable: Mapping[str, Any] | None
    event: Any
    expand: str | None
    normalise: Callable[[Any], Any]
    questions: int
    at_question: int
    seconds: float
    grace: float

    def good(self) -> list[Any]:
        """The states of a job that succeeds."""
        return [self.service.running] * self.questions + [self.service.succeeded]

    def bad(self) -> list[Any]:
        """The states of a job that fails."""
        return [self.service.running] * self.questions + [self.service.failed]


@dataclass(eq=False, kw_only=True)
class Player:
    """One task in one scenario.

    Args:
        case: what `check_operator` was given.
        signals: by which attempts die.
        make_operator: makes the operator of an attempt.
        expected: what the undisturbed run returned and pushed; None while it is played.
        options: arguments of the operator in this scenario.
    """

    case: Case
    signals: Signals
    make_operator: MakeOperator
    expected: Any = None
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.most_alive = 0
        self.service = self.case.service
        self.service.reset()
        self.service.follow(self.case.good())
        self.service.tell = self._told
        self.signals.terminate = self._on_term
        self._plans: dict[tuple[Moment, int], Callable[[], None]] = {}
        self._told_of: Counter[Moment] = Counter()
        self._world = World()
        self._world.observer = self._store_called
        self.run_id = f"check-{next(_run_numbers)}"
        self.attempt = self.begin(self.make)

    def make(self) -> BaseOperator:
        """The operator of a new attempt."""
        return self.make_operator(**self.options)

    def begin(self, make: Callable[[], BaseOperator], *, map_index: int = -1) -> TaskAttempt:
        """The first attempt of the task."""
        return task_context(make, world=self._world, run_id=self.run_id, map_index=map_index)

    # --- what is planned ----------------------------------------------------------------------------------------

    def when(self, moment: Moment, number: int, act: Callable[[], None]) -> None:
        """Do this when the next attempt causes a moment for the nth time."""
        self._plans[moment, number] = act

    def while_waiting(self, act: Callable[[], None]) -> None:
        """Do this while the next attempt waits for its job."""
        self.when("asked", self.case.at_question, act)

    def terminate(self) -> None:
        """Send SIGTERM to the running attempt, and SIGKILL some time later."""
        self.signals.kill_after(self.case.grace)
        self.signals.ask_to_end()

    def _on_term(self) -> None:
        self.attempt.ti.task.on_kill()

    def _told(self, moment: Moment) -> None:
        if self.signals.is_dead:
            raise ConnectionAbortedError("The attempt that sent this is dead.")
        if moment == "made":
            self.most_alive = max(self.most_alive, sum(job.is_alive for job in self.service.seen()))
        self._told_of[moment] += 1
        act = self._plans.pop((moment, self._told_of[moment]), None)
        if act is not None:
            act()

    def _store_called(self, _phase: str, _call: str) -> None:
        if self.signals.is_dead:
            raise CrashedError

    # --- attempts -----------------------------------------------------------------------------------------------

    def run(self) -> Ended:
        """Run the attempt to its end."""
        return self._run(lambda operator, context: operator.execute(context))

    def resume(self, deferred: Any, event: Any) -> Ended:
        """Run the attempt that goes on after a deferral."""
        arguments = {**(deferred.kwargs or {}), "event": event}
        return self._run(lambda operator, context: operator.resume_execution(deferred.method_name, arguments, context))

    def _run(self, body: Callable[[Any, Any], Any]) -> Ended:
        from airflow_resume.compat import AirflowRescheduleException, TaskDeferred

        self._told_of.clear()
        try:
            with self.signals.limit(self.case.seconds), self.attempt as attempt:
                returned = body(attempt.ti.render_templates(), attempt.context)
        except HangsError as error:
            return Ended("hangs", error=error)
        except CrashedError as error:
            return Ended("killed", error=error)
        except TaskDeferred as error:
            return Ended("deferred", error=error)
        except AirflowRescheduleException as error:
            return Ended("rescheduled", error=error)
        except (Exception, SystemExit) as error:  # noqa: BLE001  it is a part of the report
            return Ended("raised", error=error)
        finally:
            left, self._plans = self._plans, {}
        for moment, number in left:
            raise NeverFiredError(
                f"The attempt was to be disturbed at {moment!r} number {number}. It returned, and the service had told"
                f" of {self._told_of[moment]}.",
                "Let the service call tell() for each job that is made and for each question. at_question= must be a"
                " question that the operator asks in every attempt.",
            )
        return Ended("returned", self._value(returned))

    def _value(self, returned: Any) -> Any:
        ids = [job.id for job in self.service.seen()]
        return self.case.normalise(comparable([returned, self._xcoms()], ids, self.run_id))

    def _xcoms(self) -> dict[str, Any]:
        ti = self.attempt.ti
        instance = ti.dag_id, ti.run_id, ti.task_id, ti.map_index
        kept = self._world.xcoms.kept
        return {place[4]: self._world.xcoms.read(place) for place in kept if place[:4] == instance}

    def killed(self) -> bool:
        """Let the attempt die while it waits, and begin its retry; whether it did."""
        self.while_waiting(self.signals.kill)
        ended = self.run()
        self.retry()
        return ended.how == "killed"

    def retry(self) -> None:
        """The next attempt."""
        self.attempt = self.attempt.retry()

    def event_of(self, trigger: Any) -> Any:
        """What the trigger fires, which is run here; or the event that the test gave."""
        if self.case.event is not None:
            return self.case.event

        async def first() -> Any:
            async for event in trigger.run():
                return event.payload
            raise RuntimeError("The trigger ended without an event.")

        with self.signals.limit(self.case.seconds):
            return asyncio.run(first())

    # --- what came out ------------------------------------------------------------------------------------------

    def played(self, result: str, detail: str = "") -> Played:
        """The row of the scenario."""
        seen = self.service.seen()
        return Played(
            jobs=len(seen),
            most_alive=self.most_alive,
            cancelled=sum(job.was_cancelled for job in seen),
            result=result,
            detail=detail,
        )

    def judged(self, ended: Ended) -> Played:
        """The row of a scenario whose last attempt should have the result of the undisturbed run."""
        if ended.how == "returned":
            if ended.value == self.expected:
                return self.played(SAME)
            return self.played(OTHER, short_repr(ended.value))
        return self.played(*told(ended))


def told(ended: Ended) -> tuple[str, str]:
    """The result of an attempt that has not returned, in a word, and more about it."""
    match ended.how:
        case "hangs":
            return HANGS, ""
        case "raised":
            return type(ended.error).__name__, str(ended.error).partition("\n")[0]
        case "deferred":
            return "defers", ""
        case how:
            return how, ""


@contextmanager
def playing(case: Case) -> Iterator[Callable[..., Player]]:
    """Listen for the signals, and make players. Afterwards the service tells nobody.

    An attempt that was killed has closed none of its connections. Python's warnings about that are ignored.

    Raises:
        CannotKillError: see `listening`.
    """
    before = case.service.tell
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        with listening(lambda: None) as signals:
            try:
                yield lambda **options: Player(case=case, signals=signals, **options)
            finally:
                case.service.tell = before
                signals.terminate = lambda: None
        gc.collect()
