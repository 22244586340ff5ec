"""Empty databases of every kind that a sink works on, removed afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from importlib.util import find_spec
from pathlib import Path

import pytest
from sqlalchemy import Column, Engine, Integer, MetaData, String, Table, create_engine, select
from sqlalchemy.pool import NullPool

from tests.support.backends.databases import database_on_mysql, kill_connections, schema_on_postgresql

KINDS = ("sqlite", "postgresql", "mysql", "duckdb")
ROWS = Table("flights", MetaData(), Column("id", Integer, autoincrement=False), Column("name", String(40)))


@contextmanager
def place_of(kind: str, folder: Path) -> Iterator[str]:
    """The URL of an empty database with a table of flights that takes a row twice."""
    if kind == "duckdb" and find_spec("duckdb_engine") is None:
        pytest.skip("duckdb-engine is not installed: pip install duckdb-engine")
    places: dict[str, Callable[[], AbstractContextManager[str]]] = {
        "sqlite": lambda: nullcontext(f"sqlite:///{folder / 'sink.db'}"),
        "postgresql": schema_on_postgresql,
        "mysql": database_on_mysql,
        "duckdb": lambda: nullcontext(f"duckdb:///{folder / 'sink.duckdb'}"),
    }
    with places[kind]() as url:
        engine = create_engine(url, poolclass=NullPool)
        ROWS.create(engine)
        engine.dispose()
        yield url
        if kind in {"postgresql", "mysql"}:
            kill_connections(url)  # a test that has failed may hold locks


def rows_in(engine: Engine) -> list[int]:
    """The ids of the flights, sorted."""
    with engine.connect() as connection:
        return sorted(connection.scalars(select(ROWS.c.id)))
