"""Finds the state that functions of a test can reach outside their arguments: names, attributes, closures, defaults."""

from __future__ import annotations

import os
import sys
import sysconfig
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from contextvars import ContextVar
from functools import partial
from itertools import islice
from types import BuiltinFunctionType, CodeType, FunctionType, MappingProxyType, MethodType, ModuleType
from typing import Any

from airflow_resume.testing.crashes.crash_world import CrashWorld, is_mock
from airflow_resume.testing.crashes.states import CONTAINERS, PLAIN, State, of_container, of_mock, of_name, of_variable

_METHODS = (staticmethod, classmethod, property)
_DEPTH = 12
_MOST = 5_000
"""How many objects are looked at."""
_ELEMENTS = 100
"""How many elements of a container are looked at."""
_TRIES = 100
"""How often a mapping is read that changes while it is read."""
_INSTALLED = tuple(
    {os.path.realpath(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
)


def reachable_states(roots: Iterable[tuple[str, object]]) -> dict[object, State]:
    """All states that can be reached from the roots, by the object that holds them; near ones come first.

    In libraries, only what a test may have replaced is looked at: attributes of classes and objects, and those
    attributes of modules that the code names.
    """
    found: dict[object, State] = {}
    seen: dict[int, object] = {}
    waiting = deque((name, value, 0) for name, value in roots)
    while waiting and len(seen) < _MOST:
        path, value, depth = waiting.popleft()
        if id(value) in seen or isinstance(value, (*PLAIN[:5], CrashWorld)):
            continue
        seen[id(value)] = value
        for key, state in _states(path, value):
            found.setdefault(key, state)
        if depth < _DEPTH:
            waiting.extend((name, each, depth + 1) for name, each in _next(path, value))
    return found


def _states(path: str, value: Any) -> Iterator[tuple[object, State]]:
    """The states that an object itself holds."""
    if is_mock(value):
        yield id(value), of_mock(path, value)
    elif isinstance(value, CONTAINERS):
        yield id(value), of_container(path, value)
    elif isinstance(value, ContextVar):
        yield id(value), of_variable(path, value)
    elif isinstance(value, FunctionType):
        yield from _bound_in_function(value)
    elif _is_own(value):
        for name, bound in list(_attributes(value)):
            if isinstance(bound, PLAIN) and not name.startswith("__"):
                write = partial(type.__setattr__ if isinstance(value, type) else object.__setattr__, value, name)
                yield (id(value), name), of_name(f"{path}.{name}", partial(getattr, value, name), write)


def _next(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    """The objects that are one step away."""
    if is_mock(value):
        inside = vars(value)
        yield from ((f"{path}.{name}", child) for name, child in list(inside.get("_mock_children", {}).items()))
        yield f"{path}.return_value", inside.get("_mock_return_value")
        yield from ((f"{path}.{name}", child) for name, child in list(vars(type(value)).items()) if is_mock(child))
    elif isinstance(value, (dict, MappingProxyType)):
        yield from ((f"{path}[{key!r}]", each) for key, each in islice(_items(value), _ELEMENTS))
    elif isinstance(value, (*CONTAINERS, tuple)):
        if not isinstance(value, (set, bytearray)):  # the elements of these cannot change
            yield from ((f"{path}[{at}]", each) for at, each in enumerate(islice(list(value), _ELEMENTS)))
    elif isinstance(value, type):
        for kind in value.__mro__[:-1]:
            yield from _of_class(path, kind)
    elif callable(value) or isinstance(value, _METHODS):
        yield from _of_callable(path, value)
    elif not isinstance(value, ModuleType):
        yield from _of_object(path, value)


def _items(mapping: Mapping[Any, Any]) -> list[tuple[Any, Any]]:
    """Of a mapping from which a key may vanish meanwhile: weak references die when garbage is collected."""
    for _ in range(_TRIES):
        with suppress(RuntimeError):
            return list(mapping.items())
    return []


def _of_callable(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    match value:
        case FunctionType():
            if is_mock(vars(value).get("mock")):  # create_autospec made it
                yield path, vars(value)["mock"]
            yield from _cells(value)
            if not _is_installed(value.__code__):
                yield from _named_in_function(value)
        case MethodType():
            yield from ((path, value.__func__), (path, value.__self__))
        case BuiltinFunctionType() if not isinstance(value.__self__, ModuleType):
            yield path, value.__self__
        case staticmethod() | classmethod():
            yield path, value.__func__
        case property():
            yield path, value.fget
        case partial():
            yield path, value.func
            yield from ((f"{path}.args[{at}]", each) for at, each in enumerate(value.args))
            yield from ((f"{path}.keywords[{name!r}]", each) for name, each in value.keywords.items())
        case _:
            yield from _of_object(path, value)


def _of_object(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    if type(value).__module__.startswith("airflow_resume."):
        return
    own = _is_own(value)
    yield from ((f"{path}.{name}", each) for name, each in _attributes(value) if own or name[0] != "_")
    yield path, type(value)


def _of_class(path: str, kind: type) -> Iterator[tuple[str, Any]]:
    own = _is_own(kind)
    for name, each in list(vars(kind).items()):
        changed = is_mock(each) or is_mock(getattr(each, "mock", None))
        if changed or (own and not name.startswith("__")) or (own and isinstance(each, FunctionType)):
            yield f"{path}.{name}", each


def _attributes(value: Any) -> Iterator[tuple[str, Any]]:
    """The attributes of an object by name; no property is computed."""
    with suppress(TypeError):
        yield from list(vars(value).items())
    for kind in type(value).__mro__ if not isinstance(value, type) else ():
        slots = vars(kind).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            with suppress(AttributeError):
                yield name, object.__getattribute__(value, name)


def _named_in_function(function: FunctionType) -> Iterator[tuple[str, Any]]:
    names = set(_names(function.__code__))
    for name in names & function.__globals__.keys():
        value = function.__globals__[name]
        yield name, value
        yield from _named_in_module(name, value, names)
    for name, value in _cells(function):
        yield from _named_in_module(name, value, names)
    code = function.__code__
    positional = code.co_varnames[: code.co_argcount]
    defaults = function.__defaults__ or ()
    yield from zip(positional[len(positional) - len(defaults) :], defaults, strict=True)
    yield from (function.__kwdefaults__ or {}).items()


def _named_in_module(path: str, module: Any, names: set[str]) -> Iterator[tuple[str, Any]]:
    if isinstance(module, ModuleType):
        for name in names & vars(module).keys():
            value = vars(module)[name]
            yield f"{path}.{name}", value
            if isinstance(value, ModuleType) and value.__name__.startswith(f"{module.__name__}."):
                yield from _named_in_module(f"{path}.{name}", value, names)


def _bound_in_function(function: FunctionType) -> Iterator[tuple[object, State]]:
    """The names that a function looks up and that others can bind again."""
    if _is_installed(function.__code__):
        return
    space = function.__globals__
    for name in set(_names(function.__code__)) & space.keys():
        if not isinstance(space[name], (ModuleType, FunctionType, type)) and not name.startswith("@"):
            yield (id(space), name), of_name(name, partial(space.get, name), partial(space.__setitem__, name))
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with suppress(ValueError):  # nothing is in it yet
            write = partial(setattr, cell, "cell_contents")
            yield id(cell), of_name(name, partial(getattr, cell, "cell_contents"), write)


def _cells(function: FunctionType) -> Iterator[tuple[str, Any]]:
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with suppress(ValueError):
            yield name, cell.cell_contents


def _names(code: CodeType) -> Iterator[str]:
    """The names of globals and attributes in the code, including functions defined in it."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _is_own(value: Any) -> bool:
    """Whether the class, or the class of the object, was written by the test's author and is not from a library."""
    kind = value if isinstance(value, type) else type(value)
    if kind.__module__ == "types":  # a SimpleNamespace has no behaviour
        return kind.__name__ == "SimpleNamespace"
    module = sys.modules.get(kind.__module__)
    file = getattr(module, "__file__", None)
    if file is None:
        return kind.__module__ == "__main__"
    return not _is_of_library(file)


def _is_installed(code: CodeType) -> bool:
    return _is_of_library(code.co_filename)


def _is_of_library(file: str) -> bool:
    return os.path.realpath(file).startswith((*_INSTALLED, _OURS))


_OURS = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))  # noqa: PTH120  cheap, and on every class
