"""Airflow's metrics, where this Airflow has them for tasks."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

log = logging.getLogger(__name__)


def count(name: str, tags: Mapping[str, str]) -> None:
    """Move a counter."""
    _tell("incr", name, tags=tags)


def count_by(name: str, number: int, tags: Mapping[str, str]) -> None:
    """Move a counter by so many; not at all for none."""
    if number > 0:
        _tell("incr", name, number, tags=tags)


def timing(name: str, seconds: float, tags: Mapping[str, str]) -> None:
    """Tell how long something took."""
    _tell("timing", name, timedelta(seconds=seconds), tags=tags)


def gauge(name: str, value: float, tags: Mapping[str, str]) -> None:
    """Set a gauge."""
    _tell("gauge", name, value, tags=tags)


def _tell(kind: str, name: str, *values: object, tags: Mapping[str, str]) -> None:
    """Call the method of this name. What a metrics backend raises never fails the work that it is told of."""
    try:
        stats = _stats()
        if stats is not None:
            getattr(stats, kind)(name, *values, tags=dict(tags))
    except Exception as error:  # noqa: BLE001  a backend may be anybody's
        log.log(logging.DEBUG if _failed else logging.WARNING, "The metric %r could not be told: %r", name, error)
        _failed.add(kind)


_failed: set[str] = set()
"""Said once a process, as every write tells several metrics."""


def _stats() -> Any:
    try:
        from airflow.sdk._shared.observability.metrics import stats
    except ImportError:  # it is private, and may move
        return None
    return stats
