"""Attempts in processes of their own that append numbered flights to a lake, and can really be killed or frozen.

They are new processes and no forks: delta-rs refuses to work in a fork of a process that has used it.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from typing_extensions import Self

from airflow_resume import checkpoint
from airflow_resume.loops import Batches
from airflow_resume.store import MemoryStore
from airflow_resume.testing import World, task_context
from tests.support.sinks.flights import BROKEN, CODES, ENDED, PAGE, WholeFileRows
from tests.support.sinks.lakes import LAKES


@dataclass(frozen=True, kw_only=True)
class LakeFlights:
    """A task, or a script, that appends flights.

    Args:
        kind: of the lake.
        folder: of the table, and of what else outlives a process.
        count: of the flights.
        number: of the try; 0 for a script.
        freeze_at: the name of a place, and the how manieth time there the process freezes.
        options: of the sink.
        patience: of the sink, in seconds.
        page: how many flights are in a commit.
    """

    kind: str
    folder: str
    count: int
    number: int = 0
    freeze_at: tuple[str, int] | None = None
    options: dict[str, Any] = field(default_factory=dict)
    patience: float = 1
    page: int = PAGE

    def run(self) -> None:
        lake = LAKES[self.kind](Path(self.folder))
        sink = lake.sink(script="flights", **self.options, patience=timedelta(seconds=self.patience))
        if self.number == 0:
            where: dict[str, Any] = {"store": MemoryStore()}
        else:
            world = World()
            world.instances["dag", "run-1", "task", -1].rows = WholeFileRows(Path(self.folder) / "airflow.json")
            attempt = task_context(world=world, retries=1000)
            for _ in range(self.number - 1):
                attempt = attempt.retry()
            where = {"context": attempt.context}
        told: dict[str, int] = {}

        def tell(place: str) -> None:
            told[place] = told.get(place, 0) + 1
            print(place, flush=True)
            if self.freeze_at is not None and (place, told[place]) == tuple(self.freeze_at):
                os.kill(os.getpid(), signal.SIGSTOP)

        def commits(commit: Any) -> None:
            tell("in the commit")
            commit()
            tell("after the commit")

        sink.commits = commits
        with checkpoint(Batches(range(self.count), size=self.page), name="flights", sink=sink, **where) as loop:
            for page in loop:
                lake.append(loop, [{"id": each, "name": f"flight {each}"} for each in page])
                tell("before the commit")

    def started(self) -> LakeChild:
        """This attempt in a process of its own."""
        return LakeChild(self)


class LakeChild:
    """A process that runs an attempt, and says what it comes to."""

    def __init__(self, flights: LakeFlights) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__, json.dumps(asdict(flights))],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "AIRFLOW__LOGGING__LOGGING_LEVEL": "ERROR"},
        )

    @property
    def process_id(self) -> int:
        return self._process.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.communicate()

    def wait_for(self, count: int) -> bool:
        """Wait until the child has come to so many places; False if it has ended before."""
        assert self._process.stdout is not None
        return all(self._process.stdout.readline() for _ in range(count))

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()

    def wait_until_frozen(self) -> None:
        _, status = os.waitpid(self._process.pid, os.WUNTRACED)
        if not os.WIFSTOPPED(status):
            self._process.returncode = os.waitstatus_to_exitcode(status)
            raise AssertionError(self._process.communicate())

    def wake(self) -> None:
        os.kill(self._process.pid, signal.SIGCONT)

    def end(self) -> int:
        """Wait for its end, and return its exit code."""
        said = self._process.communicate()
        assert self._process.returncode != BROKEN, said
        return int(self._process.returncode)


def main() -> int:
    given = json.loads(sys.argv[1])
    try:
        LakeFlights(**given).run()
    except Exception as error:  # noqa: BLE001  the exit code says which
        print(f"{error!r:.500}", file=sys.stderr)
        return CODES.get(type(error).__name__, BROKEN)
    return ENDED


if __name__ == "__main__":
    sys.exit(main())
