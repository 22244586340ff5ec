"""The next Airflow, on which `make next` plays the suites: whether it is the installed one, and what differs there.

A test that cannot pass on the next Airflow is listed in `DIFFERENCES`, with the test that shows what happens there
instead. There a listed test must fail; if it passes, the difference is gone and its entry must go too. Every other test
must pass on both.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from packaging.version import Version

if TYPE_CHECKING:
    from airflow_resume.testing.fakes.world import AirflowVersion

ROOT = Path(__file__).parents[3]
AIRFLOW = Version(version("apache-airflow-core"))
NEXT = (3, 4)
IS_NEXT = AIRFLOW.release >= NEXT
"""The pre-releases of 3.4 count as 3.4."""
FAKES: AirflowVersion = "3.4" if IS_NEXT else "3.3"
"""The version of the fakes that are like the installed Airflow, for `World(airflow=)` and `task_context(airflow=)`."""


def pinned_airflow() -> str:
    """The version of Airflow that the other suites are played on."""
    (line,) = re.findall(r'"apache-airflow==(3\.[0-9.]+)"', (ROOT / "pyproject.toml").read_text())
    return str(line)


@dataclass(frozen=True, kw_only=True)
class Difference:
    """A test that cannot pass on the next Airflow.

    Args:
        tests: the beginning of the node ids of the tests.
        why: what the next Airflow does otherwise.
        shown_by: the node id of a test that asserts what the next Airflow does.
        only: of parametrised tests, those with this text in their brackets; None: all.
        is_played: whether the test is played there. One that would only wait for a time-out is left out.
    """

    tests: str
    why: str
    shown_by: str
    only: str | None = None
    is_played: bool = True

    def is_of(self, nodeid: str) -> bool:
        """Whether it is about the test."""
        return nodeid.startswith(self.tests) and (self.only is None or self.only in nodeid.partition("[")[2])


_WARM = "tests/next/test_airflow_3_4.py::test_a_supervisor_that_is_told_to_go_waits_for_its_task_and_does_not_tell_it"
_TOLD = "a supervisor that gets SIGTERM waits for its task and does not pass the signal on"
_GIVES_UP = "tests/next/test_airflow_3_4.py::test_the_scheduler_ends_when_it_gives_up_a_task_that_sends_no_heartbeat"
_ENDS = "the scheduler ends when it gives up a task that sends no heartbeat"

DIFFERENCES = (
    Difference(
        tests="tests/celery/test_celery.py::TestTasksAndWorkers::test_nothing_is_lost_and_nothing_is_there_twice",
        only="cold_shutdown",
        why=_ENDS,
        shown_by=_GIVES_UP,
        is_played=False,
    ),
    Difference(
        tests="tests/celery/test_celery.py::TestTasksAndWorkers::test_nothing_is_lost_and_nothing_is_there_twice",
        only="worker_killed",
        why=_ENDS,
        shown_by=_GIVES_UP,
        is_played=False,
    ),
    Difference(
        tests="tests/celery/test_celery.py::TestTasksAndWorkers::test_nothing_is_lost_and_nothing_is_there_twice",
        only="worker_main_killed",
        why=_ENDS,
        shown_by=_GIVES_UP,
        is_played=False,
    ),
    Difference(
        tests="tests/celery/test_celery.py::TestTasksAndWorkers::test_nothing_is_lost_and_nothing_is_there_twice",
        only="warm_shutdown_cut_short",
        why=_ENDS,
        shown_by=_GIVES_UP,
        is_played=False,
    ),
    Difference(
        tests="tests/airflow/test_loops_killed.py::test_a_stalled_attempt_that_wakes_up_delivers_nothing_more",
        why=_ENDS,
        shown_by=_GIVES_UP,
        is_played=False,
    ),
    Difference(
        tests="tests/airflow/test_watermarks.py::test_a_task_that_lost_its_supervisor_stops_loading",
        why=_ENDS,
        shown_by=_GIVES_UP,
        is_played=False,
    ),
    Difference(
        tests="tests/airflow/test_jobs_killed.py::test_a_task_that_is_told_to_go_comes_back_in_the_same_try",
        only="supervisor",
        why=_TOLD,
        shown_by=_WARM,
        is_played=False,
    ),
    Difference(
        tests="tests/airflow/test_jobs_killed.py::test_a_task_whose_time_to_go_is_over_leaves_the_job",
        why=_TOLD,
        shown_by=_WARM,
        is_played=False,
    ),
    Difference(
        tests="tests/airflow/test_loops_killed.py::test_a_loop_within_another_is_saved_with_it_when_the_worker_goes",
        why=_TOLD,
        shown_by=_WARM,
        is_played=False,
    ),
    Difference(
        tests="tests/airflow/test_loops_killed.py::test_an_async_loop_whose_worker_goes_repeats_no_element_either",
        why=_TOLD,
        shown_by=_WARM,
        is_played=False,
    ),
    Difference(
        tests="tests/airflow/test_loops_killed.py::test_a_parallel_loop_whose_worker_goes_finishes_what_is_in_flight",
        why=_TOLD,
        shown_by=_WARM,
        is_played=False,
    ),
    Difference(
        tests="tests/airflow/test_loops_killed.py::test_a_loop_that_is_to_fail_when_its_worker_goes_uses_a_retry",
        why=_TOLD,
        shown_by=_WARM,
        is_played=False,
    ),
    Difference(
        tests="tests/airflow/test_loops_killed.py::test_a_loop_whose_worker_goes_goes_on_in_the_same_try",
        only="supervisor",
        why=_TOLD,
        shown_by=_WARM,
        is_played=False,
    ),
)


def expect_differences(
    config: pytest.Config,
    items: list[pytest.Item],
    *,
    among: Sequence[Difference] = DIFFERENCES,
    is_next: bool = IS_NEXT,
) -> None:
    """On the next Airflow: expect the listed tests to fail, and leave out those that would only wait."""
    if not is_next:
        return
    listed = [(item, each) for item in list(items) for each in among if each.is_of(item.nodeid)]
    left_out = [item for item, each in listed if not each.is_played]
    items[:] = [item for item in items if item not in left_out]
    config.hook.pytest_deselected(items=left_out)
    for item, each in listed:
        item.add_marker(pytest.mark.xfail(strict=True, reason=f"Airflow {AIRFLOW}: {each.why}"))
