"""A store that a user passed, used as the task's own is."""

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
"""By process id: a forked child must not find its parent's."""


@dataclass(frozen=True)
class GivenStore:
    """A store that a user passed, used as the task's own is.

    All calls are made on one thread of this process, so that whoever writes need not wait; it is another one than that
    of Airflow's store, which a slow store must not hold up. A `MemoryStore` is called at once, as a thread would take
    longer than the call. So is any store that says `channel = InlineChannel()`, as one must that only the thread which
    made it may use.

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
        """The value, or `default` when there is none."""
        found = self._call("get", partial(self.store.get, key))
        return default if found is None else found

    def set(self, key: str, value: JsonValue) -> None:
        """Write the value; when this returns, it is kept."""
        self._call("set", partial(self.store.set, key, value))

    def delete(self, key: str) -> None:
        """Remove the value, if there is one."""
        self._call("delete", partial(self.store.delete, key))

    def _call(self, name: str, call: Callable[[], T]) -> T:
        named = partial(self._named, name, call)
        # One that has a channel of its own is used like Airflow's: who waits calls it, and writes go by the channel.
        return named() if hasattr(self.store, "channel") else self.channel.submit(named).result()

    def _named(self, name: str, call: Callable[[], T]) -> T:
        try:
            return call()
        except ResumeError:
            raise
        except Exception as error:
            # Neither its text nor that of the store: a URL with a password may stand in it.
            raise StoreUnavailableError(
                f"{type(self.store).__name__}.{name}() raised {type(error).__name__}. Nothing was lost: the next"
                f" attempt continues from the last write."
            ) from error


def given(store: StateStore) -> StateStore:
    """A store that a user passed, as it is to be used; one of Airflow's is that already."""
    return store if isinstance(store, AirflowStore) else GivenStore(store)
