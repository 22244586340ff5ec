"""Checks for mistakes in a test that would let an exploration pass although nothing was tried or judged."""

from __future__ import annotations

import inspect
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from airflow_resume.arguments import check_function
from airflow_resume.testing.crashes.crash_world import CrashWorld, is_mock
from airflow_resume.testing.crashes.exceptions import refuse_skip
from airflow_resume.testing.crashes.fault_plans import FaultPlan
from airflow_resume.testing.crashes.outcome import Oracle
from airflow_resume.testing.errors import (
    NothingTriedError,
    OneWayWarning,
    OracleBrokenError,
    SharedWorldError,
    UnwatchedError,
)
from airflow_resume.testing.kinds import MakeError, is_of
from airflow_resume.testing.points import Point, Points

W = TypeVar("W", bound=CrashWorld)

RETRIES_ALL = "tries an attempt again after every error"
ENDS_WITH_ANY = "lets every way end with any error"
"""What an option does if it names all errors, for messages."""


def check_something_is_asked(
    faults: tuple[str, ...],
    oracles: tuple[Oracle, ...],
    *,
    max_points: int,
    max_pairs: int,
    errors: Mapping[str, MakeError],
) -> None:
    """Check that there is something to try and something that judges.

    Raises:
        NothingTriedError: there are no kinds or no oracles, or a limit leaves no room for points.
    """
    if not faults:
        why = "kinds=[]" if errors else "errors=[] leaves raises_after nothing to raise"
        raise NothingTriedError(f"No kind of fault is tried: {why}.\nName at least one, or leave the default.")
    if not oracles:
        raise NothingTriedError("Nothing is judged: oracle=[].\nName at least one, see airflow_resume.testing.oracles.")
    if max_points < 1 or max_pairs < 0:
        raise NothingTriedError(
            f"Nothing can be tried: max_points={max_points}, max_pairs={max_pairs}.\nTo try no pairs, say double=False."
        )


def oracles_of(oracle: object) -> tuple[Callable[[Any], object], ...]:
    """The oracles that an author gave, one or several.

    Raises:
        TypeError: something is not a function.
    """
    given: tuple[Any, ...] = tuple(oracle) if isinstance(oracle, (list, tuple)) else (oracle,)
    for each in given:
        check_function("oracle", each, "a function that takes the outcome and asserts, or a list of them")
    return given


def check_no_points_missing(passed: list[Point]) -> None:
    """Check that the run without a fault passes points.

    Raises:
        NothingTriedError: it passes none.
    """
    if not any(point.source != "end" for point in passed):
        raise NothingTriedError(
            "The attempt passes no point, so no fault can happen anywhere.\nGive its stores and jobs to the"
            " CrashWorld or to world.watch, and register what else it does with world.effect."
        )


def why_not_judged(said: object) -> str:
    """Why the oracle has not judged, if it returned something; empty if it returned None, as it should."""
    if said is None:
        return ""
    if inspect.iscoroutine(said):
        said.close()  # else Python warns that it was never awaited
    if inspect.isawaitable(said):
        return "is async: nobody awaits it, so its body never runs.\nPass a plain function that asserts."
    if inspect.isgenerator(said) or inspect.isasyncgen(said):
        return "is a generator function: its body never runs.\nPass a plain function that asserts."
    if callable(said):
        return "returned a function instead of judging.\nCall it where you pass it: it makes the oracle."
    return (
        f"returned {said!r} instead of judging.\nNobody looks at it; an oracle raises AssertionError: write"
        f" `assert ...`."
    )


def check_oracles_judge(oracles: Sequence[Oracle]) -> None:
    """Check that the oracles are not mocks, and that their assert statements run.

    Raises:
        OracleBrokenError: one is a mock; or Python leaves assert statements out (`python -O`), and pytest has not
            rewritten them.
    """
    for oracle in oracles:
        if is_mock(oracle) or is_mock(getattr(oracle, "mock", None)):
            raise OracleBrokenError(
                f"The oracle {name_of(oracle)} is a mock, which says yes to everything instead of judging.\nPass a"
                f" plain function that asserts."
            )
    if not sys.flags.optimize:
        return
    for oracle in oracles:
        module = getattr(oracle, "__globals__", {})
        if "@pytest_ar" not in module and not str(module.get("__name__")).startswith("airflow_resume."):
            raise OracleBrokenError(
                f"The oracle {name_of(oracle)} may assert, and Python leaves assert statements out.\nRun it without"
                f" -O and PYTHONOPTIMIZE."
            )


