"""What is begun in the body of a loop or a window with a sink.

A loop that is begun there, and is not `within=` the loop with the sink, keeps a position of its own. It counts an
element as done although the rows that were written with the connection of the sink may be rolled back, and then no
attempt writes them again. So while such a loop has an element in hand, that connection may not be used. Nor may it be
used by several threads: the workers of a `map`.

What was begun is kept in the context, which the workers of a `map` take over from whoever iterates it.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Protocol
from weakref import ref

from airflow_resume.errors import SinkUnsafeError


class Begun(Protocol):
    """A loop or a window that was begun."""

    @property
    def is_over(self) -> bool:
        """Whether it was closed."""
        ...

    def harm(self, *, to_itself: bool) -> SinkUnsafeError | None:
        """Why a connection may not be used here; None if it may.

        Args:
            to_itself: whether the connection is that of its own sink, and not of one around it.
        """
        ...


_begun: ContextVar[tuple[ref[Begun], ...]] = ContextVar("airflow_resume_begun", default=())
"""What was begun, the outermost first."""


def begin(begun: Begun) -> None:
    """Note that a loop or a window begins here."""
    around = [each for each in _begun.get() if not ((found := each()) is None or found.is_over)]
    _begun.set((*around, ref(begun)))


def check_connection(owner: Begun) -> None:
    """Check that the connection of a sink may be used here.

    Args:
        owner: the loop or the window with the sink.

    Raises:
        SinkUnsafeError: a loop inside it counts the element in hand by itself, or this is a worker of a `map`.
    """
    for each in reversed(_begun.get()):
        begun = each()
        if begun is not None and not begun.is_over and (harm := begun.harm(to_itself=begun is owner)) is not None:
            raise harm
        if begun is owner:
            return
