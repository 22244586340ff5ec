"""Finds what two worlds share although each should be made afresh, and what oracles look at outside the worlds.

An object that can change and is in two worlds is refused whether it was seen to change or not: it may change only
under a later fault plan. What lies deeper inside objects is refused only if it was seen to change, because clients and
libraries share much there that never changes. What is not in the world at all, or belongs to a class, is refused only
if it was seen to change and an oracle judges the same run differently when the old value is back: a list that counts
attempts for a message does no harm.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import copy
from datetime import tzinfo
from functools import partial
from itertools import islice
from types import BuiltinFunctionType, FunctionType, MappingProxyType, MethodType, ModuleType
from typing import Any

from airflow_resume.testing.crashes.crash_world import CrashWorld, is_mock
from airflow_resume.testing.crashes.reachable_states import reachable_states
from airflow_resume.testing.crashes.states import State
from airflow_resume.testing.errors import ExplorerError, SharedWorldError

_LOCKS = (type(threading.Lock()), type(threading.RLock()))
_HTTP = ("requests", "httpx", "httpx2", "urllib3", "aiohttp")
_CONTAINERS = (list, dict, set, deque, bytearray)
_NEVER_CHANGE = (type, FunctionType, ModuleType, logging.Logger, tzinfo, MappingProxyType, type(None), type(...))
_DEPTH = 3
_MOST = 1_000
"""How many elements of a container are looked at."""
_MOST_ASKED = 50
"""For how many of the things that have changed the oracle is asked again."""


class SharedStateCheck:
    """Remembers what is in memory before the two runs without a fault, to find what is not made afresh.

    Args:
        world: the world of the first run, before it.
        oracles: whatever they can reach outside the world is checked as well.
    """

    def __init__(self, world: CrashWorld, oracles: Sequence[object]) -> None:
        self._attributes = dict(_in_containers(vars(world), "world"))
        self._inside = {
            name: (value, copy(value))
            for name, value in _in_objects(vars(world), "world")
            if type(value) in _CONTAINERS
        }
        self._of_world = reachable_states(_named(world))
        self._oracles = [("oracle", oracle) for oracle in oracles]
        self._outside = reachable_states(self._oracles)
        self._changed: list[State] = []

    def check_worlds(self, second: CrashWorld) -> None:
        """Check that nothing that can change is in both the first world and the second.

        Raises:
            SharedWorldError: something is.
        """
        for name, value in _in_containers(vars(second), "world"):
            if self._attributes.get(name) is value and not is_constant(value):
                raise SharedWorldError(
                    f"{name} is the same {_kind(value)} in all worlds, so each way finds what the one before left in"
                    f" it.\n{_remedy(value)}"
                )
        for kind in type(second).__mro__[: type(second).__mro__.index(CrashWorld)]:
            for name, value in vars(kind).items():
                is_data = not (name.startswith("__") or hasattr(value, "__get__"))
                if is_data and name not in vars(second) and not is_constant(value):
                    raise SharedWorldError(
                        f"{kind.__name__}.{name} belongs to the class, so it is the same {_kind(value)} in all"
                        f" worlds.\nMake it afresh for each: `self.{name} = ...` in __init__."
                    )

        of_second = reachable_states(_named(second))
        shared = {
            key: state
            for key, state in self._of_world.items()
            if key in of_second and of_second[key].what is state.what
        }
        self._changed = [state for state in (self._outside | shared).values() if state.has_changed]
        now = reachable_states(self._oracles)  # mocks make others when they are called
        self._changed += [state for key, state in now.items() if key not in self._outside and state.has_calls]

    def check(self, second: CrashWorld, judge: Callable[[], object]) -> None:
        """Check, after both runs, that nothing they share has changed.

        Args:
            second: the world of the second run.
            judge: asks the oracles about the first run again, to see whether they depend on what has changed.

        Raises:
            SharedWorldError: the runs share something that has changed.
        """
        found = dict(_in_objects(vars(second), "world"))
        for name, (value, copied) in self._inside.items():
            if found.get(name) is value and _elements(value) != _elements(copied):
                raise SharedWorldError(_in_all_worlds(name, value))
        for state in self._changed[:_MOST_ASKED]:
            with state.undone():
                depends = _is_refused(judge)
            if depends:
                raise SharedWorldError(_looked_at(state))


def _named(world: CrashWorld) -> list[tuple[str, object]]:
    return [(f"world.{name}", value) for name, value in vars(world).items()]


def _is_refused(judge: Callable[[], object]) -> bool:
    try:
        judge()
    except (AssertionError, ExplorerError):
        return True
    return False


def _in_all_worlds(name: str, value: object) -> str:
    return (
        f"{name} is the same {_kind(value)} in all worlds, and the attempt changes it.\nMake it afresh in the function"
        f" that makes the world."
    )


def _looked_at(state: State) -> str:
    """The message about something that has changed and that the oracle depends on."""
    root, *rest = state.path.split(".")
    if root == "world":
        return _in_all_worlds(state.path, state.what)
    if is_mock(state.what):
        return (
            f"The oracle looks at the mock {state.path!r}, which counts the calls of all ways together.\nMake it in the"
            f" function that makes the world: CrashWorld({root}=Mock(spec=...))."
        )
    kind = _kind(state.what)
    what = "..." if rest or state.what is None else f"{kind}({root})" if state.before else f"{kind}()"
    return (
        f"The attempt changes {state.path!r} and the oracle looks at it, but it is not in the world, so each way finds"
        f" what the one before left in it.\nPut it there: CrashWorld({root}={what})."
    )


def is_constant(value: object) -> bool:
    """Whether nothing can be left in the value: it is hashable and compared by value, or is a class or a function.

    Operators and mocks are hashable and can change all the same.
    """
    if isinstance(value, (tuple, frozenset)):
        return all(map(is_constant, value))
    if isinstance(value, (MethodType, BuiltinFunctionType, partial)):
        return True  # what they belong to, or are called with, is looked at by itself
    if isinstance(value, _NEVER_CHANGE) or type(value) is object or _keeps_nothing(value):
        return True
    if is_mock(value) or callable(getattr(value, "execute", None)):
        return False
    return type(value).__hash__ not in (None, object.__hash__)


def _keeps_nothing(value: object) -> bool:
    """Whether it is a lock, a sentinel of unittest.mock, or an HTTP client, whose state is on the server."""
    kinds = type(value).__mro__
    return isinstance(value, _LOCKS) or any(
        kind.__name__ == "_SentinelObject" or kind.__module__.partition(".")[0] in _HTTP for kind in kinds
    )


def _kind(value: object) -> str:
    return "mock" if is_mock(value) else type(value).__name__


def _remedy(value: object) -> str:
    afresh = "Make it afresh in the function that makes the world"
    match value:
        case list() | deque():
            return f"{afresh}; if nothing ever changes it, pass a tuple."
        case set():
            return f"{afresh}; if nothing ever changes it, pass a frozenset."
        case dict():
            return f"{afresh}; if nothing ever changes it, pass types.MappingProxyType of it."
    return f"{afresh}. What all worlds may share, such as a pool of connections, stays out of the world."


def _in_containers(named: Mapping[Any, Any], root: str) -> Iterator[tuple[str, Any]]:
    """The attributes of a world, and the elements of plain containers in them, by their paths."""
    for name, value in named.items():
        yield from _elements_of(value, f"{root}.{name}", _DEPTH)


def _elements_of(value: Any, name: str, depth: int) -> Iterator[tuple[str, Any]]:
    yield name, value
    if not depth:
        return
    if isinstance(value, (MethodType, BuiltinFunctionType)):
        yield from _elements_of(value.__self__, f"{name}.__self__", depth - 1)
    elif isinstance(value, partial):
        yield from _elements_of(value.func, f"{name}.func", depth - 1)
        yield from _elements_of(value.args, f"{name}.args", depth)
        for key, element in value.keywords.items():
            yield from _elements_of(element, f"{name}.keywords[{key!r}]", depth - 1)
    elif isinstance(value, dict):
        for key, element in islice(value.items(), _MOST):
            yield from _elements_of(element, f"{name}[{key!r}]", depth - 1)
    elif isinstance(value, (list, tuple, deque)):
        for at, element in enumerate(islice(value, _MOST)):
            yield from _elements_of(element, f"{name}[{at}]", depth - 1)


def _in_objects(named: Mapping[str, Any], root: str = "", depth: int = _DEPTH) -> Iterator[tuple[str, Any]]:
    """The attributes of objects, and of the objects in them, by their paths."""
    for name, value in named.items():
        if name.startswith("_"):  # libraries keep caches there
            continue
        path = f"{root}.{name}" if root else name
        if root:
            yield path, value
        if depth and not isinstance(value, _NEVER_CHANGE) and not is_mock(value):
            with suppress(TypeError):  # it has no attributes of its own
                yield from _in_objects(dict(vars(value)), path, depth - 1)


def _elements(container: Any) -> list[int]:
    """The ids of the elements; a copy of the container keeps them alive, so no id is used twice."""
    ids = [id(each) for each in container]
    if isinstance(container, dict):
        return ids + [id(each) for each in container.values()]
    return sorted(ids) if isinstance(container, set) else ids
