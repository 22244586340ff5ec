"""An attempt in a forked child process, which can really be killed.

The child reports every point through a pipe before a fault happens there, so the parent knows what happened up to the
kill. The attempts share only what outlives a process (files, servers): a list in memory that a child appends to is
lost.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any, NoReturn, TypeVar

from airflow_resume.testing.crashes.crash_world import CrashWorld
from airflow_resume.testing.points import CrashedError

W = TypeVar("W", bound=CrashWorld)


class ChildFailedError(Exception):
    """What an attempt in a child process raised or returned cannot be pickled; the text is its `repr`."""


def in_child(attempt: Callable[[W], Any], world: W) -> Any:
    """What the attempt returns or raises in a forked child.

    Raises:
        CrashedError: the child was killed.
    """
    receiver, sender = Pipe(duplex=False)
    pid = os.fork()
    if pid == 0:
        _run_and_exit(attempt, world, sender)
    sender.close()
    answer = _listen(world, receiver)
    os.waitpid(pid, 0)
    if answer is None:
        raise CrashedError("the child process was killed")
    returned, value, world.points.overrun, calls, effects = answer
    world.points.unregistered.calls += calls
    world.points.unregistered.effects += effects
    if returned:
        return value
    raise value


def _listen(world: CrashWorld, receiver: Connection) -> tuple[bool, Any, bool, list[str], list[str]] | None:
    """Record the points that the child reports, and return its final message, if there was one."""
    answer = None
    with receiver:
        while True:
            try:
                topic, message = receiver.recv()
            except (EOFError, OSError):  # OSError: it was killed while another of its threads was sending
                return answer
            if topic == "point":
                world.points.note(*message)
            else:
                answer = message


def _run_and_exit(attempt: Callable[[W], Any], world: W, sender: Connection) -> NoReturn:
    """Run the attempt in the child and end the process: no code of the parent may run in it afterwards."""
    world.points.listener = lambda point, mark: sender.send(("point", (point, mark)))
    try:
        returned, value = True, attempt(world)
    except BaseException as error:  # noqa: BLE001  the parent handles it
        returned, value = False, error
    try:
        if not _survives_pickling(value):
            returned, value = False, ChildFailedError(repr(value))
        points, missed = world.points, world.points.unregistered
        sender.send(("answer", (returned, value, points.overrun, missed.calls, missed.effects)))
    finally:
        os._exit(0)


def _survives_pickling(value: Any) -> bool:
    """Whether the value can be unpickled: many errors cannot, as they are made from more than their text."""
    try:
        pickle.loads(pickle.dumps(value))  # noqa: S301  our own
    except Exception:  # noqa: BLE001  pickle raises what it likes
        return False
    return True
