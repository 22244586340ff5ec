"""Runs that both believe to be the only one, in every order of their calls with a few switches."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import get_current_context
from airflow.sdk.state import TaskScope

from airflow_resume import PollPolicy, ResumePolicy, checkpoint, run_job
from airflow_resume.backends import SqlStateStore, SqlStoreBackend
from airflow_resume.errors import WatermarkMismatchError
from airflow_resume.testing import (
    CrashWorld,
    FakeJobs,
    FakeTaskStore,
    World,
    explore_freezes,
    explore_interleavings,
    task_context,
)
from airflow_resume.testing.crashes.outcome import ExplorationOutcome
from airflow_resume.testing.errors import (
    CleanRunError,
    DeadlockError,
    InterleavingFoundError,
    NeverFiredError,
    NotDeterministicError,
    NothingTriedError,
    OneWayWarning,
    OracleBrokenError,
    TooManyPointsError,
)
from airflow_resume.testing.oracles import same_result
from airflow_resume.testing.turns.participants import FreezeOutcome
from tests.support.watermarks.concurrent_runs import MODES, Pair, by_token
from tests.support.watermarks.whole_numbers import MARK, NUMBERS, Counter, numbers

POLICY = ResumePolicy(poll=PollPolicy(interval=timedelta(0), max_interval=timedelta(0), jitter=0))


@pytest.fixture(autouse=True)
def no_thread_stays() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    started = set(threading.enumerate()) - before
    for thread in started:  # a timer that was cancelled takes a moment to end
        thread.join(timeout=10)
    assert not [thread for thread in started if thread.is_alive()]


# --- what is explored -----------------------------------------------------------------------------------------


def a_store() -> CrashWorld:
    return CrashWorld(store=FakeTaskStore())


def counts(world: CrashWorld) -> Any:
    number = world.store.get("n", 0)
    world.store.set("n", number + 1)
    return number


def notes_itself(world: CrashWorld) -> None:
    world.store.set(f"attempt {world.attempt}", True)


def both_are_counted(outcome: ExplorationOutcome[CrashWorld]) -> None:
    count = outcome.world.store.values["n"]
    assert count == 2, f"{count} of 2"


def test_two_that_read_and_write_lose_one_and_the_smallest_order_is_shown() -> None:
    with pytest.raises(InterleavingFoundError) as caught:
        explore_interleavings([counts, counts], oracle=both_are_counted, world=a_store)
    assert str(caught.value).splitlines() == [
        "run 1 first and run 2 at point 3 (before set n): 1 of 2",
        "assert 1 == 2",
        "    run 1, attempt 1",
        "       1  before get n",
        "       2  after get n",
        "  >    3  before set n    <-- run 2",
        "    run 2, attempt 2",
        "       4  before get n",
        "       5  after get n",
        "       6  before set n",
        "       7  after set n",
        "       8  after the end of run 2",
        "    run 1, attempt 1",
        "       9  after set n",
        "      10  after the end of run 1",
        'replay: explore_interleavings([counts, counts], ..., only="0:run 1,3:run 2")  # remove only= once it passes',
    ]


def test_every_finding_is_replayed_by_its_line() -> None:
    report = explore_interleavings([counts, counts], oracle=both_are_counted, world=a_store, find_all=True, prune=False)
    assert len(report.findings) == 8
    for finding in report.findings:
        with pytest.raises(InterleavingFoundError) as caught:
            explore_interleavings([counts, counts], oracle=both_are_counted, world=a_store, only=finding.only)
        assert str(caught.value) == str(finding)


def interposed(world: CrashWorld) -> Any:
    """Another key, an effect with a call inside of it, and a key that both write."""
    world.store.set(f"own {world.attempt}", 1)
    with world.effect("note"):
        world.notes.append(len(world.notes))
        world.store.get("n")
        world.notes.append(-1)
    world.store.delete(f"own {world.attempt}")
    return counts(world)


@pytest.mark.parametrize(("runs", "switches"), [([interposed, interposed], 3), ([counts, interposed, counts], 2)])
def test_what_is_pruned_ends_as_what_is_tried(runs: list[Callable[[CrashWorld], Any]], switches: int) -> None:
    def endings(*, prune: bool) -> tuple[Any, set[str]]:
        seen: set[str] = set()

        def note(outcome: ExplorationOutcome[CrashWorld]) -> None:
            seen.add(repr((sorted(outcome.result), outcome.world.notes, outcome.world.store.values.get("n"))))

        def world() -> CrashWorld:
            return CrashWorld(store=FakeTaskStore(), notes=[])

        return explore_interleavings(runs, oracle=note, world=world, switches=switches, prune=prune), seen

    (all_of_them, every), (fewer, some) = endings(prune=False), endings(prune=True)
    assert some == every
    assert len(every) > 3
    assert fewer.interleavings == all_of_them.interleavings
    assert fewer.tried < all_of_them.tried / 2


def test_calls_by_other_keys_need_no_other_order() -> None:
    report = explore_interleavings([notes_itself, notes_itself], oracle=lambda _: None, world=a_store)
    assert (report.interleavings - report.pruned, report.findings) == (2, [])


def test_with_a_mark_that_is_followed_every_order_of_calls_is_tried() -> None:
    def followed() -> CrashWorld:
        world = a_store()
        world.follow(lambda: len(world.store.values))
        return world

    def notes_twice(world: CrashWorld) -> None:
        notes_itself(world)
        notes_itself(world)

    def tried(world: Callable[[], CrashWorld]) -> int:
        return explore_interleavings([notes_twice, notes_twice], oracle=lambda _: None, world=world).tried

    assert tried(followed) == 6, "all orders of two and two"


def test_all_orders_of_three_are_tried() -> None:
    seen: set[tuple[str, ...]] = set()

    def note(outcome: ExplorationOutcome[CrashWorld]) -> None:
        seen.add(tuple(effect.what for effect in outcome.effects))

    def one(name: str) -> Callable[[CrashWorld], None]:
        def run(world: CrashWorld) -> None:
            for number in range(2):
                with world.effect(f"{name}{number}"):
                    pass

        return run

    explore_interleavings([one("a"), one("b"), one("c")], oracle=note, world=CrashWorld, switches=1)
    without = {
        tuple(f"{name}{n}" for name in order for n in range(2)) for order in ("abc", "acb", "bac", "bca", "cab", "cba")
    }
    assert without <= seen
    assert ("a0", "b0", "b1", "a1", "c0", "c1") in seen or ("a0", "b0", "b1", "c0", "c1", "a1") in seen


def test_a_crash_in_one_of_them_is_tried_as_well() -> None:
    def notes_it(world: CrashWorld) -> None:
        with world.effect("note"):
            pass

    def twice_at_least(outcome: ExplorationOutcome[CrashWorld]) -> None:
        assert 2 <= len(outcome.effects) <= 2 + outcome.crashes

    report = explore_interleavings([notes_it, notes_it], oracle=twice_at_least, world=a_store, kinds=["crash"])
    assert report.crashed > 10


# --- the threads --------------------------------------------------------------------------------------------------


def test_a_run_that_waits_for_a_frozen_one_is_a_deadlock_with_its_trace() -> None:
    def locked() -> CrashWorld:
        return CrashWorld(store=FakeTaskStore(), lock=threading.Lock())

    def holds(world: CrashWorld) -> None:
        with world.lock:
            counts(world)

    with pytest.raises(DeadlockError, match=r"run 2 has the turn[\s\S]*> +3  before set n    <-- run 2"):
        explore_interleavings([holds, holds], oracle=both_are_counted, world=locked, watchdog=0.2)


def test_an_interrupt_ends_every_thread() -> None:
    seen: list[int] = []

    def interrupts(world: CrashWorld) -> None:
        counts(world)
        seen.append(world.attempt)
        if len(seen) == 8:
            # As from a terminal: the main thread gets it while it waits. After `raise_signal` it would notice later.
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        counts(world)

    # A process that was started in the background of a shell may ignore it.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            explore_interleavings([interrupts, interrupts], oracle=lambda _: None, world=a_store)
    finally:
        signal.signal(signal.SIGINT, before)


def test_an_interrupt_raised_in_a_run_comes_out() -> None:
    def interrupts(world: CrashWorld) -> None:
        counts(world)
        if world.store.get("n") > 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        explore_interleavings([interrupts, interrupts], oracle=lambda _: None, world=a_store)


def test_each_run_has_the_context_of_its_own_task() -> None:
    def run(name: str) -> Callable[[CrashWorld], None]:
        def named(world: CrashWorld) -> None:
            with task_context(world=world.airflow, run_id=name) as attempt:
                for _ in range(2):
                    attempt.task_store.set("a", 1)
                    assert get_current_context()["run_id"] == name
            with pytest.raises(RuntimeError):
                get_current_context()

        return named

    with task_context(run_id="outer"):
        explore_interleavings(
            [run("one"), run("two")], oracle=lambda _: None, world=lambda: CrashWorld(airflow=World()), prune=False
        )
        assert get_current_context()["run_id"] == "outer"


# --- a test that is wrong -----------------------------------------------------------------------------------------


def fails(world: CrashWorld) -> None:
    counts(world)
    raise LookupError


def test_what_a_test_does_wrong_is_an_error() -> None:
    numbers = iter(range(100))

    def other_each_time(world: CrashWorld) -> None:
        world.store.set(f"key {next(numbers)}", 1)

    def no_judge(_: ExplorationOutcome[CrashWorld]) -> None:
        raise LookupError

    wrong: list[tuple[type[Exception], list[Callable[[CrashWorld], Any]], dict[str, Any]]] = [
        (NothingTriedError, [], {}),
        (NothingTriedError, [counts], {}),
        (NothingTriedError, [counts, lambda _: None], {}),
        (NothingTriedError, [counts, counts], {"oracle": []}),
        (NothingTriedError, [counts, counts], {"switches": 0, "oracle": both_are_counted}),
        (NotDeterministicError, [counts, other_each_time], {}),
        (CleanRunError, [counts, notes_itself], {}),
        (CleanRunError, [counts, fails], {}),
        (OracleBrokenError, [counts, counts], {"oracle": no_judge}),
        (TooManyPointsError, [counts, counts], {"max_points": 3}),
        (NeverFiredError, [counts, counts], {"only": "0:run 1,40:run 2"}),
    ]
    for error, runs, options in wrong:
        with pytest.raises(error):
            explore_interleavings(runs, **{"oracle": both_are_counted, "world": a_store, **options})


def test_an_error_that_is_allowed_is_the_result() -> None:
    def second_fails(outcome: ExplorationOutcome[CrashWorld]) -> None:
        assert outcome.result[0] in {0, 1}
        assert isinstance(outcome.result[1], LookupError)

    explore_interleavings([counts, fails], oracle=second_fails, world=a_store, may_fail=(LookupError,))


# --- jobs -------------------------------------------------------------------------------------------------------


def job_of(run_id: str, name: str = "job") -> Callable[[CrashWorld], Any]:
    def attempt(world: CrashWorld) -> Any:
        with task_context(world=world.airflow, run_id=run_id) as running:
            return run_job(world.jobs, name=name, policy=POLICY, context=running.context)

    return attempt


def job_of_deployment(number: int) -> Callable[[CrashWorld], Any]:
    """Its task has the names of the other's."""

    def attempt(world: CrashWorld) -> Any:
        with task_context(world=world.airflows[number]) as running:
            return run_job(world.jobs, policy=POLICY, context=running.context)

    return attempt


