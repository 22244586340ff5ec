"""Places on the servers of the tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest
from harness import NotMeasuredError


@contextmanager
def found(place: Callable[[], AbstractContextManager[str]]) -> Iterator[str]:
    """The URL of a place. Where a test would be skipped for want of a server, nothing is measured."""
    try:
        with place() as url:
            yield url
    except pytest.skip.Exception as skipped:
        raise NotMeasuredError(str(skipped)) from None
