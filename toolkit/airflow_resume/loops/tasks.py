"""`amap`: the steps of `flights`, carried out with tasks of an event loop."""

from __future__ import annotations

import asyncio
import inspect
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Any, TypeVar, cast

from airflow_resume.channel import off_the_loop
from airflow_resume.errors import LoopError
from airflow_resume.loops.flights import Ask, Flight, Flights, Give, Start, directions
from airflow_resume.loops.run import LoopRun
from airflow_resume.loops.sequence import aopened
from airflow_resume.loops.skip import WrongFunctionError
from airflow_resume.loops.steps import sent

T = TypeVar("T")
R = TypeVar("R")


async def amapped(
    run: LoopRun[T], work: Callable[[T], Awaitable[R]], *, workers: int, ordered: bool
) -> AsyncGenerator[R, None]:
    """What `work` returns for each element that is not done, worked out in tasks."""
    async with aopened(run):
        while not run.exhausted:
            with run.recovering():
                async with aclosing(_one_pass(run, work, Flights[R](workers=workers, ordered=ordered))) as results:
                    async for result in results:
                        yield result


async def _one_pass(run: LoopRun[T], work: Callable[[T], Awaitable[R]], flights: Flights[R]) -> AsyncGenerator[R, None]:
    landed: _Landed[R] = _Landed()
    if flights.ordered:  # as many again are started before their turn; the threads of `map` are a bound by themselves
        work = _at_most(flights.workers, work)
    steps, create_task = directions(run, flights), asyncio.get_running_loop().create_task
    async with aclosing(run.atodo(in_order=False)) as todo, _tasks(landed) as tasks:
        step = sent(steps, None)
        while step is not None:
            reply: Any = None
            if step is Ask.NEXT:
                try:
                    reply = await todo.__anext__()
                except StopAsyncIteration:
                    pass
                except Exception as error:  # noqa: BLE001  raised when all have landed
                    reply = error
            elif step is Ask.WAIT:
                reply = landed.popleft() if landed else await landed.first()
                del tasks[reply.number]
            elif isinstance(step, Start):
                tasks[step.flight.number] = create_task(_fly(run, work, landed, step.flight, step.element))
            elif isinstance(step, Give):
                yield step.result
            elif step is Ask.FLUSH:
                await off_the_loop(run.flush)
            else:
                await off_the_loop(run.stop)
            step = sent(steps, reply)


async def _fly(
    run: LoopRun[T],
    work: Callable[[T], Awaitable[R]],
    landed: _Landed[R],
    flight: Flight[R],
    element: T,
) -> None:
    run.set_in_hand(flight.before)
    try:
        landed.put(flight.landed_with(await _begun(work, element)))
    except Exception as error:  # noqa: BLE001  it belongs to whoever iterates
        landed.put(flight.landed_badly(error))
    except asyncio.CancelledError as error:
        if landed.is_left:
            raise
        # Something that the work waited for was cancelled, or the task by its own work: the loop goes on without it.
        landed.put(flight.landed_badly(LoopError(f"The work of an element of amap() was cancelled ({error!r}).")))


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


class _Landed(deque["Flight[R]"]):
    """Those whose work has ended, for the one who waits for them. `asyncio.Queue` does the same for any number."""

    def __init__(self) -> None:
        super().__init__()
        self._waits: asyncio.Future[None] | None = None
        self.is_left = False
        """Nobody waits any more, and what still runs is cancelled."""

    def put(self, flight: Flight[R]) -> None:
        """The work of another one has ended."""
        self.append(flight)
        if self._waits is not None and not self._waits.done():
            self._waits.set_result(None)

    async def first(self) -> Flight[R]:
        """The next one, when there is one."""
        while not self:
            self._waits = asyncio.get_running_loop().create_future()
            await self._waits
        self._waits = None
        return self.popleft()


@asynccontextmanager
async def _tasks(landed: _Landed[Any]) -> AsyncIterator[dict[int, asyncio.Task[None]]]:
    """Tasks that end with the block: what still runs is cancelled. One that nobody refers to may vanish."""
    tasks: dict[int, asyncio.Task[None]] = {}
    try:
        yield tasks
    finally:
        landed.is_left = True
        running = list(tasks.values())
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
