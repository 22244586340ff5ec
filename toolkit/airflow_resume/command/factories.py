"""Somebody's factory: what it makes, and as which fixture of the contract that is supplied."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from importlib import import_module
from typing import Any, TypeAlias

from airflow_resume.errors import ConformanceError

Factory: TypeAlias = Callable[[], Any]


@contextmanager
def made_by(name: str) -> Iterator[Any]:
    """What the factory makes, left or closed afterwards."""
    made = load(name)()
    if isinstance(made, AbstractContextManager):
        with made as entered:
            yield entered
        return
    try:
        yield made
    finally:
        close = getattr(made, "close", None)
        if close is not None and not _is_opener(made):
            close()


def load(name: str) -> Factory:
    """The factory, by `MODULE:FACTORY`. Modules are looked for in the current folder as well.

    Raises:
        ConformanceError: there is none.
    """
    module_name, _, attribute = name.partition(":")
    if not module_name or not attribute:
        raise ConformanceError(f"{name!r} names no factory.", "Write MODULE:FACTORY, such as my_stores:open_orders.")
    if os.getcwd() not in sys.path:  # noqa: PTH109  sys.path has texts
        sys.path.insert(0, os.getcwd())  # noqa: PTH109
    try:
        module = import_module(module_name)
    except Exception as error:
        raise ConformanceError(f"{module_name} cannot be imported: {_said(error)}") from error
    factory = getattr(module, attribute, None)
    if not callable(factory):
        raise ConformanceError(f"{module_name} has no function {attribute!r}")
    return factory  # type: ignore[no-any-return]


def fixture_of(name: str) -> str:
    """The fixture of the contract that the factory can supply. It is called once to see.

    Raises:
        ConformanceError: it cannot be called, or makes something else.
    """
    try:
        with made_by(name) as made:
            return _fixture_for(name, made)
    except ConformanceError:
        raise
    except Exception as error:
        raise ConformanceError(f"{name} failed: {_said(error)}") from error


def _fixture_for(name: str, made: Any) -> str:
    if not _is_opener(made):
        return _kind(name, made)
    opened = made()
    try:
        return f"open_{_kind(name, opened)}"
    finally:
        if hasattr(opened, "close"):
            opened.close()


def _is_opener(made: object) -> bool:
    """Whether it is a function that opens the place, as often as one likes."""
    return callable(made) and not hasattr(made, "get")


def _kind(name: str, made: Any) -> str:
    if not all(callable(getattr(made, method, None)) for method in ("get", "set", "delete")):
        raise ConformanceError(
            f"{name} makes a {type(made).__name__}: neither a store nor a backend, with get, set and delete,"
            f" nor a function that opens one"
        )
    return "backend" if "scope" in inspect.signature(made.get).parameters else "store"


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
