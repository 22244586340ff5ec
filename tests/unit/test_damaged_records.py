"""Records that no attempt wrote, over every surface: an error by name, or all that is due is done.

`DAMAGED_RECORDS` is how many inputs each world is given; all that there are, where it is larger.
"""

from __future__ import annotations

import copy
import json
import logging
import os
import random
import traceback
from collections import Counter as Tally
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from airflow_resume import PollPolicy, ResumePolicy, run_job
from airflow_resume.errors import ResumeError
from airflow_resume.store import MemoryStore
from airflow_resume.testing import FakeJobs, task_context
from airflow_resume.testing.fakes.rows import StoredRow
from tests.support.loops.interrupted_loops import SOURCES, left_by, loop_of
from tests.support.records.damage import mixtures, pairs, singles
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

BUDGET = int(os.environ.get("DAMAGED_RECORDS", "30"))
LOOP, JOB = "resume.loop.l", "resume.job.job"
TRIED: Tally[str] = Tally()
Damage = list[tuple[tuple[Any, ...], Any]]


@dataclass
class Found:
    """What became of the inputs of one world."""

    inputs: int = 0
    errors: Tally[str] = field(default_factory=Tally)
    unnamed: dict[str, Damage] = field(default_factory=dict)
    silent: list[Damage] = field(default_factory=list)


