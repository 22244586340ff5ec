"""Being told of Airflow's `on_kill`, and learning why it was called.

A `@task` function has no `on_kill` that could be written down, so it is put on the task object of this process, before
the task's own.

Airflow calls `on_kill` alike when a person marks or clears the task, at a time-out, when the worker is shut down for a
deploy, and when another attempt has taken over. It gives no reason, but one can be had: by whether this attempt still
sees its own record, and by the state that the task instance has in Airflow.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from typing import Any

from airflow.sdk.exceptions import AirflowTaskTimeout

from airflow_resume.attempt import AnyContext, current_context
from airflow_resume.channel import Channel
from airflow_resume.errors import NoStateStoreError

log = logging.getLogger(__name__)


class _OnKill:
    """What a task does when it is killed: it tells the listeners, and then does what it did before."""

    def __init__(self, own: Callable[[], object]) -> None:
        self._own = own
        self.listeners: list[Callable[[], object]] = []

    def __call__(self) -> None:
        for listener in list(self.listeners):
            listener()
        self._own()


@contextmanager
def told_of_kill(listener: Callable[[], object], context: AnyContext | None) -> Iterator[None]:
    """While the block runs, `on_kill` of the task calls `listener`, in a signal handler of the main thread."""
    task = _running_task(context)
    if task is None:
        yield
        return
    hook = vars(task).get("on_kill")
    if not isinstance(hook, _OnKill):
        hook = _OnKill(task.on_kill)
        object.__setattr__(task, "on_kill", hook)
    hook.listeners.append(listener)
    try:
        yield
    finally:
        hook.listeners.remove(listener)


def _running_task(context: AnyContext | None) -> Any:
    """The task object whose `on_kill` Airflow calls; None outside a task."""
    try:
        ti = (current_context() if context is None else context).get("ti")
    except NoStateStoreError:
        return None
    task = getattr(ti, "task", None)
    return task if hasattr(task, "on_kill") else None


# --- why --------------------------------------------------------------------------------------------------------

ANSWER_SECONDS = 3.0
"""How long a killed attempt asks for the reason. Airflow kills it for good some five seconds later."""


class Ending(str, Enum):
    """Why an attempt ends before its work is done."""

    USER = "user"
    """A person marked the task failed or successful."""
    CLEARED = "cleared"
    """A person cleared the task while it ran."""
    SHUTDOWN = "shutdown"
    """The worker goes: a deploy, a spot reclaim, a drained node."""
    TIMEOUT = "timeout"
    """`execution_timeout`, or `poll.timeout`."""
    FAILURE = "failure"
    """The attempt raised something else."""
    REPLACED = "replaced"
    """Another attempt has taken over, and the work is that one's now."""
    UNKNOWN = "unknown"
    """It could not be learned in time."""


@dataclass(frozen=True, kw_only=True)
class KillFacts:
    """All that can be known about a kill.

    Args:
        timed_out: `AirflowTaskTimeout` is being handled.
        record_visible: this attempt still reads the record that it wrote; None when it wrote none, or got no answer.
        task_state: of the task instance in Airflow; None when that could not be learned.
    """

    timed_out: bool = False
    record_visible: bool | None = None
    task_state: str | None = None


_MARKED = {"success", "failed", "skipped", "upstream_failed", "removed"}


def ending_of_kill(facts: KillFacts) -> Ending:
    """Why `on_kill` was called."""
    if facts.timed_out:
        return Ending.TIMEOUT
    if facts.task_state is None:
        return Ending.UNKNOWN
    if facts.task_state == "restarting":  # cleared while running; no successor has started yet
        return Ending.CLEARED
    if facts.record_visible is False:
        return Ending.REPLACED
    if facts.task_state in _MARKED:
        return Ending.USER
    return Ending.SHUTDOWN if facts.record_visible and facts.task_state == "running" else Ending.UNKNOWN


def learn_about_kill(
    channel: Channel, *, ask_state: Callable[[], str | None], sees_record: Callable[[], bool | None]
) -> KillFacts:
    """Ask on the channel, also in a signal handler: a main thread interrupted in a call does not hold it up."""
    if isinstance(sys.exc_info()[1], AirflowTaskTimeout):
        return KillFacts(timed_out=True)
    try:
        visible, state = channel.submit(lambda: (sees_record(), ask_state())).result(timeout=ANSWER_SECONDS)
    except Exception as error:  # noqa: BLE001  whatever it is, the reason is not known
        log.warning("Why this task is being ended could not be learned: %r", error)
        return KillFacts()
    return KillFacts(record_visible=visible, task_state=state)
