"""The pytest plugin: fixtures that import nothing until a test asks for them.

No fixture is called `task_context`, although `task_attempt` gives that function, because pytest-airflow-in-a-box has a
fixture of that name. If two plugins have fixtures of the same name, the plugin that is loaded last wins silently.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest  # noqa: TID253  pytest loads this module

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from airflow_resume.testing.crashes.explorer import CrashReport
    from airflow_resume.testing.fakes.context import TaskAttempt
    from airflow_resume.testing.fakes.jobs import FakeJobs
    from airflow_resume.testing.fakes.stores import FakeAssetStore, FakeTaskStore


@pytest.fixture
def task_state_store() -> FakeTaskStore:
    """The state of a task, see `airflow_resume.testing.FakeTaskStore`."""
    from airflow_resume.testing.fakes.stores import FakeTaskStore

    return FakeTaskStore()


@pytest.fixture
def asset_state_store() -> FakeAssetStore:
    """The state of an asset, see `airflow_resume.testing.FakeAssetStore`."""
    from airflow_resume.testing.fakes.stores import FakeAssetStore

    return FakeAssetStore()


@pytest.fixture
def task_attempt() -> Callable[..., TaskAttempt]:
    """Makes the first attempt of a task, see `airflow_resume.testing.task_context`."""
    from airflow_resume.testing.fakes.context import task_context

    return task_context


@pytest.fixture
def fake_jobs() -> FakeJobs:
    """A job system in memory, see `airflow_resume.testing.FakeJobs`."""
    from airflow_resume.testing.fakes.jobs import FakeJobs

    return FakeJobs()


class _Explorer:
    """`explore_crashes`, which records that it was called."""

    called = False

    def __call__(self, *arguments: Any, **options: Any) -> CrashReport:
        from airflow_resume.testing import explore_crashes

        self.called = True
        return explore_crashes(*arguments, **options)


@pytest.fixture
def explore_crashes() -> Callable[..., CrashReport]:
    """The crash explorer, see `airflow_resume.testing.explore_crashes`. A test that never calls it fails."""
    return _Explorer()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Fail a test that passes although it never explored, or although it did not read what was found."""
    _unread_reports()
    passed = yield
    explorer = getattr(item, "funcargs", {}).get("explore_crashes")
    if isinstance(explorer, _Explorer) and not explorer.called:
        pytest.fail(f"{item.name} asks for the fixture explore_crashes and never calls it.", pytrace=False)
    if unread := _unread_reports():
        found = len(unread[0].findings)
        pytest.fail(
            f"find_all=True found {found}, and the test did not look.\nWrite `assert not report.findings`, or leave"
            f" find_all out.",
            pytrace=False,
        )
    return passed


def _unread_reports() -> list[Any]:
    """The unread reports since the last call. Nothing is imported: without an exploration there are none."""
    module = sys.modules.get("airflow_resume.testing.crashes.unread_reports")
    return [] if module is None else module.take_unread()
