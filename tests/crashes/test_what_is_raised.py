"""What an attempt, an oracle or the making of a world may raise, and what comes of it: each is decided here."""

from __future__ import annotations

import asyncio
import bdb
import subprocess
import sys
import textwrap
import unittest
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest
from airflow.sdk.exceptions import (
    AirflowFailException,
    AirflowSensorTimeout,
    AirflowSkipException,
    AirflowTaskTimeout,
    TaskDeferred,
)

from airflow_resume.testing import (
    CrashWorld,
    FakeTaskStore,
    explore_crashes,
    explore_freezes,
    explore_interleavings,
)
from airflow_resume.testing.crashes.outcome import ExplorationOutcome
from airflow_resume.testing.errors import (
    CleanRunError,
    CrashFoundError,
    ExplorerError,
    InterleavingFoundError,
    NeverSucceededError,
    OracleBrokenError,
    SkippedError,
)

AnyOutcome = ExplorationOutcome[CrashWorld]
Raise = Callable[[], Any]


def raising(error: BaseException) -> Raise:
    def raise_it() -> NoReturn:
        raise error

    return raise_it


SKIPS: dict[str, Raise] = {
    "pytest.skip": lambda: pytest.skip("no driver"),
    "pytest.xfail": lambda: pytest.xfail("no driver"),
    "pytest.importorskip": lambda: pytest.importorskip("no_driver", reason="no driver"),
    "unittest.SkipTest": raising(unittest.SkipTest("no driver")),
}
STOPS: dict[str, tuple[Raise, type[BaseException]]] = {
    "pytest.exit": (lambda: pytest.exit("enough"), pytest.exit.Exception),
    "KeyboardInterrupt": (raising(KeyboardInterrupt()), KeyboardInterrupt),
    "quitting pdb": (raising(bdb.BdbQuit()), bdb.BdbQuit),
}
ERRORS: dict[str, Raise] = {
    "an AssertionError": raising(AssertionError("no")),
    "an error": raising(LookupError("no")),
    "SystemExit": raising(SystemExit(0)),
    "CancelledError": raising(asyncio.CancelledError()),
    "a time-out": raising(AirflowTaskTimeout("no")),
}


def a_store() -> CrashWorld:
    return CrashWorld(store=FakeTaskStore())


def writes(world: CrashWorld) -> None:
    world.store.set("k", 1)


def ok(_outcome: AnyOutcome) -> None:
    pass


EXPLORERS: dict[str, Callable[..., Any]] = {
    "crashes": explore_crashes,
    "killed children": lambda attempt, **options: explore_crashes(attempt, kinds=["sigkill"], **options),
    "freezes": explore_freezes,
    "at once": lambda attempt, **options: explore_interleavings([attempt, attempt], prune=False, **options),
}


def an_attempt(what: Raise, when: Callable[[CrashWorld], bool]) -> dict[str, Any]:
    def attempt(world: CrashWorld) -> None:
        if when(world):
            what()
        writes(world)

    return {"attempt": attempt, "oracle": ok, "world": a_store}


def an_oracle(what: Raise, when: Callable[[CrashWorld], bool]) -> dict[str, Any]:
    def oracle(outcome: AnyOutcome) -> None:
        if outcome.clean is not None or when(CrashWorld()):
            what()

    return {"attempt": writes, "oracle": oracle, "world": a_store}


def a_world(what: Raise, when: Callable[[CrashWorld], bool]) -> dict[str, Any]:
    made: list[CrashWorld] = []

    def make() -> CrashWorld:
        if len(made) == 2 or when(CrashWorld()):
            what()
        made.append(a_store())
        return made[-1]

    return {"attempt": writes, "oracle": ok, "world": make}


WHERE = {"an attempt": an_attempt, "an oracle": an_oracle, "a world": a_world}
WHEN: dict[str, Callable[[CrashWorld], bool]] = {
    "at once": lambda _world: True,
    "after a crash": lambda world: world.attempt > 1 and all(point.source != "end" for point in world.points.passed),
}


@pytest.mark.parametrize("explorer", EXPLORERS)
@pytest.mark.parametrize("when", WHEN)
@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("what", SKIPS)
def test_a_skip_within_an_exploration_is_refused(what: str, where: str, when: str, explorer: str) -> None:
    with pytest.raises(SkippedError, match=r"no driver[^\n]*\nSkip before the exploration") as caught:
        EXPLORERS[explorer](**WHERE[where](SKIPS[what], WHEN[when]))
    assert not isinstance(caught.value, AssertionError)


@pytest.mark.parametrize("explorer", EXPLORERS)
@pytest.mark.parametrize("when", WHEN)
@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("what", STOPS)
def test_what_is_to_end_all_ends_all(what: str, where: str, when: str, explorer: str) -> None:
    stop, kind = STOPS[what]
    with pytest.raises(kind):
        EXPLORERS[explorer](**WHERE[where](stop, WHEN[when]))


def test_what_is_to_end_all_ends_all_from_an_attempt_that_is_dead() -> None:
    def dies_slowly(world: CrashWorld) -> None:
        try:
            writes(world)
        finally:
            if world.points.state.dead:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        explore_crashes(dies_slowly, oracle=ok, world=a_store)