def job_world(**options: Any) -> Callable[[], CrashWorld]:
    def world() -> CrashWorld:
        made = CrashWorld(airflow=World(), jobs=FakeJobs(**options))
        made.airflows = [made.watch(World()), made.watch(World())]
        return made

    return world


def jobs_are(count: int) -> Callable[[ExplorationOutcome[CrashWorld]], None]:
    def so_many(outcome: ExplorationOutcome[CrashWorld]) -> None:
        assert len(outcome.world.jobs.jobs) == count
        assert not [event for event in outcome.world.jobs.events if event.call == "cancel"]

    return so_many


SYSTEMS: dict[str, dict[str, Any]] = {"look-up": {}, "tokens": {"dedupes": True}, "neither": {"can_find": False}}


@pytest.mark.parametrize("system", SYSTEMS)
def test_two_dag_runs_have_a_job_each(system: str) -> None:
    def its_own(outcome: ExplorationOutcome[CrashWorld]) -> None:
        assert sorted(result["job"] for result in outcome.result) == ["job-0", "job-1"]

    report = explore_interleavings(
        [job_of("one"), job_of("two")], oracle=[jobs_are(2), its_own], world=job_world(**SYSTEMS[system])
    )
    assert report.interleavings > 500
    print(report)


def test_two_deployments_have_a_job_each_where_none_can_be_looked_up() -> None:
    runs = [job_of_deployment(0), job_of_deployment(1)]
    explore_interleavings(runs, oracle=jobs_are(2), world=job_world(can_find=False))


