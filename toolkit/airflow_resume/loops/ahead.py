"""Noticing who takes elements without doing their work first, where that can be noticed.

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
"""Modules whose functions ask for elements, and how people call these. What only runs a body in a worker is another."""


def refuse_what_reads_ahead(run: LoopRun[Any]) -> None:
    """To be called when the first element is asked for, before anything is touched.

    Raises:
        LoopError: it is asked for by something that takes elements ahead, and that would ack them.
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
    )


def _reader_ahead(frame: FrameType | None) -> str | None:
    """What reads ahead, if that is who asks, or who asks a generator that does."""
    while frame is not None:
        what = READ_AHEAD.get(frame.f_globals.get("__name__", ""))
        if what is not None or not _passes_on(frame):
            return what
        frame = frame.f_back
    return None


def _passes_on(frame: FrameType) -> bool:
    """Whether it is a generator or a comprehension, so that whoever asks stands behind it."""
    return bool(frame.f_code.co_flags & inspect.CO_GENERATOR) or frame.f_code.co_name in {"<listcomp>", "<setcomp>"}
