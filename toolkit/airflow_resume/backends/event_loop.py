"""Waiting on an event loop, which holds up everything else that runs there.

Airflow's triggerer calls the hooks of a backend, which are not async, on the loop that all of its triggers share. A
database that answers takes some milliseconds. One that is away is not waited for there: the caller gets the error soon,
and can wait by `await`. Not so outside the hooks: in a notebook every call is made on a loop, and holds up nobody.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

PATIENCE_SECONDS = 1.0
"""How long a call is made again that holds up a loop."""

_holds_up_a_loop: ContextVar[bool] = ContextVar("holds_up_a_loop", default=False)


@contextmanager
def sparing_the_event_loop() -> Iterator[None]:
    """In the block a call waits but briefly, if this thread runs an event loop."""
    token = _holds_up_a_loop.set(_runs_a_loop())
    try:
        yield
    finally:
        _holds_up_a_loop.reset(token)


def patience_here(patience: float) -> float:
    """How long a call is made again, of those who would do so for `patience` seconds."""
    return min(patience, PATIENCE_SECONDS) if _holds_up_a_loop.get() else patience


def _runs_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
