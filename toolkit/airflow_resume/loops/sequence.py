"""A loop one element after the other, with `for` and with `async for`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, contextmanager
from functools import partial
from types import TracebackType
from typing import Any, TypeVar

from airflow_resume.channel import off_the_loop
from airflow_resume.loops.ahead import refuse_what_reads_ahead
from airflow_resume.loops.run import LoopRun

T = TypeVar("T")


def delivered(run: LoopRun[T]) -> Iterator[T]:
    """The elements that are not done.

    One generator, as each that stands between it and the body would cost as much as all it does for an element.
    """
    refuse_what_reads_ahead(run)
    at = -1

    def in_hand() -> int:
        return at

    with opened(run):
        bell = run.bell
        while not run.exhausted:
            with run.recovering():
                for element, number, before, after in run.todo():
                    if run.deliver(number, before, after):
                        run.flush()
                    yield element
                    _take_back(run)
                    at = -1
                    if counted := run.coast(in_hand):
                        for at, element in enumerate(counted):  # noqa: B007, PLW2901  in_hand tells
                            yield element
                            if bell:
                                break
                        run.land()
                        _take_back(run)
                if run.exhaust():
                    run.flush()


def _take_back(run: LoopRun[Any]) -> None:
    if run.take_back():
        run.flush()
    if run.stop_asked:
        run.stop()


async def adelivered(run: LoopRun[T]) -> AsyncGenerator[T, None]:
    """The same on an event loop, which is never held up by the store."""
    async with aopened(run):
        while not run.exhausted:
            with run.recovering():
                async with aclosing(_one_apass(run)) as elements:
                    async for element in elements:
                        yield element


async def _one_apass(run: LoopRun[T]) -> AsyncGenerator[T, None]:
    async with aclosing(run.atodo()) as todo:
        async for element, number, before, after in todo:
            if run.deliver(number, before, after):
                await off_the_loop(run.flush)
            yield element
            if run.take_back():
                await off_the_loop(run.flush)
            if run.stop_asked:
                await off_the_loop(run.stop)
    if run.exhaust():
        await off_the_loop(run.flush)


@contextmanager
def opened(run: LoopRun[T]) -> Iterator[None]:
    """Open the loop, and close it when the block is left.

    `break` and `return` end the generator in here; a `with` statement around it has an end of its own, where a write
    that fails can still be raised.
    """
    try:
        run.open()
        try:
            yield
        except BaseException as error:
            if not (run.managed and isinstance(error, GeneratorExit)):
                run.close(error)
            raise
        if not (run.managed or run.waits_for_acks):
            run.close(None)
    except GeneratorExit:
        raise
    except BaseException as error:
        run.is_over(error)
        raise


class aopened:  # noqa: N801  it is used like a function
    """The same on an event loop. No generator, for the reason of `closed_at_end`."""

    def __init__(self, run: LoopRun[Any]) -> None:
        self._run = run

    async def __aenter__(self) -> None:
        try:
            await off_the_loop(self._run.open)
        except asyncio.CancelledError as error:
            # The thread goes on. What it opens is closed, before the name may be used again.
            await off_the_loop(partial(self._run.leave, error))
            raise
        except BaseException as error:
            self._run.is_over(error)
            raise

    async def __aexit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        run = self._run
        if isinstance(error, GeneratorExit):
            if not run.managed:
                await off_the_loop(partial(run.close, error))
        elif error is not None:
            run.is_over(error)
            await off_the_loop(partial(run.close, error))
        elif not (run.managed or run.waits_for_acks):
            await off_the_loop(partial(run.close, error))
