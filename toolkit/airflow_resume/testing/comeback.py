"""What happens to the database between two attempts: the run made again, its state cleared, a backup restored."""

from __future__ import annotations

from functools import partial
from typing import Any

from airflow_resume.testing.crash_world import CrashWorld
from airflow_resume.testing.errors import InvalidWayError, NothingTriedError
from airflow_resume.testing.kinds import TO_LAST_WRITE, TO_START, is_of
from airflow_resume.testing.points import Point

_METHODS = {"recreated": "recreate_runs", "state_cleared": "clear_state", "restored": "restore"}
_WRITES = {"set", "delete", "clear"}


def keep_backups(world: CrashWorld, *, forked: bool) -> None:
    """Make the backups that this way restores: at the start of each attempt, and before each write.

    Raises:
        InvalidWayError: the attempts are child processes, whose writes nobody sees beforehand.
    """
    points = world.points
    if not any(is_of(fault, "restored") for fault in points.armed.values()):
        return
    if forked:
        raise InvalidWayError("A backup cannot be made around a child process.\nExplore restored without sigkill.")
    points.backups = dict.fromkeys((TO_START, TO_LAST_WRITE), world.backup())
    if TO_LAST_WRITE in points.armed.values():
        points.listener = partial(_back_up_before_write, world)


def _back_up_before_write(world: CrashWorld, point: Point, _mark: Any) -> None:
    if (point.source, point.phase) == ("store", "before") and point.what.partition(" ")[0] in _WRITES:
        world.points.backups[TO_LAST_WRITE] = world.backup()


def come_back(world: CrashWorld) -> None:
    """Do what is to happen now that the attempt is dead.

    Raises:
        NothingTriedError: nothing in the world can be changed so.
    """
    fault = world.points.comes_back
    method = _METHODS[fault.partition(" ")[0]]
    if not any(hasattr(thing, method) for thing, _ in world.backup()):
        raise NothingTriedError(
            f"{fault!r} changes nothing in this world.\nGive the CrashWorld what is in the database: an attribute with"
            f" a World or a FakeTaskStore."
        )
    if method == "restore":
        world.restore(world.points.backups[fault])
    else:
        getattr(world, method)()
