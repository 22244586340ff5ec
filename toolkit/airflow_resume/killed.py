"""Listening for Airflow's `on_kill`, and learning why it was called.

A `@task` function cannot define an `on_kill`. So one is set on the task object of this process, and calls the task's
own afterwards.

Airflow calls `on_kill` when a person marks or clears the task, at a time-out, when the worker shuts down for a deploy,
and when another attempt has taken over. It gives no reason. The reason is learned from two facts: whether this attempt
still sees its own record, and the state of the task instance in Airflow.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from typing import Any

from airflow_resume.attempt import AnyContext, current_context
from airflow_resume.channel import Channel
from airflow_resume.compat import AirflowTaskTimeout
from airflow_resume.errors import NoStateStoreError
from airflow_resume.shown import get_logger

log = get_logger(__name__)


class _OnKill:
    """The `on_kill` of a task object: it calls the listeners, and then the task's own `on_kill`."""

    def __init__(self, own: Callable[[], object]) -> None:
        self._own = own
        self.listeners: list[Callable[[], object]] = []

    def __call__(self) -> None:
        for listener in list(self.listeners):
            listener()
        self._own()


@contextmanager
def kill_listener(listener: Callable[[], object], context: AnyContext | None) -> Iterator[None]:
    """While the block runs, `on_kill` of the task calls `listener`, in a signal handler of the main thread."""
    try:
        ti = (current_context() if context is None else context).get("ti")
    except NoStateStoreError:  # outside a task
        ti = None
    task: Any = getattr(ti, "task", None)
    if not hasattr(task, "on_kill"):
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


# --- why --------------------------------------------------------------------------------------------------------

ANSWER_SECONDS = 3.0
"""How long a killed attempt asks for the reason. Airflow kills the process some five seconds later."""


class Ending(str, Enum):
    """Why an attempt ends before its work is done."""

    USER = "user"
    """A person marked the task failed or successful."""
    CLEARED = "cleared"
    """A person cleared the task while it ran."""
    SHUTDOWN = "shutdown"
    """The worker shuts down: a deploy, a spot reclaim, a drained node."""
    TIMEOUT = "timeout"
    """`execution_timeout`, or `poll.timeout`."""
    FAILURE = "failure"
    """The attempt raised another error."""
    REPLACED = "replaced"
    """Another attempt has taken over the work."""
    UNKNOWN = "unknown"
    """The reason could not be learned in time."""


@dataclass(frozen=True, kw_only=True)
class KillFacts:
    """All that can be known about a kill.

    Args:
        timed_out: `AirflowTaskTimeout` is being handled.
        drained: nobody has called `on_kill`. The worker is being drained, and the question is whether anything else
            has happened too.
        record_visible: this attempt still reads the record that it wrote; None if it wrote none, or got no answer.
        task_state: of the task instance in Airflow; None if that could not be learned.
    """

    timed_out: bool = False
    drained: bool = False
    record_visible: bool | None = None
    task_state: str | None = None


MARKED = {"success", "failed", "skipped", "upstream_failed", "removed"}
"""States that a person can set for a task instance while it runs."""


def ending_of_kill(facts: KillFacts) -> Ending:
    """Why `on_kill` was called, or what a drain means."""
    if facts.timed_out:
        return Ending.TIMEOUT
    if facts.task_state is None:  # a drain is known without Airflow, which may be shutting down as well
        return Ending.SHUTDOWN if facts.drained and facts.record_visible is not False else Ending.UNKNOWN
    if facts.task_state == "restarting":  # cleared while running; no successor has started yet
        return Ending.CLEARED
    if facts.record_visible is False:
        return Ending.REPLACED
    if facts.task_state in MARKED:
        return Ending.USER
    return Ending.SHUTDOWN if facts.record_visible and facts.task_state == "running" else Ending.UNKNOWN


def learn_about_kill(
    channel: Channel,
    *,
    ask_state: Callable[[], str | None],
    sees_record: Callable[[], bool | None],
    drained: bool = False,
) -> KillFacts:
    """Ask on the channel. It works in a signal handler too, as it needs no lock of the interrupted main thread.

    Args:
        channel: on which Airflow is asked.
        ask_state: asks for the state of the task instance.
        sees_record: asks whether this attempt still sees its own record.
        drained: nobody has called `on_kill`: the worker is being drained.
    """
    if isinstance(sys.exc_info()[1], AirflowTaskTimeout):
        return KillFacts(timed_out=True)
    try:
        visible, state = channel.submit(lambda: (sees_record(), ask_state())).result(timeout=ANSWER_SECONDS)
    except Exception as error:  # noqa: BLE001  after any error, the reason is unknown
        log.warning("Why this task is being ended could not be learned: %r", error)
        return KillFacts(drained=drained)
    return KillFacts(drained=drained, record_visible=visible, task_state=state)
