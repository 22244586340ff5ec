"""Runs of the Dags in `dags/watermarks` on a real Airflow, and what they loaded."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from local_airflow import LocalAirflow

if TYPE_CHECKING:
    from typing_extensions import Self

WATERMARK_DAGS = Path(__file__).with_name("dags") / "watermarks"
MARK = "resume.watermark.watermark"
PATIENCE = 120.0
"""Seconds to wait. What tests wait for takes a tenth of this unless the machine is busy."""
HEARTBEAT_TIMEOUT = 20
QUICK_TO_FORGET = {
    # Files are looked for, Dags without a file forgotten, and assets without a Dag orphaned, every two seconds.
    "AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL": "2",
    "AIRFLOW__SCHEDULER__PARSING_CLEANUP_INTERVAL": "2",
    # An edited Dag runs as it is now: else it would be the old one, with the old assets, for up to half a minute.
    "AIRFLOW__CORE__MIN_SERIALIZED_DAG_UPDATE_INTERVAL": "0",
    "AIRFLOW__CORE__MIN_SERIALIZED_DAG_FETCH_INTERVAL": "0",
}


class Loads:
    """A context manager. Dags and tests exchange messages as files in a folder, the board.

    Args:
        home: an empty folder.
        only: the only Dag file to run.
        progress: told about each step of the start.
    """

    def __init__(
        self, home: Path, *, only: str | None = None, progress: Callable[[str], None] = lambda _: None
    ) -> None:
        self._board = home / "board"
        self._board.mkdir()
        others = [] if only is None else [file.name for file in WATERMARK_DAGS.glob("*.py") if file.name != only]
        left_out = shutil.ignore_patterns(*(name for name in others if name != "load_board.py"))
        self.dags = Path(shutil.copytree(WATERMARK_DAGS, home / "dags", ignore=left_out))
        self._last = ("counted", "goes", "address_nightly", "orphaned") if only is None else ("moments_east",)
        self._write_numbers((("a", 1), ("b", 2), ("c", 2)))
        env = {"BOARD": str(self._board), **QUICK_TO_FORGET}
        self.airflow = LocalAirflow(home / "airflow", self.dags, env=env, heartbeat_timeout=HEARTBEAT_TIMEOUT)
        self._progress = progress

    def __enter__(self) -> Self:
        self.airflow.start(self._progress)
        for dag_id in self._last:  # of each file
            self.airflow.wait_until_parsed(dag_id)
        return self

    def __exit__(self, *_: object) -> None:
        self.airflow.stop()

    # --- what is done ---------------------------------------------------------------------------------------------

    def run(self, dag_id: str, *, ends: str = "success", **conf: Any) -> str:
        """Trigger a run, check that it ends in this state, and return its id."""
        run_id = self.airflow.trigger(dag_id, conf)
        self.until_ended(dag_id, run_id, ends)
        return run_id

    def override(self, dag_id: str, start: str, end: str, **commit: bool) -> str:
        return self.run(dag_id, watermark={"watermark": {"from": start, "to": end, **commit}})

    def clear(self, dag_id: str, run_id: str) -> None:
        """Clear the task of a run, and check that it succeeds again."""
        before = self.airflow.task_instance(dag_id, run_id, "run")["try_number"]
        self.airflow.clear(dag_id, run_id, "run")

        def again() -> bool:
            task = self.airflow.task_instance(dag_id, run_id, "run")
            return bool(task["state"] == "success" and task["try_number"] > before)

        self.until(again, f"{dag_id} {run_id} again")

    def backfill(self, dag_id: str, *days: int, **options: Any) -> list[str]:
        """Backfill from the first to the last day of January 2026, wait for the runs, and return their ids.

        `offset`, such as `+09:00`, says where these days begin; by default in UTC.
        """
        offset = options.pop("offset", "+00:00")
        first, last = (f"2026-01-{day:02}T00:00:00{offset}" for day in (days[0], days[-1]))
        body = {"dag_id": dag_id, "from_date": first, "to_date": last}
        self.airflow.change("POST", "/api/v2/backfills", {"max_active_runs": 1, **body, **options})
        return self.until_runs(dag_id, days[-1] - days[0] + 1, of_type="backfill")

    def add_numbers(self, *rows: tuple[str, int]) -> None:
        """Add rows to the source of `counted`."""
        self._write_numbers(rows)

    def _write_numbers(self, rows: Iterable[tuple[str, int]]) -> None:
        database = sqlite3.connect(self._board / "counted.db")
        with database:
            database.execute("CREATE TABLE IF NOT EXISTS source (id TEXT PRIMARY KEY, n INTEGER)")
            database.executemany("INSERT INTO source VALUES (?, ?)", rows)
        database.close()

    def edit(self, file: str, old: str, new: str) -> None:
        """Replace a text in a Dag file, in one step."""
        path = self.dags / file
        text = path.read_text()
        assert old in text
        draft = path.with_suffix(".draft")
        draft.write_text(text.replace(old, new))
        draft.replace(path)

    def away(self, file: str, *, until_orphaned: str, dag_ids: Iterable[str]) -> None:
        """Remove a Dag file until Airflow has forgotten an asset of it, and put it back."""
        path, elsewhere = self.dags / file, self.dags.with_name(file)
        path.rename(elsewhere)
        self.until(lambda: not self._is_known(until_orphaned), f"{until_orphaned} is orphaned")
        elsewhere.rename(path)
        self.until(lambda: self._is_known(until_orphaned), f"{until_orphaned} is back")
        for dag_id in dag_ids:
            self.until(lambda: self._is_parsed(dag_id), f"{dag_id} is back")  # noqa: B023

    def _is_parsed(self, dag_id: str) -> bool:
        dag = self.airflow.dag(dag_id)
        return dag is not None and not dag["is_stale"]

    def _is_known(self, asset: str) -> bool:
        try:
            return bool(self.airflow.asset(asset))
        except LookupError:
            return False

    def until_asset_is_at(self, asset: str, uri: str) -> None:
        def is_there() -> bool:
            try:
                return bool(self.airflow.asset(asset)["uri"] == uri)
            except LookupError:  # for a moment, while its Dag file is read
                return False

        self.until(is_there, f"{asset} is at {uri}")

    # --- what is seen ---------------------------------------------------------------------------------------------

    def until(self, happened: Callable[[], object], what: str) -> None:
        self.airflow.wait_for(lambda: happened() or None, what=what, timeout=PATIENCE)

    def until_ended(self, dag_id: str, run_id: str, ends: str = "success") -> None:
        state = self.airflow.wait_for_run(dag_id, run_id, timeout=PATIENCE)
        assert state == ends, f"{dag_id} {run_id}: {state}\n{self.log(dag_id, run_id)}"

    def until_runs(self, dag_id: str, count: int, *, of_type: str = "scheduled") -> list[str]:
        """Wait until this many runs have ended; their ids, in the order of their dates."""

        def ended() -> list[str] | None:
            runs = [run for run in self.airflow.runs(dag_id) if run["run_type"] == of_type]
            done = [str(run["dag_run_id"]) for run in runs if run["state"] in {"success", "failed"}]
            return done if len(done) == count else None

        return self.airflow.wait_for(ended, what=f"{count} runs of {dag_id}", timeout=PATIENCE)

    def lines(self, dag_id: str, **where: Any) -> list[dict[str, Any]]:
        """What the tasks of a Dag have posted, in order."""
        file = self._board / f"{dag_id}.jsonl"
        lines = map(json.loads, file.read_text().splitlines() if file.exists() else [])
        return [line for line in lines if where.items() <= line.items()]

    def windows(self, dag_id: str, **where: Any) -> list[str]:
        """The windows that were loaded, in short: `0-1 initial` is the first hour of the year."""
        return [in_short(line) for line in self.lines(dag_id, **where)]

    def mark(self, asset: str, key: str = MARK) -> Any:
        """The record of a mark; None if there is none."""
        return self.airflow.asset_state_store(asset).get(key)

    def at(self, asset: str, key: str = MARK) -> str:
        """The value of the mark, in short."""
        return hours(self.mark(asset, key)["at"])

    def journal(self, asset: str, name: str = "watermark") -> list[Mapping[str, Any]]:
        """What the events of an asset say about its mark, oldest first."""
        entries = [event["extra"].get("watermark", {}).get(name) for event in self.airflow.asset_events(asset)]
        return [entry for entry in entries if entry]

    def log(self, dag_id: str, run_id: str, number: int = 1, *, index: int = -1) -> str:
        return self.airflow.logs(dag_id, run_id, "run", number, index)


def in_short(line: Mapping[str, Any]) -> str:
    start, end = line["window"].strip("[)").split(", ")
    return " ".join([f"{hours(start)}-{hours(end)}", *line.get("is", [])])


def hours(text: str) -> str:
    """A point in time as hours since the beginning of 2026."""
    from datetime import datetime, timezone

    passed = datetime.fromisoformat(text) - datetime(2026, 1, 1, tzinfo=timezone.utc)
    return f"{passed.total_seconds() / 3600:g}"
