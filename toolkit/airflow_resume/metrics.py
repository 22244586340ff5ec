"""Airflow's metrics, where this Airflow has them for tasks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def count(name: str, tags: Mapping[str, str]) -> None:
    """Move a counter."""
    stats = _stats()
    if stats is not None:
        stats.incr(name, tags=dict(tags))


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
