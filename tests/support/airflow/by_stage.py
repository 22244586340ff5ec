"""Distributes the tests of `tests/airflow` over the processes of pytest-xdist, so that none starts an Airflow twice."""

from __future__ import annotations

import pytest
from xdist.remote import Producer
from xdist.scheduler.loadscope import LoadScopeScheduling

from tests.support.airflow.stage_groups import stage_of


class ByStage(LoadScopeScheduling):  # type: ignore[misc]
    """Gives all tests that use one Airflow to one process, which begins them side by side.

    xdist gives the groups with the most tests out first. Its `--dist loadgroup` cannot be used: a mark would have to
    change a test's id.
    """

    def __init__(self, config: pytest.Config, log: Producer | None = None) -> None:
        super().__init__(config, log)
        self._stages: dict[str, str] = {}

    def _split_scope(self, nodeid: str) -> str:
        """The group of a test."""
        name = nodeid.split("::", 1)[0]
        if name not in self._stages:
            self._stages[name] = stage_of(self.config.rootpath / name)
        return self._stages[name]
