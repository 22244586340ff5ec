"""The state stores: the protocol, Airflow's two behind it, and finding them in the running task.

A `StateStore` keeps small JSON values by key. Airflow's accessors are wrapped so that every call is made on the
channel, is repeated while the API server is away, and fails by one of our names.
"""

from __future__ import annotations

import copy
import inspect
import logging
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, TypeVar, cast

from airflow_resume.attempt import AnyContext, Attempt, current_attempt, current_context
from airflow_resume.channel import Channel, InlineChannel, task_channel
from airflow_resume.errors import (
    AssetInactiveError,
    AssetNotDeclaredError,
    BackendNotConfiguredError,
    NoStateStoreError,
    StoreRefusedError,
    StoreUnavailableError,
    SupersededError,
)

if TYPE_CHECKING:
    from airflow.sdk import Asset
    from pydantic import JsonValue
    from tenacity import RetryCallState

T = TypeVar("T")

log = logging.getLogger(__name__)

RETRY_SECONDS = 60.0
"""How long a call is repeated while the API server is away. Past about a minute Airflow ends the task itself."""


class StateStore(Protocol):
    """Keeps JSON values by key. A value that was set is kept until it is deleted."""

    def get(self, key: str, default: JsonValue = None) -> JsonValue:
        """The value, or `default` when there is none."""
        ...

    def set(self, key: str, value: JsonValue) -> None:
        """Write the value; when this returns, it is kept."""
        ...

    def delete(self, key: str) -> None:
        """Remove the value, if there is one."""
        ...


class AccessorStandIn:
    """Marks a stand-in for one of Airflow's accessors: it is wrapped as they are, and called in the caller's thread."""

    def sleep(self, seconds: float) -> None:
        """Wait, in the time of the stand-in, before a call is repeated or a question is asked again."""
        raise NotImplementedError

    def monotonic(self) -> float:
        """Seconds that have passed, in the time of the stand-in."""
        raise NotImplementedError


class MemoryStore:
    """Keeps values in this process only: for scripts that need no memory, and for looking at what was written."""

    def __init__(self) -> None:
        self.values: dict[str, JsonValue] = {}

    def __repr__(self) -> str:
        return "<MemoryStore>"

    def get(self, key: str, default: JsonValue = None) -> JsonValue:
        """The value, or `default` when there is none."""
        return copy.deepcopy(self.values.get(key, default))

    def set(self, key: str, value: JsonValue) -> None:
        """Keep the value."""
        self.values[key] = copy.deepcopy(value)

    def delete(self, key: str) -> None:
        """Forget the value, if there is one."""
        self.values.pop(key, None)


def ask(store: StateStore, question: Callable[[], T]) -> T:
    """Ask Airflow something else, in the way in which `store` is asked."""
    return store.call(question) if isinstance(store, AirflowStore) else question()


def channel_of(store: StateStore) -> Channel:
    """The channel that calls to `store` must be made on when the caller does not want to wait."""
    return getattr(store, "channel", None) or InlineChannel()


def open_task_store(context: AnyContext | None = None, store: StateStore | None = None) -> tuple[StateStore, Attempt]:
    """The store to use, and the attempt that uses it.

    Args:
        context: of the task; by default that of the running one.
        store: used instead of the task's. With it there need not be a task at all. One of Airflow's accessors, or a
            stand-in for one, is wrapped as the task's own is.

    Raises:
        NoStateStoreError: neither a store nor a task.
    """
    given = None if store is None else _wrapped(store, refused=SupersededError)
    if context is None:
        try:
            context = current_context()
        except NoStateStoreError:
            if given is None:
                raise
            return given, Attempt()
    return task_store(context) if given is None else given, current_attempt(context)


def task_store(context: AnyContext) -> StateStore:
    """The store of the running task instance.

    Raises:
        NoStateStoreError: the context has none.
    """
    accessor = context.get("task_state_store")
    if accessor is None:
        raise NoStateStoreError(
            "This context has no task_state_store: only a task on Airflow 3.3 or newer has one.",
            "Elsewhere, pass `store=`.",
        )
    return _wrapped(accessor, refused=SupersededError)


