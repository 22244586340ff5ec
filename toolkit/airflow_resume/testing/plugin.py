"""The pytest plugin: fixtures that import nothing until a test asks for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest  # noqa: TID253  pytest loads this module

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_resume.testing.explorer import Report
    from airflow_resume.testing.jobs import FakeJobs


@pytest.fixture
def fake_jobs() -> FakeJobs:
    """A job system in memory, see `airflow_resume.testing.jobs.FakeJobs`."""
    from airflow_resume.testing.jobs import FakeJobs

    return FakeJobs()


@pytest.fixture(name="explore_crashes")
def _explore_crashes() -> Callable[..., Report]:
    """The crash explorer, see `airflow_resume.testing.explorer.explore_crashes`."""
    from airflow_resume.testing.explorer import explore_crashes

    return explore_crashes
