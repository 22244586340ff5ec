from __future__ import annotations

import pytest
from blows import is_of_task
from books import Books


def test_books_that_are_even() -> None:
    books = Books()
    books.add_job({"submitted": 1, "max_alive": 1}, [7])
    books.add_loop([0, 1, 1, 2], 3)
    books.add_partition([(0, 5), (5, 9), (5, 9)], [0, 5, 5, 9])
    assert books.is_complete
    assert books.broken == []
    assert (books.elements_repeated, books.rows, books.rows_repeated, books.marks_moved) == (1, 9, 4, 2)


@pytest.mark.parametrize(
    ("stats", "results", "broken"),
    [
        ({"submitted": 2, "max_alive": 1}, [7], "jobs_submitted_again"),
        ({"submitted": 2, "max_alive": 2}, [7], "jobs_alive_twice jobs_submitted_again"),
        ({"submitted": 1, "max_alive": 1}, [], "results_missing"),
    ],
)
def test_a_job_too_many_is_found(stats: dict[str, int], results: list[int], broken: str) -> None:
    books = Books()
    books.add_job(stats, results)
    assert books.broken == broken.split()


def test_an_element_that_is_missing_is_found() -> None:
    books = Books()
    books.add_loop([0, 2, 2], 3)
    assert (books.elements_lost, books.broken) == (1, ["elements_lost"])


def test_rows_that_were_skipped_and_a_mark_that_went_back_are_found() -> None:
    books = Books()
    books.add_partition([(0, 5), (7, 9)], [5, 3, 9])
    assert (books.rows_lost, books.marks_moved_back) == (2, 1)
    assert books.broken == ["rows_lost", "marks_moved_back"]


def test_rows_that_were_loaded_without_a_mark_are_no_loss() -> None:
    books = Books()
    books.add_partition([(0, 5)], [])
    assert (books.rows, books.rows_lost) == (5, 0)


def test_books_without_a_surface_are_not_complete() -> None:
    books = Books()
    books.add_loop([0], 1)
    assert not books.is_complete


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
