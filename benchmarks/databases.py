"""Databases on the servers of the tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest

from benchmarks.harness import NotMeasuredError


@contextmanager
def found(place: Callable[[], AbstractContextManager[str]]) -> Iterator[str]:
    """The URL of a database. Where a test would be skipped because a server is missing, nothing is measured."""
    try:
        with place() as url:
            yield url
    except pytest.skip.Exception as skipped:
        raise NotMeasuredError(str(skipped)) from None
