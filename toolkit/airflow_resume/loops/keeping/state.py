"""The `state` of a loop: a dict for whoever iterates, for as long as the loop is open.

Theory of operation. It is a plain dict as long as one body uses it, and costs no more. When a `map` begins, its class
changes to one that refuses changes in a worker, and when the loop is closed, to one that refuses all changes: what is
not saved any more must not look as if it were. It is the same object all the time, whichever variable refers to it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

from airflow_resume.errors import LoopError

if TYPE_CHECKING:
    from pydantic import JsonValue

F = TypeVar("F", bound=Callable[..., Any])

Hand = tuple[object, "tuple[JsonValue, JsonValue]", Any]
"""In a worker of a map: the loop, the positions around the worker's element, and the same of the worker around it."""

in_hand: ContextVar[Hand | None] = ContextVar("element_in_hand", default=None)


def hand_of(owner: object) -> Hand | None:
    """What a worker of this loop's map has in hand; None outside its workers."""
    hand = in_hand.get()
    while hand is not None and hand[0] is not owner:
        hand = hand[2]
    return hand


class State(dict[str, Any]):
    """Like any dict."""

    __slots__ = ("name", "owner")
    name: str
    """The name of the loop, for messages."""
    owner: object
    """The loop whose workers may not change it."""

    def __reduce__(self) -> tuple[type[dict[str, Any]], tuple[dict[str, Any]]]:
        """A copy is a plain dict."""
        return dict, (dict(self),)

    def share(self, owner: object, name: str) -> None:
        """Refuse changes by workers of a `map` from now on."""
        self.owner, self.name = owner, name
        self.__class__ = _Shared  # pyright: ignore[reportAttributeAccessIssue]

    def close(self, name: str) -> None:
        """Refuse all changes from now on, because nothing is saved any more."""
        self.name = name
        self.__class__ = _Closed  # pyright: ignore[reportAttributeAccessIssue]


def refused_in_worker(name: str) -> LoopError:
    """The error for a worker that uses the state."""
    return LoopError(
        f"The state of the loop {name!r} was used in a worker of its map(). Workers would overwrite each other's"
        f" updates, and the state would not match the elements that are done.",
        "Return what is to be kept from the function, and put it into `state` in the body that takes the results.",
        loop=name,
    )


def refused_when_closed(name: str) -> LoopError:
    """The error for a change of the state after the loop."""
    return LoopError(
        f"The state of the loop {name!r} was changed after the loop, when nothing is saved any more.",
        f"Use `with checkpoint(..., name={name!r}) as loop:` and change it before the `with` block ends.",
        loop=name,
    )


class _Shared(State):
    __slots__ = ()


class _Closed(State):
    __slots__ = ()


def _guarded(name: str, check: Callable[[State], None]) -> Callable[..., Any]:
    change = getattr(dict, name)

    @wraps(change)
    def guarded(self: State, *args: Any, **kwargs: Any) -> Any:
        check(self)
        return change(self, *args, **kwargs)

    return guarded


def _check_shared(state: State) -> None:
    if hand_of(state.owner) is not None:
        raise refused_in_worker(state.name)


def _check_closed(state: State) -> None:
    raise refused_when_closed(state.name)


for _change in ("__setitem__", "__delitem__", "__ior__", "clear", "pop", "popitem", "setdefault", "update"):
    setattr(_Shared, _change, _guarded(_change, _check_shared))
    setattr(_Closed, _change, _guarded(_change, _check_closed))