def test_two_deployments_without_a_name_cannot_be_told_apart() -> None:
    """As docs/jobs.md says of such; neither is harmed: both get the result of a job, and none is cancelled."""

    def of_a_job(outcome: ExplorationOutcome[CrashWorld]) -> None:
        known = [{"job": job.id} for job in outcome.world.jobs.jobs]
        assert all(result in known for result in outcome.result)
        jobs_are(len(known))(outcome)

    runs = [job_of_deployment(0), job_of_deployment(1)]
    explore_interleavings(runs, oracle=of_a_job, world=job_world())
    shared = explore_interleavings(runs, oracle=jobs_are(2), world=job_world(), find_all=True).findings
    assert ["before set resume.job.job"] in [finding.where for finding in shared]


# --- loops ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("durability", ["sync", "async"])
def test_the_loops_of_two_dag_runs_share_nothing(durability: Any) -> None:
    def loop(run_id: str) -> Callable[[CrashWorld], int]:
        def attempt(world: CrashWorld) -> int:
            with task_context(world=world.airflow, run_id=run_id) as running:
                for page in checkpoint(range(2), name="pages", durability=durability, context=running.context):
                    with world.effect(f"load {run_id} {page}"):
                        pass
            return 2

        return attempt

    def each_once(outcome: ExplorationOutcome[CrashWorld]) -> None:
        assert sorted(effect.what for effect in outcome.effects) == [
            f"load {run} {n}" for run in "ab" for n in range(2)
        ]

    report = explore_interleavings(
        [loop("a"), loop("b")], oracle=[each_once, same_result], world=lambda: CrashWorld(airflow=World())
    )
    assert report.interleavings > 200
    print(report)


