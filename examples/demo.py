"""Kill real Airflow tasks with SIGKILL, and watch them resume; then the same without airflow-resume.

    make demo            KEEP=1 keeps the home, and Airflow until Ctrl-C; PORT=8080 chooses the UI's port

It exits with 0 if every promise was kept, 1 if one was broken, 2 if it could not run, 130 after Ctrl-C.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn, TypeVar
from urllib.parse import quote

T = TypeVar("T")

TITLES = {
    "one_job": "one job (operator that submits and waits)",
    "every_page": "every page (loop over a paginated API)",
    "what_is_new": "what is new (three incremental runs)",
}


def main() -> int:
    """Run the demo, and return its exit code."""
    if problem := missing_feature():
        print(problem, file=sys.stderr)
        return 2
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupt)
    home = Path(tempfile.mkdtemp(prefix="airflow-resume-demo-"))
    try:
        return run(home)
    except KeyboardInterrupt:
        print("\nStopped. Everything that was started has ended.", file=sys.stderr)
        return 130
    except Exception as error:  # noqa: BLE001  the last line of defence shows a message, not a trace
        print(f"\nThe demo could not run: {error}", file=sys.stderr)
        return 2
    finally:
        if os.environ.get("KEEP"):
            print(f"Kept: {home}", file=sys.stderr)
        else:
            shutil.rmtree(home, ignore_errors=True)


def missing_feature() -> str | None:
    """What is missing on this machine, if anything."""
    if not hasattr(os, "fork"):
        return "Airflow needs a system with fork: Linux, macOS, or WSL on Windows."
    try:
        import sqlite3  # noqa: F401
    except ImportError:
        return f"{sys.executable} was built without sqlite3, which the demo keeps its data in; use another Python."
    if (port := os.environ.get("PORT")) and not port.isdecimal():
        return f"PORT={port} is not a port number."
    return None


def interrupt(_signal: int, _frame: FrameType | None) -> NoReturn:
    """End the demo as Ctrl-C does."""
    raise KeyboardInterrupt


def run(home: Path) -> int:
    """Run the demo in a home folder that exists meanwhile."""
    from rich.console import Console

    from scenarios import EXACTLY_ONCE
    from stage import SINKS, Stage

    console = Console(highlight=False, soft_wrap=True)
    started = time.monotonic()
    lock = threading.Lock()

    def say(text: str) -> None:
        with lock:
            console.print(f"[dim]{time.monotonic() - started:5.1f} s[/]  {text}")

    port = os.environ.get("PORT")
    env = {"AIRFLOW__AIRFLOW_RESUME__PAGE": "True"}
    stage = Stage(home, port=int(port) if port else None, env=env, progress=say)
    try:
        with stage:
            say(f"Airflow's UI: {stage.airflow.ui_url}  (nobody has to log in)")
            for dag_id in (*(prefix + name for prefix in ("", "documented_") for name in TITLES), *SINKS):
                stage.airflow.wait_until_parsed(dag_id)
            say("with airflow-resume:")
            resuming = play(stage, "", say)
            say("the same loop and runs, appended to a database that keeps the position too:")
            exactly_once = play(stage, EXACTLY_ONCE, say, names=("every_page", "what_is_new"))
            say("the same tasks the way Airflow's documentation shows:")
            documented = play(stage, "documented_", say)
            if os.environ.get("KEEP"):
                show(console, resuming, exactly_once, documented)
                visit(stage, say)
            say("ending everything")
    finally:
        # Ctrl-C once more must not leave half of it behind.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        stage.stop()
    if not os.environ.get("KEEP"):
        show(console, resuming, exactly_once, documented)
    kept = [*resuming.items(), *((EXACTLY_ONCE + name, outcome) for name, outcome in exactly_once.items())]
    broken = [f"{name}: {promise}" for name, outcome in kept for promise in outcome.broken]
    for promise in broken:
        console.print(f"[red]BROKEN[/]  {promise}")
    seconds = round(time.monotonic() - started, 1)
    columns = {"with": resuming, "exactly_once": exactly_once, "without": documented}
    counted = {column: numbers(outcomes) for column, outcomes in columns.items()}
    print(json.dumps({**counted, "broken": broken, "seconds": seconds}))
    return 1 if broken else 0


def play(
    stage: Any, prefix: str, say: Callable[[str], None], *, names: Iterable[str] = tuple(TITLES)
) -> dict[str, Any]:
    """Run the scenarios at the same time."""
    import scenarios

    return together({name: partial(getattr(scenarios, name), stage, prefix, say) for name in names})


def visit(stage: Any, say: Callable[[str], None]) -> None:
    """Name the page of each task that was killed. On a terminal, Airflow goes on until Ctrl-C, to look at it."""
    airflow = stage.airflow
    for dag_id in TITLES:
        newest = json.loads(
            airflow.call("GET", f"/api/v2/dags/{dag_id}/dagRuns", params={"order_by": "-run_after", "limit": 1})
        )
        run_id = quote(newest["dag_runs"][0]["dag_run_id"])
        say(f"what resumed: {airflow.ui_url}/dags/{dag_id}/runs/{run_id}/tasks/run/plugin/resume")
    say(f"watermarks: {airflow.ui_url}/plugin/watermarks")
    if sys.stdin.isatty():
        say("Airflow runs until Ctrl-C")
        with suppress(KeyboardInterrupt):
            threading.Event().wait()


def together(calls: Mapping[str, Callable[[], T]]) -> dict[str, T]:
    """Make the calls at the same time. The threads are daemons, so that Ctrl-C does not wait for them.

    Raises:
        RuntimeError: one of them raised.
    """
    results: dict[str, T] = {}
    errors: dict[str, Exception] = {}

    def keep(name: str) -> None:
        try:
            results[name] = calls[name]()
        except Exception as error:  # noqa: BLE001  raised below, in the caller's thread
            errors[name] = error

    threads = [threading.Thread(target=keep, args=(name,), daemon=True) for name in calls]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads) and not errors:
        time.sleep(0.1)
    for name, error in errors.items():
        raise RuntimeError(f"{name}: {error}") from error
    return {name: results[name] for name in calls}


def numbers(outcomes: Mapping[str, Any]) -> dict[str, Any]:
    """The numbers of each scenario."""
    return {name: outcome.numbers for name, outcome in outcomes.items()}


def show(console: Any, *columns: Mapping[str, Any]) -> None:
    """A table with a row for each number."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD if console.is_terminal else box.ASCII2, pad_edge=False)
    table.add_column("")
    for heading in ("with airflow-resume", "and with a sink", "as documented"):
        table.add_column(heading, justify="right")
    for name, title in TITLES.items():
        table.add_row(f"[bold]{title}[/]")
        found = [outcomes[name].numbers if name in outcomes else {} for outcomes in columns]
        for number in found[0]:
            table.add_row(f"  {number.replace('_', ' ')}", *(shown(each.get(number)) for each in found))
    console.print(table)


def shown(number: object) -> str:
    """A number as text for people; None: it was not played."""
    if number is None:
        return "-"
    return {True: "yes", False: "no"}[number] if isinstance(number, bool) else f"{number:,}"


if __name__ == "__main__":
    with suppress(BrokenPipeError):
        sys.exit(main())
