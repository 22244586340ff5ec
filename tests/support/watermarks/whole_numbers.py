"""A watermark over whole numbers, and runs of it, for short tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from airflow.sdk import Asset

from airflow_resume import watermark
from airflow_resume.testing import TaskAttempt, task_context
from airflow_resume.watermarks import Watermark, Window

NUMBERS = Asset("numbers")
MARK = "resume.watermark.watermark"
WINDOW = "resume.window.numbers~~watermark"


class BodyFailedError(Exception):
    """The body of a task failed."""


class Counter:
    """The clock of the source: the number that comes next."""

    def __init__(self, number: int = 10) -> None:
        self.number = number

    def __call__(self) -> int:
        return self.number


def numbers(now: Callable[[], int] | None = None, **options: Any) -> Watermark[Any]:
    """A watermark with `advance="window"` if it has a clock, else `advance="observed"`."""
    return watermark(NUMBERS, **{"initial": 0, "now": now, **options})


def a_try(**options: Any) -> TaskAttempt:
    return task_context(assets=[NUMBERS], **options)


def rows(*values: Any) -> list[dict[str, Any]]:
    return [{"n": value, "id": f"r{place}"} for place, value in enumerate(values)]


def track(*values: Any, **options: Any) -> Callable[[Window[Any]], list[Any]]:
    """A body that loads rows with these cursor values."""
    return lambda window: [row["n"] for row in window.track(rows(*values), "n", **options)]


def load(
    attempt: TaskAttempt, mark: Watermark[Any], body: Callable[[Window[Any]], Any] = lambda _: None
) -> Window[Any]:
    """Open the window, run the body, and let the attempt succeed."""
    with mark.open(attempt.context) as window:
        body(window)
    attempt.succeed()
    return window


def break_down(
    attempt: TaskAttempt, mark: Watermark[Any], body: Callable[[Window[Any]], Any] = lambda _: None
) -> Window[Any]:
    """Open the window, run the body, and let the attempt fail at its end."""
    with pytest.raises(BodyFailedError), mark.open(attempt.context) as window:
        body(window)
        raise BodyFailedError
    return window


def marks(attempt: TaskAttempt) -> dict[str, Any]:
    """The state of the asset."""
    return attempt.asset_stores[NUMBERS].values


def stands(attempt: TaskAttempt, key: str = MARK) -> Any:
    """The value of the mark."""
    return marks(attempt)[key]["at"]


def bounds(window: Window[Any]) -> tuple[Any, Any]:
    return window.start, window.end if window.has_end else None