def asset_store(context: AnyContext, asset: Asset) -> StateStore:
    """The store of an asset of the running task.

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
        ) from error
    return _wrapped(accessor, refused=AssetInactiveError)


def _wrapped(accessor: Any, *, refused: type[Exception]) -> StateStore:
    """Airflow's own accessors and stand-ins for them are wrapped; any other store is already one of ours."""
    if isinstance(accessor, AccessorStandIn):
        options = _keep_for_ever(accessor)
        return AirflowStore(
            accessor=accessor,
            refused=refused,
            options=options,
            find_channel=InlineChannel,
            sleep=accessor.sleep,
            # Real time counts as well: whoever only asks and never sleeps must not wait for ever.
            monotonic=lambda: accessor.monotonic() + time.monotonic(),
        )
    if not type(accessor).__module__.startswith("airflow.sdk."):
        return accessor  # type: ignore[no-any-return]
    return AirflowStore(accessor=accessor, refused=refused, options=_keep_for_ever(accessor))


def _keep_for_ever(accessor: Any) -> Mapping[str, Any]:
    """What `set` is told so that a value stays; the state of an asset stays anyway."""
    from airflow.sdk.execution_time.context import NEVER_EXPIRE

    return {"retention": NEVER_EXPIRE} if _knows_retention(accessor.__class__) else {}


@cache
def _knows_retention(kind: type[Any]) -> bool:
    return "retention" in inspect.signature(kind.set).parameters


def _waited_long_enough(state: RetryCallState) -> bool:
    """The sum of the waits counts too: on a clock that is moved by hand no time passes."""
    return max(state.seconds_since_start or 0.0, state.idle_for) >= RETRY_SECONDS


def followed(key: str, value: JsonValue) -> JsonValue:
    """The value, if it is one, and not what stands in Airflow's database for a value behind a state backend.

    Raises:
        BackendNotConfiguredError: this worker has no backend to follow it with.
    """
    if isinstance(value, dict) and _BEHIND_A_BACKEND in value:
        raise BackendNotConfiguredError(
            f"{key!r} was written through a state backend, and this worker has none. Nothing was touched.",
            "Set [workers] state_store_backend in Airflow's configuration as it is on the worker that wrote it.",
        )
    return value


_BEHIND_A_BACKEND = "__airflow_state_ref__"
"""By this field of an object Airflow knows what its workers' state backend has returned."""