# --- watermarks -------------------------------------------------------------------------------------------------


class MarkWorld(CrashWorld):
    """Two runs of a watermark, whose reading of the clock is a point as well."""

    def __init__(self, mode: str, *, begun: bool, **options: Any) -> None:
        super().__init__()
        load, others = MODES[mode]
        self.pair = Pair(load, {**others, **options})
        if begun:
            self.pair.run(self.pair.attempt("before"))
            self.pair.clock.number = 8
        self.watch(self.pair.world)

    def load(self, name: str) -> None:
        with self.effect(f"all of {name}"):  # the clock and what is loaded are no points: every call is like an effect
            self.pair.run(self.pair.attempt(name))
            self.pair.clock.number += 1

    def set_back(self) -> None:
        first: Any = {"upto": 0} if self.pair.load is by_token else "0"
        self.pair.attempt("person").asset_stores[NUMBERS].set(MARK, first)


def run_one(world: MarkWorld) -> None:
    world.load("one")


def run_two(world: MarkWorld) -> None:
    world.load("two")


def person(world: MarkWorld) -> None:
    world.set_back()


def nothing_is_skipped(outcome: ExplorationOutcome[MarkWorld]) -> None:
    outcome.world.pair.finish()


@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize("mode", MODES)
def test_of_two_runs_at_once_neither_skips_a_row(mode: str, begun: bool) -> None:  # noqa: FBT001
    report = explore_interleavings(
        [run_one, run_two],
        oracle=nothing_is_skipped,
        world=lambda: MarkWorld(mode, begun=begun),
        max_ways=120,
    )
    assert report.interleavings > 400
    print(report)


@pytest.mark.parametrize("mode", MODES)
def test_nor_when_a_person_sets_the_mark_back(mode: str) -> None:
    report = explore_interleavings(
        [run_one, run_two, person],
        oracle=nothing_is_skipped,
        world=lambda: MarkWorld(mode, begun=True),
        switches=1,
        max_ways=150,
    )
    print(report)


