"""A function that takes a window, as one that TaskFlow can call without."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, TypeVar, cast

from airflow_resume.errors import DecoratorOrderError
from airflow_resume.watermarks.window import Window

F = TypeVar("F", bound=Callable[..., Any])

OpenWindow = Callable[[], AbstractContextManager[Window]]
Arguments = tuple[tuple[Any, ...], dict[str, Any]]


def with_window(function: F, open_window: OpenWindow) -> F:
    """Call `function` inside `open_window()`, with the window it gives; the parameter `window` is hidden.

    Raises:
        DecoratorOrderError: `function` is a task already.
        TypeError: it takes no `window`, or is a generator.
    """
    _check(function)
    wrapper = (_async if inspect.iscoroutinefunction(function) else _sync)(function, open_window)
    # TaskFlow passes what the signature names; the window is ours to pass.
    signature = inspect.signature(function)
    others = [parameter for name, parameter in signature.parameters.items() if name != "window"]
    wrapper.__signature__ = signature.replace(parameters=others)  # type: ignore[attr-defined]
    return cast("F", wrapper)


def _check(function: Callable[..., Any]) -> None:
    if hasattr(function, "override") and hasattr(function, "expand"):
        raise DecoratorOrderError(
            "Turn the two decorators around: @task stands above, the watermark below it, directly over the function."
            " Or use the watermark's own .task(...)"
        )
    name = getattr(function, "__name__", repr(function))
    if "window" not in inspect.signature(function).parameters:
        raise TypeError(f"{name} must take a parameter `window`")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise TypeError(f"{name} is a generator, so there is no telling when its work is done")


def _sync(function: Callable[..., Any], open_window: OpenWindow) -> Callable[..., Any]:
    place = _place_of_window(function)

    @functools.wraps(function)
    def load(*args: Any, **kwargs: Any) -> Any:
        with open_window() as window:
            args, kwargs = place(args, kwargs, window)
            return function(*args, **kwargs)

    return load


def _async(function: Callable[..., Any], open_window: OpenWindow) -> Callable[..., Any]:
    place = _place_of_window(function)

    @functools.wraps(function)
    async def load(*args: Any, **kwargs: Any) -> Any:
        with open_window() as window:
            args, kwargs = place(args, kwargs, window)
            return await function(*args, **kwargs)

    return load


def _place_of_window(function: Callable[..., Any]) -> Callable[[tuple[Any, ...], dict[str, Any], Window], Arguments]:
    """Put the window where the function has it, among arguments that were given without it."""
    index = list(inspect.signature(function).parameters).index("window")

    def place(args: tuple[Any, ...], kwargs: dict[str, Any], window: Window) -> Arguments:
        if index < len(args):
            return (*args[:index], window, *args[index:]), kwargs
        return args, {**kwargs, "window": window}

    return place
