"""Which methods of its own class a method may call, read from its compiled code: nothing is run."""

from __future__ import annotations

import dis
import inspect
from collections.abc import Iterator
from functools import cached_property, lru_cache
from types import CodeType, FunctionType
from typing import Any


@lru_cache(maxsize=1000)
def reached(kind: type, start: str) -> frozenset[str]:
    """The names of all methods that a method may call, directly or through others.

    It is too large rather than too small: whatever is named in the code counts, if the class has a method of this name.
    A method that is overridden counts only if it is called by `super()`.

    Args:
        kind: the class.
        start: the name of the method.
    """
    found: set[str] = set()
    new = {start}
    while new:
        name = new.pop()
        found.add(name)
        new |= {other for other in _named_by(kind, name) if _definitions(kind, other)} - found
    return frozenset(found - {start})


def called_on_self(function: Any) -> Iterator[str]:
    """The names of what a function reads from its `self`.

    Args:
        function: a plain one, a static or class method, or a property.
    """
    for code in _codes(_code_of(function)):
        before: Any = None
        for each in dis.get_instructions(code):
            loaded = before.argval if before is not None and before.opname.startswith("LOAD_") else None
            if each.opname in {"LOAD_ATTR", "LOAD_METHOD"} and loaded in {"self", ("self",)}:
                yield each.argval
            before = each


def is_method(attribute: Any) -> bool:
    """Whether what a class has is a method, and not a property or a value.

    Args:
        attribute: as in the `vars` of the class.
    """
    return isinstance(attribute, FunctionType | staticmethod | classmethod)


def _definitions(kind: type, name: str) -> list[Any]:
    """The code of a method, nearest class first."""
    return [code for base in kind.__mro__ if (code := _code_of(vars(base).get(name))) is not None]


def _named_by(kind: type, name: str) -> set[str]:
    named: set[str] = set()
    for code in _definitions(kind, name):
        here = {each for part in _codes(code) for each in part.co_names}
        named |= here
        if not {"super", name} <= here:
            break
    return named


def _code_of(attribute: Any) -> CodeType | None:
    match attribute:
        case staticmethod() | classmethod():
            attribute = attribute.__func__
        case property(fget=function):
            attribute = function
        case cached_property(func=function):
            attribute = function
    return getattr(inspect.unwrap(attribute), "__code__", None) if callable(attribute) else None


def _codes(code: CodeType | None) -> Iterator[CodeType]:
    """A piece of code, and those of the functions in it."""
    if code is None:
        return
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)
