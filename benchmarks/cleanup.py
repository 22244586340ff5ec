"""What it costs to delete expired values by the million: ours beside Airflow's, with the memory that each takes.

Both delete the same number of values of Dag runs with a thousand values each, which were written one after the other.
Airflow's deletes all in one statement unless it is told a batch size, and then has more parameters than SQLite
(250,000 in Debian's) or psycopg (65,535) takes: what it says is printed. So it is measured with the 10,000 that its
documentation names. Each cleanup is a child process; its memory is its peak above what it had when it began.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from airflow_resume.backends import SqlStoreBackend
from airflow_resume.testing.contract.children import Child
from benchmarks.databases import found
from benchmarks.harness import Result, Scale, at_most, ratio_at_most, results, tell
from tests.support.backends.databases import schema_on_postgresql
from tests.support.backends.expired_rows import RUN, fill_expired
from tests.support.backends.metastore import tables_in

OURS, AIRFLOW = "SqlStoreBackend.clean", "Airflow's cleanup, 10,000 at a time"
BATCH = 10_000
FLAT = (at_most(32),)
"""MB that a batch takes, including memory of the driver and the cache of the database in the process."""

_NUMBERS = {
    "sqlite": "(WITH RECURSIVE numbers(n) AS (VALUES(0) UNION ALL SELECT n + 1 FROM numbers LIMIT {count})"
    " SELECT n FROM numbers)",
    "postgresql": "(SELECT generate_series(0, {count} - 1) AS n)",
}


def measure(scale: Scale) -> Iterator[Result]:
    few, many = scale.size(100_000, quick=1_000), scale.size(1_000_000, quick=3_000)
    for name, make in (("SQLite", in_a_file), ("PostgreSQL", partial(found, schema_on_postgresql))):
        yield from beside(name, make, many, rounds=scale.rounds(1))
        with make() as url:
            yield from tell(f"memory to delete {few:,} on {name}", {OURS: ours(url, few)[1]}, unit="MB")
        with make() as url:
            error = theirs(url, many, 0)[2]
        print(f"cleanup: Airflow's by its defaults, {many:,} on {name}: {error or 'no error'}", file=sys.stderr)


def beside(name: str, make: Callable[[], AbstractContextManager[str]], many: int, rounds: int) -> Iterator[Result]:
    """Both in turns, each time on new tables."""
    seconds: dict[str, list[float]] = {OURS: [], AIRFLOW: []}
    memory: dict[str, list[float]] = {OURS: [], AIRFLOW: []}
    for _ in range(rounds):
        for subject, clean in ((OURS, ours), (AIRFLOW, partial(theirs, batch=BATCH))):
            with make() as url:
                took, grown, error = clean(url, many)
            if error:
                raise RuntimeError(f"{subject}: {error}")
            seconds[subject].append(took / many * 1e6)
            memory[subject].append(grown)
    half = {AIRFLOW: (ratio_at_most(0.5),)}
    row = f"delete one of {many:,} expired values on {name}"
    yield from results(row, seconds, unit="us", targets=half, headline=True)
    yield from results(f"memory to delete {many:,} on {name}", {OURS: memory[OURS]}, unit="MB", targets={OURS: FLAT})


def ours(url: str, count: int) -> tuple[float, float, str]:
    """Seconds, MB and the error of a cleanup of so many."""

    def fill() -> None:
        with closing(SqlStoreBackend(url)) as backend:
            fill_expired(backend, count)

    def clean() -> tuple[float, float, str]:
        with closing(SqlStoreBackend(url)) as backend:
            _ = backend.store_id
            return measured(lambda: backend.clean().failures)

    in_a_child(fill)
    taken: tuple[float, float, str] = in_a_child(clean)
    return taken


def theirs(url: str, count: int, batch: int) -> tuple[float, float, str]:
    """The same of Airflow's."""

    def fill() -> None:
        with tables_in(url):
            fill_airflow(url.partition("+")[0].partition(":")[0], count)

    def clean() -> tuple[float, float, str]:
        with pytest.MonkeyPatch.context() as patch, tables_in(url):
            from airflow.state.metastore import MetastoreBackend

            patch.setenv("AIRFLOW__STATE_STORE__STATE_CLEANUP_BATCH_SIZE", str(batch))
            return measured(MetastoreBackend().cleanup)

    in_a_child(fill)
    taken: tuple[float, float, str] = in_a_child(clean)
    return taken


def measured(clean: Callable[[], object]) -> tuple[float, float, str]:
    began, before, error = time.perf_counter(), peak(), ""
    try:
        failed = clean()
        error = str(failed) if failed else ""
    except Exception as raised:  # noqa: BLE001  it is shown
        error = str(getattr(raised, "orig", raised))
    return time.perf_counter() - began, peak() - before, error


def peak() -> float:
    """In MB; Linux counts KiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def fill_airflow(kind: str, count: int) -> None:
    """What `fill_expired` makes, in Airflow's table."""
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session

    with create_session() as session:
        session.add_all([DagRun(dag_id="dag", run_id=f"run.{n}", run_type="manual") for n in range(-(-count // RUN))])
        session.flush()
        numbers = _NUMBERS[kind].format(count=count)
        words = (
            "INSERT INTO task_state_store"  # noqa: S608
            " (dag_run_id, task_id, map_index, key, dag_id, run_id, value, updated_at, expires_at)"
            " SELECT dag_run.id, 'task', -1, 'key.' || n, 'dag', dag_run.run_id, :value, :past, :past"
            f" FROM {numbers} AS numbers JOIN dag_run ON dag_run.run_id = 'run.' || (n / {RUN})"
        )
        past = "2020-01-01 00:00:00.000000"
        moment: Any = past if kind == "sqlite" else time_of(past)
        session.execute(text(words), {"value": '{"v": 1, "page": 3}', "past": moment})


def time_of(past: str) -> object:
    from datetime import datetime, timezone

    return datetime.fromisoformat(past).replace(tzinfo=timezone.utc)


def in_a_child(work: Callable[[], Any]) -> Any:
    def run(sender: Connection) -> None:
        sender.send((None, work()))

    with Child(run) as child:
        while not child.messages.poll(1):
            pass
        return child.receive()


@contextmanager
def in_a_file() -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder:
        yield f"sqlite:///{Path(folder, 'state.db')}"
