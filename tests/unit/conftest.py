from __future__ import annotations

import logging

import pytest


@pytest.fixture(autouse=True, scope="session")
def _quiet() -> None:
    """Thousands of attempts need no log; a test that reads the log asks for its level."""
    logging.getLogger("airflow_resume").setLevel(logging.WARNING)


@pytest.fixture
def caplog(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, logger="airflow_resume")
    return caplog
