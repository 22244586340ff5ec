"""A process that is forked in the body of a loop leaves the transaction of its parent alone, however it ends."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine, create_engine

from tests.support.sinks.places import place_of, rows_in

# New processes, as a fork of the process of the tests would end the tests.
SCRIPT = """
    import os, sys
    from contextlib import nullcontext
    from sqlalchemy import create_engine, insert
    from sqlalchemy.orm import Session
    from airflow_resume import checkpoint
    from airflow_resume.errors import SinkUnsafeError
    from airflow_resume.loops import Skip
    from airflow_resume.sinks import SqlSink
    from airflow_resume.store import MemoryStore
    from tests.support.sinks.places import ROWS

    url, way = sys.argv[1:]

    def in_child(loop):
        if way.startswith("use"):
            for use in (
                lambda: loop.connection,
                lambda: kept.execute(insert(ROWS), {"id": 99}),
                lambda: kept.connection,
                lambda: kept.rollback() if way == "use, roll back" else kept.commit(),
            ):
                try:
                    use()
                except SinkUnsafeError as error:
                    assert "was forked" in str(error), error
                else:
                    raise AssertionError(use)
        if way == "session":
            with Session(bind=kept) as session:
                sys.exit(0)
        if way == "error":
            raise KeyError
        if way != "next":
            sys.exit(0)

    sink, skip = SqlSink(create_engine(url)), Skip(on=(KeyError,)) if way == "skipping" else None
    with checkpoint([1, 2, 3], name="rows", sink=sink, skip=skip, store=MemoryStore()) as loop:
        for number in loop:
            kept = loop.connection
            kept.execute(insert(ROWS), {"id": number})
            if number != 2:
                continue
            if way == "large":  # more than the memory of SQLite, which then has written to the file and its journal
                if kept.dialect.name == "sqlite":
                    kept.exec_driver_sql("PRAGMA cache_size = 1")
                kept.execute(insert(ROWS), [{"id": each, "name": "x" * 30} for each in range(1000, 5000)])
            with loop.skipping() if way == "skipping" else nullcontext():
                child = os.fork()
                if child == 0:
                    in_child(loop)  # with "next": goes on with the loop
                if child:
                    _, status = os.waitpid(child, 0)
                    print("child", os.waitstatus_to_exitcode(status), flush=True)
                    kept.execute(insert(ROWS), {"id": 20})
                    kept.execute(ROWS.delete().where(ROWS.c.id >= 1000))
                    if way == "killed afterwards":
                        os._exit(7)
"""
WAYS = {
    "SystemExit": 0,
    "use, commit": 0,
    "use, roll back": 0,
    "skipping": 0,
    "session": None,
    "large": 0,
    "error": 1,
    "next": 1,
    "killed afterwards": 0,
}


@pytest.fixture(params=["sqlite", "postgresql", "mysql"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    with place_of(request.param, tmp_path) as url:
        engine = create_engine(url)
        yield engine
        engine.dispose()


@pytest.mark.parametrize("way", WAYS)
def test_the_transaction_of_the_parent_goes_on_when_a_fork_ends(engine: Engine, way: str) -> None:
    url = engine.url.render_as_string(hide_password=False)
    command = [sys.executable, "-c", textwrap.dedent(SCRIPT), url, way]
    ended = subprocess.run(command, check=False, capture_output=True, text=True, env=os.environ, timeout=120)
    assert ended.returncode == (7 if way == "killed afterwards" else 0), ended.stderr[-3000:]
    [code] = [int(line.split()[1]) for line in ended.stdout.splitlines() if line.startswith("child ")]
    assert WAYS[way] in {None, code}, ended.stderr[-3000:]
    assert rows_in(engine) == ([1] if way == "killed afterwards" else [1, 2, 3, 20])
