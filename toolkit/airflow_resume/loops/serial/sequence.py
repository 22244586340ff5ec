"""A loop one element after the other, with `for` and with `async for`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, contextmanager
from functools import partial
from types import TracebackType
from typing import Any, Generic, TypeVar

from airflow_resume.channel import off_the_loop
from airflow_resume.loops.open_loop import OpenLoop
from airflow_resume.loops.run import LoopRun
from airflow_resume.loops.serial.ahead import refuse_what_reads_ahead

T = TypeVar("T")


def delivered(run: LoopRun[T]) -> Iterator[T]:  # noqa: C901  see below
    """The elements that are not done.

    This is one long generator, because a second one between it and the body would double the cost of an element.
    """
    refuse_what_reads_ahead(run)
    at = -1

    def in_hand() -> int:
        return at

    with opened(run) as loop:
        flag, deliveries, remaining, counting = loop.wake_flag, loop.deliveries, loop.remaining, loop.counting
        while not loop.exhausted:
            with loop.recovering():
                for element, number, before, after in remaining.elements():
                    if deliveries.deliver(number, before, after):
                        loop.session.keeper.flush()
                    yield element
                    _take_back(run, loop)
                    at = -1
                    if remaining.cursor is not None and (counted := counting.begin(in_hand)):
                        if counting.keeps_state:
                            for at, element in enumerate(counted):  # noqa: PLW2901
                                yield element
                                if flag or not loop.ledger.keep_state(at + 1):
                                    break
                        else:
                            for at, element in enumerate(counted):  # noqa: B007, PLW2901  in_hand tells
                                yield element
                                if flag:
                                    break
                        counting.end()
                        _take_back(run, loop)
                if loop.exhaust():
                    loop.session.keeper.flush()


def _take_back(run: LoopRun[Any], loop: OpenLoop[Any]) -> None:
    if run.exit is not None:
        run.check_exit()
    if loop.deliveries.take_back():
        loop.session.keeper.flush()
    if loop.session.stop_request.is_made:
        loop.stop()


async def adelivered(run: LoopRun[T]) -> AsyncGenerator[T, None]:
    """As `delivered`, on an event loop. Calls of the store do not block the event loop."""
    at = -1

    def in_hand() -> int:
        return at

    async with aopened(run) as loop:
        flag, deliveries, remaining, counting = loop.wake_flag, loop.deliveries, loop.remaining, loop.counting
        while not loop.exhausted:
            with loop.recovering():
                async with aclosing(remaining.aelements()) as elements:
                    async for element, number, before, after in elements:
                        if deliveries.deliver(number, before, after):
                            await off_the_loop(loop.session.keeper.flush)
                        yield element
                        await _atake_back(run, loop)
                        at = -1
                        if remaining.cursor is not None and (counted := counting.begin(in_hand)):
                            for at, element in enumerate(counted):  # noqa: PLW2901
                                yield element
                                if flag or (counting.keeps_state and not loop.ledger.keep_state(at + 1)):
                                    break
                            counting.end()
                            await _atake_back(run, loop)
                if loop.exhaust():
                    await off_the_loop(loop.session.keeper.flush)


async def _atake_back(run: LoopRun[Any], loop: OpenLoop[Any]) -> None:
    if run.exit is not None:
        run.check_exit()
    if loop.deliveries.take_back():
        await off_the_loop(loop.session.keeper.flush)
    if loop.session.stop_request.is_made:
        await off_the_loop(loop.stop)


@contextmanager
def opened(run: LoopRun[T]) -> Iterator[OpenLoop[T]]:
    """Open the loop, and close it when the block is left.

    `break` and `return` end the generator inside this block. If there is a `with` statement around the loop, its end
    closes the loop instead, because a write that fails can raise its error there.
    """
    try:
        run.open()
        try:
            yield run.loop
        except BaseException as error:
            if run.managed and isinstance(error, GeneratorExit):
                run.left_early()
            else:
                run.close(error)
            raise
        if not (run.managed or run.loop.deliveries.unacked):
            run.close(None)
    except GeneratorExit:
        raise
    except BaseException as error:
        run.left_by(error)
        raise


async def aopen(run: LoopRun[Any]) -> None:
    """Open the loop without blocking the event loop."""
    try:
        await off_the_loop(run.open)
    except asyncio.CancelledError as error:
        # The thread continues to open the loop. So the loop is closed before its name may be used again.
        await off_the_loop(partial(run.leave, error))
        raise


class aopened(Generic[T]):  # noqa: N801  it is used like a function
    """As `opened`, on an event loop. It is not a generator, for the reason given in `closed_at_end`."""

    def __init__(self, run: LoopRun[T]) -> None:
        self._run = run

    async def __aenter__(self) -> OpenLoop[T]:
        try:
            await aopen(self._run)
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            self._run.left_by(error)
            raise
        return self._run.loop

    async def __aexit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        run = self._run
        if isinstance(error, GeneratorExit):
            if not run.managed:
                await off_the_loop(partial(run.close, error))
        elif error is not None:
            run.left_by(error)
            await off_the_loop(partial(run.close, error))
        elif not (run.managed or run.loop.deliveries.unacked):
            await off_the_loop(partial(run.close, error))
