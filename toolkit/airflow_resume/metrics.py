"""Airflow's metrics, where this Airflow has them for tasks."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any


def count(name: str, tags: Mapping[str, str]) -> None:
    """Move a counter."""
    stats = _stats()
    if stats is not None:
        stats.incr(name, tags=dict(tags))


def count_by(name: str, number: int, tags: Mapping[str, str]) -> None:
    """Move a counter by so many; not at all for none."""
    stats = _stats()
    if stats is not None and number > 0:
        stats.incr(name, number, tags=dict(tags))


def timing(name: str, seconds: float, tags: Mapping[str, str]) -> None:
    """Tell how long something took."""
    stats = _stats()
    if stats is not None:
        stats.timing(name, timedelta(seconds=seconds), tags=dict(tags))


def gauge(name: str, value: float, tags: Mapping[str, str]) -> None:
    """Set a gauge."""
    stats = _stats()
    if stats is not None:
        stats.gauge(name, value, tags=dict(tags))


def _stats() -> Any:
    try:
        from airflow.sdk._shared.observability.metrics import stats
    except ImportError:  # it is private, and may move
        return None
    return stats
