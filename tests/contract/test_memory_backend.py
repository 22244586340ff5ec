from __future__ import annotations

import pytest
from memory_backend import MemoryBackend

from airflow_resume.testing import StoreContract


class TestMemoryBackend(StoreContract):
    @pytest.fixture
    def backend(self) -> MemoryBackend:
        return MemoryBackend()
