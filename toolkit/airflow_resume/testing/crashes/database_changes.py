"""Changes of the database between two attempts: the run created again, its state cleared, or a backup restored."""

from __future__ import annotations

from typing import Any

from airflow_resume.testing.crashes.crash_world import CrashWorld
from airflow_resume.testing.errors import InvalidWayError, NothingTriedError
from airflow_resume.testing.kinds import TO_LAST_WRITE, TO_START, is_of
from airflow_resume.testing.points import Point

_METHODS = {"recreated": "recreate_runs", "state_cleared": "clear_state", "restored": "restore"}
_WRITES = {"set", "delete", "clear"}


def keep_backups(world: CrashWorld, *, forked: bool) -> None:
    """Make the backups that this plan restores: at the start of each attempt, and before each write.

    Raises:
        InvalidWayError: the attempts are child processes, whose writes this process does not see beforehand.
    """
    points = world.points
    if not any(is_of(fault, "restored") for fault in points.rules.armed.values()):
        return
    if forked:
        raise InvalidWayError(
            "A child process has a copy of the world, which no backup restores.\nExplore restored without sigkill, in"
            " a call of its own."
        )
    points.state.backups = dict.fromkeys((TO_START, TO_LAST_WRITE), world.backup())
    if TO_LAST_WRITE in points.rules.armed.values():

        def back_up_before_write(point: Point, _mark: Any) -> None:
            if (point.source, point.phase) == ("store", "before") and point.what.partition(" ")[0] in _WRITES:
                points.state.backups[TO_LAST_WRITE] = world.backup()

        points.listener = back_up_before_write


def change_database(world: CrashWorld) -> None:
    """Change the database as the plan says, after the attempt has died.

    Raises:
        NothingTriedError: nothing in the world can be changed in this way.
    """
    fault = world.points.state.database_change
    method = _METHODS[fault.partition(" ")[0]]
    if not any(hasattr(thing, method) for thing, _ in world.backup()):
        raise NothingTriedError(
            f"{fault!r} changes nothing in this world.\nGive the CrashWorld what is in the database: an attribute with"
            f" a World or a FakeTaskStore."
        )
    if method == "restore":
        world.restore(world.points.state.backups[fault])
    else:
        getattr(world, method)()
