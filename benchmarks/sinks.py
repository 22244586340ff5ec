"""What a sink costs for each row, beside a plain `executemany` with a commit a page, and a loop without a sink."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sqlalchemy import Column, Engine, Integer, MetaData, String, Table, create_engine, insert

from airflow_resume import checkpoint
from airflow_resume.loops import Batches
from airflow_resume.sinks import SqlSink
from airflow_resume.store import MemoryStore
from benchmarks.databases import found
from benchmarks.harness import NotMeasuredError, Result, Scale, compare
from tests.support.backends.databases import database_on_mysql, schema_on_postgresql

PAGE = 100
ROWS = Table("flights", MetaData(), Column("id", Integer, autoincrement=False), Column("name", String(40)))
PLAIN = "executemany, a commit a page"


def measure(scale: Scale) -> Iterator[Result]:
    count, rounds = scale.size(20_000, quick=1_000), scale.rounds(5)
    missing = []
    for name, place in _places().items():
        try:
            with place() as url:
                yield from on(name, url, count, rounds)
        except NotMeasuredError as error:
            missing.append(f"{name}: {error}")
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


def on(name: str, url: str, count: int, rounds: int) -> list[Result]:
    engine = create_engine(url)
    ROWS.create(engine)
    rows = [{"id": number, "name": f"flight {number}"} for number in range(count)]
    with closing(_Disposed(engine)):
        return compare(
            f"a row in pages of {PAGE} to {name}",
            {
                "checkpoint with SqlSink": lambda: with_sink(engine, rows, commit_every=1),
                PLAIN: lambda: plain(engine, rows),
                "checkpoint without a sink": lambda: without_sink(engine, rows),
                "with SqlSink, commit_every=10": lambda: with_sink(engine, rows, commit_every=10),
            },
            per=count,
            unit="us",
            rounds=rounds,
            headline=name == "PostgreSQL",
        )


class _Disposed:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def close(self) -> None:
        self._engine.dispose()


def with_sink(engine: Engine, rows: list[dict[str, Any]], *, commit_every: int) -> None:
    source, store = Batches(rows, size=PAGE), MemoryStore()
    sink = SqlSink(engine, script="benchmark")
    with checkpoint(source, name="rows", sink=sink, commit_every=commit_every, store=store, on_done="restart") as loop:
        for page in loop:
            loop.connection.execute(insert(ROWS), page)


def without_sink(engine: Engine, rows: list[dict[str, Any]]) -> None:
    for page in checkpoint(Batches(rows, size=PAGE), name="rows", store=MemoryStore()):
        with engine.begin() as connection:
            connection.execute(insert(ROWS), page)


def plain(engine: Engine, rows: list[dict[str, Any]]) -> None:
    for start in range(0, len(rows), PAGE):
        with engine.begin() as connection:
            connection.execute(insert(ROWS), rows[start : start + PAGE])
