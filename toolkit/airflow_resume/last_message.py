"""What is still to be saved when an attempt ends, and is saved before Airflow hears of the end.

Theory of operation. An iterator that is held in a variable is kept alive by the traceback of the error that ended its
body, and an asynchronous generator is never finalised when Airflow leaves the event loop of a task. So nothing tells a
loop that it was left. But every task process sends its supervisor a last message, such as `RetryTask`, when the body
is over and its event loop does not run any more. Until the supervisor has it the attempt may still write; after it
Airflow knows the task instance by another id, and refuses. So what is still open is ended just before that message.

The message goes through `send` of one object, which is made to look here first for as long as anything is registered.
Where it cannot be, everything is as it would be without this module. Outside a task, the end is that of the process.
"""

from __future__ import annotations

import atexit
import logging
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from threading import RLock
from typing import Any

log = logging.getLogger(__name__)

SECONDS = 10.0
"""How long the last message waits for a store, over all that is still open."""
LAST_MESSAGES = {"SucceedTask", "TaskState", "RetryTask", "DeferTask", "RescheduleTask", "AwaitInputTask"}
"""Messages after which the attempt is over, by the names of their classes."""


@dataclass(frozen=True, kw_only=True, eq=False)
class OpenEnd:
    """Something that is to be ended with the attempt.

    Args:
        end: ends it, and may wait for a store for so many seconds.
        owner: the task's store, which is another object in every attempt; None outside a task.
        key: of its record.
        is_abandoned: nobody refers to it any more.
    """

    end: Callable[[float], object]
    owner: object
    key: str
    is_abandoned: Callable[[], bool]
    pid: int = field(default_factory=os.getpid)

    @property
    def is_mine(self) -> bool:
        """Whether this is the process that opened it, and no fork of it."""
        return self.pid == os.getpid()

    def remove(self) -> None:
        """It has ended by itself."""
        with _registry:
            if self in _open:
                _open.remove(self)
            if not _open:
                _listen_no_more()


_open: list[OpenEnd] = []
_registry = RLock()  # a signal handler may come while its own thread holds it
"""Held while something is put into the two lists or taken out, and never while anything is ended."""
_listening: list[tuple[Any, type[Any]]] = []
"""The object that messages are sent with, and its own class."""


def before_last_message(
    end: Callable[[float], object], *, owner: object, key: str, is_abandoned: Callable[[], bool]
) -> OpenEnd:
    """Have `end` called before the last message of this attempt, unless it is removed before."""
    opened = OpenEnd(end=end, owner=owner, key=key, is_abandoned=is_abandoned)
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
    """End what nobody can go on with, before its record is used again: what it writes later would be of the past."""
    _end(lambda opened: opened.owner is owner and opened.key == key and opened.is_abandoned())


def forget_what_is_open(*, owner: object) -> None:
    """The process of an attempt is gone, and nothing in it was told."""
    for opened in [opened for opened in _open if opened.owner is owner]:
        opened.remove()


def _end(belongs: Callable[[OpenEnd], bool]) -> None:
    until = time.monotonic() + SECONDS
    for opened in reversed([opened for opened in _open if opened.is_mine and belongs(opened)]):
        opened.remove()
        try:
            opened.end(max(0.0, until - time.monotonic()))
        except Exception:  # the others, and the last message, must not suffer
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
    """The same class, but for a last message."""

    def send(self: Any, msg: Any) -> Any:
        name = type(msg).__name__
        if name in LAST_MESSAGES:
            try:
                _before(name)
            except BaseException as error:  # noqa: BLE001  nothing is worth more than the message
                log.error("What was still open when the task ended could not be ended: %r", error)  # noqa: TRY400
        return kind.send(self, msg)

    # By its name it is known whether this is `dag.test()`.
    return type(kind.__name__, (kind,), {"__slots__": (), "__module__": kind.__module__, "send": send})


def _before(message: str) -> None:
    if message == "SucceedTask" and _is_cleared_on_success():
        with _registry:
            _open.clear()
            _listen_no_more()
    else:
        _end(lambda _: True)


def _is_cleared_on_success() -> bool:
    """Whether Airflow has just cleared what a state backend keeps of this task: a write now would stay there."""
    from airflow.sdk.configuration import conf

    return bool(conf.getboolean("state_store", "clear_on_success", fallback=False))


@atexit.register
def _at_the_end_of_a_script() -> None:
    _end(lambda opened: opened.owner is None)
