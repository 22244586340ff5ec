"""Airflow's own backend, on a metadata database made with Airflow's migrations."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from metastore import metastore, only

from airflow_resume.testing import StoreContract


@pytest.fixture(scope="module", autouse=True)
def _metastore(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with metastore(tmp_path_factory.mktemp("airflow")):
        yield


class TestMetastoreBackend(StoreContract):
    @pytest.fixture
    def open_backend(self) -> Callable[[], Any]:
        from airflow.state.metastore import MetastoreBackend

        only(self.scopes(MetastoreBackend()))
        return MetastoreBackend
