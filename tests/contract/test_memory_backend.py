from __future__ import annotations

import pytest

from airflow_resume.testing import StoreContract
from tests.support.backends.memory_backend import MemoryBackend


class TestMemoryBackend(StoreContract):
    @pytest.fixture
    def backend(self) -> MemoryBackend:
        return MemoryBackend()
