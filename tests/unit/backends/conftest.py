from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from airflow_resume.backends import SqlStoreBackend


@pytest.fixture
def backend() -> Iterator[SqlStoreBackend]:
    """In memory, which goes with the test."""
    with closing(SqlStoreBackend("sqlite://")) as backend:
        yield backend