FINDINGS = (CrashFoundError, InterleavingFoundError)


@pytest.mark.parametrize(
    ("where", "explorer"), [(where, explorer) for where in ("an attempt", "an oracle") for explorer in EXPLORERS]
)
def test_pytest_fail_after_a_crash_is_a_finding(where: str, explorer: str) -> None:
    with pytest.raises(FINDINGS, match="loaded twice"):
        EXPLORERS[explorer](**WHERE[where](lambda: pytest.fail("loaded twice"), WHEN["after a crash"]))


@pytest.mark.parametrize("explorer", EXPLORERS)
@pytest.mark.parametrize("where", ["an attempt", "an oracle"])
def test_pytest_fail_without_a_crash_is_about_the_run_without_one(where: str, explorer: str) -> None:
    with pytest.raises((CleanRunError, NeverSucceededError), match="loaded twice"):
        EXPLORERS[explorer](**WHERE[where](lambda: pytest.fail("loaded twice"), WHEN["at once"]))


def test_pytest_fail_is_no_error_that_a_retry_follows() -> None:
    """It is the word of the test's author; an error of the task after a fault is tried again instead."""

    def judges_itself(world: CrashWorld) -> None:
        try:
            writes(world)
        except Exception:  # noqa: BLE001  it is a test
            pytest.fail("the store said no")

    with pytest.raises(CrashFoundError, match=r"attempt 1 called pytest\.fail: the store said no"):
        explore_crashes(judges_itself, oracle=ok, world=a_store)


def test_pytest_fail_of_an_attempt_that_wakes_is_a_finding() -> None:
    def fails_when_replaced(world: CrashWorld) -> None:
        mine = world.attempt
        writes(world)
        if world.points.attempts > mine:
            pytest.fail("it goes on though it is replaced")

    with pytest.raises(InterleavingFoundError, match="though it is replaced"):
        explore_freezes(fails_when_replaced, oracle=ok, world=a_store)


@pytest.mark.parametrize("explorer", EXPLORERS)
@pytest.mark.parametrize("what", ERRORS)
def test_any_error_of_an_attempt_is_a_failure_of_the_task(what: str, explorer: str) -> None:
    """Airflow, too, takes SystemExit for one, with whatever number."""
    with pytest.raises((CleanRunError, CrashFoundError), match="failed"):
        EXPLORERS[explorer](**an_attempt(ERRORS[what], WHEN["at once"]))


@pytest.mark.parametrize("what", ERRORS)
def test_any_error_of_an_attempt_may_be_part_of_the_design(what: str) -> None:
    try:
        ERRORS[what]()
    except BaseException as error:  # noqa: BLE001  it is the one to name
        kind = type(error)
    designed = an_attempt(ERRORS[what], lambda world: world.attempt == 2)
    explore_crashes(**designed, retry_on=(kind,), double=False)
    with pytest.raises(NeverSucceededError, match=rf"pass retry_on=\({kind.__name__},\)"):
        explore_crashes(**designed, double=False)


@pytest.mark.parametrize("explorer", EXPLORERS)
@pytest.mark.parametrize("what", sorted(ERRORS.keys() - {"an AssertionError"}))
def test_any_error_of_an_oracle_but_an_assertion_breaks_it(what: str, explorer: str) -> None:
    with pytest.raises(OracleBrokenError, match="instead of judging"):
        EXPLORERS[explorer](**an_oracle(ERRORS[what], WHEN["at once"]))


A_TRIGGER: Any = object()


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (AirflowSkipException("no rows"), "Airflow does not try again after an AirflowSkipException"),
        (AirflowSensorTimeout("no rows"), "Airflow does not try again after an AirflowSensorTimeout"),
        (AirflowFailException("no rows"), "Airflow does not try again after an AirflowFailException"),
        (TaskDeferred(trigger=A_TRIGGER, method_name="x"), r"Catch TaskDeferred in the attempt.*resume_execution"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_airflow_does_not_try_again_is_a_finding_after_a_fault_as_well(error: BaseException, says: str) -> None:
    def gives_up(world: CrashWorld) -> None:
        try:
            writes(world)
        except Exception:  # noqa: BLE001  it is the slip
            raise error from None

    with pytest.raises(NeverSucceededError, match=says):
        explore_crashes(gives_up, oracle=ok, world=a_store)


def test_outside_of_pytest_nothing_of_it_is_loaded(tmp_path: Path) -> None:
    script = """
        import sys
        from airflow_resume.testing import CrashWorld, FakeTaskStore, explore_crashes

        def fails(world):
            world.store.set("k", 1)
            raise SystemExit(0)

        try:
            explore_crashes(fails, oracle=lambda outcome: None, world=lambda: CrashWorld(store=FakeTaskStore()))
        finally:
            assert "_pytest" not in sys.modules
    """
    (tmp_path / "it.py").write_text(textwrap.dedent(script))
    done = subprocess.run([sys.executable, tmp_path / "it.py"], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "NeverSucceededError: attempt 1 failed" in done.stderr


def test_a_skip_is_no_finding() -> None:
    assert issubclass(SkippedError, ExplorerError)
