"""Make the examples and the tests' own support importable, from a checkout and from a copy alike."""

from __future__ import annotations

import gc
import logging
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "examples"), str(ROOT)]

# The examples are the same in every run, and none has to be found or tried in time: a busy machine fails no law.
# `--hypothesis-profile=search` looks for new ones.
settings.register_profile("search", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("repeat", settings.get_profile("search"), derandomize=True)
settings.load_profile("repeat")


def pytest_addoption(parser: pytest.Parser) -> None:
    from tests.support.share import Share

    parser.addoption("--share", type=Share.parsed, metavar="K/N", help="play the K-th of N equal shares of the tests")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    from tests.support.kit.next_airflow import expect_differences

    expect_differences(config, items)
    if share := config.getoption("share"):
        items[:], others = share.split(items)
        config.hook.pytest_deselected(items=others)


def pytest_collection_finish() -> None:
    """Many tests collect the garbage, and need not look each time at what Airflow has imported."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True, scope="session")
def _quiet() -> None:
    """Thousands of attempts need no log; a test that reads the log asks for its level."""
    logging.getLogger("airflow_resume").setLevel(logging.WARNING)


@pytest.fixture
def caplog(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, logger="airflow_resume")
    return caplog
