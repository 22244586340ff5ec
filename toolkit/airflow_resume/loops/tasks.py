"""`amap`: the steps of `flights`, carried out with tasks of an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Any, TypeVar

from airflow_resume.channel import off_the_loop
from airflow_resume.loops.flights import Flight, Flights, Flush, Give, Next, Start, Stop, Wait, directions
from airflow_resume.loops.run import LoopRun, Todo
from airflow_resume.loops.sequence import aopened
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
    landed: asyncio.Queue[Flight[R]] = asyncio.Queue()
    # In order, as many again are started before their turn; the threads of `map` are a bound by themselves.
    seats = asyncio.Semaphore(flights.workers)

    async def seated(element: T) -> R:
        async with seats:
            return await work(element)

    steps = directions(run, flights)
    async with aclosing(run.atodo(in_order=False)) as todo, _tasks() as tasks:
        step = sent(steps, None)
        while step is not None:
            reply: Any = None
            match step:
                case Next():
                    reply = await _next_of(todo)
                case Start(flight, element):
                    tasks.add(asyncio.create_task(_fly(run, seated, landed, flight, element)))
                case Wait():
                    reply = await landed.get()
                case Give(result):
                    yield result
                case Flush():
                    await off_the_loop(run.flush)
                case Stop():
                    await off_the_loop(run.stop)
            step = sent(steps, reply)


async def _next_of(todo: AsyncIterator[Todo[T]]) -> Todo[T] | Exception | None:
    try:
        return await anext(todo, None)
    except Exception as error:  # noqa: BLE001  raised when all have landed
        return error


async def _fly(
    run: LoopRun[T],
    work: Callable[[T], Awaitable[R]],
    landed: asyncio.Queue[Flight[R]],
    flight: Flight[R],
    element: T,
) -> None:
    run.set_in_hand(flight.before)
    try:
        landed.put_nowait(flight.landed_with(await work(element)))
    except Exception as error:  # noqa: BLE001  it belongs to whoever iterates
        landed.put_nowait(flight.landed_badly(error))


class _Tasks(set["asyncio.Task[None]"]):
    """Those that are not done; a task that nobody refers to may vanish."""

    def add(self, task: asyncio.Task[None]) -> None:
        super().add(task)
        task.add_done_callback(self.discard)


@asynccontextmanager
async def _tasks() -> AsyncIterator[_Tasks]:
    """Tasks that end with the block: what still runs is cancelled."""
    tasks = _Tasks()
    try:
        yield tasks
    finally:
        running = list(tasks)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