def check_errors_are_named(classes: object, option: str, *, hides: str) -> None:
    """Check that an option names classes of errors, and not every error there is.

    Args:
        classes: as the author wrote them.
        option: its name.
        hides: what the option does when it names all errors, for the message.

    Raises:
        NothingTriedError: it names all errors.
        TypeError: it names something that is not a class of errors.
    """
    if not isinstance(classes, (tuple, type)):
        kind_name = type(classes).__name__
        article = "an" if kind_name[0] in "aeiouAEIOU" else "a"
        what = f"{option}={classes!r} is {article} {kind_name}."
        if not classes:
            raise TypeError(f"{what}\nLeave it out, or write a tuple of classes: {option}=(TimeoutError,).")
        if isinstance(classes, (list, set, frozenset)):
            named = ", ".join(map(name_of, classes)) + ("," if len(classes) == 1 else "")
            raise TypeError(f"{what}\nWrite a tuple of classes: {option}=({named}).")
        raise TypeError(f"{what}\nWrite the class of the error: {option}=(TimeoutError,).")
    given = classes if isinstance(classes, tuple) else (classes,)
    for kind in given:
        if not (isinstance(kind, type) and issubclass(kind, BaseException)):
            raise TypeError(
                f"{option}={classes!r} names {kind!r}, which is not a class of errors.\nWrite the class, without quotes"
                f" and parentheses: {option}=(TimeoutError,)."
            )
        if kind in (Exception, BaseException):
            raise NothingTriedError(
                f"{option}=({kind.__name__},) {hides}, so there would be no finding.\nName the error that is part of"
                f" the design, for example {option}=(TimeoutError,)."
            )


def new_world(make: Callable[[], W]) -> W:
    """Make a world in which nothing has happened.

    Raises:
        SharedWorldError: an attempt has run in it before.
        TypeError: `make` returned something else, or `make` itself is a world.
    """
    if isinstance(make, CrashWorld):
        raise TypeError(
            "world= was given a world that is already made.\nPass the function that makes one, without calling it, as"
            " each way needs a fresh one: world=make_world."
        )
    check_function("world", make, "a function that makes a CrashWorld")
    try:
        world = make()
    except BaseException as error:
        refuse_skip(error, name_of(make))
        raise
    if not isinstance(world, CrashWorld):
        raise TypeError(
            f"{name_of(make)} returned {world!r}, which is not a world.\nReturn a CrashWorld, or an instance of a"
            f" subclass."
        )
    if world.points.attempts:
        raise SharedWorldError(
            f"{name_of(make)} returned a world in which an attempt has run before.\nMake the world and all that is in"
            f" it afresh in each call."
        )
    return world


def name_of(function: object) -> str:
    """The name of a function, for a message."""
    return str(getattr(function, "__name__", "")) or repr(function)


def check_all_is_watched(points: Points) -> None:
    """Check that all store calls and effects of the attempt were points.

    Raises:
        UnwatchedError: a fake was called that is not in the world, or an effect was made and not entered.
    """
    if points.unregistered.calls:
        raise UnwatchedError(
            f"{points.unregistered.calls[0]!r} was called on a fake that is not in the world, so the call is not a"
            f" point, and the fake is not made afresh.\nTake it from the world: CrashWorld(store=FakeTaskStore()),"
            f" CrashWorld(airflow=World()) and task_context(world=world.airflow); or world.watch(it)."
        )
    if points.unregistered.effects:
        what = points.unregistered.effects[0]
        raise UnwatchedError(f"The effect {what!r} was never entered.\nWrite `with world.effect({what!r}): ...`.")


def warn_of_one_way(only: str) -> None:
    """Warn that a test still has `only=`, so nothing else is tried.

    It is called only when the plan has passed: where warnings are errors, the warning would hide a finding.
    """
    frame, level = sys._getframe(), 1  # noqa: SLF001  the line of the test is looked for
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).startswith("airflow_resume.testing"):
        frame, level = frame.f_back, level + 1
    warnings.warn(
        f'only="{only}" tries one way and no other.\nRemove it, and the test explores them all.',
        OneWayWarning,
        stacklevel=level,
    )


def check_each_is_tried(named: Sequence[str], singles: list[FaultPlan], pairs: list[FaultPlan]) -> None:
    """Check that each kind that was named can happen somewhere.

    Raises:
        NothingTriedError: one cannot.
    """
    tried = {fault for ways in (singles, pairs) for way in ways for fault in way.values()}
    for kind in named:
        if not any(is_of(fault, kind) for fault in tried):
            raise NothingTriedError(
                f"{kind!r} cannot happen anywhere in this attempt: it happens only to"
                f" {_HAPPENS_TO[kind.partition(' ')[0]]}.\nLet the attempt pass one, or leave the kind out of kinds=."
            )


_HAPPENS_TO: dict[str, str] = {
    "crash": "store calls and effects",
    "sigkill": "store calls and effects",
    "reply_lost": "store calls",
    "refused": "store calls",
    "raises_after": "store calls and effects",
    "wrong_once": "answers of FakeJobs or of world.answer",
    "recreated": "store calls and effects",
    "state_cleared": "store calls and effects",
    "restored": "store calls and effects",
}
