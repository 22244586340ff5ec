"""Airflow's metrics of a loop: told at the opening and at writes, with two tags."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from airflow_resume import checkpoint
from airflow_resume.loops import CursorToken, Page, Skip
from airflow_resume.testing import task_context


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Any]]:
    """What was told, with its number, and that of the tags."""
    from airflow.sdk._shared.observability.metrics import stats

    seen: list[tuple[str, Any]] = []

    def note(name: str, number: Any = 1, *, tags: dict[str, str]) -> None:
        assert set(tags) == {"operator", "loop"}
        seen.append((name.removeprefix("checkpoint."), number))

    for kind in ("incr", "gauge", "timing"):
        monkeypatch.setattr(stats, kind, note)
    return seen


def test_elements_are_told_at_writes_and_never_one_by_one(told: list[tuple[str, Any]]) -> None:
    with task_context():
        list(checkpoint(range(1000), name="l"))
    assert [name for name, _ in told] == ["opened", "elements", "write", "done_ratio"]
    assert dict(told)["elements"] == 1000
    assert dict(told)["done_ratio"] == 1.0


def test_starting_over_stalls_and_skips_are_told(told: list[tuple[str, Any]]) -> None:
    first = task_context()
    with first, checkpoint(range(4), name="l", skip=Skip(on=(ValueError,))) as loop:
        for number in loop:
            with loop.skipping():
                if number:
                    raise ValueError(number)
    assert sum(number for name, number in told if name == "skipped") == 3
    told.clear()
    with first.clear():
        next(iter(checkpoint(range(4), name="l")))
    assert [name for name, _ in told][:2] == ["opened", "restarted"]


def test_progress_in_words_goes_on_the_row_of_a_mapped_task() -> None:
    """As Airflow renders `map_index_template` after the task, with its context, also when it has failed."""
    from jinja2 import Environment

    def pages(token: int | None) -> Page[int]:
        return Page([0], (token or 0) + 1 if (token or 0) < 3 else None, pages=4)

    rows = []
    attempt = task_context()
    for fails in (True, False):
        context: dict[str, Any] = dict(attempt.context)
        with attempt, checkpoint(CursorToken(pages), name="l") as loop, suppress(ZeroDivisionError):
            try:
                for number, _ in enumerate(loop):
                    _ = 1 // (2 - number) if fails else 1
            finally:
                context["progress"] = f"orders: {loop.progress}"
        rows.append(Environment(autoescape=True).from_string("{{ progress }}").render(context))
        attempt = attempt.retry()
    assert rows == ["orders: page 3 of 4", "orders: done, 4 pages"]


def test_a_backend_that_fails_neither_fails_the_loop_nor_fills_the_log(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from airflow.sdk._shared.observability.metrics import stats

    from airflow_resume import metrics

    def fail(*_: Any, **__: Any) -> None:
        raise OSError("no route to the backend")

    for kind in ("incr", "gauge", "timing"):
        monkeypatch.setattr(stats, kind, fail)
    monkeypatch.setattr(metrics, "_failed", set())
    with task_context() as attempt:
        assert list(checkpoint(range(4), name="l", durability="sync")) == [0, 1, 2, 3]
    record: Any = attempt.task_store.values["resume.loop.l"]
    assert record["done"]
    said = [entry.getMessage() for entry in caplog.records if entry.levelname == "WARNING"]
    assert said == ["The metric 'checkpoint.opened' could not be reported: OSError('no route to the backend')"]
