"""Actions at the end of an attempt, such as saving what a loop has not saved yet, before Airflow learns of the end.

Theory of operation. An iterator in a variable is kept alive by the traceback of the error that ended the body of its
loop, and an asynchronous generator is never finalised when Airflow leaves the event loop of a task. So a loop does not
notice that its body was left. But every task process sends its supervisor a last message, such as `RetryTask`, when the
body has ended and its event loop has stopped. Before that message the attempt may still write; afterwards Airflow knows
the task instance by another id, and refuses. So the actions are called just before that message.

Airflow sends the message with the method `send` of one object, `SUPERVISOR_COMMS`. While actions are registered, the
class of that object is replaced by a class that calls the actions first. If that is not possible, no action is called.
Outside a task the actions are called when the process exits.
"""

from __future__ import annotations

import atexit
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from threading import RLock
from typing import Any

from airflow_resume.shown import get_logger

log = get_logger(__name__)

SECONDS = 10.0
"""How long the last message waits for a store, for all actions together."""
LAST_MESSAGES = {"SucceedTask", "TaskState", "RetryTask", "DeferTask", "RescheduleTask", "AwaitInputTask"}
"""Messages after which the attempt is over, by the names of their classes."""


@dataclass(frozen=True, kw_only=True, eq=False)
class EndAction:
    """Ends something that is open, such as a loop, together with its attempt.

    Args:
        end: ends it; called with the number of seconds that it may wait for a store.
        owner: the task's store, which is another object in every attempt; None outside a task.
        key: of the record that is open.
        is_abandoned: whether nothing refers to the open object any more.
    """

    end: Callable[[float], object]
    owner: object
    key: str
    is_abandoned: Callable[[], bool]
    pid: int = field(default_factory=os.getpid)

    @property
    def is_mine(self) -> bool:
        """Whether this process registered it, and not one that it was forked from."""
        return self.pid == os.getpid()

    def remove(self) -> None:
        """Do not call this action any more, because what was open has ended."""
        with _registry:
            if self in _open:
                _open.remove(self)
            if not _open:
                _listen_no_more()


_open: list[EndAction] = []
_registry = RLock()  # a signal handler may come while its own thread holds it
"""Locked while one of the two lists is changed, and never while an action is called."""
_listening: list[tuple[Any, type[Any]]] = []
"""The object that sends messages, and its own class."""


def before_last_message(
    end: Callable[[float], object], *, owner: object, key: str, is_abandoned: Callable[[], bool]
) -> EndAction:
    """Call `end` before the last message of this attempt, unless it is removed earlier."""
    opened = EndAction(end=end, owner=owner, key=key, is_abandoned=is_abandoned)
    with _registry:
        _open.append(opened)
        _listen()
    return opened


def end_what_is_open(*, owner: object) -> None:
    """End what belongs to an attempt, the newest first.

    An error of one is logged, and does not keep the others from being ended.
    """
    _end(lambda opened: opened.owner is owner)


def end_what_is_abandoned(*, owner: object, key: str) -> None:
    """End what is abandoned, before its record is used again: a later write would overwrite newer values."""
    _end(lambda opened: opened.owner is owner and opened.key == key and opened.is_abandoned())


def forget_what_is_open(*, owner: object) -> None:
    """Remove the actions of an attempt without calling them, as if its process had been killed."""
    for opened in [opened for opened in _open if opened.owner is owner]:
        opened.remove()


def _end(belongs: Callable[[EndAction], bool]) -> None:
    until = time.monotonic() + SECONDS
    for opened in reversed([opened for opened in _open if opened.is_mine and belongs(opened)]):
        opened.remove()
        try:
            opened.end(max(0.0, until - time.monotonic()))
        except Exception:  # the other actions are called, and the last message is sent, all the same
            log.exception("What was still open of %r could not be ended properly", opened.key)


# --- where the last message is sent ---------------------------------------------------------------------------


def _listen() -> None:
    runner = sys.modules.get("airflow.sdk.execution_time.task_runner")
    comms = getattr(runner, "SUPERVISOR_COMMS", None)
    if comms is None or any(comms is known for known, _ in _listening):
        return
    kind: Any = type(comms)
    try:
        comms.__class__ = _telling(kind)
    except (TypeError, AttributeError) as error:
        log.debug("What is open when the task ends cannot be saved, as its last message is not seen: %r", error)
        return
    _listening.append((comms, kind))


def _listen_no_more() -> None:
    while _listening:
        comms, kind = _listening.pop()
        comms.__class__ = kind


@cache
def _telling(kind: type[Any]) -> type[Any]:
    """A subclass that calls the actions before a last message."""

    def send(self: Any, msg: Any) -> Any:
        name = type(msg).__name__
        if name in LAST_MESSAGES:
            try:
                _before(name)
            except BaseException as error:  # noqa: BLE001  the message must be sent in any case
                log.error("What was still open when the task ended could not be ended: %r", error)  # noqa: TRY400
        return kind.send(self, msg)

    # It keeps its name, by which `dag.test()` is recognised.
    return type(kind.__name__, (kind,), {"__slots__": (), "__module__": kind.__module__, "send": send})


def _before(message: str) -> None:
    if message == "SucceedTask":
        from airflow_resume.compat import conf

        # Then Airflow has just deleted what a state backend keeps of this task, and a write would stay there for ever.
        if conf.getboolean("state_store", "clear_on_success", fallback=False):
            with _registry:
                _open.clear()
                _listen_no_more()
            return
    _end(lambda _: True)


@atexit.register
def _at_the_end_of_a_script() -> None:
    _end(lambda opened: opened.owner is None)
