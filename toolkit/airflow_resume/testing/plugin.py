"""The pytest plugin: fixtures that import nothing until a test asks for them.

No fixture is called `task_context`, like what one of them gives: pytest-airflow-in-a-box has one of that name, and of
two plugins the one that happens to load last would win without a word.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest  # noqa: TID253  pytest loads this module

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_resume.testing.context import TaskAttempt
    from airflow_resume.testing.explorer import Report
    from airflow_resume.testing.jobs import FakeJobs
    from airflow_resume.testing.stores import FakeAssetStore, FakeTaskStore


@pytest.fixture
def task_state_store() -> FakeTaskStore:
    """The state of a task, see `airflow_resume.testing.FakeTaskStore`."""
    from airflow_resume.testing.stores import FakeTaskStore

    return FakeTaskStore()


@pytest.fixture
def asset_state_store() -> FakeAssetStore:
    """The state of an asset, see `airflow_resume.testing.FakeAssetStore`."""
    from airflow_resume.testing.stores import FakeAssetStore

    return FakeAssetStore()


@pytest.fixture
def task_attempt() -> Callable[..., TaskAttempt]:
    """Makes the first attempt of a task, see `airflow_resume.testing.task_context`."""
    from airflow_resume.testing.context import task_context

    return task_context


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
