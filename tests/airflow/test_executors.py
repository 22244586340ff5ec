"""Pods and workers of the Kubernetes and the Edge executor that go, simulated by their signals: see `events`.

With `WRITE_DEPLOYMENTS_PAGE=1` the table of docs/deployments.md is written.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import pytest

from airflow_resume.drain_file import VARIABLE
from stage import Stage
from tests.support.airflow.job_dag_files import few_flights
from tests.support.celery.books import elements_again_at_most, elements_of, windows_of
from tests.support.celery.played import JOBS, Everything
from tests.support.executors.events import BY_FILE, BY_SIGNAL, EVENTS, KILLS_ALL, KILLS_WINDOWS, LEAVE
from tests.support.executors.page import put_on_page, row_of, written

pytestmark = pytest.mark.airflow
DAGS = Path(__file__).parents[1] / "support" / "celery" / "dags"
AT_ONCE = 2
"""Runs, each with four tasks."""
HEARTBEAT_TIMEOUT = 60
"""Seconds. Fewer, and a busy machine loses tasks to which nothing has happened."""
WRITE_PAGE = "WRITE_DEPLOYMENTS_PAGE"


@pytest.fixture(scope="module")
def runs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Everything]]:
    """The run of each event that is asked for, at its end."""
    asked = [item.callspec.params.get("event") for item in request.session.items if hasattr(item, "callspec")]
    by_signal, by_file = ([name for name in events if name in asked] for events in (BY_SIGNAL, BY_FILE))
    home = Path(tmp_path_factory.mktemp("executors"))
    folder, drain_file = home / "lines", home / "drain"
    folder.mkdir()
    env = {
        "EVERYTHING_FOLDER": str(folder),
        "EVERYTHING_BEGAN": str(time.time()),
        "AIRFLOW__CORE__PARALLELISM": str(5 * AT_ONCE),
        VARIABLE: str(drain_file),
    }

    def say(text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    def played(name: str) -> Everything:
        run = Everything(stage, folder, name)
        run.start()
        EVENTS[name](run, drain_file)
        run.end()
        return run

    with Stage(
        home,
        dags=DAGS,
        flights=few_flights(home),
        heartbeat_timeout=HEARTBEAT_TIMEOUT,
        triggerer=True,
        env=env,
        progress=say,
    ) as stage:
        stage.airflow.wait_until_parsed("everything")
        with ThreadPoolExecutor(AT_ONCE) as pool:
            found = dict(zip(by_signal, pool.map(played, by_signal), strict=True))
        found |= {name: played(name) for name in by_file}
        if WRITE_PAGE in os.environ:
            put_on_page({name: row_of(run) for name, run in found.items()})
        for run in found.values():
            run.seen = {task_id: run.books(task_id) for task_id in JOBS}
        yield found


@pytest.mark.parametrize("event", EVENTS)
def test_nothing_is_lost_and_nothing_is_there_twice(runs: dict[str, Everything], event: str) -> None:
    run = runs[event]
    assert run.state == "success"
    for task_id in JOBS:
        books = run.seen[task_id]
        assert (books["alive"], books["max_alive"], books["submitted"]) == (0, 1, 1), task_id
    delivered = elements_of(run)
    assert set(delivered) == set(range(max(delivered) + 1))
    assert len(delivered) - len(set(delivered)) <= elements_again_at_most(run)
    windows = windows_of(run)
    assert windows[0][0] == 0
    assert all(before[1] == after[0] for before, after in pairwise(windows))


@pytest.mark.parametrize("event", EVENTS)
def test_only_what_is_killed_uses_a_try(runs: dict[str, Everything], event: str) -> None:
    tries = runs[event].tries
    assert {tries[task_id] for task_id in LEAVE} == ({2} if event in KILLS_ALL else {1})
    assert tries["mark"] == (2 if event in KILLS_ALL | KILLS_WINDOWS else 1)


def test_the_page_has_every_event() -> None:
    assert list(written()) == list(EVENTS)
