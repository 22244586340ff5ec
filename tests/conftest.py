"""Make the examples and the tests' own support importable, from a checkout and from a copy alike."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
sys.path[:0] = [str(TESTS.parent / "examples"), str(TESTS / "support")]


@pytest.fixture(autouse=True, scope="session")
def _quiet() -> None:
    """Thousands of attempts need no log; a test that reads the log asks for its level."""
    logging.getLogger("airflow_resume").setLevel(logging.WARNING)


@pytest.fixture
def caplog(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, logger="airflow_resume")
    return caplog
