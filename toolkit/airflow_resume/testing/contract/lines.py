"""Makes another call in the middle of a call: at each of its lines, one after the other.

A call is stopped at a line, the other call is made, and the first one continues. So a method that reads, compares and
then writes is caught every time, and not only if two processes happen to meet. If the other call needs a lock that the
first one holds, it waits, and ends after the first one.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, TypeVar

T = TypeVar("T")

DEEP = 6
"""The depth of nested calls that are traced: a store, its backend, its connection."""
MOST = 60
"""The most lines to stop at; if there are more, this many are taken, evenly spread."""


def lines_of(call: Callable[[], object]) -> list[int]:
    """The numbers of the lines of a call at which to stop; this makes the call once."""
    passed = 0

    def count() -> None:
        nonlocal passed
        passed += 1

    with _at_each_line(count):
        call()
    return list(range(1, passed + 1, max(1, -(-passed // MOST))))


def stopped_at(line: int, call: Callable[[], T], other: Callable[[], object]) -> T:
    """The result of the call, with `other` called at this line of it."""
    passed = 0

    def stop() -> None:
        nonlocal passed
        passed += 1
        if passed == line:
            other()

    with _at_each_line(stop):
        return call()


@contextmanager
def _at_each_line(act: Callable[[], None]) -> Iterator[None]:
    """Call `act` before each line of Python that this thread runs in the block, down to a limited depth."""
    depth, is_acting, before = 0, False, sys.gettrace()

    def trace(frame: FrameType, event: str, _argument: Any) -> Any:
        nonlocal depth, is_acting
        if is_acting or frame.f_code.co_filename == __file__:
            return None
        if event == "call":
            if depth >= DEEP:
                return None
            depth += 1
        elif event == "return":
            depth -= 1
        elif event == "line":
            is_acting = True
            try:
                act()
            finally:
                is_acting = False
        return trace

    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)
