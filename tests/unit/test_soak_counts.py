from __future__ import annotations

import pytest

from soak.counts import Counts
from soak.disruptions import is_of_task


def test_books_that_are_even() -> None:
    counts = Counts()
    counts.add_job({"submitted": 1, "max_alive": 1}, [7])
    counts.add_loop([0, 1, 1, 2], 3)
    counts.add_partition([(0, 5), (5, 9), (5, 9)], [0, 5, 5, 9])
    assert counts.is_complete
    assert counts.broken == []
    assert (counts.elements_repeated, counts.rows, counts.rows_repeated, counts.marks_moved) == (1, 9, 4, 2)


@pytest.mark.parametrize(
    ("stats", "results", "broken"),
    [
        ({"submitted": 2, "max_alive": 1}, [7], "jobs_submitted_again"),
        ({"submitted": 2, "max_alive": 2}, [7], "jobs_alive_twice jobs_submitted_again"),
        ({"submitted": 1, "max_alive": 1}, [], "results_missing"),
    ],
)
def test_a_job_too_many_is_found(stats: dict[str, int], results: list[int], broken: str) -> None:
    counts = Counts()
    counts.add_job(stats, results)
    assert counts.broken == broken.split()


def test_an_element_that_is_missing_is_found() -> None:
    counts = Counts()
    counts.add_loop([0, 2, 2], 3)
    assert (counts.elements_lost, counts.broken) == (1, ["elements_lost"])


def test_rows_that_were_skipped_and_a_mark_that_went_back_are_found() -> None:
    counts = Counts()
    counts.add_partition([(0, 5), (7, 9)], [5, 3, 9])
    assert (counts.rows_lost, counts.marks_moved_back) == (2, 1)
    assert counts.broken == ["rows_lost", "marks_moved_back"]


def test_rows_that_were_loaded_without_a_mark_are_no_loss() -> None:
    counts = Counts()
    counts.add_partition([(0, 5)], [])
    assert (counts.rows, counts.rows_lost) == (5, 0)


def test_books_without_a_surface_are_not_complete() -> None:
    counts = Counts()
    counts.add_loop([0], 1)
    assert not counts.is_complete


@pytest.mark.parametrize(
    ("title", "is_one"),
    [
        ("airflow worker -- 01a221f7-66e4-7fd2-bf97-9ef2c8e25f5e", True),
        ("airflow worker -- LocalExecutor: <idle>", False),
        ("airflow api_server -- host:127.0.0.1 port:43061", False),
    ],
)
def test_what_runs_a_task_is_known_by_its_title(title: str, is_one: bool) -> None:  # noqa: FBT001
    assert is_of_task([title]) is is_one
