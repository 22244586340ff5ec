"""Attempts in processes of their own that append numbered flights to a sink, and can really be killed or frozen."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import create_engine, event, insert
from sqlalchemy.pool import NullPool

from airflow_resume import checkpoint
from airflow_resume.loops import Batches
from airflow_resume.sinks import SqlSink
from airflow_resume.store import MemoryStore
from airflow_resume.testing import World, task_context
from tests.support.kit.file_rows import FileRows
from tests.support.sinks.places import ROWS

PAGE = 10
ENDED, SUPERSEDED, BUSY, BROKEN = 0, 3, 4, 5
CODES = {"SupersededError": SUPERSEDED, "SinkBusyError": BUSY}


@dataclass(frozen=True, kw_only=True)
class Flights:
    """A task that appends flights.

    Args:
        url: of the sink.
        count: of the flights.
        folder: for what outlives a process.
        options: of the sink.
        page: how many flights are in a transaction.
    """

    url: str
    count: int
    folder: Path
    options: dict[str, Any]
    page: int = PAGE

    def attempt(self, number: int, tell: Callable[[str], None]) -> None:
        """One try of the task; `tell` is called when rows are written, before the commit and in it."""
        world = World()
        world.instances["dag", "run-1", "task", -1].rows = WholeFileRows(self.folder / "airflow.json")
        attempt = task_context(world=world, retries=1000)
        for _ in range(number - 1):
            attempt = attempt.retry()
        self._append(tell, context=attempt.context)

    def script(self, tell: Callable[[str], None]) -> None:
        """A run of a script, which has no order among its runs."""
        self._append(tell, store=MemoryStore())

    def _append(self, tell: Callable[[str], None], **where: Any) -> None:
        engine = create_engine(self.url, poolclass=NullPool, connect_args=_quick(self.url))
        sink = SqlSink(engine, script="flights", **self.options)
        with checkpoint(Batches(range(self.count), size=self.page), name="flights", sink=sink, **where) as loop:
            listening = False
            for page in loop:
                if not listening:
                    event.listen(loop.connection, "commit", lambda _connection: tell("in the commit"))
                    listening = True
                loop.connection.execute(insert(ROWS), [{"id": each, "name": f"flight {each}"} for each in page])
                tell("before the commit")


def _quick(url: str) -> dict[str, Any]:
    return {"timeout": 1} if url.startswith("sqlite") else {}


class WholeFileRows(FileRows):
    """A kill leaves the file as it was before the write, or as it is after it, like a database."""

    def __setitem__(self, key: str, row: Any) -> None:
        kept, self._path = self._path, self._path.with_suffix(f".{os.getpid()}")
        try:
            super().__setitem__(key, row)
            self._path.replace(kept)
        finally:
            self._path = kept


class Child:
    """A forked process that runs an attempt. It says through a pipe what it comes to."""

    def __init__(
        self, run: Callable[[Callable[[str], None]], None], *, freeze_at: tuple[str, int] | None = None
    ) -> None:
        self._reader, writer = os.pipe()
        self.pid = os.fork()
        if self.pid:
            os.close(writer)
            return
        code = BROKEN
        try:
            os.close(self._reader)
            run(_Teller(writer, freeze_at))
            code = ENDED
        except BaseException as error:  # noqa: BLE001  the exit code says which
            code = CODES.get(type(error).__name__, BROKEN)
            os.write(writer, f"{error!r:.200}\n".encode())
        finally:
            os._exit(code)

    def wait_for(self, count: int) -> bool:
        """Wait until the child has come to so many places; False if it has ended before."""
        seen = 0
        while seen < count:
            found = os.read(self._reader, 1)
            if not found:
                return False
            seen += found == b"\n"
        return True

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        self.end()

    def wait_until_frozen(self) -> None:
        _, status = os.waitpid(self.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status), os.waitstatus_to_exitcode(status)

    def wake(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def end(self) -> int:
        """Wait for its end, and return its exit code."""
        with os.fdopen(self._reader, "rb") as reader:
            said = reader.read()
        code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        assert code != BROKEN, said
        return code


class _Teller:
    def __init__(self, writer: int, freeze_at: tuple[str, int] | None) -> None:
        self._writer, self._freeze_at, self._seen = writer, freeze_at, dict[str, int]()

    def __call__(self, place: str) -> None:
        self._seen[place] = self._seen.get(place, 0) + 1
        os.write(self._writer, f"{place}\n".encode())
        if self._freeze_at == (place, self._seen[place]):
            os.kill(os.getpid(), signal.SIGSTOP)


@contextmanager
def reaped(child: Child) -> Iterator[Child]:
    """Kill the child at the end, if the test has failed before that."""
    try:
        yield child
    except BaseException:
        try:
            os.kill(child.pid, signal.SIGKILL)
            os.waitpid(child.pid, 0)
        except OSError:
            pass
        raise
