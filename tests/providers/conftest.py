"""Warnings that are the providers' own doing, and not a fault of what is tested."""

from __future__ import annotations

from pathlib import Path

import pytest

_OF_PROVIDERS = (
    "ignore:ProvidersManager.hooks is deprecated",
    "ignore::airflow.exceptions.AirflowProviderDeprecationWarning",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            for each in _OF_PROVIDERS:
                item.add_marker(pytest.mark.filterwarnings(each))
