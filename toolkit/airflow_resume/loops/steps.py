"""Generators that say what to do, one step at a time, and are sent what came of it."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeVar

StepT = TypeVar("StepT")


def sent(steps: Generator[StepT, Any, Any], reply: object) -> StepT | None:
    """The step after the one that this came of; None when there is none."""
    try:
        return steps.send(reply)
    except StopIteration:
        return None
