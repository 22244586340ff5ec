"""A real Airflow with Celery workers for each class of tests, and what is written when all tests have ended."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from stage import Stage
from tests.support.airflow.job_dag_files import few_flights
from tests.support.celery.books import summary
from tests.support.celery.celery_airflow import CeleryAirflow
from tests.support.celery.course import Course
from tests.support.celery.deployments_page import put_on_page

DAGS = Path(__file__).parents[1] / "support" / "celery" / "dags"
WRITE_PAGE = "WRITE_DEPLOYMENTS_PAGE"
"""The environment variable with which the table of the page is written."""


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "event" in metafunc.fixturenames:
        metafunc.parametrize("event", [name for group in metafunc.cls.GROUPS for name in group])


@pytest.fixture(scope="class")
def stage(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """An Airflow with the settings of the class."""
    home = Path(tmp_path_factory.mktemp("celery"))
    folder = home / "lines"
    folder.mkdir()
    env = {"EVERYTHING_FOLDER": str(folder), "EVERYTHING_BEGAN": str(time.time()), **request.cls.SETTINGS}
    options: dict[str, Any] = {"triggerer": True, "env": env, "progress": say}
    with Stage(home, dags=DAGS, flights=few_flights(home), airflow=CeleryAirflow, **options) as running:
        running.airflow.wait_until_parsed("everything")
        yield running


@pytest.fixture(scope="class")
def course(request: pytest.FixtureRequest, stage: Stage) -> Iterator[Course]:
    """The events of the class that are to be played."""
    of_class = [item for item in request.session.items if getattr(item, "cls", None) is request.cls]
    wanted = {item.callspec.params.get("event") for item in of_class if hasattr(item, "callspec")}
    groups = [{name: event for name, event in group.items() if name in wanted} for group in request.cls.GROUPS]
    running = Course(stage, groups)
    yield running
    running.close()


@pytest.fixture(scope="class", autouse=True)
def marks(request: pytest.FixtureRequest) -> Iterator[dict[str, list[int]]]:
    """The values of each mark, by key, in the order in which they were seen."""
    seen: dict[str, list[int]] = {}
    if request.cls is None:
        yield seen
        return
    airflow, over = request.getfixturevalue("stage").airflow, threading.Event()

    def look() -> None:
        while not over.wait(1):
            with suppress(Exception):  # the API server may be away
                for key, record in airflow.asset_state_store("everything").items():
                    seen.setdefault(key, []).append(int(record["at"]))

    watcher = threading.Thread(target=look)
    watcher.start()
    yield seen
    over.set()
    watcher.join()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the sums of all events, and write the table if that is wanted.

    The tests may have run in several processes. What they recorded comes with their reports.
    """
    reports = [report for of_kind in terminalreporter.stats.values() for report in of_kind]
    recorded = [each for report in reports if getattr(report, "when", "") == "call" for each in report.user_properties]
    books: Counter[str] = Counter()
    for name, value in recorded:
        if name == "books":
            books.update(value)
        if name == "revived" and value:
            terminalreporter.write_line(f"ended by themselves, and were started again: {value}")
    if books:
        terminalreporter.write_line(summary(books))
    if WRITE_PAGE in os.environ:
        rows = [value for name, value in recorded if name == "row"]
        put_on_page({event: tuple(cells) for event, *cells in rows})
