"""The log level while thousands of fault plans are tried."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

_LOGGER = logging.getLogger("airflow_resume")


@contextmanager
def errors_only() -> Iterator[None]:
    """Let this package log only errors; if a level is set for its logger, that one counts.

    Each plan logs what each of its attempts does. Nobody reads that for thousands of plans, and writing it takes as
    long as the attempts. What it warns of follows from the faults, such as a loop that delivers nothing, as the attempt
    died after its end. The runs without a fault, and a plan that is tried alone (`only=`), log everything.
    """
    if _LOGGER.level != logging.NOTSET:
        yield
        return
    _LOGGER.setLevel(max(logging.ERROR, _LOGGER.getEffectiveLevel()))
    try:
        yield
    finally:
        _LOGGER.setLevel(logging.NOTSET)
