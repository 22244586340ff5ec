"""Runs attempts that are coroutines or generators to their end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import Future
from functools import partial, update_wrapper
from io import IOBase
from types import FunctionType, MethodType
from typing import Any, TypeVar

from airflow_resume.testing.errors import AttemptNotRunError

W = TypeVar("W")


def driven(attempt: Callable[[W], Any]) -> Callable[[W], Any]:
    """The attempt as a function that returns when the attempt has ended.

    An async attempt is run in an event loop of its own. A generator or another iterator is consumed, and the result is
    the list of its elements.

    Raises:
        AttemptNotRunError: (raised by the returned function) the attempt returned something that still has to be run.
    """

    def run(world: W) -> Any:
        return _run(attempt(world), name)

    name = str(getattr(attempt, "__name__", "attempt"))
    update_wrapper(run, attempt, updated=())
    run.__name__ = name
    return run


def _run(value: Any, name: str) -> Any:
    match value:
        case Awaitable() if not isinstance(value, type):
            return _run(_awaited(value, name), name)
        case AsyncIterator() if not isinstance(value, type):

            async def elements() -> list[Any]:
                return [element async for element in value]

            return _awaited(elements(), name)
        case Iterator() if not isinstance(value, (type, IOBase)):
            return list(value)
    if why := _why_not_run(value):
        raise AttemptNotRunError(f"The attempt {name} returned {why}")
    return value


def _awaited(value: Awaitable[Any], name: str) -> Any:
    """The result, from an event loop that is closed as Airflow closes it: open async generators are not finalised."""
    if asyncio._get_running_loop() is not None:  # noqa: SLF001  the public one raises
        getattr(value, "close", lambda: None)()  # else Python warns that it was never awaited
        raise AttemptNotRunError(
            f"The attempt {name} is async, and an event loop runs here already.\nExplore in a plain `def test_...():`."
        )

    async def wait() -> Any:
        return await value

    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(wait())
    finally:
        # Tasks that are still there must not continue in the middle of the next attempt.
        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            task.cancel()
        if tasks:
            loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        loop.close()


def _why_not_run(value: Any) -> str:
    """What the attempt left undone, as the end of a message; empty if nothing."""
    if isinstance(value, (FunctionType, MethodType, partial)):
        return "a function, which nobody calls.\nCall it in the attempt."
    if isinstance(value, Future):
        return "a future, for which nobody waits.\nWrite `return future.result()`."
    if any(kind.__name__ == "XComArg" for kind in type(value).__mro__):
        return "an XComArg: it is a @task, which only makes an operator.\nPass its function, `my_task.function`."
    if callable(getattr(value, "execute", None)) and hasattr(value, "task_id"):
        return "an operator, which nobody executes.\nWrite `return operator.execute(attempt.context)`."
    return ""
