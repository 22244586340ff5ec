"""The state stores: the protocol, and Airflow's two stores wrapped in it.

A `StateStore` keeps small JSON values by key. Airflow's accessors are wrapped, so that every call is made on the
channel, is repeated while the API server does not answer, and raises an error of this package.
"""

from __future__ import annotations

import copy
import inspect
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

from airflow_resume.attempt import (
    AnyContext,
    how_to_delete_a_key,
    utc_now,
)
from airflow_resume.channel import Channel, InlineChannel, task_channel
from airflow_resume.errors import (
    AssetNotDeclaredError,
    BackendSettingError,
    StateReferenceError,
    StoreRefusedError,
    StoreUnavailableError,
    SupersededError,
)
from airflow_resume.patience import Patience, for_seconds, growing, patiently
from airflow_resume.shown import MOST_OF_AN_ERROR, get_logger, say_another_try, short_repr

if TYPE_CHECKING:
    from airflow.sdk import Asset
    from pydantic import JsonValue

T = TypeVar("T")

log = get_logger(__name__)

RETRY_SECONDS = 60.0
"""How long a call is repeated while the API server does not answer. After about a minute Airflow ends the task."""


class StateStore(Protocol):
    """Keeps JSON values by key. A value that was set is kept until it is deleted."""

    def get(self, key: str, default: JsonValue = None) -> JsonValue:
        """The value, or `default` if there is no value."""
        ...

    def set(self, key: str, value: JsonValue) -> None:
        """Write the value. It is saved when this returns, and not before."""
        ...

    def delete(self, key: str) -> None:
        """Remove the value, if there is one."""
        ...


class AccessorStandIn:
    """The base of a fake of one of Airflow's accessors.

    It is wrapped like a real accessor, but called in the caller's thread. It has a clock of its own.
    """

    def sleep(self, seconds: float) -> None:
        """Wait, by the clock of the fake, before a call is repeated or a question is asked again."""
        raise NotImplementedError

    def monotonic(self) -> float:
        """Seconds that have passed, by the clock of the fake."""
        raise NotImplementedError

    def now(self) -> datetime:
        """The time, by the clock of the fake if it shows one."""
        return utc_now()


class MemoryStore:
    """Keeps values in this process only: for scripts that need not resume, and for tests."""

    def __init__(self) -> None:
        self.values: dict[str, JsonValue] = {}

    def __repr__(self) -> str:
        return "<MemoryStore>"

    def get(self, key: str, default: JsonValue = None) -> JsonValue:
        """The value, or `default` if there is no value."""
        return copy.deepcopy(self.values.get(key, default))

    def set(self, key: str, value: JsonValue) -> None:
        """Keep the value."""
        self.values[key] = copy.deepcopy(value)

    def delete(self, key: str) -> None:
        """Forget the value, if there is one."""
        self.values.pop(key, None)


def ask(store: StateStore, question: Callable[[], T]) -> T:
    """Ask Airflow a question that is not about the store, on the channel of `store` and with the same errors."""
    return store.call(question) if isinstance(store, AirflowStore) else question()


def channel_of(store: StateStore) -> Channel:
    """The channel for calls of `store` by a caller that does not wait for their replies."""
    return getattr(store, "channel", None) or InlineChannel()


def airflow_asset_store(context: AnyContext, asset: Asset) -> StateStore:
    """Airflow's store of an asset of the running task.

    Raises:
        AssetNotDeclaredError: the asset is not among the task's inlets and outlets.
    """
    accessors: Any = context.get("asset_state_store") or {}
    try:
        accessor = accessors[asset]
    except KeyError as error:
        raise AssetNotDeclaredError(
            f"The task does not declare the asset {asset.name!r}.",
            "Give it both `inlets=[...]` and `outlets=[...]` with that asset (in both, so that its state outlives a"
            " missing Dag file).",
            asset=asset.name,
        ) from error

    def inactive() -> StoreRefusedError:
        return StoreRefusedError(
            f"The asset {asset.name!r} is not active, so its state cannot be written.",
            "Check whether its Dag is paused or deleted, or its URI was changed.",
            asset=asset.name,
        )

    return wrapped(accessor, refused=inactive)


