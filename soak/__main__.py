"""Kills some hundred mapped tasks of the three surfaces at random on a real Airflow, then counts what was lost.

    make soak            SOAK="--minutes 2 --width 20" makes it shorter; --seed 7 repeats the order of its choices
    make soak SOAK="--celery"       two Celery workers on PostgreSQL and Redis, instead of the LocalExecutor on SQLite

Every second or two something happens to a running task: its process is killed, its supervisor is killed, or both are
frozen until Airflow has given them up, and then continue. Now and then the scheduler, the API server or a Celery worker
is killed as well. When the time is over the disruptions stop, all runs end, and the results are counted. The exit code
is 1 if something was lost or repeated that must not be, or if a run failed or did not end.
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

from airflow_client import AirflowApiError
from local_airflow import LocalAirflow
from soak.counts import Counts
from soak.dags import soak_dags
from soak.disruptions import Disruptions
from stage import Stage
from tests.support.airflow.job_dag_files import few_flights
from tests.support.celery.celery_airflow import WORKERS, CeleryAirflow

SOAK_DAGS = Path(__file__).with_name("dags")
DAGS = ("soak_jobs", "soak_loops", "soak_marks")
COMPONENTS = ("scheduler", "api-server")
SLOTS = 12
"""How many tasks run at the same time."""
HEARTBEAT_TIMEOUT = 15
SECONDS_TO_END = 900.0
"""A run that takes longer counts as not ended."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """A run of one of the Dags, and its state in the end."""

    dag_id: str
    run_id: str
    state: str


@dataclass
class Soak:
    """Runs that start one after the other, and their results.

    Args:
        stage: the Airflow with the Dags.
        folder: where the bodies write their files.
        width: instances of each mapped task.
    """

    stage: Stage
    folder: Path
    width: int
    runs: list[Run] = field(default_factory=list)
    marks: dict[str, list[int]] = field(default_factory=dict)
    """The values of each mark that were seen, by key."""

    def play(self, disruptions: Disruptions, seconds: float) -> None:
        """Start runs and disturb their tasks for this long; then wait until all runs have ended."""
        over, ended = threading.Event(), threading.Event()
        timer = threading.Timer(seconds, over.set)
        timer.start()
        with ThreadPoolExecutor() as pool:
            others = [pool.submit(disruptions.run, over), pool.submit(self._watch_marks, ended)]
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
        """Ask until there is an answer. The API server may be away, as it is killed now and then."""

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

    def counts(self) -> Counts:
        """Count the results of all runs."""
        counts = Counts()
        self._note_marks()
        for label, lines in self._lines_of("soak_jobs"):
            counts.add_job(self.stage.jobs.call("GET", "/stats", label=label), [line["job"] for line in lines])
        for _, lines in self._lines_of("soak_loops"):
            counts.add_loop([line["element"] for line in lines], soak_dags.ELEMENTS)
        loaded: dict[str, list[tuple[int, int]]] = {}
        for _, lines in self._lines_of("soak_marks"):
            for line in lines:
                loaded.setdefault(line["mark"], []).append((line["start"], line["end"]))
        for key, spans in loaded.items():
            counts.add_partition(spans, self.marks.get(key, []))
        return counts

    def _lines_of(self, dag_id: str) -> Iterator[tuple[str, list[Any]]]:
        """The label of each task instance, with the lines that its bodies wrote."""
        for run in self.runs:
            for index in range(self.width if run.dag_id == dag_id else 0):
                label = f"{run.run_id}.{index}"
                file = self.folder / f"{dag_id}.{label}"
                lines = file.read_text().splitlines() if file.exists() else []
                yield label, [json.loads(line) for line in lines]


def main() -> int:
    """Run the soak, print the counts, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--width", type=int, default=67, help="instances of each of the three mapped tasks")
    parser.add_argument("--seed", type=int, default=SystemRandom().randrange(10**6))
    parser.add_argument("--celery", action="store_true", help="two Celery workers on PostgreSQL and Redis")
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
        options["airflow"] = CeleryAirflow if arguments.celery else LocalAirflow
        components = (*COMPONENTS, *WORKERS) if arguments.celery else COMPONENTS
        with Stage(Path(home), dags=SOAK_DAGS, flights=flights, **options) as stage:
            for dag_id in DAGS:
                stage.airflow.wait_until_parsed(dag_id)
            say(f"3 x {arguments.width} task instances a wave, {arguments.minutes} minutes, seed {arguments.seed}")
            random = Random(arguments.seed)  # noqa: S311
            frozen = HEARTBEAT_TIMEOUT + 10
            disruptions = Disruptions(stage.airflow, random, components=components, frozen=frozen)
            soak = Soak(stage, folder, arguments.width)
            soak.play(disruptions, 60 * arguments.minutes)
            say("all runs have ended; counting")
            counts = soak.counts()
    facts = {"seed": arguments.seed, "celery": arguments.celery, "blows": dict(disruptions.happened)}
    return report(console, counts, soak.runs, facts)


def report(console: Console, counts: Counts, runs: list[Run], facts: dict[str, Any]) -> int:
    """Print the counts as a table and everything as JSON; return the exit code."""
    table = Table("", "", "", title="The counts")
    for name, value in asdict(counts).items():
        table.add_row(name.replace("_", " "), f"{value:,}", "[red]BROKEN[/]" if name in counts.broken else "")
    console.print(table)
    failed = [run.run_id for run in runs if run.state != "success"]
    print(json.dumps({**facts, "runs": len(runs), "failed": failed, **asdict(counts)}))
    return 1 if counts.broken or failed or not counts.is_complete else 0


if __name__ == "__main__":
    sys.exit(main())
