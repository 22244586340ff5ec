"""What may happen to an attempt besides a crash, and the slips that would make an exploration green."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import Asset
from airflow.sdk.exceptions import AirflowFailException, AirflowTaskTimeout

from airflow_resume.testing import CrashWorld, FakeAssetStore, FakeJobs, FakeTaskStore, World, explore_crashes
from airflow_resume.testing.crashes.outcome import ExplorationOutcome
from airflow_resume.testing.errors import (
    CrashFoundError,
    InvalidKindError,
    InvalidWayError,
    NeverFiredError,
    NeverSucceededError,
    NothingTriedError,
    OneWayWarning,
    OracleBrokenError,
    SharedWorldError,
)
from airflow_resume.testing.fakes.context import task_context
from airflow_resume.testing.fakes.job import UnknownJobError
from airflow_resume.testing.kinds import ERRORS
from airflow_resume.testing.oracles import (
    each_effect_at_least_once,
    each_effect_at_most,
    each_effect_exactly_once,
    mark_never_decreases,
)
from tests.support.kit.file_rows import FileRows

AnyOutcome = ExplorationOutcome[CrashWorld]


def ok(_outcome: AnyOutcome) -> None:
    pass


def a_store() -> CrashWorld:
    return CrashWorld(store=FakeTaskStore())


def an_airflow() -> CrashWorld:
    return CrashWorld(airflow=World(), jobs=FakeJobs())


def submits_once(world: CrashWorld) -> str:
    """What was submitted is noted afterwards."""
    store = task_context(world=world.airflow).task_store
    job = store.get("job")
    if job is None:
        job = world.jobs.submit()
        store.set("job", job)
    return str(job)


def explored(attempt: Callable[[CrashWorld], Any], **options: Any) -> dict[str, AnyOutcome]:
    """The outcomes of all ways, by what has fired in them."""
    outcomes: dict[str, AnyOutcome] = {}

    def keep(outcome: AnyOutcome) -> None:
        fired = outcome.world.points.fired
        outcomes[",".join(f"{number}:{kind}" for number, kind in fired.items())] = outcome

    explore_crashes(attempt, oracle=keep, **{"world": an_airflow, "double": False, **options})
    return outcomes


# --- raises_after -----------------------------------------------------------------------------------------------


def test_every_error_comes_after_every_effect_and_store_call_and_the_attempt_is_tried_again() -> None:
    seen: list[tuple[str, int]] = []

    def attempt(world: CrashWorld) -> str:
        try:
            return submits_once(world)
        except Exception as error:
            seen.append((type(error).__name__, len(world.jobs.jobs)))
            raise

    ways = explored(attempt, kinds=["raises_after"])
    assert list(ways)[1:] == [f"{number}:raises_after {name}" for number in (2, 4, 6) for name in ERRORS]
    assert seen == [(name, submitted) for submitted in (0, 1, 1) for name in ERRORS]
    assert len(ways["4:raises_after KeyError"].world.jobs.jobs) == 2


def test_a_late_error_is_found_and_replayed_by_one_line() -> None:
    def one_job(outcome: AnyOutcome) -> None:
        assert len(outcome.world.jobs.jobs) == 1, "two jobs"

    explore: Any = {"oracle": one_job, "world": an_airflow, "kinds": ["raises_after"]}
    with pytest.raises(CrashFoundError) as caught:
        explore_crashes(submits_once, **explore)
    lines = str(caught.value).splitlines()
    assert lines[0] == "raises_after KeyError at point 4 (after submit): two jobs"
    assert (
        lines[-1]
        == 'replay: explore_crashes(submits_once, ..., only="4:raises_after KeyError")  # remove only= once it passes'
    )
    with pytest.raises(CrashFoundError, match="two jobs"):
        explore_crashes(submits_once, **explore, only="4:raises_after KeyError")
    with pytest.warns(OneWayWarning):
        explore_crashes(submits_once, **explore, only="6:raises_after KeyError")


def test_a_late_error_is_paired_with_a_crash() -> None:
    ways = explored(submits_once, kinds=["raises_after OSError", "crash"], double=True)
    assert "4:raises_after OSError,7:crash" in ways
    assert "1:crash,3:raises_after OSError" in ways
    assert "2:raises_after OSError,4:raises_after OSError" in ways


def test_other_errors_are_classes_functions_errors_or_have_names_of_their_own() -> None:
    def late() -> Exception:
        return ssl.SSLError("late")

    errors = [RuntimeError, late, ValueError("again"), AirflowTaskTimeout]
    names = ["RuntimeError", "late", "ValueError", "AirflowTaskTimeout"]
    assert list(explored(submits_once, kinds=["raises_after"], errors=errors))[1:5] == [
        f"2:raises_after {name}" for name in names
    ]
    assert "2:raises_after ours" in explored(submits_once, kinds=["raises_after"], errors={"ours": OSError})


@pytest.mark.parametrize(
    ("errors", "message"),
    [
        ([OSError, OSError], "Two errors have the same name"),
        ({"a,b": OSError}, "'a,b' cannot be written in only="),
        ({"": OSError}, "cannot be written in only="),
        ([KeyboardInterrupt], "A task ends with an Exception"),
        ({"text": "text"}, "Pass classes of errors"),
    ],
)
def test_errors_that_are_none_are_refused(errors: Any, message: str) -> None:
    with pytest.raises(InvalidKindError, match=message):
        explore_crashes(submits_once, oracle=ok, world=an_airflow, kinds=["raises_after"], errors=errors)


def test_an_error_that_airflow_does_not_try_again_is_a_finding_unless_the_test_allows_it() -> None:
    class LostError(AirflowFailException):
        pass

    def gives_up(world: CrashWorld) -> str:
        try:
            return submits_once(world)
        except OSError as error:
            raise LostError("no use") from error

    explore: Any = {"world": an_airflow, "kinds": ["raises_after OSError"], "double": False}
    with pytest.raises(NeverSucceededError, match=r"raises_after OSError at point 2 .*\('no use'\)"):
        explore_crashes(gives_up, oracle=ok, **explore)
    ways = explored(gives_up, **explore, allowed_to_fail=(LostError,))
    ended = ways["4:raises_after OSError"]
    assert (repr(ended.error), ended.result) == ("LostError('no use')", None)
    assert len(ended.world.jobs.jobs) == 1
    assert ways[""].error is None


def test_the_run_in_which_nothing_happens_is_never_allowed_to_fail() -> None:
    def fails(world: CrashWorld) -> None:
        submits_once(world)
        raise AirflowFailException

    with pytest.raises(NeverSucceededError, match="attempt 1 failed"):
        explore_crashes(fails, oracle=ok, world=an_airflow, allowed_to_fail=(AirflowFailException,))


# --- wrong_once -------------------------------------------------------------------------------------------------

LYING = ["RUNNING", "SUCCEEDED"]


def a_job() -> CrashWorld:
    return CrashWorld(store=FakeTaskStore(), jobs=FakeJobs(scripts=[LYING]))


def asks_thrice(world: CrashWorld) -> list[str]:
    """Through the whole script, and once more."""
    job = world.jobs.submit()
    answers = []
    for _ in range(3):
        try:
            answers.append(world.jobs.status(job))
        except UnknownJobError:
            answers.append("gone")
    return answers


def test_a_job_system_is_wrong_once_about_a_living_and_about_an_ended_job_and_its_script_stays() -> None:
    told = {way: outcome.result for way, outcome in explored(asks_thrice, world=a_job, kinds=["wrong_once"]).items()}
    assert told == {
        "": ["RUNNING", "SUCCEEDED", "SUCCEEDED"],
        "3:wrong_once gone": ["gone", "RUNNING", "SUCCEEDED"],
        "3:wrong_once unheard_of": ["UNHEARD_OF", "RUNNING", "SUCCEEDED"],
        "3:wrong_once failed": ["FAILED", "RUNNING", "SUCCEEDED"],
        "4:wrong_once gone": ["RUNNING", "gone", "SUCCEEDED"],
        "4:wrong_once unheard_of": ["RUNNING", "UNHEARD_OF", "SUCCEEDED"],
        "4:wrong_once active_again": ["RUNNING", "RUNNING", "SUCCEEDED"],
        "5:wrong_once gone": ["RUNNING", "SUCCEEDED", "gone"],
        "5:wrong_once unheard_of": ["RUNNING", "SUCCEEDED", "UNHEARD_OF"],
        "5:wrong_once active_again": ["RUNNING", "SUCCEEDED", "RUNNING"],
    }


def test_an_index_misses_what_is_there_and_not_what_is_not() -> None:
    def finds(world: CrashWorld) -> list[Any]:
        before = world.jobs.find("slot-a"), world.jobs.find_jobs("slot")
        world.jobs.submit("slot-a")
        return [*before, world.jobs.find("slot-a"), world.jobs.find_jobs("slot")]

    def make() -> CrashWorld:
        return CrashWorld(jobs=FakeJobs(can_find_by_slot=True))

    told = {way: outcome.result for way, outcome in explored(finds, world=make, kinds=["wrong_once"]).items()}
    assert told == {
        "": [None, {}, "job-0", {"slot-a": "job-0"}],
        "3:wrong_once misses": [None, {}, None, {"slot-a": "job-0"}],
        "4:wrong_once misses": [None, {}, "job-0", {}],
    }


def test_any_source_can_be_wrong_once_and_the_truth_is_not_asked_for_then() -> None:
    def reads(world: CrashWorld) -> list[Any]:
        pages = iter([[1], [2]])
        read = []
        for number in range(2):
            truth = lambda: next(pages)  # noqa: E731
            read.append(world.answer(f"page {number}", truth, {"empty": [], "short": lambda: ["short"]}))
        with world.effect("load"):
            return read

    told = {way: outcome.result for way, outcome in explored(reads, world=CrashWorld, kinds=["wrong_once"]).items()}
    assert told == {
        "": [[1], [2]],
        "1:wrong_once empty": [[], [1]],
        "1:wrong_once short": [["short"], [1]],
        "2:wrong_once empty": [[1], []],
        "2:wrong_once short": [[1], ["short"]],
    }


@pytest.mark.parametrize("lies", [{}, {"a,b": 1}])
def test_lies_that_no_way_could_name_are_refused_always(lies: Any) -> None:
    with pytest.raises(InvalidKindError):
        CrashWorld().answer("page", 1, lies)


def test_answers_are_no_points_for_the_other_kinds() -> None:
    report = explore_crashes(asks_thrice, oracle=ok, world=a_job, kinds=["crash"], double=False)
    assert [str(point) for point in report.points] == ["before submit", "after submit"]
    with_answers = explore_crashes(asks_thrice, oracle=ok, world=a_job, kinds=["crash", "wrong_once"], double=False)
    assert [str(point) for point in with_answers.points[2:]] == ["answer status"] * 3
    assert with_answers.ways == len(report.points) + 9


def test_an_attempt_that_fails_by_a_lie_is_tried_again() -> None:
    def believes(world: CrashWorld) -> str:
        return str(world.jobs.status(world.jobs.submit()))

    ways = explored(believes, world=a_job, kinds=["wrong_once"])
    assert ways["3:wrong_once gone"].world.attempt == 2
    assert ways["3:wrong_once failed"].world.attempt == 1


# --- comes back -------------------------------------------------------------------------------------------------


def test_a_dag_run_is_made_again_at_every_point_and_after_the_end() -> None:
    def attempt(world: CrashWorld) -> tuple[Any, ...]:
        started = task_context(world=world.airflow)
        found = started.task_store.get("k")
        started.task_store.set("k", 1)
        return found, started.ti.try_number, world.airflow.run_starts["dag", "run-1"].minute

    told = {way: outcome.result for way, outcome in explored(attempt, kinds=["recreated"]).items()}
    assert told == {"": (None, 1, 0), **{f"{number}:recreated": (None, 1, 1) for number in range(1, 6)}}
    retried = explored(attempt, kinds=["crash"])
    assert retried["4:crash"].result == (1, 2, 0)


def test_a_job_belongs_to_the_life_of_the_run_in_which_it_was_submitted() -> None:
    ways = explored(submits_once, kinds=["recreated"])
    assert [job.life for job in ways["4:recreated"].world.jobs.jobs] == [0, 1]
    assert [job.life for job in ways["7:recreated"].world.jobs.jobs] == [0, 1]
    assert [job.life for job in ways["2:recreated"].world.jobs.jobs] == [1]
    assert ways["7:recreated"].world.life == 1
    assert ways["7:recreated"].world.jobs.most_alive == 2
    assert ways["7:recreated"].world.jobs.most_alive_in_a_life == 1


def test_state_is_cleared_while_the_run_stays() -> None:
    ways = explored(submits_once, kinds=["state_cleared"])
    assert list(ways)[1:] == [f"{number}:state_cleared" for number in range(1, 7)]
    cleared = ways["6:state_cleared"].world
    assert [job.id for job in cleared.jobs.jobs] == ["job-0", "job-1"]
    assert cleared.airflow.instances["dag", "run-1", "task", -1].try_number == 2
    assert cleared.airflow.run_starts["dag", "run-1"].minute == 0


def test_a_backup_of_the_start_or_of_the_last_write_is_restored() -> None:
    def writes(world: CrashWorld) -> dict[str, Any]:
        store = task_context(world=world.airflow).task_store
        found = {key: store.get(key) for key in ("a", "b")}
        store.set("a", world.attempt)
        store.set("b", world.attempt)
        return found

    ways = explored(writes, kinds=["restored"])
    assert ways["8:restored to_start"].result == {"a": None, "b": None}
    assert ways["8:restored to_last_write"].result == {"a": 1, "b": None}
    assert ways["9:restored to_last_write"].result == {"a": 1, "b": None}
    assert ways["8:restored to_start"].world.airflow.instances["dag", "run-1", "task", -1].try_number == 1
    assert ways["8:restored to_last_write"].world.airflow.instances["dag", "run-1", "task", -1].try_number == 2


def test_plain_stores_lose_their_rows_and_those_of_assets_only_to_a_backup() -> None:
    world = CrashWorld(store=FakeTaskStore(), again=None, asset=FakeAssetStore())
    world.again = world.store
    backup = world.backup()
    for change, left in ((world.recreate_runs, 1), (world.clear_state, 1), (lambda: world.restore(backup), None)):
        world.store.set("k", 1)
        world.asset.set("k", 1)
        change()
        assert (world.store.get("k"), world.asset.get("k")) == (None, left)
    assert world.life == 1


@pytest.mark.parametrize("kind", ["recreated", "state_cleared", "restored"])
def test_what_comes_back_needs_something_that_it_changes(kind: str) -> None:
    def attempt(world: CrashWorld) -> None:
        with world.effect("load"):
            pass

    with pytest.raises(NothingTriedError, match=rf"'{kind}.*' changes nothing in this world"):
        explore_crashes(attempt, oracle=ok, world=lambda: CrashWorld(jobs=FakeJobs()), kinds=[kind])


def test_a_backup_cannot_be_made_around_a_child_process() -> None:
    with pytest.raises(InvalidWayError, match="without sigkill"):
        explore_crashes(submits_once, oracle=ok, world=an_airflow, kinds=["sigkill", "restored"])


def test_a_run_starts_once_until_it_is_made_again_or_cleared_after_its_end() -> None:
    first = task_context(assets=[Asset("a")])
    world, run = first.world, ("dag", "run-1")
    started = world.run_starts[run]
    world.clock.advance(timedelta(hours=1))
    first.retry()
    second = first.clear(while_running=True)
    assert world.run_starts[run] == started
    third = second.clear()
    assert world.run_starts[run] == started + timedelta(hours=1)
    third.task_store.set("k", 1)
    third.asset_stores.set("k", 1)
    again = third.recreate()
    assert world.run_starts[run] == started + timedelta(hours=1, minutes=1)
    assert (again.ti.try_number, again.ti.max_tries, again.context["dag_run"].clear_number) == (1, 3, 0)
    assert (again.task_store.get("k"), again.asset_stores.get("k")) == (None, 1)
    assert third.task_store.replaced


def test_another_run_stays_when_one_is_made_again() -> None:
    first = task_context()
    other = first.next_run()
    other.task_store.set("k", 1)
    first.recreate()
    assert other.task_store.get("k") == 1


def test_in_child_processes_errors_come_late_and_runs_come_back_as_well(tmp_path: Path) -> None:
    worlds = iter(range(1_000))

    def files() -> CrashWorld:
        return CrashWorld(store=FakeTaskStore(FileRows(tmp_path / f"{next(worlds)}.json")))

    def counts(world: CrashWorld) -> int:
        found = world.store.get("k", 0)
        world.store.set("k", found + 1)
        return int(found)

    ways = explored(counts, world=files, kinds=["sigkill", "raises_after OSError", "recreated"])
    told = {way: outcome.result for way, outcome in ways.items() if way.startswith(("4:", "5:"))}
    assert told == {"4:sigkill": 1, "4:raises_after OSError": 1, "4:recreated": 0, "5:recreated": 0}


# --- slips ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kinds": []}, r"kinds=\[\]"),
        ({"kinds": ["raises_after"], "errors": []}, r"errors=\[\]"),
        ({"oracle": []}, r"oracle=\[\]"),
        ({"max_points": 0}, "max_points=0"),
        ({"max_pairs": -1}, "max_pairs=-1"),
        ({"kinds": ["crash", "wrong_once"]}, "'wrong_once' cannot happen anywhere"),
        ({"kinds": ["wrong_once gone"]}, "'wrong_once gone' cannot happen anywhere"),
    ],
)
def test_an_exploration_that_would_try_nothing_is_an_error(options: Any, message: str) -> None:
    def attempt(world: CrashWorld) -> None:
        world.store.set("k", 1)

    with pytest.raises(NothingTriedError, match=message):
        explore_crashes(attempt, **{"oracle": ok, "world": a_store, **options})


def test_a_kind_that_was_named_and_happens_nowhere_is_an_error_and_by_default_it_is_not() -> None:
    def attempt(world: CrashWorld) -> None:
        with world.effect("load"):
            pass

    explore_crashes(attempt, oracle=ok)
    with pytest.raises(NothingTriedError, match="'refused' cannot happen anywhere in this attempt"):
        explore_crashes(attempt, oracle=ok, kinds=["crash", "refused"])


@pytest.mark.parametrize("kinds", ["crash", ["boom"], ["crash now"], ["raises_after IOError"], ["restore"]])
def test_what_is_no_kind_is_refused(kinds: Any) -> None:
    with pytest.raises(InvalidKindError):
        explore_crashes(submits_once, oracle=ok, world=an_airflow, kinds=kinds)


@pytest.mark.parametrize(
    "only",
    [
        "4:raises_after",
        "4:raises_after Boom",
        "4:wrong_once",
        "4:restored",
        "4:restored to_now",
        "4:crash x",
        "4:crash,4:crash",
    ],
)
def test_a_way_without_its_variant_or_with_a_wrong_one_is_refused(only: str) -> None:
    with pytest.raises(InvalidWayError):
        explore_crashes(submits_once, oracle=ok, world=an_airflow, only=only)


def test_what_cannot_happen_at_a_point_did_not_fire() -> None:
    with pytest.raises(NeverFiredError, match="'reply_lost' cannot happen at point 4, 'after submit'"):
        explore_crashes(submits_once, oracle=ok, world=an_airflow, only="4:reply_lost")
    with pytest.raises(NeverFiredError, match="point 99 was never reached"):
        explore_crashes(submits_once, oracle=ok, world=an_airflow, only="99:wrong_once gone")


def test_an_attempt_without_points_is_an_error() -> None:
    with pytest.raises(NothingTriedError, match="The attempt passes no point"):
        explore_crashes(lambda _world: None, oracle=ok, world=a_store)
    with pytest.raises(NothingTriedError, match="The attempt passes no point"):
        explore_crashes(lambda _world: None, oracle=ok, world=a_store, kinds=["recreated"])


def test_a_world_that_was_used_is_an_error() -> None:
    def attempt(world: CrashWorld) -> None:
        world.store.get("k")

    one, store = a_store(), FakeTaskStore()
    with pytest.raises(SharedWorldError, match="returned a world in which an attempt has run before"):
        explore_crashes(attempt, oracle=ok, world=lambda: one)
    with pytest.raises(SharedWorldError, match=r"FakeTaskStore empty.* is in two worlds"):
        explore_crashes(attempt, oracle=ok, world=lambda: CrashWorld(store=store))


def test_an_oracle_that_returns_its_judgement_or_never_runs_is_an_error() -> None:
    async def awaited(_outcome: AnyOutcome) -> None:
        raise AssertionError

    def taken(_outcome: AnyOutcome) -> Any:
        yield

    def attempt(world: CrashWorld) -> None:
        world.store.get("k")

    wrong: list[tuple[Any, str]] = [
        (lambda outcome: outcome.result == 3, "returned False instead of judging"),
        (lambda outcome: outcome.result is None, "returned True instead of judging"),
        (each_effect_at_most, "each_effect_at_most returned a function"),
        (awaited, "awaited is async"),
        (taken, "taken is a generator function"),
    ]
    for oracle, message in wrong:
        with pytest.raises(OracleBrokenError, match=message):
            explore_crashes(attempt, oracle=oracle, world=a_store)


def test_an_oracle_of_effects_or_marks_that_has_none_to_look_at_is_an_error() -> None:
    def attempt(world: CrashWorld) -> None:
        world.store.get("k")

    for oracle in (each_effect_at_least_once, each_effect_exactly_once):
        with pytest.raises(OracleBrokenError, match="registers no effect"):
            explore_crashes(attempt, oracle=oracle, world=a_store)
    with pytest.raises(OracleBrokenError, match="follows no mark"):
        explore_crashes(attempt, oracle=mark_never_decreases, world=a_store)
    explore_crashes(attempt, oracle=each_effect_at_most(1), world=a_store)


# --- the job system itself ---------------------------------------------------------------------------------------


class Token(str):
    __slots__ = ("slot",)


def test_jobs_are_found_by_slot_ended_ones_included_and_forgotten_ones_not() -> None:
    jobs = FakeJobs(can_find_by_slot=True, scripts=[["DONE"]])
    for token in ("a.1", Token("a.2"), "b.1", "a.3", None):
        jobs.submit(token)
    jobs.forget("job-3")
    assert jobs.find_jobs("a.") == {"a.1": "job-0", "a.2": "job-1"}
    assert jobs.find(Token("a.1")) == "job-0"
    assert FakeJobs().find_jobs is None


@pytest.mark.parametrize("word", ["DONE", "COMPLETED", "Finished", "Timed Out", "not_found"])
def test_words_for_an_end_are_known_to_the_kit_itself(word: str) -> None:
    jobs = FakeJobs(scripts=[[word]])
    jobs.submit()
    assert not jobs.alive()