def wrapped(accessor: Any, *, refused: Callable[[], Exception]) -> StateStore:
    """The store, wrapped if it is one of Airflow's accessors or a fake of one. Any other store is used as it is."""
    if isinstance(accessor, AccessorStandIn):
        options = _keep_for_ever(accessor)
        return AirflowStore(
            accessor=accessor,
            refused=refused,
            options=options,
            find_channel=InlineChannel,
            sleep=accessor.sleep,
            now=accessor.now,
            # Real time is added: otherwise a caller that asks again and again without sleeping would never stop.
            monotonic=lambda: accessor.monotonic() + time.monotonic(),
        )
    if not type(accessor).__module__.startswith("airflow.sdk."):
        return accessor  # type: ignore[no-any-return]
    return AirflowStore(accessor=accessor, refused=refused, options=_keep_for_ever(accessor))


def _keep_for_ever(accessor: Any) -> Mapping[str, Any]:
    """The options of `set` with which Airflow never expires a value. The state of an asset never expires anyway."""
    if not _knows_retention(accessor.__class__):
        return {}
    from airflow_resume.compat import NEVER_EXPIRE

    return {"retention": NEVER_EXPIRE}


@cache
def _knows_retention(kind: type[Any]) -> bool:
    return "retention" in inspect.signature(kind.set).parameters


def followed(key: str, value: JsonValue) -> JsonValue:
    """The value, unless it is a reference that only a state backend can follow.

    Raises:
        BackendSettingError: the value is a reference, and this worker has no state backend.
        StateReferenceError: the value is an empty reference, which Airflow does not pass to any backend.
    """
    if not isinstance(value, dict) or _BEHIND_A_BACKEND not in value:
        return value
    if value[_BEHIND_A_BACKEND]:
        raise BackendSettingError(
            f"{key!r} was written through a state backend, and this worker has none. Nothing was changed.",
            "Set [workers] state_store_backend in Airflow's configuration as it is on the worker that wrote it.",
            setting=None,
        )
    raise StateReferenceError(
        f"The value under {key!r} is {short_repr(value)}, a reference to nothing. No backend writes that, so it was"
        " written by hand. Nothing was changed.",
        f"To start over, {how_to_delete_a_key()}.",
        key=key,
    )


_BEHIND_A_BACKEND = "__airflow_state_ref__"
"""The field by which Airflow recognises a reference that the workers' state backend has returned."""