@pytest.mark.parametrize("mode", ["window", "observed", "token"])
def test_a_typed_mark_is_lost_only_between_the_look_and_the_write_of_a_commit(mode: str) -> None:
    """As docs/watermarks.md says: the store has no compare-and-set."""

    def wants_all_again(world: MarkWorld) -> None:
        world.set_back()
        world.pair.loaded.clear()

    report = explore_interleavings(
        [run_one, wants_all_again],
        oracle=nothing_is_skipped,
        world=lambda: MarkWorld(mode, begun=True),
        find_all=True,
    )
    assert [finding.where for finding in report.findings] == [["before set resume.watermark.watermark"]]


def test_of_three_runs_none_fails_for_good_where_the_slowest_writes_the_mark_back() -> None:
    """The third begins where the second has put the mark, and then the first, which had looked before, writes."""

    def each_later(name: str) -> Callable[[MarkWorld], None]:
        def run(world: MarkWorld) -> None:
            with world.effect(f"all of {name}"):
                world.pair.clock.number += 1
                world.pair.run(world.pair.attempt(name))

        return run

    with pytest.warns(OneWayWarning):
        way = explore_interleavings(
            [each_later("one"), each_later("two"), each_later("three")],
            oracle=nothing_is_skipped,
            world=lambda: MarkWorld("window", begun=True, on_gap="fail"),
            only="0:run 1,11:run 2,37:run 1",
        )
    assert way.tried == 1


class OwnedWorld(CrashWorld):
    """Two Dags, or two partitions, that load one asset at once."""

    def __init__(self, *, partitions: bool = False, **options: Any) -> None:
        super().__init__(airflow=World(), clock=Counter(5))
        self.airflow.know([NUMBERS])
        self.loaded: list[tuple[str, int]] = []
        self.refused: list[str] = []
        self.partitions, self.options = partitions, options
        self.watch(self.airflow)

    def load(self, name: str) -> None:
        """What one run of a Dag of this name loads."""
        dag_id = "dag" if self.partitions else f"dag_{name}"
        index = int(name == "b") if self.partitions else -1
        attempt = task_context(assets=[NUMBERS], world=self.airflow, dag_id=dag_id, map_index=index)
        mark = numbers(self.clock, **self.options)
        try:
            with mark.open(attempt.context, partition=name if self.partitions else None) as window:
                for number in range(window.start, window.end):
                    with self.effect(f"{name} loads {number}"):
                        self.loaded.append((name, number))
        except WatermarkMismatchError as error:
            assert f"'dag_{name}'" in str(error)
            self.refused.append(name)


def dag_a(world: OwnedWorld) -> None:
    world.load("a")


def dag_b(world: OwnedWorld) -> None:
    world.load("b")


def one_moves_the_mark_and_the_other_says_so(outcome: ExplorationOutcome[OwnedWorld]) -> None:
    """Or both have loaded the same window, as they began at once: none has skipped a row."""
    world = outcome.world
    for name in set("ab") - set(world.refused):
        assert sorted(number for one, number in world.loaded if one == name) == list(range(5))
    assert len(world.refused) <= 1
    mark: Any = world.airflow.assets["numbers"].rows.values_by_key()[MARK]
    assert (mark["at"], mark["owner"]["dag_id"][-1] in set("ab") - set(world.refused)) == ("5", True)


def test_of_two_dags_on_one_asset_at_once_none_skips_a_row() -> None:
    report = explore_interleavings(
        [dag_a, dag_b], oracle=one_moves_the_mark_and_the_other_says_so, world=OwnedWorld, max_ways=150
    )
    assert report.interleavings > 150
    print(report)


def both_have_loaded_their_own(outcome: ExplorationOutcome[OwnedWorld]) -> None:
    assert sorted(outcome.world.loaded) == [(name, number) for name in "ab" for number in range(5)]


def test_the_instances_of_a_mapped_task_share_nothing() -> None:
    report = explore_interleavings(
        [dag_a, dag_b],
        oracle=both_have_loaded_their_own,
        world=lambda: OwnedWorld(partitions=True),
        max_ways=150,
    )
    assert report.interleavings > 150
    print(report)


# --- values in a database of one's own ----------------------------------------------------------------------------

SCOPE = TaskScope(dag_id="dag", run_id="run", task_id="task", map_index=-1)


class SqlWorld(CrashWorld):
    """Two clients of one file, as two workers have."""

    def __init__(self, url: str) -> None:
        super().__init__(airflow=World())
        self.backends = [SqlStoreBackend(url, inline_bytes=0, patience=2) for _ in range(2)]
        for backend in self.backends:
            backend.clear(SCOPE)

    def close(self) -> None:
        for backend in self.backends:
            backend.close()


