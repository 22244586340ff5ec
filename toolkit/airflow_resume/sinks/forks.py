"""Processes that are forked in the body of a loop or a window. What they have inherited belongs to their parent.

A process that ends with its connections open destroys them, and so ends the transaction of its parent: SQLAlchemy
rolls back what was not given back, and SQLite rolls back and removes the journal, so that the commit of the parent
fails. So a child keeps the connections until it is gone.
"""

from __future__ import annotations

import ctypes
import os
from weakref import WeakSet

from airflow_resume.errors import SinkUnsafeError

_lent: WeakSet[object] = WeakSet()
"""The connections of all claimed positions."""


class ThisProcess:
    """The process that has claimed a position."""

    def __init__(self) -> None:
        self._number = os.getpid()

    @property
    def is_another(self) -> bool:
        """Whether this is a fork of the process."""
        return os.getpid() != self._number

    def check(self, target: str) -> None:
        """Check that this is still the process.

        Args:
            target: what the sink is called in messages.

        Raises:
            SinkUnsafeError: it is a fork.
        """
        if self.is_another:
            raise SinkUnsafeError(
                f"This process was forked in the body, and uses the sink of its parent, {target}.",
                "Let the fork return what is to be written, and write it in the parent. Let it end by os._exit, as"
                " multiprocessing does.",
                problem="use",
                sink=target,
            )


def keep_in_forks(connection: object) -> None:
    """Have forks of this process never destroy a connection."""
    _lent.add(connection)


def _keep_all() -> None:
    for each in _lent:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(each))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_keep_all)
