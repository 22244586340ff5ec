"""The object-storage backend of the common.io provider, in a folder of the test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

MODULE = "airflow.providers.common.io.state_store.backend"


@contextmanager
def object_storage(url: str) -> Iterator[Any]:
    """The class of the backend, configured to keep its files there."""
    provider: Any = pytest.importorskip(MODULE, reason="this common.io provider has no state backend")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIRFLOW__COMMON_IO__STATE_STORE_OBJECTSTORAGE_PATH", url)
        provider._get_base_path.cache_clear()  # it reads its configuration once
        yield provider.StateStoreObjectStorageBackend
    provider._get_base_path.cache_clear()
