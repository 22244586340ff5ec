"""Short waits on an event loop, because a wait there stops everything else that runs on the loop.

Airflow's triggerer calls the reference methods of a backend (`serialize_..._to_ref`, `deserialize_..._from_ref`), which
are not async, on the event loop that all its triggers share. A call to a database that answers takes some milliseconds.
If the database is away, these methods wait only briefly: the caller soon gets the error, and can wait with `await`.
Other calls wait as usual. In a notebook, for example, every call runs on an event loop, but nothing else needs it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

PATIENCE_SECONDS = 1.0
"""How long a call on an event loop is repeated."""

_holds_up_a_loop: ContextVar[bool] = ContextVar("holds_up_a_loop", default=False)


@contextmanager
def sparing_the_event_loop() -> Iterator[None]:
    """In the block, calls wait only briefly if this thread runs an event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        has_loop = False
    else:
        has_loop = True
    token = _holds_up_a_loop.set(has_loop)
    try:
        yield
    finally:
        _holds_up_a_loop.reset(token)


def patience_here(patience: float) -> float:
    """For how many seconds a call with this patience is repeated here."""
    return min(patience, PATIENCE_SECONDS) if _holds_up_a_loop.get() else patience


def holds_up_a_loop() -> bool:
    """Whether this call blocks an event loop."""
    return _holds_up_a_loop.get()
