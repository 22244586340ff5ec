"""One database, used by many processes while it is disturbed; afterwards the logs are checked."""

from __future__ import annotations

import json
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from itertools import chain
from multiprocessing import get_context
from pathlib import Path
from random import Random
from typing import Any

from sqlalchemy.exc import OperationalError

from airflow_resume.backends import SqlStateStore, SqlStoreBackend
from chaos.callers import (
    CLEAN,
    COUNTER,
    KEYS,
    SHARED,
    Log,
    Post,
    call_until_the_end,
    clean_until_the_end,
    number_of,
    scope_of,
)
from chaos.databases import MissedError, Place
from chaos.oracle import Book, Fault, fault_of_counter

PROCESSES = 8
SECONDS_BETWEEN = 0.5
"""Seconds between disturbances, on average."""
KILLS = 5
"""How often a process is killed, in the measure of `Place.disturbances`."""
PATIENCE_SECONDS = 4.0
"""Of the callers."""
SLACK_SECONDS = 5.0
"""By so much a call may take longer than the patience: what is busy here is this machine too."""
STUCK_SECONDS = 30.0
"""A process that goes on for longer than this after the end is stuck."""
READ_IN_THE_END = "read in the end"
MANY_CALLS = (CLEAN, READ_IN_THE_END)
_FORK = get_context("fork")


@dataclass(kw_only=True)
class TrialResult:
    """The result."""

    name: str
    seconds: float = 0.0
    disturbed: dict[str, int] = field(default_factory=dict)
    acknowledged: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    faults: list[Fault] = field(default_factory=list)
    stuck: int = 0
    died: int = 0
    """Processes that ended without being killed."""
    longest: dict[str, float] = field(default_factory=dict)
    """By operation, the seconds of its longest call."""
    without: str = ""

    @property
    def too_long(self) -> bool:
        return self.longest_call[0] > PATIENCE_SECONDS + SLACK_SECONDS

    @property
    def longest_call(self) -> tuple[float, str]:
        """Its seconds, and the operation. Those that make many calls, each with its own patience, are left out."""
        once = [(seconds, operation) for operation, seconds in self.longest.items() if operation not in MANY_CALLS]
        return max(once, default=(0.0, "none"))

    @property
    def is_right(self) -> bool:
        """Whether nothing is wrong, and something was tried."""
        tried = self.acknowledged.total() > 0 and any(self.disturbed.values())
        return tried and not (self.faults or self.stuck or self.died or self.too_long)


class Deck:
    """Gives things at random, each as often as it should come, and none of them for the second time before its turn."""

    def __init__(self, weights: Mapping[str, int], random: Random) -> None:
        self._weights, self._random = weights, random
        self._left: list[str] = []

    def draw(self) -> str:
        if not self._left:
            self._left = self._random.sample(list(self._weights), counts=list(self._weights.values()), k=self._size)
        return self._left.pop()

    @property
    def _size(self) -> int:
        return sum(self._weights.values())


