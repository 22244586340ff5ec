from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest
from sql_places import database_on_mysql, schema_on_postgresql


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
