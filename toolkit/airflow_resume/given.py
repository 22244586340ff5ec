"""A store that a user passed, used like the task's own store."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from airflow_resume.channel import Channel, InlineChannel, ThreadChannel, in_process_supervisor
from airflow_resume.errors import ResumeError, StoreUnavailableError
from airflow_resume.store import AirflowStore, MemoryStore, StateStore

if TYPE_CHECKING:
    from pydantic import JsonValue

T = TypeVar("T")

_given_channels: dict[int, Channel] = {}
"""By process id, as a forked child must not use the channel of its parent."""


@dataclass(frozen=True)
class GivenStore:
    """A store that a user passed, used like the task's own store.

    All calls are made on one thread of this process, so that a writer need not wait. It is not the thread of Airflow's
    store, as a slow store must not delay that one. A `MemoryStore` is called in the caller's thread, as the call is
    faster than a thread. So is any store with `channel = InlineChannel()`; a store needs this if it may only be used
    by the thread that made it.

    Args:
        store: the user's.

    Raises (every method):
        StoreUnavailableError: the store raised an error of its own, which is the cause.
    """

    store: StateStore

    @property
    def channel(self) -> Channel:
        """Where its calls are made."""
        own: Channel | None = getattr(self.store, "channel", None)
        if own is not None:
            return own
        if type(self.store) is MemoryStore or in_process_supervisor():
            return InlineChannel()
        # Of two threads that come first at once, both get the one that setdefault keeps.
        return _given_channels.get(os.getpid()) or _given_channels.setdefault(os.getpid(), ThreadChannel())

    def get(self, key: str, default: JsonValue = None) -> JsonValue:
        """The value, or `default` if there is no value."""
        found = self._call("get", partial(self.store.get, key))
        return default if found is None else found

    def set(self, key: str, value: JsonValue) -> None:
        """Write the value; when this returns, it is kept."""
        self._call("set", partial(self.store.set, key, value))

    def delete(self, key: str) -> None:
        """Remove the value, if there is one."""
        self._call("delete", partial(self.store.delete, key))

    def _call(self, name: str, call: Callable[[], T]) -> T:
        def named() -> T:
            try:
                return call()
            except ResumeError:
                raise
            except Exception as error:
                # Without the text of the error or of the store: it may contain a URL with a password.
                raise StoreUnavailableError(
                    f"{type(self.store).__name__}.{name}() raised {type(error).__name__}. Nothing was lost: the next"
                    f" attempt continues from the last write.",
                    where=type(self.store).__name__,
                ) from error

        # A store with a channel of its own is used like Airflow's: callers that wait call it themselves.
        return named() if hasattr(self.store, "channel") else self.channel.submit(named).result()


def given(store: StateStore) -> StateStore:
    """The store that a user passed, wrapped unless it is one of Airflow's."""
    return store if isinstance(store, AirflowStore) else GivenStore(store)