class Trial:
    """Callers on a database, and the disturbances of both.

    Args:
        place: that was started.
        folder: for the logs.
        seed: of all that is chosen at random.
    """

    def __init__(self, place: Place, folder: Path, seed: int) -> None:
        self._place, self._folder, self._seed = place, folder, seed
        self._random = Random(seed)  # noqa: S311
        self._processes: dict[int, Any] = {}
        self._generations: Counter[int] = Counter()
        self._until = 0.0
        folder.mkdir()

    def play(self, seconds: float) -> TrialResult:
        """Use and disturb it for this long."""
        self._make_tables()
        outcome = TrialResult(name=self._place.name, without=self._place.without)
        began = time.monotonic()
        self._until = began + seconds
        try:
            for number in range(PROCESSES + 1):
                self._begin(number)
            outcome.disturbed = self._disturb(outcome)
            self._place.undo()
            outcome.stuck = sum(not self._has_ended(number) for number in self._processes)
            outcome.died += sum(process.exitcode not in (0, -signal.SIGKILL) for process in self._processes.values())
        finally:
            for process in self._processes.values():
                process.kill()
                process.join()
        self._read_all()
        self._judge(outcome)
        outcome.seconds = time.monotonic() - began
        return outcome

    def _make_tables(self) -> None:
        """Here nothing may be open that those that are forked would have too."""
        maker = _FORK.Process(target=_make_tables, args=(self._place.direct_url,))
        maker.start()
        maker.join()

    # --- the processes ----------------------------------------------------------------------------------------

    def _begin(self, number: int) -> None:
        self._generations[number] += 1
        live = clean_until_the_end if number == PROCESSES else call_until_the_end
        self._processes[number] = _FORK.Process(target=live, args=(self._post(number),), daemon=True)
        self._processes[number].start()

    def _post(self, number: int) -> Post:
        return Post(
            url=self._place.url,
            folder=self._folder,
            number=number,
            generation=self._generations[number],
            until=self._until,
            patience=PATIENCE_SECONDS,
            seed=self._seed,
        )

    def _kill(self, number: int) -> None:
        process = self._processes[number]
        moment = time.monotonic()
        process.kill()
        process.join()
        for name in self._post(number).names():
            with closing(Log(self._folder / name)) as log:
                log(died=moment)

    def _has_ended(self, number: int) -> bool:
        """Whether a process ended in time; it is killed if it did not."""
        self._processes[number].join(max(self._until + STUCK_SECONDS - time.monotonic(), 0.1))
        ended = self._processes[number].exitcode is not None
        if not ended:
            self._kill(number)
        return ended

    # --- what happens to them ---------------------------------------------------------------------------------

    def _disturb(self, outcome: TrialResult) -> dict[str, int]:
        """Do one thing after the other until the time is over; how often each was done."""
        kinds = {"process killed": (KILLS, self._kill_one), **self._place.disturbances()}
        deck = Deck({kind: weight for kind, (weight, _) in kinds.items()}, self._random)
        done = Counter(dict.fromkeys(kinds, 0))
        while (left := self._until - time.monotonic()) > 0:
            time.sleep(min(self._random.expovariate(1 / SECONDS_BETWEEN), left))
            self._place.undo(now=time.monotonic())
            outcome.died += self._replace_the_dead()
            kind = deck.draw()
            done[kind] += _was_done(kinds[kind][1])
        return dict(done)

    def _kill_one(self) -> None:
        number = self._random.randrange(PROCESSES + 1)
        self._kill(number)
        self._begin(number)

    def _replace_the_dead(self) -> int:
        dead = [number for number, process in self._processes.items() if process.exitcode not in (None, 0)]
        for number in dead:
            self._kill(number)
            self._begin(number)
        return len(dead)

    # --- the books --------------------------------------------------------------------------------------------

    def _read_all(self) -> None:
        """Read every key once more, undisturbed, into the log of its caller."""
        with closing(SqlStoreBackend(self._place.direct_url)) as backend:
            for name in self._names(PROCESSES):
                store = SqlStateStore(backend, scope_of(name))
                with closing(Log(self._folder / name)) as log:
                    log(begin=0, operation=READ_IN_THE_END, writes={}, at=time.monotonic())
                    found = {key: number_of(store.get(key), key) for key in KEYS}
                    log(done=0, at=time.monotonic(), read=found, present=store.scan("k"))
            self._counter: Any = SqlStateStore(backend, scope_of(SHARED)).get(COUNTER, 0)

    def _names(self, processes: int) -> Iterator[str]:
        return chain.from_iterable(self._post(number).names() for number in range(processes))

    def _judge(self, outcome: TrialResult) -> None:
        books = [Book().add(_lines_of(self._folder / name)) for name in self._names(PROCESSES + 1)]
        outcome.disturbed["call interrupted"] = sum(book.interrupted for book in books)
        for book in books:
            outcome.acknowledged += book.acknowledged
            outcome.errors += book.errors
            outcome.faults += book.faults
            for operation, seconds in book.longest.items():
                outcome.longest[operation] = max(outcome.longest.get(operation, 0.0), seconds)
        if fault := fault_of_counter(self._counter, books):
            outcome.faults.append(fault)


def _make_tables(url: str) -> None:
    with closing(SqlStoreBackend(url)) as backend:
        backend.scan(scope_of(SHARED), "")


def _was_done(act: Callable[[], None]) -> bool:
    try:
        act()
    except (MissedError, OperationalError):  # the server is away just now
        return False
    return True


def _lines_of(file: Path) -> Iterator[Mapping[str, Any]]:
    return map(json.loads, file.read_text().splitlines()) if file.exists() else iter(())
