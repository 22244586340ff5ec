"""Airflow's own backend, on the tables of its metadata database."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import pytest

from airflow_resume.testing.contract import Ability
from tests.support.backends.cleanup_race import CleanupRace, in_another_session
from tests.support.backends.databases import schema_on_postgresql
from tests.support.backends.metastore import metastore, only, tables_in


class MetastoreContract(CleanupRace):
    __test__ = False
    examples = 20  # a call takes some milliseconds
    promises = (Ability.SCOPES, Ability.DURABLE, Ability.RETENTION, Ability.CLEANUP)
    differs: ClassVar = {
        "test_what_is_set_again_during_a_cleanup_is_not_collected": (
            "Airflow's cleanup looks for expired rows and then deletes them by id, also those that were set again"
        )
    }

    @pytest.fixture
    def open_backend(self) -> Callable[[], Any]:
        from airflow.state.metastore import MetastoreBackend

        only(self.scopes(MetastoreBackend()))
        return MetastoreBackend

    @pytest.fixture
    def set_elsewhere(self, backend: Any) -> Callable[..., None]:
        return in_another_session(backend)


class TestMetastoreOnSqlite(MetastoreContract):
    """Made with Airflow's migrations."""

    @pytest.fixture(scope="class", autouse=True)
    def _metastore(self, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
        with metastore(tmp_path_factory.mktemp("airflow")):
            yield


class TestMetastoreOnPostgreSQL(MetastoreContract):
    @pytest.fixture(scope="class", autouse=True)
    def _metastore(self) -> Iterator[None]:
        with schema_on_postgresql() as url, tables_in(url):
            yield
