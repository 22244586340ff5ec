"""Airflow's metrics, if this Airflow offers them to tasks."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import timedelta

from airflow_resume.shown import get_logger

log = get_logger(__name__)


def count(name: str, tags: Mapping[str, str]) -> None:
    """Increment a counter."""
    _report("incr", name, tags=tags)


def count_by(name: str, number: int, tags: Mapping[str, str]) -> None:
    """Increment a counter by `number`; do nothing for zero."""
    if number > 0:
        _report("incr", name, number, tags=tags)


def timing(name: str, seconds: float, tags: Mapping[str, str]) -> None:
    """Report how long something took."""
    _report("timing", name, timedelta(seconds=seconds), tags=tags)


def gauge(name: str, value: float, tags: Mapping[str, str]) -> None:
    """Set a gauge."""
    _report("gauge", name, value, tags=tags)


def _report(kind: str, name: str, *values: object, tags: Mapping[str, str]) -> None:
    """Call the method of this name. An error of a metrics backend never fails the work that is measured."""
    try:
        try:
            from airflow.sdk._shared.observability.metrics import stats
        except ImportError:  # it is private, and may move
            return
        if not hasattr(stats, kind):  # before Airflow 3.3 it was something else
            return
        getattr(stats, kind)(name, *values, tags=dict(tags))
    except Exception as error:  # noqa: BLE001  a backend may be anybody's
        log.log(logging.DEBUG if _failed else logging.WARNING, "The metric %r could not be reported: %r", name, error)
        _failed.add(kind)


_failed: set[str] = set()
"""Warned about once in a process, as every write reports several metrics."""
