"""A record is read strictly: what only looks like a number, a flag, a time or a token is refused, nothing touched."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from airflow_resume import PollPolicy, ResumePolicy, checkpoint, run_job
from airflow_resume.errors import UnreadableRecordError
from airflow_resume.loops import TimeSlices
from airflow_resume.store import MemoryStore
from airflow_resume.testing import FakeJobs, TaskAttempt, task_context
from tests.support.loops.interrupted_loops import SOURCES, left_by, loop_of
from tests.support.records.damage import put
from tests.support.watermarks.whole_numbers import (
    MARK,
    NUMBERS,
    WINDOW,
    Counter,
    a_try,
    break_down,
    load,
    numbers,
    rows,
)

LOOP, JOB = "resume.loop.l", "resume.job.job"
NO_NUMBERS: list[Any] = [True, False, "1", "-0", 1.0, -2, 2**64, "x", [], {}]
NO_FLAGS: list[Any] = [0, 1, 1.0, "true", "yes", "", [], {}]
NO_TIMES: list[Any] = [0, 1.5, True, "2", "2026-01-01", "2026-01-01T00:00:00", "now", {}]

A_TIME = "2026-01-01T00:00:00Z"


def at_each(path: str, values: list[Any]) -> Iterator[Any]:
    for value in values:
        yield pytest.param(tuple(int(p) if p.isdigit() else p for p in path.split(".")), value, id=f"{path}={value!r}")


def cases(**fields: list[Any]) -> list[Any]:
    """By the path of a field, with `__` for a dot."""
    return [case for path, values in fields.items() for case in at_each(path.replace("__", "."), values)]


# --- jobs -----------------------------------------------------------------------------------------------------

GIVES_UP = ResumePolicy(poll=PollPolicy(interval=timedelta(0), max_interval=timedelta(0), timeout=timedelta(0)))
NO_TOKENS: list[Any] = ["", "x", "f" * 15, "f" * 257, "f" * 31 + " ", "f" * 31 + "\n", "f" * 31 + "é", 7, None, {}]
DEEP: Any = 1
for _ in range(80):
    DEEP = [DEEP]

NOT_BY_HAND: list[Any] = [
    "x",
    7,
    [],
    {},
    *({"at": moment, "who": "ana", "what": "set"} for moment in NO_TIMES),
    *({"at": A_TIME, "who": "ana", "what": "set", "start_over": flag} for flag in [*NO_FLAGS, False]),
    *({"at": A_TIME, "who": "ana", "what": "set", "used": flag} for flag in [*NO_FLAGS, False]),
    {"at": A_TIME, "who": 7, "what": "set"},
]

OF_JOBS = cases(
    by_hand=NOT_BY_HAND,
    v=[True, "1", 1.0, 0],
    token=NO_TOKENS,
    id=[math.nan, math.inf, -math.inf, 2**64, "\ud800", {"a": [math.nan]}, DEEP],
    generation=[*NO_NUMBERS, 0],
    epoch=["x", 1, None, []],
    epoch__max_tries=NO_NUMBERS,
    epoch__clear_number=[*NO_NUMBERS, -1],
    epoch__try=NO_NUMBERS,
    epoch__run_started=["x", "2026-01-01T00:00:00", 7, ""],
    claim__try=NO_NUMBERS,
    claim__at=NO_TIMES,
    submitted_at=NO_TIMES,
    waiting=[
        "x",
        7,
        [],
        {},
        *({"try": number, "since": A_TIME} for number in NO_NUMBERS),
        *({"try": 1, "since": moment} for moment in NO_TIMES),
        *({"try": 1, "since": A_TIME, "unknown_since": moment} for moment in NO_TIMES),
        *({"try": 1, "since": A_TIME, "unanswered": number} for number in NO_NUMBERS),
        *({"try": 1, "since": A_TIME, "own": flag} for flag in NO_FLAGS),
    ],
    stray=NO_FLAGS,
    lost=NO_FLAGS,
    phase=["intent", "x", 1],
    result=[{"value": 1}, 7],
    history=[[{"generation": 1, "token": "t", "try": 1, "reason": ""}], [{"generation": "0"}], "x"],
    extra=[math.nan, {"deep": [math.inf]}],
)


@pytest.mark.parametrize(("path", "value"), OF_JOBS)
def test_jobs(path: tuple[Any, ...], value: Any) -> None:
    jobs, store = FakeJobs(scripts=[["RUNNING"] * 9]), MemoryStore()
    with pytest.raises(Exception, match="lives on"):
        run_job(jobs, policy=GIVES_UP, store=store)
    store.values[JOB] = put(store.values[JOB], path, value)
    before, events = copy.deepcopy(store.values), list(jobs.events)
    with pytest.raises(UnreadableRecordError, match=JOB):
        run_job(jobs, policy=GIVES_UP, store=store)
    assert repr(store.values) == repr(before)
    assert jobs.events == events


def test_a_job_that_has_succeeded_has_an_id() -> None:
    jobs, store = FakeJobs(), MemoryStore()
    run_job(jobs, store=store)
    record: Any = store.values[JOB]
    del record["id"]
    with pytest.raises(UnreadableRecordError, match="has an id"):
        run_job(jobs, store=store)
    assert len(jobs.jobs) == 1


# --- loops ----------------------------------------------------------------------------------------------------

RUNS: list[Any] = [
    [1],
    [1, 0],
    [0, 1],
    ["-0", 1],
    [False, 1],
    [1, True],
    [1, 1.0],
    [1, -1],
    [1, 10**9],
    [1, 1] * 3_000,
    "11",
    {},
]
OF_LOOPS = cases(
    by_hand=NOT_BY_HAND,
    done=[*NO_FLAGS, True],
    n=NO_NUMBERS,
    total=NO_NUMBERS,
    skipped=NO_NUMBERS,
    at__try=NO_NUMBERS,
    at__opens=[*NO_NUMBERS, 0],
    at__stalls=NO_NUMBERS,
    at__left=NO_FLAGS,
    sink=NO_FLAGS,
    origin=[1, True],
    at__epoch__clear_number=NO_NUMBERS,
    t0=NO_TIMES,
    ts=NO_TIMES,
    pos_at=NO_TIMES,
    rate=[True, "1", math.nan, math.inf, -1.0],
    pos=[math.nan, True, "2", -1, 2.0],
    state__a=[math.nan, math.inf, 2**64],
    page_start=[{"skipped": "1"}, {"skipped": True}, {"skipped": -1}],
    inner=[{"i": {"kind": "x", "done": 1}}, {"i": {"kind": "x", "n": "2"}}],
    seen=[{"of": True}, {"of": -1}, {"of": 6, "moved": 1}],
    ahead=[
        {"by": 1, "ids": "zzzzzzzz"},
        {"by": 1, "ids": "0123456"},
        {"by": 1, "ids": "01234567" * 2},
        {"by": 1, "ids": ["01234567"]},
        {"by": 1, "ids": "01234567", "runs": [1, 1], "far": 4},
        {"by": 1, "ids": "012345670123456801234569"},  # more than are done
        {"by": 1, "runs": [1, 1], "far": "4"},
        {"by": 1, "runs": [1, 1], "far": 5},
        {"by": 1, "runs": [1, 1]},
        *({"by": 1, "runs": runs, "far": 4} for runs in RUNS),
    ],
)


def left_by_loop() -> MemoryStore:
    store: MemoryStore = left_by("list")
    record: Any = store.values[LOOP]
    record["state"] = {"a": 1}
    assert (record["n"], record["pos"], record["total"]) == (2, 2, 6)
    return store


@pytest.mark.parametrize(("path", "value"), OF_LOOPS)
def test_loops(path: tuple[Any, ...], value: Any) -> None:
    store = left_by_loop()
    store.values[LOOP] = put(store.values[LOOP], path, value)
    before = copy.deepcopy(store.values)
    with pytest.raises(UnreadableRecordError, match=LOOP):
        next(iter(loop_of("list", store)))
    assert repr(store.values) == repr(before)
    assert list(loop_of("list", store, on_unreadable="restart")) == list(range(6))


def test_what_is_done_ahead_and_leads_where_it_says_is_not_done_again() -> None:
    store = left_by_loop()
    store.values[LOOP].update(n=3, ahead={"by": 1, "runs": [1, 1], "far": 4})  # type: ignore[union-attr]
    assert list(loop_of("list", store)) == [2, 4, 5]


@pytest.mark.parametrize(
    "position",
    [
        {},
        {"next": "2026-01-01T02:00:00+00:00"},
        {"end": "2026-01-01T06:00:00+00:00"},
        {"next": "2026-01-01T07:00:00+00:00", "end": "2026-01-01T06:00:00+00:00"},
        {"next": None, "end": None},
        {"next": 2, "end": 6},
    ],
)
def test_slices_of_time(position: Any) -> None:
    store: MemoryStore = left_by("slices")
    store.values[LOOP]["pos"] = position  # type: ignore[call-overload,index]
    with pytest.raises(UnreadableRecordError, match="its pos was changed by hand"):
        next(iter(loop_of("slices", store)))
    assert len(list(loop_of("slices", store, on_unreadable="restart"))) == 6


@pytest.mark.parametrize("name", [name for name in SOURCES if name not in {"state", "function"}])
@pytest.mark.parametrize("flag", ["yes", 1, 0, {}])
def test_the_end_of_pages_is_true_or_false(name: str, flag: Any) -> None:
    store: MemoryStore = left_by(name)
    record: Any = store.values[LOOP]
    if not isinstance(record["pos"], dict) or not {"token", "rows", "page", "offset"} & record["pos"].keys():
        return
    if "index" in record["pos"]:
        record["pos"]["page"]["end"] = flag
    else:
        record["pos"]["end"] = flag
    with pytest.raises(UnreadableRecordError, match="end="):
        next(iter(loop_of(name, store)))


def test_a_loop_that_is_done_is_done_however_its_source_has_changed_since() -> None:
    store, start = MemoryStore(), datetime(2026, 1, 1, tzinfo=timezone.utc)

    def slices(hours: int, upto: int = 6) -> list[Any]:
        source = TimeSlices(start, start + timedelta(hours=upto), timedelta(hours=hours))
        return list(checkpoint(source, name="l", store=store, on_change="resume"))

    with suppress(ZeroDivisionError):
        source = TimeSlices(start, start + timedelta(hours=6), timedelta(hours=2))
        for number, _ in enumerate(checkpoint(source, name="l", store=store, durability="sync")):
            _ = 1 // (1 - number)
    assert len(slices(1)) == 4
    record: Any = store.values[LOOP]
    assert (record["done"], record["n"]) == (True, 5)
    for _ in range(3):
        assert slices(1) == []
        assert slices(1, upto=9) == []


def test_a_list_that_has_grown_since_it_was_done_has_nothing_left() -> None:
    store = MemoryStore()
    for rows_there in (3, 5, 6):
        came = list(checkpoint(range(rows_there), name="l", store=store))
        assert came == ([0, 1, 2] if rows_there == 3 else [])


# --- watermarks -----------------------------------------------------------------------------------------------

NO_EPOCHS: list[Any] = ["", " ", "a b", "x" * 65, "é", 7, None]
OF_MARKS = cases(
    by_hand=NOT_BY_HAND,
    rev=NO_NUMBERS,
    epoch=NO_EPOCHS,
    by__try=NO_NUMBERS,
    shared=[1, 1.0, "true", False],
    lag_seconds=[True, "1", math.nan, math.inf],
    taken_up=[1, False],
    sink=["x", ["x"], [1, 2]],
    islands=[[["30", "20"]], [["30", "30"]], [["0", "40"]], [["30", "35"], ["33", "40"]], [["30"]], "x"],
    first=[math.nan],
)
OF_WINDOWS = cases(
    base_rev=NO_NUMBERS,
    epoch=NO_EPOCHS,
    commits=NO_FLAGS,
    settles=NO_FLAGS,
    sink=[1, False],
    claim__try=NO_NUMBERS,
    claim__at=NO_TIMES,
    to=["5"],
    done=["5", "21"],
)
OF_WINDOWS += [pytest.param(("from",), value, id=f"from={value!r}") for value in ("25", None)]


def left_by_runs() -> TaskAttempt:
    clock = Counter(10)
    mark = numbers(clock)
    attempt = a_try()
    load(attempt, mark)
    clock.number = 20
    attempt = attempt.next_run()
    break_down(attempt, mark, lambda window: list(window.track(rows(*range(10, 13)), "n")))
    return attempt


@pytest.mark.parametrize(("path", "value"), OF_MARKS)
def test_marks(path: tuple[Any, ...], value: Any) -> None:
    attempt = left_by_runs().next_run()
    store = attempt.asset_stores[NUMBERS]
    store.rows[MARK] = store.rows[MARK].__class__(text=json.dumps(put(store.values[MARK], path, value)))
    before = store.rows[MARK]
    with pytest.raises(UnreadableRecordError, match=MARK):
        numbers(Counter(30)).begin(attempt.context)
    assert store.rows[MARK] == before


@pytest.mark.parametrize(("path", "value"), OF_WINDOWS)
def test_windows(path: tuple[Any, ...], value: Any) -> None:
    attempt = left_by_runs().retry()
    store, mark = attempt.task_store, copy.deepcopy(attempt.asset_stores[NUMBERS].values[MARK])
    store.rows[WINDOW] = store.rows[WINDOW].__class__(text=json.dumps(put(store.values[WINDOW], path, value)))
    before = store.rows[WINDOW]
    with pytest.raises(UnreadableRecordError, match=WINDOW):
        numbers(Counter(30)).begin(attempt.context)
    assert store.rows[WINDOW] == before
    assert attempt.asset_stores[NUMBERS].values[MARK] == mark


def test_attempts_of_a_task_write_what_they_read() -> None:
    first = task_context()
    with first:
        list(checkpoint(range(3), name="l"))
    with first.retry():
        assert list(checkpoint(range(3), name="l")) == []
