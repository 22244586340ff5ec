"""The processes that use the backend in the load test: some with two threads, and one that cleans up.

They check nothing. Each writes to its log what it is about to do and the result; `oracle` reads the logs. A log
outlives its process, and the process that replaces a killed one continues the same file with the same keys.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any, cast

from airflow.sdk.state import TaskScope

from airflow_resume.backends import SqlStateStore, SqlStoreBackend
from airflow_resume.errors import CleanupIncompleteError, ResumeError
from chaos.oracle import FOREIGN, INTERRUPTED, TORN

THREADS = 2
KEYS = tuple(f"k{number}" for number in range(6))
SIZES = (1, 40, 1_000, 10_000, 100_000)
"""Sizes of values in bytes; the smallest is a bare number."""
CLEAN = "clean"
SHARED, COUNTER, EXPIRED = "shared", "counter", "expired"
"""Scopes that all write to, and the key of the counter in the first."""
ROUND = 1_000_000
"""More numbers than a process comes to, so that its successor does not use them again."""
RETENTION = timedelta(hours=1)
INTERRUPTED_SHARE, INTERRUPTED_SECONDS = 0.05, 0.03
"""How many calls of a main thread are interrupted by a signal, and within which time."""


class InterruptedCall(BaseException):
    """Raised by a signal handler, as the limit of a task's time is."""


def scope_of(name: str) -> TaskScope:
    return TaskScope(dag_id="chaos", run_id="", task_id=name)


# --- values ---------------------------------------------------------------------------------------------------


