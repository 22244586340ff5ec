"""States: values in memory that can be read, compared, and restored for a moment.

A state is a container, the calls that a mock has counted, the value of a name or an attribute, or a context variable.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

_COUNTS = ("call_count", "await_count")
_CALLED = ("called", "call_args", "await_args")
_CALLS = ("call_args_list", "mock_calls", "method_calls", "await_args_list")
_MISSING = object()
CONTAINERS = (list, dict, set, deque, bytearray)
PLAIN = (int, float, complex, str, bytes, tuple, frozenset, type(None))


@dataclass(frozen=True, kw_only=True)
class State:
    """One value in memory that tests may share by mistake.

    Args:
        path: how the code of the test refers to it, such as `calls` or `world.jobs`.
        what: the object, such as a list; None for the value of a name.
        read: gives a copy of the current value. The copy keeps the elements alive, so no id is used twice.
        write: restores a copy.
        mark: reduces a copy to something comparable; equal marks mean that nothing has changed.
        none: makes the value as if nothing had happened, from the copy that was made before.
    """

    path: str
    what: Any
    read: Callable[[], Any]
    write: Callable[[Any], None]
    mark: Callable[[Any], Any]
    none: Callable[[Any], Any]
    before: Any = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "before", self.read())

    @property
    def has_changed(self) -> bool:
        """Whether the value differs from the one when this was made."""
        return bool(self.mark(self.before) != self.mark(self.read()))

    @property
    def has_calls(self) -> bool:
        """Whether it is a mock that has been called."""
        return self.mark is _mark_of_calls and any(self.mark(self.read()))

    @contextmanager
    def undone(self) -> Iterator[None]:
        """In the block, the value is as if nothing had happened."""
        now = self.read()
        self.write(self.none(self.before))
        try:
            yield
        finally:
            self.write(now)


def of_container(path: str, kept: Any) -> State:
    """The elements of a container. Their order does not count, as attempts may sort what is otherwise constant."""
    kind: Any = next(kind for kind in CONTAINERS if isinstance(kept, kind))

    def write(elements: Any) -> None:
        kept.clear()
        (kept.update if isinstance(kept, (dict, set)) else kept.extend)(elements)

    def ids(elements: Any) -> list[Any]:
        if isinstance(elements, dict):
            return sorted((id(key), id(value)) for key, value in elements.items())
        return sorted(id(each) for each in elements)

    return State(
        path=path,
        what=kept,
        read=lambda: kind(kept),
        write=write,
        mark=ids,
        none=lambda before: before if isinstance(kept, (dict, set)) else type(before)(),
    )


def of_mock(path: str, mock: Any) -> State:
    """The calls that a mock has counted."""
    names = [name for name in (*_COUNTS, *_CALLED, *_CALLS) if _attribute(mock, name) is not _MISSING]

    def read() -> dict[str, Any]:
        now = {name: _attribute(mock, name) for name in names}
        return now | {name: type(calls)(calls) for name, calls in now.items() if name in _CALLS}

    def write(calls: dict[str, Any]) -> None:
        for name, value in calls.items():
            object.__setattr__(mock, name, value)

    def none(before: dict[str, Any]) -> dict[str, Any]:
        return {
            name: 0 if name in _COUNTS else type(value)() if name in _CALLS else False if name == "called" else None
            for name, value in before.items()
        }

    return State(path=path, what=mock, read=read, write=write, mark=_mark_of_calls, none=none)


def of_name(path: str, read: Callable[[], Any], write: Callable[[Any], None]) -> State:
    """The value of a name, an attribute or a context variable."""

    def mark(value: Any) -> Any:
        return (type(value), value) if isinstance(value, PLAIN) else id(value)

    return State(path=path, what=None, read=read, write=write, mark=mark, none=lambda before: before)


def of_variable(path: str, variable: ContextVar[Any]) -> State:
    """The value of a context variable. One that was not set stays set afterwards, as it cannot be unset."""

    def write(value: Any) -> None:
        if value is not _MISSING:
            variable.set(value)

    def read() -> Any:
        try:
            return variable.get()
        except LookupError:
            return _MISSING

    return of_name(path, read, write)


def _mark_of_calls(calls: dict[str, Any]) -> list[int]:
    return [value if name in _COUNTS else len(value) for name, value in calls.items() if name not in _CALLED]


def _attribute(mock: Any, name: str) -> Any:
    value: Any = _MISSING
    with suppress(AttributeError):
        value = object.__getattribute__(mock, name)
    return value
