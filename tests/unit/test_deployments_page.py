"""How the table of docs/deployments.md is written: the pinned Airflow has its numbers, and others what differs."""

from __future__ import annotations

from tests.support.celery.deployments_page import BEGIN, END, HEAD, described, with_column, with_rows, written

EVENT, OTHER = "task_killed", "broker_paused"
CELLS = ("1", "2", "1", "1", "2", "2", "2", "1")
PAGE = (
    f"Before.\n{BEGIN}| {' | '.join(HEAD)} |\n|{'---|' * len(HEAD)}\n"
    + "".join(f"| {described(event)} | {' | '.join(CELLS)} |\n" for event in (EVENT, OTHER))
    + f"{END}After.\n"
)


def column(page: str, name: str) -> list[str]:
    table = page.partition(BEGIN)[2].partition(END)[0]
    head, _, *rows = (line.strip("|").split("|") for line in table.splitlines())
    at = [each.strip() for each in head].index(name)
    return [row[at].strip() for row in rows]


def test_another_airflow_has_a_column_that_says_what_differs() -> None:
    now = ("2", "2", "1", "1", "2", "1", "2", "9")
    page = with_column(PAGE, {EVENT: now}, "3.4.0b2")
    assert column(page, "on Airflow 3.4.0b2") == ["jobs 2, `loop` 1", ""]
    page = with_column(page, {OTHER: (*CELLS[:-1], "3")}, "3.4.0b2")
    assert column(page, "on Airflow 3.4.0b2") == ["jobs 2, `loop` 1", "the same"]
    assert written(page) == {EVENT: CELLS, OTHER: CELLS}
    assert page.startswith("Before.\n")
    assert page.endswith("After.\n")


def test_each_other_airflow_has_its_column() -> None:
    page = with_column(with_column(PAGE, {EVENT: CELLS}, "3.4.0b2"), {OTHER: CELLS}, "3.4.0")
    assert column(page, "on Airflow 3.4.0b2") == ["the same", ""]
    assert column(page, "on Airflow 3.4.0") == ["", "the same"]


def test_new_numbers_of_the_pinned_airflow_leave_the_other_columns() -> None:
    page = with_rows(with_column(PAGE, {EVENT: CELLS}, "3.4.0b2"), {EVENT: ("1",) * 8})
    assert written(page) == {EVENT: ("1",) * 8, OTHER: CELLS}
    assert column(page, "on Airflow 3.4.0b2") == ["the same", ""]


def test_the_first_numbers_of_an_event_have_a_place_for_the_other_columns() -> None:
    page = with_rows(with_column(PAGE, {EVENT: CELLS}, "3.4.0b2"), {"cleared": CELLS})
    assert column(page, "on Airflow 3.4.0b2") == ["the same", "", ""]
