from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from airflow_resume.testing import StoreContract
from airflow_resume.testing.contract import Ability
from tests.support.backends.sqlite_store import SqliteStore


class TestSqliteStore(StoreContract):
    promises = frozenset(Ability) - {Ability.SCOPES}

    @pytest.fixture
    def open_store(self, tmp_path: Path) -> Callable[[], SqliteStore]:
        return partial(SqliteStore, tmp_path / "state.db")
