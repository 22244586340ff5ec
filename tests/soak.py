"""Some hundred mapped tasks of the three surfaces on a real Airflow, killed at random for minutes; then the books.

    make soak            SOAK="--minutes 2 --width 20" makes it shorter; --seed 7 repeats the order of its choices

Every second or two something happens to a task that runs: its process is killed, its supervisor is, or both stand
still until Airflow has given them up, and then wake. Now and then the scheduler or the API server is killed as well.
When the time is over nothing more is, all runs end, and what was done is counted. It exits with 1 if the books are
not even, or if a run failed or did not end.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from random import Random, SystemRandom
from typing import Any

import httpx
from rich.console import Console
from rich.table import Table

TESTS = Path(__file__).parent
SOAK_DAGS = TESTS / "support" / "soak_dags"
sys.path[:0] = [str(TESTS.parent / "examples"), str(TESTS / "support"), str(SOAK_DAGS)]

import soak_dags  # noqa: E402
from blows import Blows  # noqa: E402
from books import Books  # noqa: E402
from job_dag_files import few_flights  # noqa: E402

from airflow_client import AirflowApiError  # noqa: E402
from stage import Stage  # noqa: E402

DAGS = ("soak_jobs", "soak_loops", "soak_marks")
SLOTS = 12
"""Tasks that have a process at a time."""
HEARTBEAT_TIMEOUT = 15
SECONDS_TO_END = 900.0
"""A run that takes longer has not ended."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """A run of one of the Dags, and its state in the end."""

    dag_id: str
    run_id: str
    state: str


@dataclass
class Soak:
    """Runs that begin one after the other, and what came of them.

    Args:
        stage: with the Dags.
        folder: with the files that their bodies write.
        width: instances of each mapped task.
    """

    stage: Stage
    folder: Path
    width: int
    runs: list[Run] = field(default_factory=list)
    marks: dict[str, list[int]] = field(default_factory=dict)
    """By key, the marks as they were seen."""

    def play(self, blows: Blows, seconds: float) -> None:
        """Have runs begin, and tasks be hit, for so long; then see all runs end."""
        over, ended = threading.Event(), threading.Event()
        timer = threading.Timer(seconds, over.set)
        timer.start()
        with ThreadPoolExecutor() as pool:
            others = [pool.submit(blows.deal, over), pool.submit(self._watch_marks, ended)]
            try:
                for wave in [pool.submit(self._one_run_after_the_other, dag_id, over) for dag_id in DAGS]:
                    wave.result()
            finally:
                timer.cancel()
                over.set()
                ended.set()
            for other in others:
                other.result()

    def _one_run_after_the_other(self, dag_id: str, over: threading.Event) -> None:
        airflow, waves = self.stage.airflow, count(1)
        while not over.is_set():
            run_id = f"wave-{next(waves)}-{dag_id}"
            self._insist(partial(airflow.trigger, dag_id, run_id=run_id), f"{run_id} begins")
            state = self._insist(partial(self._end_of, dag_id, run_id), f"{run_id} ends")
            self.runs.append(Run(dag_id=dag_id, run_id=run_id, state=state))

    def _end_of(self, dag_id: str, run_id: str) -> str | None:
        state = self.stage.airflow.run_state(dag_id, run_id)
        return state if state in {"success", "failed"} else None

    def _insist(self, ask: Callable[[], str | None], what: str) -> str:
        """Ask until there is an answer. The API server may be away: it is killed now and then."""

        def probe() -> str | None:
            try:
                return ask()
            except (httpx.TransportError, AirflowApiError):
                return None

        return self.stage.airflow.wait_for(probe, what=what, timeout=SECONDS_TO_END)

    def _watch_marks(self, ended: threading.Event) -> None:
        while not ended.wait(1):
            with suppress(Exception):  # the API server may be away
                self._note_marks()

    def _note_marks(self) -> None:
        for key, record in self.stage.airflow.asset_state_store("soak").items():
            self.marks.setdefault(key, []).append(int(record["at"]))

    def books(self) -> Books:
        """What came of it all."""
        books = Books()
        self._note_marks()
        for label, lines in self._lines_of("soak_jobs"):
            books.add_job(self.stage.jobs.call("GET", "/stats", label=label), [line["job"] for line in lines])
        for _, lines in self._lines_of("soak_loops"):
            books.add_loop([line["element"] for line in lines], soak_dags.ELEMENTS)
        loaded: dict[str, list[tuple[int, int]]] = {}
        for _, lines in self._lines_of("soak_marks"):
            for line in lines:
                loaded.setdefault(line["mark"], []).append((line["start"], line["end"]))
        for key, spans in loaded.items():
            books.add_partition(spans, self.marks.get(key, []))
        return books

    def _lines_of(self, dag_id: str) -> Iterator[tuple[str, list[Any]]]:
        """For each task instance its label, and what its bodies wrote."""
        for run in self.runs:
            for index in range(self.width if run.dag_id == dag_id else 0):
                label = f"{run.run_id}.{index}"
                file = self.folder / f"{dag_id}.{label}"
                lines = file.read_text().splitlines() if file.exists() else []
                yield label, [json.loads(line) for line in lines]


def main() -> int:
    """Play it, print the books, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--width", type=int, default=67, help="instances of each of the three mapped tasks")
    parser.add_argument("--seed", type=int, default=SystemRandom().randrange(10**6))
    arguments = parser.parse_args()
    console, began = Console(highlight=False, soft_wrap=True), time.time()

    def say(text: str) -> None:
        console.print(f"[dim]{time.time() - began:6.1f} s[/]  {text}")

    with tempfile.TemporaryDirectory(prefix="airflow-resume-soak-") as home:
        folder = Path(home) / "lines"
        folder.mkdir()
        env = {
            "SOAK_FOLDER": str(folder),
            "SOAK_WIDTH": str(arguments.width),
            "SOAK_BEGAN": str(began),
            "AIRFLOW__CORE__PARALLELISM": str(SLOTS),
            "AIRFLOW__CORE__MAX_ACTIVE_TASKS_PER_DAG": str(SLOTS),
        }
        flights = few_flights(Path(home))
        options: dict[str, Any] = {"heartbeat_timeout": HEARTBEAT_TIMEOUT, "env": env, "progress": say}
        with Stage(Path(home), dags=SOAK_DAGS, flights=flights, **options) as stage:
            for dag_id in DAGS:
                stage.airflow.wait_until_parsed(dag_id)
            say(f"3 x {arguments.width} task instances a wave, {arguments.minutes} minutes, seed {arguments.seed}")
            blows = Blows(stage.airflow, Random(arguments.seed), frozen=HEARTBEAT_TIMEOUT + 10)  # noqa: S311
            soak = Soak(stage, folder, arguments.width)
            soak.play(blows, 60 * arguments.minutes)
            say("all runs have ended; counting")
            books = soak.books()
    return report(console, books, soak.runs, {"seed": arguments.seed, "blows": dict(blows.dealt)})


def report(console: Console, books: Books, runs: list[Run], facts: dict[str, Any]) -> int:
    """Print the books as a table, and all as JSON; the exit code."""
    table = Table("", "", "", title="The books")
    for name, value in asdict(books).items():
        table.add_row(name.replace("_", " "), f"{value:,}", "[red]BROKEN[/]" if name in books.broken else "")
    console.print(table)
    failed = [run.run_id for run in runs if run.state != "success"]
    print(json.dumps({**facts, "runs": len(runs), "failed": failed, **asdict(books)}))
    return 1 if books.broken or failed or not books.is_complete else 0


if __name__ == "__main__":
    sys.exit(main())