@dataclass(frozen=True, kw_only=True)
class AirflowStore:
    """One of Airflow's accessors as a `StateStore`.

    Task state is kept for as long as the Dag run. By default Airflow would delete a key 30 days after it was written,
    even if its job is still running.

    Raises (every method):
        StoreUnavailableError: no answer within `RETRY_SECONDS`.
        StoreRefusedError: the API server refused the call for good, or (a write) the asset is not active.
        SupersededError: the supervisor of this task process is gone, or (a write) Airflow does not know this attempt
            any more.
        BackendError: raised by the state backend of this worker, or because it has none.
    """

    accessor: Any
    refused: Callable[[], Exception]
    options: Mapping[str, Any]
    find_channel: Callable[[], Channel] = task_channel
    sleep: Callable[[float], None] = time.sleep
    monotonic: Callable[[], float] = time.monotonic
    now: Callable[[], datetime] = utc_now

    @property
    def channel(self) -> Channel:
        """The channel of the calling process: a forked child has another one than its parent."""
        return self.find_channel()

    def get(self, key: str, default: JsonValue = None) -> JsonValue:
        """The value, or `default` if there is no value. An attempt that was replaced gets the default as well!"""
        return followed(key, cast("JsonValue", self.call(partial(self.accessor.get, key, default))))

    def set(self, key: str, value: JsonValue) -> None:
        """Write the value."""
        self.call(partial(self.accessor.set, key, value, **self.options))

    def delete(self, key: str) -> None:
        """Remove the value, if there is one."""
        self.call(partial(self.accessor.delete, key))

    def call(self, call: Callable[[], T]) -> T:
        """Make any call to the supervisor as the methods above do: on the channel, repeated, with our own errors."""
        channel = self.channel
        if type(channel) is InlineChannel:  # there is no other thread to wait for
            return self._persist(call)
        return channel.submit(partial(self._persist, call)).result()

    def _persist(self, call: Callable[[], T]) -> T:
        """Make the call, repeat it while the API server does not answer, and raise errors of this package."""
        try:
            return patiently(call, self._patience, sleep=self.sleep)
        except Exception as error:
            named = self._named(error)
            if named is None:
                raise
            raise named from error

    def _patience(self, error: Exception) -> Patience | None:
        if not _is_api_trouble(error):
            return None
        return Patience(
            is_passing=_is_api_trouble,
            is_enough=for_seconds(lambda: RETRY_SECONDS, monotonic=self.monotonic),
            pause=growing(0.2, 5, jitter=0.2),
            say=say_another_try(log, "A call to the state store (store_call)"),
        )

    def _named(self, error: Exception) -> Exception | None:
        if isinstance(error, (ConnectionError, EOFError)) and _is_of_the_supervisor(error):
            return SupersededError("The supervisor of this task process is gone, so another attempt may have started.")
        if not _is_api_error(error):
            return None
        if _status_code(error) in _UNKNOWN_TO_AIRFLOW:
            return SupersededError() if _names_the_task_instance(error) else self.refused()
        if _is_api_trouble(error):
            return StoreUnavailableError()
        return StoreRefusedError(f"The state store refused the call: {str(error)[:MOST_OF_AN_ERROR]}")


_ARCHIVED = 410
"""The attempt was replaced."""
_UNKNOWN_TO_AIRFLOW = {404, 409, _ARCHIVED}
_SERVER_ERRORS, _TOO_MANY = 500, 429


def _names_the_task_instance(error: BaseException) -> bool:
    """Whether Airflow does not know the attempt any more, rather than the asset or the key.

    Airflow 3.3 answers 404 and "Task instance ... not found". Airflow 3.4 answers 410 and "Task Instance not found in
    the working set".
    """
    if _status_code(error) == _ARCHIVED:
        return True
    detail: Any = getattr(getattr(error, "error", None), "detail", None)
    for _ in range(2):  # the answer of the API server is nested in that of the supervisor
        detail = detail.get("detail") if isinstance(detail, dict) else None
    message = detail.get("message") if isinstance(detail, dict) else None
    return isinstance(message, str) and message.lower().startswith("task instance")


def _is_of_the_supervisor(error: BaseException) -> bool:
    """Whether the socket to the supervisor broke, rather than the connection of a state backend on the worker."""
    frames = traceback.walk_tb(error.__traceback__)
    return any(frame.f_globals.get("__name__") == "airflow.sdk.execution_time.comms" for frame, _ in frames)


def _is_api_error(error: BaseException) -> bool:
    """Whether the API server answered with an error. In `dag.test()` its class has the second name."""
    return type(error).__name__ in {"AirflowRuntimeError", "ServerResponseError"}


def _is_api_trouble(error: BaseException) -> bool:
    if not _is_api_error(error):
        return False
    status = _status_code(error)
    return status is None or status >= _SERVER_ERRORS or status == _TOO_MANY


def _status_code(error: BaseException) -> int | None:
    """The HTTP status of an error of the Task SDK; None if there was no answer."""
    detail = getattr(getattr(error, "error", None), "detail", None)
    if isinstance(detail, dict):
        return detail.get("status_code")
    return getattr(getattr(error, "response", None), "status_code", None)
