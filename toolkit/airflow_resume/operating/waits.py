"""Says that an answer is waited for, when it has been waited for so long that a person would wonder.

One thread looks at all questions that are under way, because they are asked by several threads.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Lock, Thread

QUIET_SECONDS = 4.0
"""Before it is said for the first time; after that it is said each time that twice as long has passed."""


class Waits:
    """The questions that are under way.

    Args:
        say: tells a person; None: nobody.
        quiet: seconds before something is said; by default `QUIET_SECONDS`.
    """

    def __init__(self, say: Callable[[str], object] | None, *, quiet: float | None = None) -> None:
        self._say, self._quiet = say, QUIET_SECONDS if quiet is None else quiet
        self._lock, self._ended = Lock(), Event()
        self._asked: dict[int, tuple[float, str]] = {}
        self._next = 0
        self._thread: Thread | None = None

    @contextmanager
    def on(self, what: str) -> Iterator[None]:
        """While `what` is waited for."""
        if self._say is None:
            yield
            return
        with self._lock:
            self._next += 1
            number = self._next
            self._asked[number] = (time.monotonic(), what)
            if self._thread is None:
                self._thread = Thread(target=self._look, args=(self._say,), daemon=True, name="airflow-resume-waits")
                self._thread.start()
        try:
            yield
        finally:
            with self._lock:
                del self._asked[number]

    def close(self) -> None:
        """Say nothing more."""
        self._ended.set()

    def _look(self, say: Callable[[str], object]) -> None:
        due: dict[int, float] = {}
        while not self._ended.wait(self._quiet / 4):
            with self._lock:
                oldest = min(self._asked.items(), default=None)
            if oldest is None:
                continue
            number, (since, what) = oldest
            waited = time.monotonic() - since
            if waited >= due.get(number, self._quiet):
                due = {number: 2 * max(waited, self._quiet)}
                say(f"waiting for {what}, for {waited:.0f} s now")
