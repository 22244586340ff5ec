"""What is logged while thousands of ways are gone."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

_LOGGER = logging.getLogger("airflow_resume")


@contextmanager
def quiet() -> Iterator[None]:
    """Have this package log warnings alone; where a level is set for its logger, that one counts.

    Each way logs what each of its attempts does. Nobody reads that of thousands, and writing it takes as long as the
    attempts. A way that is gone alone (`only=`) logs all.
    """
    if _LOGGER.level != logging.NOTSET:
        yield
        return
    _LOGGER.setLevel(max(logging.WARNING, _LOGGER.getEffectiveLevel()))
    try:
        yield
    finally:
        _LOGGER.setLevel(logging.NOTSET)
