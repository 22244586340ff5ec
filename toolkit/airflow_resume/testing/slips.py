"""Slips of a test's author that would make an exploration green without anything having been tried or judged."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence

from airflow_resume.testing.errors import NothingTriedError
from airflow_resume.testing.kinds import MakeError, is_of
from airflow_resume.testing.oracles import Oracle
from airflow_resume.testing.points import Point
from airflow_resume.testing.ways import Way


def check_something_is_asked(
    faults: tuple[str, ...],
    oracles: tuple[Oracle, ...],
    *,
    max_points: int,
    max_pairs: int,
    errors: Mapping[str, MakeError],
) -> None:
    """There are kinds, oracles, and room for points.

    Raises:
        NothingTriedError: there are not.
    """
    if not faults:
        why = "kinds=[]" if errors else "errors=[], and without any nothing can be raised"
        raise NothingTriedError(f"No kind of fault is tried: {why}.\nName at least one, or leave the default.")
    if not oracles:
        raise NothingTriedError("Nothing is judged: oracle=[].\nName at least one, see airflow_resume.testing.oracles.")
    if max_points < 1 or max_pairs < 0:
        raise NothingTriedError(
            f"Nothing can be tried: max_points={max_points}, max_pairs={max_pairs}.\nTo try no pairs, say double=False."
        )


def check_no_points_missing(passed: list[Point]) -> None:
    """A run without anything happening passes points.

    Raises:
        NothingTriedError: it passes none.
    """
    if not any(point.source != "end" for point in passed):
        raise NothingTriedError(
            "The attempt passes no point, so there is nowhere for anything to happen.\nGive its stores and jobs to the"
            " CrashWorld or to world.watch, and register what else it does with world.effect."
        )


def why_not_judged(said: object) -> str:
    """What an oracle returned tells that it was meant to be looked at; empty: it is of no importance."""
    if type(said).__name__ in {"bool", "bool_"}:  # numpy's as well
        return f"returned {said} instead of judging.\nNobody looks at what it returns: assert it."
    if callable(said):
        return "returned a function instead of judging.\nCall it where you pass it: it makes the oracle."
    if why := why_not_run(said):
        return f"{why}.\nPass a plain function that asserts."
    return ""


def check_each_is_tried(named: Sequence[str], singles: list[Way], pairs: list[Way]) -> None:
    """Each kind that was asked for happens somewhere.

    Raises:
        NothingTriedError: one does not.
    """
    tried = {fault for ways in (singles, pairs) for way in ways for fault in way.values()}
    for kind in named:
        if not any(is_of(fault, kind) for fault in tried):
            raise NothingTriedError(
                f"{kind!r} can happen nowhere in this attempt.\nLeave it out of kinds=, or let the attempt do what it"
                f" is about: {_ABOUT[kind.partition(' ')[0]]}."
            )


_ABOUT: dict[str, str] = {
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


def why_not_run(result: object) -> str:
    """Why calling the function that returned this did not run it; empty: it did."""
    if inspect.isgenerator(result) or inspect.isasyncgen(result):
        return "is a generator function: nobody takes an element, so its body never runs"
    if inspect.iscoroutine(result):
        result.close()  # else Python warns of it
    if inspect.isawaitable(result):
        return "is async: nobody awaits it, so its body never runs"
    return ""
