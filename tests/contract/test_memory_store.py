from __future__ import annotations

import pytest

from airflow_resume.store import MemoryStore
from airflow_resume.testing import StoreContract


class TestMemoryStore(StoreContract):
    @pytest.fixture
    def store(self) -> MemoryStore:
        return MemoryStore()
