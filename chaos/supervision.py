"""Runs work in separate processes, some at once, and ends each in time with all the processes that it started."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from multiprocessing import get_context
from pathlib import Path
from typing import Generic, TypeVar

import psutil

T = TypeVar("T")

CHECK_SECONDS = 0.2
_FORK = get_context("fork")


class UnfinishedError(Exception):
    """The work gave no result; the message says why."""


class Supervised(Generic[T]):
    """Work that runs in a separate process.

    Args:
        name: of it, for messages.
        work: gives something, or raises; it may use the folder, which is removed afterwards.
        seconds: after which it is ended.
    """

    def __init__(self, name: str, work: Callable[[Path], T], seconds: float) -> None:
        self.name, self._seconds = name, seconds
        self._ends = time.monotonic() + seconds
        self._folder = Path(tempfile.mkdtemp(prefix="airflow-resume-chaos-"))
        self._folder.chmod(0o711)  # servers are run by another user
        self._given, giving = _FORK.Pipe(duplex=False)
        self._process = _FORK.Process(target=_do, args=(work, self._folder, giving))
        self._process.start()
        giving.close()
        self._begun: set[psutil.Process] = set()
        self._result: T | Exception | None = None

    def is_over(self) -> bool:
        """Whether it has ended, or must."""
        with suppress(psutil.NoSuchProcess):
            self._begun |= set(psutil.Process(self._process.pid).children(recursive=True))
        if self._result is None and self._given.poll():
            with suppress(EOFError):  # it was ended
                self._result = self._given.recv()
        return self._process.exitcode is not None or time.monotonic() > self._ends

    def end(self) -> T:
        """Its result. Nothing of the process is left.

        Raises:
            UnfinishedError: it took too long, or was ended.
            Exception: whatever it raised.
        """
        self._process.kill()
        self._process.join()
        for process in self._begun:
            with suppress(psutil.NoSuchProcess):  # it looks whether the number is another's now
                process.kill()
        for partition in psutil.disk_partitions(all=True):
            if Path(partition.mountpoint).is_relative_to(self._folder):
                subprocess.run(["/bin/umount", "--lazy", partition.mountpoint], check=False)
        shutil.rmtree(self._folder, ignore_errors=True)
        if isinstance(self._result, Exception):
            raise self._result
        if self._result is None:
            late = time.monotonic() > self._ends
            raise UnfinishedError(
                f"it had not ended after {self._seconds:g} s" if late else f"it ended with {self._process.exitcode}"
            )
        return self._result


def _do(work: Callable[[Path], T], folder: Path, giving: object) -> None:
    try:
        result: object = work(folder)
    except Exception as error:  # noqa: BLE001  it is raised by who waits
        result = error
    giving.send(result)  # type: ignore[attr-defined]


def each_as_it_ends(
    works: Sequence[tuple[str, Callable[[Path], T]]], *, at_once: int, seconds: float
) -> Iterator[Supervised[T]]:
    """Run this many at once, and yield each when it has ended."""
    waiting, running = list(works), list[Supervised[T]]()
    try:
        while waiting or running:
            while waiting and len(running) < at_once:
                running.append(Supervised(*waiting.pop(0), seconds))
            for one in [one for one in running if one.is_over()]:
                running.remove(one)
                yield one
            time.sleep(CHECK_SECONDS)
    finally:
        for one in running:
            with suppress(Exception):
                one.end()