@pytest.fixture
def sql_world(tmp_path: Path) -> Iterator[Callable[[], SqlWorld]]:
    made: list[SqlWorld] = []

    def make() -> SqlWorld:
        for world in made:
            world.close()
        made[:] = [SqlWorld(f"sqlite:///{tmp_path}/state.db")]
        return made[0]

    yield make
    for world in made:
        world.close()


def adds(client: int) -> Callable[[SqlWorld], None]:
    """One to a number, as docs/backends.md has it: by its version."""

    def attempt(world: SqlWorld) -> None:
        store: Any = SqlStateStore(world.backends[client], SCOPE)
        while True:
            with world.effect("history"):
                seen = store.history("n")
            version, value = (seen[0].version, seen[0].value) if seen else (0, 0)
            with world.effect("compare and set"):
                written = store.compare_and_set("n", version, value + 1)
            if written is not None:
                return

    return attempt


def test_of_two_that_compare_and_set_none_is_lost(sql_world: Callable[[], SqlWorld]) -> None:
    def both(outcome: ExplorationOutcome[SqlWorld]) -> None:
        assert outcome.world.backends[0].get(SCOPE, "n") == "2"

    report = explore_interleavings([adds(0), adds(1)], oracle=both, world=sql_world)
    assert report.interleavings > 40


def test_two_that_set_many_leave_the_texts_of_one(sql_world: Callable[[], SqlWorld]) -> None:
    def sets(client: int) -> Callable[[SqlWorld], None]:
        def attempt(world: SqlWorld) -> None:
            for number in range(2):
                with world.effect("set many"):
                    world.backends[client].set_many(SCOPE, dict.fromkeys(("a", "b"), f"{client}{number}"))

        return attempt

    def of_one(outcome: ExplorationOutcome[SqlWorld]) -> None:
        backend = outcome.world.backends[0]
        assert backend.get(SCOPE, "a") == backend.get(SCOPE, "b") != "00"

    explore_interleavings([sets(0), sets(1)], oracle=of_one, world=sql_world)


def writes_a_value(world: SqlWorld) -> str:
    """As a worker does: the value here, and then its reference in Airflow, which refuses that of a replaced attempt."""
    with task_context(world=world.airflow) as running:
        client = world.backends[(running.ti.try_number - 1) % 2]
        for part in range(2):
            with world.effect("value"):
                value = f"try {running.ti.try_number} part {part}"
                reference = client.serialize_task_state_store_to_ref(value=value, key="big", scope=SCOPE)
            running.task_store.set("big", reference)
        with world.effect("read"):
            return str(client.deserialize_task_state_store_from_ref(str(running.task_store.get("big"))))


def test_a_replaced_attempt_that_writes_late_does_not_write_over_its_successor(
    sql_world: Callable[[], SqlWorld],
) -> None:
    def the_newest(outcome: FreezeOutcome[SqlWorld]) -> None:
        assert outcome.result == f"try {1 if outcome.clean is None else 2} part 1"
        stored = str(outcome.world.airflow.instances["dag", "run-1", "task", -1].rows.values_by_key()["big"])
        assert outcome.world.backends[0].deserialize_task_state_store_from_ref(stored) == outcome.result

    report = explore_freezes(writes_a_value, oracle=the_newest, world=sql_world, switches=3)
    assert report.interleavings > 200
    print(report)


def test_two_scripts_of_one_scope_keep_what_either_wrote_last(sql_world: Callable[[], SqlWorld]) -> None:
    def script(client: int) -> Callable[[SqlWorld], None]:
        def attempt(world: SqlWorld) -> None:
            store = SqlStateStore(world.backends[client], "nightly")
            for page in range(2):
                with world.effect(f"set {client}{page}"):
                    store.set("page", f"{client}{page}")

        return attempt

    def the_last(outcome: ExplorationOutcome[SqlWorld]) -> None:
        last = outcome.effects[-1].what.partition(" ")[2]
        assert SqlStateStore(outcome.world.backends[1], "nightly").get("page") == last

    explore_interleavings([script(0), script(1)], oracle=the_last, world=sql_world)
