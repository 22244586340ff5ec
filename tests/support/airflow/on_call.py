"""A real Airflow with the Dags in `dags/on_call`, after all of them have run, and a person who looks after it."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from html import unescape
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import httpx

from airflow_resume.page.addresses import PREFIX
from local_airflow import LocalAirflow
from stage import Stage
from tests.support.airflow.job_dag_files import few_flights
from tests.support.backends.databases import database_on_postgresql
from tests.support.operating.terminal import Said, typed
from tests.support.page.person import Changing, task_query

if TYPE_CHECKING:
    from typing_extensions import Self

HERE = Path(__file__).parent
LOOPS, PAGES, JOBS, MARKS = 200, 10, 100, 20
STOPS = {number: 1 + number // 10 % 8 for number in range(5, LOOPS, 10)}
"""As in the Dags: the loops that have stopped, and how many pages each has done."""
LOST, WRONG, HELD_JOB, HELD_LOOP = 13, 21, 8, 0
MARK_NAMES = [f"on_call_{number:02}" for number in range(MARKS)]
LAGGING, GAPPED = MARK_NAMES[3::4], MARK_NAMES[6]
DAYS_BEHIND = 3
PATIENCE = 600.0


@dataclass(frozen=True, kw_only=True)
class Look:
    """What a look at the page showed, and the statements about records that the API server ran for it."""

    text: str
    statements: list[str]
    seconds: float


@dataclass
class OnCall:
    """A context manager. Dags and tests exchange messages as files on a board.

    Args:
        home: an empty folder.
        progress: told about each step.
    """

    home: Path
    progress: Callable[[str], None] = lambda _: None
    runs: dict[str, str] = field(default_factory=dict)
    """The newest run of each Dag."""

    def __enter__(self) -> Self:
        self.exits = ExitStack()
        with self.exits:
            self._start(self.exits.enter_context(database_on_postgresql()))
            self._play()
            self.exits = self.exits.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self.exits.close()

    def _start(self, database: str) -> None:
        self.board = self.home / "board"
        self.board.mkdir()
        self._log = self.home / "statements.jsonl"
        self._log.touch()
        dags = Path(shutil.copytree(HERE / "dags" / "on_call", self.home / "dags"))
        (dags / ".airflowignore").write_text("on_call_executor.py\n")
        env = {
            "BOARD": str(self.board),
            "STATEMENT_LOG": str(self._log),
            "AIRFLOW__CORE__PLUGINS_FOLDER": str(HERE / "plugins"),
            "AIRFLOW__CORE__EXECUTOR": "on_call_executor.PreloadingExecutor",
            "AIRFLOW__AIRFLOW_RESUME__PAGE": "True",
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": database,
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN_ASYNC": database,
            # There are many tasks, and none is found dead by its heartbeat.
            "AIRFLOW__WORKERS__MIN_HEARTBEAT_INTERVAL": "5",
            "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "600",
        }
        options: dict[str, Any] = {"env": env, "progress": self.progress}
        stage = Stage(self.home, dags=dags, flights=few_flights(self.home), job_seconds=1, **options)
        self.stage = self.exits.enter_context(stage)
        self._browser = self.exits.enter_context(
            httpx.Client(base_url=self.airflow.ui_url, trust_env=False, timeout=60)
        )
        token = httpx.get(f"{self.airflow.ui_url}/auth/token", trust_env=False).raise_for_status().json()
        self._browser.cookies.set("_token", token["access_token"])
        self._browser.headers.update({"Sec-Fetch-Site": "same-origin", "Origin": self.airflow.ui_url})

    @property
    def airflow(self) -> LocalAirflow:
        return self.stage.airflow

    # --- what happens before somebody looks -------------------------------------------------------------------------

    def _play(self) -> None:
        """Every loop, job and mark; one loop and one job are still at work at the end."""
        began = time.monotonic()
        for dag_id in (MARK_NAMES[-1], "on_call_loops", "on_call_jobs"):
            self.airflow.wait_until_parsed(dag_id)
        for name in MARK_NAMES:
            behind = 24 * DAYS_BEHIND if name in LAGGING else 2 if name == GAPPED else 0
            self.trigger(name, {"hours_ago": behind})
        for dag_id in ("on_call_loops", "on_call_jobs"):
            self.trigger(dag_id)
        for name in MARK_NAMES:
            self.ended(name)
        self.progress(f"{MARKS} marks after {time.monotonic() - began:.0f} s")
        for name in LAGGING:
            self.trigger(name, {"fails": True})
        hour, half = (f"{moment:%Y-%m-%dT%H:%M:%SZ}" for moment in (self._ago(hours=1), self._ago(hours=0.5)))
        self.trigger(GAPPED, {"watermark": {"watermark": {"from": hour, "to": half, "commit": True}}})
        for name in (*LAGGING, GAPPED):
            self.ended(name)
        for dag_id, count in (("on_call_loops", LOOPS), ("on_call_jobs", JOBS)):
            self.airflow.wait_for(lambda: self._over(dag_id) >= count - 1 or None, what=dag_id, timeout=PATIENCE)  # noqa: B023
            self.progress(f"{dag_id} after {time.monotonic() - began:.0f} s")

    @staticmethod
    def _ago(**given: float) -> datetime:
        return datetime.now(timezone.utc) - timedelta(**given)

    def _over(self, dag_id: str) -> int:
        """How many task instances of a run have ended."""
        path = f"/api/v2/dags/{dag_id}/dagRuns/{self.runs[dag_id]}/taskInstances?state=success&state=failed&limit=1"
        return int(json.loads(self.airflow.call("GET", path))["total_entries"])

    # --- what is done -------------------------------------------------------------------------------------------------

    def trigger(self, dag_id: str, conf: Mapping[str, Any] | None = None) -> str:
        self.runs[dag_id] = self.airflow.trigger(dag_id, conf)
        return self.runs[dag_id]

    def ended(self, dag_id: str) -> str:
        return self.airflow.wait_for_run(dag_id, self.runs[dag_id], timeout=PATIENCE)

    def again(self, dag_id: str, task_id: str, map_index: int) -> str:
        """Clear one mapped task instance, and wait for the end of its next try."""
        run_id = self.runs[dag_id]
        before = self.airflow.task_instance(dag_id, run_id, task_id, map_index)["try_number"]
        self.airflow.clear(dag_id, run_id, (task_id, map_index))

        def ended() -> str | None:
            task = self.airflow.task_instance(dag_id, run_id, task_id, map_index)
            is_over = task["try_number"] > before and task["state"] in {"failed", "success"}
            return str(task["state"]) if is_over else None

        return self.airflow.wait_for(ended, what=f"another try of {task_id}[{map_index}]", timeout=PATIENCE)

    def let_go(self, name: str) -> None:
        (self.board / f"{name}.go").touch()

    def until_held(self, name: str) -> None:
        self.until((self.board / f"{name}.held").exists, f"{name} is held")

    def until(self, happened: Callable[[], object], what: str) -> None:
        self.airflow.wait_for(lambda: happened() or None, what=what, timeout=PATIENCE)

    # --- what is seen -------------------------------------------------------------------------------------------------

    def lines(self, name: str) -> list[list[str]]:
        """What was done, from the board."""
        return [line.split() for line in (self.board / name).read_text().splitlines()]

    def pages(self, number: int, try_number: int) -> list[int]:
        """The pages that a try of a loop has delivered."""
        return [int(page) for tried, page in self.lines(f"loop-{number}") if int(tried) == try_number]

    def submitted(self, number: int) -> int:
        """How many jobs a task instance has submitted."""
        return int(self.stage.jobs.call("GET", "/stats", label=f"job-{number}")["submitted"])

    def log(self, dag_id: str, task_id: str, map_index: int = -1) -> str:
        run_id = self.runs[dag_id]
        number = self.airflow.task_instance(dag_id, run_id, task_id, map_index)["try_number"]
        return self.airflow.logs(dag_id, run_id, task_id, number, map_index)

    # --- at the terminal ----------------------------------------------------------------------------------------------

    def types(self, *arguments: str) -> Said:
        return typed(self.airflow.ui_url, *arguments)

    def loop(self, number: int) -> tuple[str, ...]:
        """What names a loop at the terminal."""
        return ("on_call_loops", self.runs["on_call_loops"], "load", "--map-index", str(number))

    def job(self, number: int) -> tuple[str, ...]:
        return ("on_call_jobs", self.runs["on_call_jobs"], "train", "--map-index", str(number))

    def digest(self, noun: str, *place: str) -> str:
        """The record as `show` shows it."""
        return str(json.loads(self.types(noun, "show", *place, "-o", "json").out)["digest"])

    # --- at the page --------------------------------------------------------------------------------------------------

    def as_(self, name: str | None) -> httpx.Client:
        """The browser; everybody is an admin."""
        del name
        return self._browser

    def page(self, path: str) -> str:
        return f"{PREFIX}/{path}"

    def looks(self, path: str) -> Look:
        """Look at a page."""
        before = len(self._log.read_text().splitlines())
        began = time.monotonic()
        answer = self._browser.get(self.page(path))
        seconds = time.monotonic() - began
        answer.raise_for_status()
        statements = [json.loads(line) for line in self._log.read_text().splitlines()[before:]]
        return Look(text=unescape(answer.text), statements=statements, seconds=seconds)

    def run_page(self, dag_id: str) -> str:
        return f"run?{urlencode({'dag_id': dag_id, 'run_id': self.runs[dag_id]})}"

    def task_page(self, dag_id: str, task_id: str, map_index: int) -> str:
        return f"task?{task_query(dag_id, task_id, map_index, run_id=self.runs[dag_id])}"

    def at_task(self, dag_id: str, task_id: str, map_index: int) -> Changing:
        """A person at the page of a task instance."""
        return Changing(self, "admin", "task", task_query(dag_id, task_id, map_index, run_id=self.runs[dag_id]))

    def at_mark(self, name: str) -> Changing:
        return Changing(self, "admin", f"marks/{self.airflow.asset(name)['id']}", None)
