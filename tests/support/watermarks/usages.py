"""Every way to use a watermark, as an attempt for the crash explorer: two runs, of one hour each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from airflow.sdk import Asset

from airflow_resume import watermark
from airflow_resume.errors import WatermarkConflictError
from airflow_resume.testing import CrashWorld, TaskAttempt, World, task_context
from airflow_resume.testing.crashes.outcome import ExplorationOutcome
from airflow_resume.testing.oracles import each_effect_at_least_once, mark_never_decreases, same_result
from airflow_resume.watermarks import Cursor, LoadedWindow, Watermark, Window, windows_from_events
from airflow_resume.watermarks import Outcome as WindowOutcome
from tests.support.watermarks.whole_numbers import MARK, NUMBERS, Counter, numbers, rows

FIRST, SECOND = 4, 7


def a_world(key: str = MARK) -> CrashWorld:
    """A world whose warehouse is overwritten by number, so that it holds every number once."""
    world = CrashWorld(airflow=World(), clock=Counter(FIRST), loaded=set(), loaded_then=[])
    world.airflow.know([NUMBERS])
    kept = world.airflow.assets["numbers"].rows

    def read_mark() -> Any:
        world.loaded_then.append(set(world.loaded))
        record = kept.values_by_key().get(key)
        return None if record is None else _number(record["at"])

    world.follow(read_mark)
    return world


def _number(kept: Any) -> int:
    return int(kept["upto"] if isinstance(kept, dict) else kept)


def put(world: CrashWorld, numbers: Sequence[int]) -> None:
    """Load the numbers, with one effect for each."""
    for number in numbers:
        with world.effect(f"load {number}"):
            world.loaded.add(number)


def everything_before_the_mark_is_loaded(outcome: ExplorationOutcome[CrashWorld]) -> None:
    """Whenever the mark was read, nothing before it was missing."""
    for mark, loaded in zip(outcome.marks, outcome.world.loaded_then, strict=True):
        missing = set(range(mark or 0)) - loaded
        assert not missing, f"the mark is at {mark}, and {missing} are not loaded"


def everything_is_loaded(outcome: ExplorationOutcome[CrashWorld]) -> None:
    """All numbers up to the second hour, and the mark says so, or is at the last of them."""
    assert outcome.result == list(range(SECOND)), outcome.result
    assert outcome.marks[-1] in {SECOND, SECOND - 1}, outcome.marks[-1]


ORACLES = [
    everything_is_loaded,
    everything_before_the_mark_is_loaded,
    each_effect_at_least_once,
    mark_never_decreases,
    same_result,
]


@dataclass(frozen=True, kw_only=True)
class Way:
    """An attempt for the explorer: the runs one after the other, starting with the first that is not finished."""

    attempt: Callable[[CrashWorld], Any]
    world: Callable[[], CrashWorld] = a_world
    oracles: Sequence[Any] = field(default_factory=lambda: ORACLES)
    retry_on: tuple[type[Exception], ...] = ()


def _both_hours(run: Callable[[CrashWorld, TaskAttempt], None]) -> Callable[[CrashWorld], list[int]]:
    def attempt(world: CrashWorld) -> list[int]:
        while True:
            trying = task_context(assets=[NUMBERS], world=world.airflow, run_id=f"run {world.clock.number}")
            run(world, trying)
            with world.effect("asset event"):  # so that it dies before it, and after it
                trying.succeed()
            if world.clock.number == SECOND:
                return sorted(world.loaded)
            world.clock.number = SECOND

    attempt.__name__ = run.__name__
    return attempt


def _given_up(run: Callable[[CrashWorld, TaskAttempt], None]) -> Callable[[CrashWorld], list[int]]:
    """A run that dies has failed for good: each attempt is that of another run, and there is one more at the end."""

    def attempt(world: CrashWorld) -> list[int]:
        for number in (FIRST, SECOND, SECOND):
            world.clock.number = max(number, world.clock.number)
            world.runs += 1
            for record in world.airflow.instances.values():
                record.state = "failed" if record.state == "running" else record.state
            trying = task_context(assets=[NUMBERS], world=world.airflow, run_id=f"run {world.runs}")
            run(world, trying)
            with world.effect("asset event"):
                trying.succeed()
        return sorted(world.loaded)

    attempt.__name__ = f"{run.__name__}_given_up"
    return attempt


def _world_of_many_runs() -> CrashWorld:
    world = a_world()
    world.runs, world.xcoms = 0, {}
    return world


def _opened(
    body: Callable[[CrashWorld, Window[Any]], None], mark_of: Callable[[CrashWorld], Watermark[Any]]
) -> Callable[[CrashWorld, TaskAttempt], None]:
    def run(world: CrashWorld, attempt: TaskAttempt) -> None:
        with mark_of(world).open(attempt.context) as window:
            body(world, window)

    run.__name__ = body.__name__
    return run


def in_windows(world: CrashWorld, window: Window[Any]) -> None:
    put(world, [] if window.empty else range(window.start, window.end))


def observing(world: CrashWorld, window: Window[Any]) -> None:
    given = rows(*range(window.start, world.clock.number))
    for row in window.track(given, "n", unique="n"):
        put(world, [row["n"]])


def observing_ids(world: CrashWorld, window: Window[Any]) -> None:
    given = rows(*range(window.start, world.clock.number))
    for row in window.track(given, "n", unique=True):
        put(world, [row["n"]])


def saying(world: CrashWorld, window: Window[Any]) -> None:
    put(world, range(window.start, world.clock.number))
    window.advance(world.clock.number)


def by_token(world: CrashWorld, window: Window[Any]) -> None:
    put(world, range(window.start["upto"], world.clock.number))
    window.advance({"upto": world.clock.number})


def in_slices(world: CrashWorld, window: Window[Any]) -> None:
    for piece in window.split(2):
        put(world, range(piece.start, piece.end))


def with_something_failing(world: CrashWorld, window: Window[Any]) -> None:
    """The number 2 fails in the first hour."""
    wanted = [] if window.empty else range(window.start, window.end)
    put(world, [number for number in wanted if number != 2 or world.clock.number == SECOND])
    if world.clock.number == FIRST:
        window.fail_from(2)


def _windowed(**options: Any) -> Callable[[CrashWorld], Watermark[Any]]:
    return lambda world: numbers(world.clock, **options)


def _clockless(**options: Any) -> Callable[[CrashWorld], Watermark[Any]]:
    return lambda _: numbers(**options)


def in_two_tasks(world: CrashWorld, attempt: TaskAttempt) -> None:
    """The attempt is that of a task which commits; the task that loads comes before it, and its XCom is kept."""
    run = attempt.ti.run_id
    mark = numbers(world.clock)
    if run not in world.xcoms:
        loading = task_context(assets=[NUMBERS], world=world.airflow, run_id=run, task_id="load")
        window = mark.begin(loading.context)
        in_windows(world, window)
        world.xcoms[run] = window.stage()
    mark.commit(attempt.context, world.xcoms[run])


def _world_with_xcoms() -> CrashWorld:
    world = a_world()
    world.xcoms = {}
    return world


def as_a_conf_says(world: CrashWorld, attempt: TaskAttempt) -> None:
    """The window of the second hour is set by a person and reaches too far."""
    if world.clock.number == SECOND:
        wish = {"from": FIRST - 1, "to": SECOND + 9, "commit": True}
        attempt.context["dag_run"].conf = {"watermark": {"watermark": wish}}
    with numbers(world.clock).open(attempt.context) as window:
        put(world, range(window.start, min(window.end, SECOND)))


def after_a_reset(world: CrashWorld, attempt: TaskAttempt) -> None:
    """In the second hour a program sets the mark back first; what is then loaded, is loaded anew."""
    if world.clock.number == SECOND and not world.has_reset:
        numbers(world.clock).reset(task_context(assets=[NUMBERS], world=world.airflow, run_id="reset").context)
        world.has_reset = True
    with numbers(world.clock).open(attempt.context) as window:
        if world.clock.number == SECOND:
            assert window.start == 0
            # Once the mark has moved, a later attempt starts nothing over.
            assert window.is_reset or window.is_retry or window.is_replay
        put(world, range(window.start, window.end))


def _world_to_reset() -> CrashWorld:
    world = a_world()
    world.has_reset = False
    return world


def in_two_partitions(world: CrashWorld, attempt: TaskAttempt) -> None:
    """Odd and even numbers; the oracle follows the mark of the odd ones."""
    mark = numbers(world.clock)
    for part in (0, 1):
        with mark.open(attempt.context, partition=part) as window:
            put(world, [number for number in range(window.start, window.end) if number % 2 == part])


def odd_numbers_are_loaded(outcome: ExplorationOutcome[CrashWorld]) -> None:
    for mark, loaded in zip(outcome.marks, outcome.world.loaded_then, strict=True):
        missing = set(range(1, mark or 0, 2)) - loaded
        assert not missing, f"the mark is at {mark}, and {missing} are not loaded"


OTHERS = Asset("others")


def of_two_assets(world: CrashWorld, _: TaskAttempt) -> None:
    """One task loads two assets with watermarks of the same name; the oracle follows the mark of the first."""
    run_id = f"run {world.clock.number}"
    attempt = task_context(assets=[NUMBERS, OTHERS], world=world.airflow, run_id=run_id)
    with numbers(world.clock).open(attempt.context) as window:
        in_windows(world, window)
    other = watermark(OTHERS, initial=1, now=world.clock)
    with other.open(attempt.context) as window:
        for number in [] if window.empty else range(window.start, window.end):
            with world.effect(f"load other {number}"):
                world.others.add(number)
    attempt.succeed()


def _world_of_two_assets() -> CrashWorld:
    world = a_world()
    world.airflow.know([OTHERS])
    world.others = set()
    return world


def both_assets_are_loaded(outcome: ExplorationOutcome[CrashWorld]) -> None:
    world = outcome.world
    assert world.others == set(range(1, SECOND)), world.others
    rows_of = {name: asset.rows.values_by_key()[MARK]["at"] for name, asset in world.airflow.assets.items()}
    assert rows_of == {"numbers": str(SECOND), "others": str(SECOND)}, rows_of


def each_number_is_told_once(outcome: ExplorationOutcome[CrashWorld]) -> None:
    """Whenever an attempt died: by one window that is new, however often its task was cleared or tried again."""
    spans = [(w.start, w.end, w.bounds) for w in _told(outcome) if w.outcome is not WindowOutcome.NOOP]
    told = [number for span in spans for number in range(SECOND) if _spans(span, number)]
    assert sorted(told) == list(range(SECOND)), spans


def each_number_is_told(outcome: ExplorationOutcome[CrashWorld]) -> None:
    """At least once, by windows that are new."""
    spans = [(w.start, w.end, w.bounds) for w in _told(outcome) if w.outcome is not WindowOutcome.NOOP]
    told = {number for span in spans for number in range(SECOND) if _spans(span, number)}
    assert told == set(range(SECOND)), spans


def _told(outcome: ExplorationOutcome[CrashWorld]) -> list[LoadedWindow]:
    """By all events, as each triggers a run of the consumer."""
    events = [
        SimpleNamespace(extra=event.extra, source_run_id=event.source_run_id, source_map_index=event.source_map_index)
        for event in outcome.world.airflow.events
    ]
    return [
        window
        for event in events
        for window in windows_from_events({"triggering_asset_events": {NUMBERS: [event]}}, NUMBERS)
    ]


def _spans(span: tuple[int, int, str], number: int) -> bool:
    start, end, bounds = span
    is_after = number > start if bounds[0] == "(" else number >= start
    return is_after and (number <= end if bounds[1] == "]" else number < end)


EVERY_WAY: dict[str, Way] = {
    "window": Way(attempt=_both_hours(_opened(in_windows, _windowed()))),
    "window, lookback": Way(attempt=_both_hours(_opened(in_windows, _windowed(lookback=2)))),
    "observed": Way(attempt=_both_hours(_opened(observing, _clockless()))),
    "observed with a ceiling": Way(attempt=_both_hours(_opened(observing, _windowed(advance="observed")))),
    "explicit": Way(attempt=_both_hours(_opened(saying, _clockless(advance="explicit")))),
    "token": Way(
        attempt=_both_hours(_opened(by_token, _clockless(initial={"upto": 0}, cursor=Cursor.token()))),
        retry_on=(WatermarkConflictError,),
    ),
    "split": Way(attempt=_both_hours(_opened(in_slices, _windowed()))),
    "something fails": Way(attempt=_both_hours(_opened(with_something_failing, _windowed()))),
    "staged": Way(attempt=_both_hours(in_two_tasks), world=_world_with_xcoms),
    "conf": Way(attempt=_both_hours(as_a_conf_says)),
    "reset": Way(
        attempt=_both_hours(after_a_reset),
        world=_world_to_reset,
        oracles=[everything_is_loaded, everything_before_the_mark_is_loaded, each_effect_at_least_once, same_result],
    ),
    "partitions": Way(
        attempt=_both_hours(in_two_partitions),
        world=lambda: a_world(f"{MARK}~~~j1"),
        oracles=[
            everything_is_loaded,
            odd_numbers_are_loaded,
            each_effect_at_least_once,
            mark_never_decreases,
            same_result,
        ],
    ),
    "two assets": Way(
        attempt=_both_hours(of_two_assets),
        world=_world_of_two_assets,
        oracles=[*ORACLES, both_assets_are_loaded],
    ),
    "consumed": Way(
        attempt=_both_hours(_opened(in_windows, _windowed())), oracles=[*ORACLES, each_number_is_told_once]
    ),
    "consumed, observed": Way(
        attempt=_both_hours(_opened(observing_ids, _clockless())), oracles=[*ORACLES, each_number_is_told_once]
    ),
    "consumed, split": Way(
        attempt=_both_hours(_opened(in_slices, _windowed())), oracles=[*ORACLES, each_number_is_told_once]
    ),
    "consumed, staged": Way(
        attempt=_both_hours(in_two_tasks),
        world=_world_with_xcoms,
        oracles=[*ORACLES, each_number_is_told_once],
    ),
    "consumed, lookback": Way(
        attempt=_both_hours(_opened(in_windows, _windowed(lookback=2))), oracles=[*ORACLES, each_number_is_told]
    ),
    "consumed, reset": Way(
        attempt=_both_hours(after_a_reset),
        world=_world_to_reset,
        oracles=[everything_is_loaded, each_number_is_told],
    ),
    **{
        f"consumed, given up, {name}": Way(
            attempt=_given_up(run),
            world=_world_of_many_runs,
            oracles=[everything_is_loaded, everything_before_the_mark_is_loaded, each_number_is_told_once],
        )
        for name, run in {
            "window": _opened(in_windows, _windowed()),
            "observed": _opened(observing_ids, _clockless()),
            "split": _opened(in_slices, _windowed()),
            "staged": in_two_tasks,
        }.items()
    },
}