def damaged(records: Sequence[Any], missing: Sequence[str]) -> Iterator[tuple[Damage, Any]]:
    """Single damages, pairs of them, and mixtures of two records, as many as there is a budget for."""
    chance = random.Random(7)  # noqa: S311  the same inputs every time
    ones = [one for record in records for one in singles(record, missing)]
    chance.shuffle(ones)
    yield from ones[:BUDGET]
    yield from pairs(records[0], missing, min(BUDGET, 5 * len(ones)) // 3, chance)
    yield from mixtures(records, BUDGET // 6, chance)


def explore(records: Sequence[Any], missing: Sequence[str], steering: set[str], run: Callable[[Any], bool]) -> Found:
    """Give `run` each damaged record.

    Args:
        records: that attempts wrote.
        missing: fields that they leave out.
        steering: fields that say what is done: a valid value there is a person's own decision.
        run: answers whether all that is due was done.
    """
    found = Found()
    for damage, record in damaged(records, missing):
        found.inputs += 1
        is_steered = any(not path or path[0] in steering for path, _ in damage)
        try:
            is_right = run(copy.deepcopy(record))
        except ResumeError as error:
            found.errors[type(error).__name__] += 1
            continue
        except Exception as error:  # noqa: BLE001  which is what is looked for
            place = traceback.extract_tb(error.__traceback__)[-1]
            if not (
                is_steered and place.filename.endswith("interrupted_loops.py")
            ):  # the author's own code takes no such token
                what = f"{type(error).__name__} at {Path(place.filename).name}:{place.lineno}: {str(error)[:80]}"
                found.unnamed.setdefault(what, damage)
            continue
        if not (is_right or is_steered):
            found.silent.append(damage)
    return found


def put_row(store: Any, key: str, value: Any) -> None:
    """In the database, as who may write anything there does."""
    store.rows[key] = StoredRow(text=json.dumps(value))


def judge(name: str, found: Found) -> None:
    """Print the counts; nothing unnamed and nothing silent is right."""
    TRIED["inputs"] += found.inputs
    TRIED["unnamed"] += len(found.unnamed)
    print(f"so far {TRIED['inputs']} inputs, {TRIED['unnamed']} unnamed exceptions")
    print(
        f"{name}: {found.inputs} inputs, {sum(found.errors.values())} refused,"
        f" {len(found.unnamed)} unnamed, {len(found.silent)} silent"
    )
    assert not found.unnamed, "\n".join(f"{what} <- {_short(damage)}" for what, damage in found.unnamed.items())
    assert not found.silent, "\n".join(map(_short, found.silent[:20]))


def _short(damage: Damage) -> str:
    return "; ".join(f"{'.'.join(map(str, path))}={str(value)[:50]!r}" for path, value in damage)


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)


# --- loops ----------------------------------------------------------------------------------------------------

OF_LOOPS = (
    "pos_at",
    "ahead",
    "state",
    "skips",
    "page_start",
    "seen",
    "short",
    "inner",
    "rate",
    "eta",
    "inner_at",
    "by_hand",
)
STEERS_LOOPS = {"pos", "done"}


@pytest.mark.parametrize("name", SOURCES)
def test_loops(name: str) -> None:
    whole = [repr(each) for each in loop_of(name, MemoryStore())]

    def run(record: Any) -> bool:
        store = MemoryStore()
        store.values[LOOP] = record
        done = 2 + (isinstance(record, dict) and record.get("pos") == records[1].get("pos"))
        came = [repr(each) for each in islice(loop_of(name, store), 50)]
        return not Tally(whole) - Tally(whole[:done] + came)

    left = left_by(name)
    records: list[Any] = [left.values[LOOP]]
    with suppress(ZeroDivisionError):
        for number, _ in enumerate(loop_of(name, left, durability="sync")):
            _ = 1 // (1 - number)
    records.append(left.values[LOOP])
    judge(name, explore(records, OF_LOOPS, STEERS_LOOPS, run))


# --- jobs -----------------------------------------------------------------------------------------------------

OF_JOBS = ("stray", "lost", "error", "result", "status", "id", "submitted_at", "fingerprint", "waiting", "by_hand")
STEERS_JOBS = {"phase", "id", "status", "token", "result"}
AT_ONCE = PollPolicy(interval=timedelta(0), max_interval=timedelta(0))
POLICY = ResumePolicy(poll=AT_ONCE, unknown_timeout=timedelta(0), confirm_gone=timedelta(0))
GIVES_UP = ResumePolicy(poll=PollPolicy(interval=timedelta(0), max_interval=timedelta(0), timeout=timedelta(0)))


def left_by_job(kind: str) -> tuple[FakeJobs, Any]:
    """An attempt that gave up waiting, one that has succeeded, and one that never learned the id of its job."""
    jobs = FakeJobs(scripts=[["RUNNING", "RUNNING", "SUCCEEDED"]], results=lambda _: (1, {"~dict": 2}))
    attempt = task_context()
    if kind == "intent":
        jobs.fail_next("submit", ConnectionError("lost"), applied=True)
    with attempt, suppress(Exception):
        run_job(jobs, policy=POLICY if kind == "terminal" else GIVES_UP)
    return jobs, attempt


@pytest.mark.parametrize("kind", ["intent", "submitted", "terminal"])
def test_jobs(kind: str) -> None:
    def run(record: Any) -> bool:
        jobs, first = left_by_job(kind)
        put_row(first.task_store, JOB, record)
        with first.retry():
            run_job(jobs, policy=POLICY)
        return jobs.most_alive == 1

    _, attempt = left_by_job(kind)
    record = attempt.task_store.values[JOB]
    assert record["phase"] == kind
    judge(f"jobs, {kind}", explore([record], OF_JOBS, STEERS_JOBS, run))


# --- watermarks -----------------------------------------------------------------------------------------------

OF_MARKS = ("pending", "ties", "untold", "taken_up", "first", "shared", "lag_seconds", "by_hand")
STEERS_MARKS = {"at", "ties", "islands", "outbox"}
OF_WINDOWS = ("at", "limit", "reset", "ties", "done", "reached")
STEERS_WINDOWS = {"from", "done", "ties", "reached"}
TABLE = range(40)


class Place:
    """Two runs of one watermark, the second of which broke down, and what is loaded."""

    def __init__(self, *, observed: bool) -> None:
        self.clock, self.loaded = Counter(10), set[int]()
        self.mark = numbers() if observed else numbers(self.clock)
        self.attempt = a_try()
        load(self.attempt, self.mark, self.body)
        self.clock.number = 20
        self.attempt = self.attempt.next_run()
        break_down(self.attempt, self.mark, lambda window: self.body(window, 3))

    def body(self, window: Any, most: int | None = None) -> None:
        source = [row for row in rows(*TABLE) if row["n"] < self.clock.number]
        self.loaded |= {row["n"] for row in islice(window.track(source, "n"), most)}

    def goes_on(self) -> bool:
        """Whether the retry and the next run leave nothing before the mark unloaded."""
        again = self.attempt.retry()
        load(again, self.mark, self.body)
        self.clock.number = 30
        load(again.next_run(), self.mark, self.body)
        at = int(self.attempt.asset_stores[NUMBERS].values[MARK]["at"])
        return {number for number in TABLE if number < min(at, 30)} <= self.loaded


@pytest.mark.parametrize("observed", [True, False])
def test_marks(observed: bool) -> None:  # noqa: FBT001
    def run(record: Any) -> bool:
        place = Place(observed=observed)
        put_row(place.attempt.asset_stores[NUMBERS], MARK, record)
        return place.goes_on()

    place = Place(observed=observed)
    records = [copy.deepcopy(place.attempt.asset_stores[NUMBERS].values[MARK])]
    place.goes_on()
    records.append(place.attempt.asset_stores[NUMBERS].values[MARK])
    judge(f"marks, observed={observed}", explore(records, OF_MARKS, STEERS_MARKS, run))


@pytest.mark.parametrize("observed", [True, False])
def test_windows(observed: bool) -> None:  # noqa: FBT001
    def run(record: Any) -> bool:
        place = Place(observed=observed)
        put_row(place.attempt.task_store, WINDOW, record)
        return place.goes_on()

    place = Place(observed=observed)
    records = [copy.deepcopy(place.attempt.task_store.values[WINDOW])]
    place.goes_on()
    records.append(place.attempt.task_store.values[WINDOW])
    judge(f"windows, observed={observed}", explore(records, OF_WINDOWS, STEERS_WINDOWS, run))
