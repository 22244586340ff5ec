from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import pytest

from airflow_resume.backends import SqlStoreBackend
from tests.support.backends.databases import database_on_mysql, schema_on_postgresql


@pytest.fixture(params=["sqlite", "postgresql", "mysql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """An empty database of each kind."""
    places: dict[str, Callable[[], AbstractContextManager[str]]] = {
        "sqlite": lambda: nullcontext(f"sqlite:///{tmp_path / 'state.db'}"),
        "postgresql": schema_on_postgresql,
        "mysql": database_on_mysql,
    }
    with places[request.param]() as place:
        yield place


@pytest.fixture
def open_backend(url: str) -> Iterator[Callable[..., SqlStoreBackend]]:
    opened: list[SqlStoreBackend] = []

    def open_one(**options: Any) -> SqlStoreBackend:
        opened.append(SqlStoreBackend(url, **options))
        return opened[-1]

    yield open_one
    for backend in opened:
        backend.close()


@pytest.fixture
def backend(open_backend: Callable[..., SqlStoreBackend]) -> SqlStoreBackend:
    return open_backend()
