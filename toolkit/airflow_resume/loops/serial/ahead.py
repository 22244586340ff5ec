"""Refuses consumers that take elements before they work on them, as far as they can be recognised.

Asking for the next element acks the one before. `executor.map` asks for all of them and then works; so do the pools of
`multiprocessing`. With ack="each" the loop would be done before the first body has run.
"""

from __future__ import annotations

import inspect
import sys
from types import FrameType
from typing import Any

from airflow_resume.errors import LoopError
from airflow_resume.loops.run import LoopRun

READ_AHEAD = {
    "asyncio.tasks": "asyncio",
    "concurrent.futures._base": "executor.map",
    "concurrent.futures.process": "executor.map",
    "joblib.parallel": "joblib",
    "multiprocessing.pool": "a pool of multiprocessing",
}
"""Modules whose functions take elements ahead, with their usual names. Functions that only run a body are elsewhere."""


def refuse_what_reads_ahead(run: LoopRun[Any]) -> None:
    """Refuse a consumer that takes elements ahead. Called when it asks for the first one, before anything is touched.

    Raises:
        LoopError: the consumer takes elements ahead, which would ack them.
    """
    if run.plan.ack == "manual" or run.plan.delivery == "at_most_once":
        return
    what = _reader_ahead(sys._getframe(2))  # noqa: SLF001  there is no other way to see the caller
    if what is None:
        return
    name = run.plan.name
    raise LoopError(
        f"{what} takes elements of the loop {name!r} before they are worked on, and each would count as done when the"
        f" next one is taken. Nothing was touched.",
        "Use `for result in loop.map(fn, workers=...)`, or ack='manual' and loop.ack() when the work is done.",
        loop=name,
    )


def _reader_ahead(frame: FrameType | None) -> str | None:
    """What reads ahead, if it is the caller, or the caller of generators and comprehensions in between."""
    while frame is not None:
        what, code = READ_AHEAD.get(frame.f_globals.get("__name__", "")), frame.f_code
        is_between = code.co_flags & inspect.CO_GENERATOR or code.co_name in {"<listcomp>", "<setcomp>"}
        if what is not None or not is_between:
            return what
        frame = frame.f_back
    return None