@dataclass(frozen=True, kw_only=True)
class AirflowStore:
    """One of Airflow's accessors as a `StateStore`.

    Task state is kept for ever: by default Airflow deletes a key 30 days after its write, however much alive the
    job is that it names. It goes with the Dag run.

    Raises (every method):
        StoreUnavailableError: no answer within `RETRY_SECONDS`.
        StoreRefusedError: the API server said no, and will again.
        SupersededError: the supervisor of this task process is gone, or (a write) Airflow does not know this attempt
            any more.
        AssetInactiveError: a write to the store of an asset that is not active.
        BackendError: as the state backend of this worker has it, or for the lack of one.
    """

    accessor: Any
    refused: type[Exception]
    options: Mapping[str, Any]
    find_channel: Callable[[], Channel] = task_channel
    sleep: Callable[[float], None] = time.sleep
    monotonic: Callable[[], float] = time.monotonic

    @property
    def channel(self) -> Channel:
        """That of the process which calls: a forked child has another one than its parent."""
        return self.find_channel()

    def get(self, key: str, default: JsonValue = None) -> JsonValue:
        """The value, or `default` when there is none. A replaced attempt gets the default as well!"""
        return followed(key, cast("JsonValue", self.call(partial(self.accessor.get, key, default))))

    def set(self, key: str, value: JsonValue) -> None:
        """Write the value."""
        self.call(partial(self.accessor.set, key, value, **self.options))

    def delete(self, key: str) -> None:
        """Remove the value, if there is one."""
        self.call(partial(self.accessor.delete, key))

    def call(self, call: Callable[[], T]) -> T:
        """Ask the supervisor anything, as the methods above do."""
        channel = self.channel
        if type(channel) is InlineChannel:  # nobody waits for another thread
            return self._persist(call)
        return channel.submit(partial(self._persist, call)).result()

    def _persist(self, call: Callable[[], T]) -> T:
        """Make the call, again while the API server is away, and name what went wrong."""
        try:
            return call()  # nearly always enough, and far cheaper than a Retrying
        except Exception as error:  # noqa: BLE001  raised again, named
            if not _is_api_trouble(error):
                self._raise_named(error)
        try:
            return self._repeat(call)
        except Exception as error:  # noqa: BLE001  raised again, named
            self._raise_named(error)

    def _repeat(self, call: Callable[[], T]) -> T:
        from tenacity import (
            Retrying,
            before_sleep_log,
            retry_if_exception,
            wait_exponential,
            wait_random,
        )

        repeat = Retrying(
            retry=retry_if_exception(_is_api_trouble),
            stop=_waited_long_enough,
            sleep=self.sleep,
            wait=wait_exponential(multiplier=0.2, max=5) + wait_random(0, 0.2),
            before_sleep=before_sleep_log(log, logging.WARNING),
            reraise=True,
        )

        def store_call() -> T:
            """By this name it is in the log, where the value that is written does not belong."""
            return call()

        return repeat(store_call)

    def _raise_named(self, error: Exception) -> NoReturn:
        named = self._named(error)
        if named is None:
            raise error
        raise named from error

    def _named(self, error: Exception) -> Exception | None:
        if isinstance(error, (ConnectionError, EOFError)) and _is_of_the_supervisor(error):
            return SupersededError("The supervisor of this task process is gone, so another attempt may have started.")
        if not _is_api_error(error):
            return None
        if _status_code(error) in _UNKNOWN_TO_AIRFLOW:
            return SupersededError() if _names_the_task_instance(error) else self.refused()
        if _is_api_trouble(error):
            return StoreUnavailableError()
        return StoreRefusedError(f"The state store refused the call: {error}")


_UNKNOWN_TO_AIRFLOW = {404, 409, 410}
_SERVER_ERRORS, _TOO_MANY = 500, 429


def _names_the_task_instance(error: BaseException) -> bool:
    """Whether it is the attempt that Airflow does not know any more, and not the asset or the key."""
    detail: Any = getattr(getattr(error, "error", None), "detail", None)
    for _ in range(2):  # the answer of the API server lies inside that of the supervisor
        detail = detail.get("detail") if isinstance(detail, dict) else None
    message = detail.get("message") if isinstance(detail, dict) else None
    return isinstance(message, str) and message.startswith("Task instance")


def _is_of_the_supervisor(error: BaseException) -> bool:
    """Whether the socket to the supervisor broke, and not the connection of a worker-side state backend."""
    frames = traceback.walk_tb(error.__traceback__)
    return any(frame.f_globals.get("__name__") == "airflow.sdk.execution_time.comms" for frame, _ in frames)


def _is_api_error(error: BaseException) -> bool:
    """What a store call raises when the API server said no (the second name under `dag.test()`)."""
    return type(error).__name__ in {"AirflowRuntimeError", "ServerResponseError"}


def _is_api_trouble(error: BaseException) -> bool:
    if not _is_api_error(error):
        return False
    status = _status_code(error)
    return status is None or status >= _SERVER_ERRORS or status == _TOO_MANY


def _status_code(error: BaseException) -> int | None:
    """The HTTP status behind an error of the Task SDK; None when no answer came."""
    detail = getattr(getattr(error, "error", None), "detail", None)
    if isinstance(detail, dict):
        return detail.get("status_code")
    return getattr(getattr(error, "response", None), "status_code", None)
