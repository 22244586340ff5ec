"""The client of a `PollJobTrigger`: imported by name, made on first use, with or without coroutines."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from airflow_resume.jobs.decide import JobStatus
from airflow_resume.jobs.protocol import ENDED_SOMEHOW, checked_status, classify_word, plain_word
from airflow_resume.jobs.transport import is_not_found, is_passing, is_unknown_word, matches
from airflow_resume.shown import short_repr

if TYPE_CHECKING:
    from pydantic import JsonValue


class TriggerClient:
    """A client in the triggerer. Its coroutine functions are awaited, its other functions are called in a thread.

    Args:
        place: of the callable that makes it: `package.module.name`, or `package.module:Name.method`.
        arguments: what the callable is called with.

    Raises:
        ValueError: `place` is not of this form. Whether it can be imported is seen when the client is made.
    """

    def __init__(self, place: str, arguments: Mapping[str, JsonValue]) -> None:
        split(place)
        self._place = place
        self._arguments = arguments
        self._made: Any = None

    async def make(self) -> Any:
        """The client, made on first use."""
        if self._made is None:
            self._made = await _called(imported(self._place), **self._arguments)
        return self._made

    @property
    def can_cancel(self) -> bool:
        """Whether the client can cancel a job. True as long as it is not made, because it may be able to."""
        return self._made is None or callable(getattr(self._made, "cancel", None))

    async def cancel(self, external_id: JsonValue) -> None:
        """Ask for the job to be cancelled, unless it has ended or is being cancelled already."""
        client = await self.make()
        try:
            status = await self.status(external_id)
            if status is JobStatus.CANCELLING or status.is_terminal:
                return
        except Exception:  # noqa: BLE001, S110  the answer would only have saved a request
            pass
        try:
            await _called(client.cancel, external_id)
        except Exception as error:
            if not self._is_not_found(error):
                raise

    async def status(self, external_id: JsonValue) -> JobStatus:
        """The status of the job. An id that is not found is GONE; a word that the client does not know is UNKNOWN."""
        client = await self.make()
        try:
            said = await _called(client.status, external_id)
        except Exception as error:
            if self._is_not_found(error):
                return JobStatus.GONE
            if is_unknown_word(error):
                return JobStatus.UNKNOWN
            raise
        if isinstance(said, JobStatus):
            return said
        classify = getattr(client, "classify", None)
        own = None if classify is None else await _called(classify, said)
        if own is not None:
            return checked_status(own, where=f"classify({short_repr(said)})")
        # The task only needs to know that the job has ended; how it ended, the task asks itself.
        return JobStatus.SUCCEEDED if plain_word(said) in ENDED_SOMEHOW else classify_word(said)

    def _is_not_found(self, error: Exception) -> bool:
        declared = getattr(self._made, "job_not_found", None)
        return matches(error, is_not_found if declared is None else declared)

    def is_transient(self, error: Exception) -> bool:
        """Whether a status question that raised this is worth asking again."""
        declared = getattr(self._made, "transient_errors", None)
        return matches(error, is_passing if declared is None else declared)


async def _called(function: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
    if inspect.iscoroutinefunction(function):
        return await function(*arguments, **keywords)
    answer = await asyncio.to_thread(function, *arguments, **keywords)
    return await answer if inspect.isawaitable(answer) else answer


def split(place: object) -> tuple[str, str]:
    """The module, and the name in it.

    Raises:
        ValueError: neither `module.name` nor `module:name`.
    """
    if isinstance(place, str):
        module, _, name = place.partition(":") if ":" in place else place.rpartition(".")
        if module and name:
            return module, name
    raise ValueError(
        f"client={place!r} does not name a callable in a module.\n"
        f"Write it as text, such as client='package.module.Client': the triggerer imports it from there."
    )


def imported(place: str) -> Callable[..., Any]:
    """The callable at this place."""
    module, name = split(place)
    found: Any = import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found  # type: ignore[no-any-return]