def value_of(number: int, key: str, size: int) -> Any:
    """A value that shows by whom it was written, and all of whose parts show the same."""
    part = f"{number} of {key};"
    return number if size < len(part) else {"number": number, "parts": part * (size // len(part))}


def number_of(value: Any, key: str) -> int | str | None:
    """What was written there: its number, None for nothing, or what is wrong with it."""
    if value is None or isinstance(value, int):
        return value
    parts = set(value["parts"].removesuffix(";").split(";"))
    if len(parts) != 1:
        return TORN
    return int(value["number"]) if parts == {f"{value['number']} of {key}"} else FOREIGN


# --- calls ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Call:
    """A call that is about to be made."""

    make: Callable[[], Mapping[str, Any]]
    """Gives what is written into the log besides: `read`, `present` or `won`."""
    writes: Mapping[str, int | None] = field(default_factory=dict)


class Log:
    """A log whose lines survive a kill of the process."""

    def __init__(self, file: Path) -> None:
        self._file = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def __call__(self, **line: Any) -> None:
        os.write(self._file, (json.dumps(line) + "\n").encode())

    def close(self) -> None:
        os.close(self._file)


class Caller:
    """One thread that makes calls, one after the other.

    Args:
        backend: which other threads may use too.
        name: whose keys they are.
        log: where the calls are written down.
        numbers: of its calls; the first one.
    """

    def __init__(self, backend: Any, name: str, log: Log, random: Random, *, first: int = 1) -> None:
        self._backend, self._scope = backend, scope_of(name)
        self._store = SqlStateStore(backend, self._scope)
        self._shared = SqlStateStore(backend, scope_of(SHARED))
        self._log, self._random, self._number = log, random, first

    def play(self, until: float, *, interrupts: bool = False) -> None:
        """Call until the time is over; where signals can reach this thread, have them interrupt some calls."""
        while time.monotonic() < until:
            self.step(interrupts=interrupts)

    def step(self, operation: str | None = None, *, interrupts: bool = False) -> None:
        """Make one call."""
        if operation is None:
            weights = [weight for weight, _ in _OPERATIONS.values()]
            (operation,) = self._random.choices(list(_OPERATIONS), weights)
        _, plan = _OPERATIONS[operation]
        self._number += 1
        call = plan(self)
        self._log(begin=self._number, operation=operation, writes=call.writes, at=time.monotonic())
        interrupts = interrupts and operation != "async" and self._random.random() < INTERRUPTED_SHARE
        outcome = _outcome(call, _interrupted(self._random) if interrupts else nullcontext())
        self._log(**{"done" if "error" not in outcome else "failed": self._number}, **outcome, at=time.monotonic())

    def _go_on(self) -> None:
        """Between two calls that belong together."""
        self._log(**{"going on": self._number}, at=time.monotonic())

    # Each of these plans a call.

    def _one(self, make: Callable[[str, Any], object]) -> Call:
        key = self._random.choice(KEYS)
        value = value_of(self._number, key, self._random.choice(SIZES))
        return Call(writes={key: self._number}, make=lambda: _nothing(lambda: make(key, value)))

    def _set(self) -> Call:
        return self._one(self._store.set)

    def _set_for_a_while(self) -> Call:
        return self._one(lambda key, value: self._store.set(key, value, retention=RETENTION))

    def _set_async(self) -> Call:
        return self._one(lambda key, value: asyncio.run(self._backend.aset(self._scope, key, json.dumps(value))))

    def _set_by_reference(self) -> Call:
        """As Airflow does, which keeps the reference; it is followed at once."""

        def make(key: str, value: Any) -> Mapping[str, Any]:
            stored = self._backend.serialize_task_state_store_to_ref(value=value, key=key, scope=self._scope)
            self._go_on()
            return {key: number_of(self._backend.deserialize_task_state_store_from_ref(stored), key)}

        key = self._random.choice(KEYS)
        value = value_of(self._number, key, self._random.choice(SIZES))
        return Call(writes={key: self._number}, make=lambda: {"read": make(key, value)})

    def _set_many(self) -> Call:
        keys = self._random.sample(KEYS, 3)
        values = {key: value_of(self._number, key, self._random.choice(SIZES)) for key in keys}
        return Call(
            writes=dict.fromkeys(keys, self._number), make=lambda: _nothing(lambda: self._store.set_many(values))
        )

    def _delete(self) -> Call:
        key = self._random.choice(KEYS)
        return Call(writes={key: None}, make=lambda: _nothing(lambda: self._store.delete(key)))

    def _clear(self) -> Call:
        return Call(writes=dict.fromkeys(KEYS), make=lambda: _nothing(self._store.clear))

    def _get(self) -> Call:
        key = self._random.choice(KEYS)
        return Call(make=lambda: {"read": {key: number_of(self._store.get(key), key)}})

    def _history(self) -> Call:
        key = self._random.choice(KEYS)

        def make() -> Mapping[str, Any]:
            numbers = [number_of(version.value, key) for version in self._store.history(key)]
            return {"read": {key: TORN if TORN in numbers else next(iter(numbers), None)}}

        return Call(make=make)

    def _scan(self) -> Call:
        return Call(make=lambda: {"read": {}, "present": self._store.scan("k")})

    def _increment(self) -> Call:
        def make() -> Mapping[str, Any]:
            seen = next(iter(self._shared.history(COUNTER)), None)
            self._go_on()
            version, value = (0, 0) if seen is None else (seen.version, cast("int", seen.value))
            return {"read": {}, "won": self._shared.compare_and_set(COUNTER, version, value + 1) is not None}

        return Call(make=make)

    def _share(self) -> Call:
        """Of a key that all write, only its parts can be judged."""
        key, other = self._random.choices(KEYS, k=2)
        value = value_of(self._number, key, self._random.choice(SIZES[1:]))

        def make() -> Mapping[str, Any]:
            self._shared.set(key, value)
            self._go_on()
            found = number_of(self._shared.get(other), other)
            return {"read": {f"{SHARED} {other}": found} if isinstance(found, str) else {}}

        return Call(make=make)


_OPERATIONS: Mapping[str, tuple[int, Callable[[Caller], Call]]] = {
    "set": (5, Caller._set),
    "set for a while": (2, Caller._set_for_a_while),
    "set_many": (2, Caller._set_many),
    "async": (1, Caller._set_async),
    "by reference": (2, Caller._set_by_reference),
    "delete": (2, Caller._delete),
    "clear": (1, Caller._clear),
    "get": (6, Caller._get),
    "history": (2, Caller._history),
    "scan": (1, Caller._scan),
    "compare_and_set": (3, Caller._increment),
    "shared": (2, Caller._share),
}
"""The operations, with how often each is called."""


def _nothing(act: Callable[[], object]) -> Mapping[str, Any]:
    """Nothing is read."""
    act()
    return {"read": {}}


def _outcome(call: Call, during: Any) -> Mapping[str, Any]:
    """What is written into the log of it."""
    try:
        with during:
            return call.make()
    except InterruptedCall:
        return {"error": INTERRUPTED, "named": True, "text": ""}
    except BaseException as error:  # noqa: BLE001  whatever it is: it is what a caller would get
        named = isinstance(error, ResumeError)
        name = " ".join(filter(None, [type(error).__name__, getattr(error, "problem", None)]))
        return {"error": name, "named": named, "text": str(error)[:300]}


@contextmanager
def _interrupted(random: Random) -> Iterator[None]:
    signal.setitimer(signal.ITIMER_REAL, random.uniform(0.0001, INTERRUPTED_SECONDS))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


# --- processes ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Post:
    """What a process is told that comes to the place of another."""

    url: str
    folder: Path
    number: int
    """Of the place; the one after the last is the cleaner's."""
    generation: int
    until: float
    patience: float
    seed: int

    def names(self) -> list[str]:
        """Of its callers, and of their logs."""
        return [f"{self.number}.{thread}" for thread in range(THREADS)]


def call_until_the_end(post: Post) -> None:
    """Run a process with two threads."""
    with _prepared(post) as backend:
        one, other = (_caller(post, backend, name) for name in post.names())
        beside = threading.Thread(target=other.play, args=(post.until,))
        beside.start()
        one.play(post.until, interrupts=True)
        beside.join()


def _caller(post: Post, backend: SqlStoreBackend, name: str) -> Caller:
    random = Random(f"{post.seed} {post.generation} {name}")  # noqa: S311  every run with this seed is the same
    return Caller(backend, name, Log(post.folder / name), random, first=post.generation * ROUND)


def clean_until_the_end(post: Post) -> None:
    """Run the process that lets values expire and deletes all expired values."""
    with _prepared(post) as backend:
        store, log = SqlStateStore(backend, scope_of(EXPIRED)), Log(post.folder / post.names()[0])
        number = post.generation * ROUND
        while time.monotonic() < post.until:
            number += 1

            def clean(number: int = number) -> Mapping[str, Any]:
                store.set_many(dict.fromkeys(KEYS, 1), retention=-RETENTION)
                log(**{"going on": number}, at=time.monotonic())
                report = backend.clean(batch=7)
                if report.failures:
                    raise CleanupIncompleteError(
                        report.failures[0], failed=len(report.failures), deleted=report.expired + report.orphaned
                    )
                return {"read": {}}

            log(begin=number, operation=CLEAN, writes={}, at=time.monotonic())
            outcome = _outcome(Call(make=clean), nullcontext())
            log(**{"done" if "error" not in outcome else "failed": number}, **outcome, at=time.monotonic())
            time.sleep(0.1)


@contextmanager
def _prepared(post: Post) -> Iterator[SqlStoreBackend]:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGALRM, _interrupt)
    logging.disable(logging.WARNING)
    sys.unraisablehook = _say_if_not_interrupted
    keep_versions = 1 + 2 * (post.number % 2)
    with closing(
        SqlStoreBackend(post.url, patience=post.patience, keep_versions=keep_versions, inline_bytes=0)
    ) as backend:
        yield backend


def _say_if_not_interrupted(raised: Any) -> None:
    """An exception in a finaliser goes no further."""
    if raised.exc_type is not InterruptedCall:
        sys.__unraisablehook__(raised)


def _interrupt(*_: object) -> None:
    raise InterruptedCall
