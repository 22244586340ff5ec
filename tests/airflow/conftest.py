from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from stage import Stage


@pytest.fixture(scope="session")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """A real Airflow with the example Dags and what they talk to."""

    def say(text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    with Stage(Path(tmp_path_factory.mktemp("stage")), job_seconds=6, progress=say) as running:
        yield running


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.airflow)
