"""Wraps a function that takes a window, so that TaskFlow calls it without the window."""

from __future__ import annotations

import functools
import inspect
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any, cast

from airflow_resume.errors import UsageError
from airflow_resume.watermarks.windows.window import Window

OpenWindow = Callable[[Mapping[str, Any]], AbstractContextManager[Window[Any]]]
AsyncOpenWindow = Callable[[Mapping[str, Any]], AbstractAsyncContextManager[Window[Any]]]
"""Given the arguments of the function, by name."""


def with_window(function: Callable[..., Any], sync_open: OpenWindow, async_open: AsyncOpenWindow) -> Callable[..., Any]:
    """Call `function` inside an opened window, with the window; its parameter `window` is hidden.

    Raises:
        UsageError: `function` is a task already.
        TypeError: it takes no `window`, or is a generator.
    """
    _check(function)
    signature = inspect.signature(function)
    # TaskFlow passes what the signature names; the window is ours to pass.
    others = [parameter for name, parameter in signature.parameters.items() if name != "window"]
    visible = signature.replace(parameters=others)

    def named(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        return dict(visible.bind(*args, **kwargs).arguments)

    def bound(window: Window[Any], arguments: dict[str, Any]) -> inspect.BoundArguments:
        given = {**arguments, "window": window}
        in_order = OrderedDict((name, given[name]) for name in signature.parameters if name in given)
        return inspect.BoundArguments(signature, in_order)

    @functools.wraps(function)
    def load(*args: Any, **kwargs: Any) -> Any:
        arguments = named(args, kwargs)
        with sync_open(arguments) as window:
            call = bound(window, arguments)
            return finished(function(*call.args, **call.kwargs), _name(function))

    @functools.wraps(function)
    async def async_load(*args: Any, **kwargs: Any) -> Any:
        arguments = named(args, kwargs)
        async with async_open(arguments) as window:
            call = bound(window, arguments)
            return finished(await function(*call.args, **call.kwargs), _name(function))

    wrapper: Any = async_load if inspect.iscoroutinefunction(function) else load
    wrapper.__signature__ = visible
    return cast("Callable[..., Any]", wrapper)


def finished(result: Any, name: str) -> Any:
    """Refuse a result whose rows are not read yet: a commit now would skip them.

    Args:
        result: the result of the body. The parts of a tuple or a dict are looked at as well.
        name: of the body.

    Raises:
        UsageError: it is an iterator, such as a `map` or the rows of `window.track`; an awaitable; a database cursor
            with rows; or a query plan such as a LazyFrame.
    """
    parts = result if isinstance(result, tuple) else result.values() if isinstance(result, dict) else ()
    for part in (result, *parts):
        if _is_unfinished(part):
            raise UsageError(
                f"{name} returned a {type(part).__name__}, so its work is not done, and the window was not committed.",
                "Return a list of what it gives, or `await` it in an async function, or return nothing if all is done.",
                name=name,
            )
    return result


def _is_unfinished(result: Any) -> bool:
    if isinstance(result, Future):
        return not result.done()
    # A cursor as PEP 249 or SQLAlchemy has them; one that gives no rows has done its work.
    is_cursor = hasattr(result, "fetchmany") and (hasattr(result, "description") or hasattr(result, "returns_rows"))
    if is_cursor:
        return getattr(result, "description", None) is not None or getattr(result, "returns_rows", False) is True
    is_lazy = isinstance(result, (Awaitable, Iterator, AsyncIterator))
    return is_lazy or type(result).__name__ == "LazyFrame"


def _name(function: Callable[..., Any]) -> str:
    return getattr(function, "__name__", repr(function))


def _check(function: Callable[..., Any]) -> None:
    if hasattr(function, "override") and hasattr(function, "expand"):
        raise UsageError(
            "The watermark's decorator is above @task.",
            "Swap the two: @task above, the watermark below it, directly over the function. Or use the"
            " watermark's own .task(...).",
        )
    if "window" not in inspect.signature(function).parameters:
        raise TypeError(f"{_name(function)} must take a parameter `window`")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise TypeError(
            f"{_name(function)} is a generator, so it is not known when its work is done.\n"
            "Load the rows before it returns, without yield."
        )
