"""Being told of Airflow's `on_kill`: at a deploy, at a time-out, when a person marks or clears the task.

A `@task` function has no `on_kill` that could be written down, so it is put on the task object of this process, before
the task's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from airflow_resume.attempt import AnyContext, current_context
from airflow_resume.errors import NoStateStoreError


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
