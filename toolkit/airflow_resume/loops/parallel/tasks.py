"""`amap`: the steps of `in_flight`, executed with tasks of an event loop."""

from __future__ import annotations

import asyncio
import inspect
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Any, TypeVar, cast

from airflow_resume.channel import off_the_loop
from airflow_resume.errors import LoopError
from airflow_resume.loops.open_loop import OpenLoop
from airflow_resume.loops.parallel.in_flight import Command, Give, InFlight, Start, Started, directions, next_step
from airflow_resume.loops.run import LoopRun
from airflow_resume.loops.serial.sequence import aopened
from airflow_resume.loops.skip import WrongFunctionError

T = TypeVar("T")
R = TypeVar("R")


async def amapped(
    run: LoopRun[T], work: Callable[[T], Awaitable[R]], *, workers: int, ordered: bool
) -> AsyncGenerator[R, None]:
    """What `work` returns for each element that is not done, computed in tasks."""
    async with aopened(run) as loop:
        while not loop.exhausted:
            with loop.recovering():
                started = Started[R](workers=workers, ordered=ordered)
                async with aclosing(_one_pass(run, loop, work, started)) as results:
                    async for result in results:
                        yield result


async def _one_pass(
    run: LoopRun[T], loop: OpenLoop[T], work: Callable[[T], Awaitable[R]], started: Started[R]
) -> AsyncGenerator[R, None]:
    finished: _Finished[R] = _Finished()
    if started.ordered:  # twice as many are started then; in `map` the number of threads limits what runs
        work = _at_most(started.workers, work)
    steps, create_task = directions(run, loop, started), asyncio.get_running_loop().create_task
    async with aclosing(loop.remaining.aelements(in_order=False)) as remaining, _tasks(finished) as tasks:
        step = next_step(steps, None)
        while step is not None:
            reply: Any = None
            if step is Command.NEXT:
                try:
                    reply = await remaining.__anext__()
                except StopAsyncIteration:
                    pass
                except Exception as error:  # noqa: BLE001  raised when all work has ended
                    reply = error
            elif step is Command.WAIT:
                reply = finished.popleft() if finished else await finished.first()
                del tasks[reply.number]
            elif isinstance(step, Start):
                working = _work_on(loop, work, finished, step.in_flight, step.element)
                tasks[step.in_flight.number] = create_task(working)
            elif isinstance(step, Give):
                yield step.result
            elif step is Command.FLUSH:
                await off_the_loop(loop.session.keeper.flush)
            else:
                await off_the_loop(loop.stop)
            step = next_step(steps, reply)


async def _work_on(
    loop: OpenLoop[T],
    work: Callable[[T], Awaitable[R]],
    finished: _Finished[R],
    in_flight: InFlight[R],
    element: T,
) -> None:
    loop.set_in_hand(in_flight.before, in_flight.after)
    try:
        finished.put(in_flight.returned(await _begun(work, element)))
    except Exception as error:  # noqa: BLE001  it belongs to whoever iterates
        finished.put(in_flight.raised(error))
    except asyncio.CancelledError as error:
        if finished.is_left:
            raise
        # Something that the work waited for was cancelled, or the work has cancelled its task: the loop continues.
        finished.put(in_flight.raised(LoopError(f"The work of an element of amap() was cancelled ({error!r}).")))


def _begun(work: Callable[[T], Awaitable[R]], element: T) -> Awaitable[R]:
    begun: Any = work(element)
    if not (hasattr(begun, "__await__") or inspect.isawaitable(begun)):
        raise WrongFunctionError(
            f"amap() needs a coroutine function; {work!r} returned {type(begun).__name__}, which cannot be awaited.\n"
            "Use `for` and loop.map(...)."
        )
    return cast("Awaitable[R]", begun)


def _at_most(workers: int, work: Callable[[T], Awaitable[R]]) -> Callable[[T], Awaitable[R]]:
    seats = asyncio.Semaphore(workers)

    async def seated(element: T) -> R:
        async with seats:
            return await _begun(work, element)

    return seated


class _Finished(deque["InFlight[R]"]):
    """The elements whose work has ended, for one waiter. `asyncio.Queue` costs more, as it serves several."""

    def __init__(self) -> None:
        super().__init__()
        self._waits: asyncio.Future[None] | None = None
        self.is_left = False
        """Whether nobody waits any more, so that what still runs is cancelled."""

    def put(self, in_flight: InFlight[R]) -> None:
        """Note that the work of another element has ended."""
        self.append(in_flight)
        if self._waits is not None and not self._waits.done():
            self._waits.set_result(None)

    async def first(self) -> InFlight[R]:
        """The next element whose work has ended. It waits until there is one."""
        while not self:
            self._waits = asyncio.get_running_loop().create_future()
            await self._waits
        self._waits = None
        return self.popleft()


@asynccontextmanager
async def _tasks(finished: _Finished[Any]) -> AsyncIterator[dict[int, asyncio.Task[None]]]:
    """Tasks that end with the block: what still runs is cancelled. The dict refers to them, or they could vanish."""
    tasks: dict[int, asyncio.Task[None]] = {}
    try:
        yield tasks
    finally:
        finished.is_left = True
        running = list(tasks.values())
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
