"""The world: what outlives an attempt."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from airflow_resume.testing.errors import SharedWorldError
from airflow_resume.testing.kinds import check_lies
from airflow_resume.testing.points import Points, Source

T = TypeVar("T")


class CrashWorld:
    """Everything that is still there when an attempt has died: stores, sinks, job systems.

    `CrashWorld(store=FakeTaskStore(), jobs=FakeJobs(), loaded=[])` has these as attributes. Those with an attribute
    `observer` (the fake stores, `FakeJobs`) are watched: their calls are points. Outside effects of your own are
    registered with `effect`, and answers of your own sources that may be wrong with `answer`. Subclass it for a world
    with methods; nothing needs to be overridden.

    Attributes:
        points: of this way, see `airflow_resume.testing.points`.
        life: how often the Dag runs were deleted and made again; that in which a `FakeJob` was submitted is its `life`.
    """

    points: Points
    life = 0

    def __init__(self, **outliving: Any) -> None:
        self.points = Points()
        for name, thing in outliving.items():
            setattr(self, name, self.watch(thing) if hasattr(thing, "observer") else thing)

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...
        def __setattr__(self, name: str, value: Any) -> None: ...

    @property
    def attempt(self) -> int:
        """The number of the running attempt, from 1 (the try number)."""
        return self.points.attempt

    def watch(self, thing: T) -> T:
        """Make the calls of a store (or of anything with an `observer`) points, and return it.

        What is watched during an attempt belongs to that attempt: when it is over, its calls have no effect.
        """
        source: Source = getattr(thing, "observed_as", "store")
        _check_unshared(thing, self.points)
        watched: Any = thing
        watched.observer = self.points.observer(source)
        if hasattr(thing, "liar"):
            watched.liar = self.points.liar()
        if hasattr(thing, "read_observer"):
            watched.read_observer = self.points.observer("read")
        return thing

    @contextmanager
    def effect(self, what: str) -> Iterator[None]:
        """Register an outside effect: `with world.effect("load page 3"): ...`, or as a decorator.

        There is a point before the body and one after it. A body that raises has not had its effect.
        """
        self.points.reach("before", what, "effect")
        yield
        self.points.reach("after", what, "effect")

    def answer(self, what: str, truth: Any, lies: Mapping[str, Any]) -> Any:
        """What a source answers: the truth, unless the kind `"wrong_once"` has one of the lies told here.

            page = world.answer("page", lambda: source.read(at), {"empty": [], "repeated": lambda: source.read(at - 1)})

        Args:
            what: is asked; the name of the point.
            truth: the value, or a function that gives it. It is not called when a lie is told.
            lies: by name; values, or functions that give one or raise.

        Raises:
            ValueError: there are no lies, or the name of one cannot be a part of a way.
        """
        check_lies(what, lies)
        lie = self.points.answer(what, tuple(lies))
        told = truth if lie is None else lies[lie]
        return told() if callable(told) else told

    # --- what comes back ----------------------------------------------------------------------------------------

    def recreate_runs(self) -> None:
        """Every Dag run is deleted and made again with its run id: whatever in the world has such a method is told."""
        self._tell("recreate_runs")
        self.life += 1

    def clear_state(self) -> None:
        """A person clears all task state; the runs go on. Whatever in the world has such a method is told."""
        self._tell("clear_state")

    def backup(self) -> list[tuple[Any, Any]]:
        """A backup of the database: of whatever in the world has such a method."""
        return [(thing, thing.backup()) for thing in self._with("backup")]

    def restore(self, backup: list[tuple[Any, Any]]) -> None:
        """Make the database what it was at the time of the backup. What lies outside of it, such as jobs, stays."""
        for thing, its_backup in backup:
            thing.restore(its_backup)

    def _tell(self, event: str) -> None:
        for thing in self._with(event):
            getattr(thing, event)()

    def _with(self, method: str) -> list[Any]:
        """What has this method, each once."""
        found = {id(thing): thing for thing in vars(self).values() if callable(getattr(thing, method, None))}
        return list(found.values())

    def follow(self, read_mark: Callable[[], Any]) -> None:
        """Call `read_mark` after each store call, for oracles such as `mark_never_decreases`."""
        self.points.read_mark = read_mark


def _check_unshared(thing: Any, points: Points) -> None:
    watcher = getattr(getattr(thing.observer, "func", None), "__self__", points)
    if isinstance(watcher, Points) and watcher is not points:
        raise SharedWorldError(
            f"{thing!r} is in two worlds, so what one way leaves in it is found by the next one.\nMake it afresh in the"
            f" function that makes the world."
        )
