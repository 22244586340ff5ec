"""The world: what outlives an attempt."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

from airflow_resume.testing.errors import SharedWorldError
from airflow_resume.testing.kinds import check_lies
from airflow_resume.testing.points import Points, RegisteredEffect, Source

T = TypeVar("T")


class CrashWorld:
    """Everything that is still there when an attempt has died: stores, sinks, job systems.

    `CrashWorld(store=FakeTaskStore(), jobs=FakeJobs(), loaded=[])` has these as attributes. Those with an attribute
    `observer` (the fake stores, `FakeJobs`) are watched: their calls are points. Outside effects of your own are
    registered with `effect`, and answers of your own sources that may be wrong with `answer`. Subclass it for a world
    with methods; nothing needs to be overridden.

    Args:
        outliving: what the attempts share, by the name of its attribute, such as `airflow=World()`.

    Attributes:
        points: the points that were passed, see `airflow_resume.testing.points`.
        life: how often the Dag runs were deleted and created again. A `FakeJob` has the `life` of its submit.
    """

    points: Points
    life = 0

    def __init__(self, **outliving: Any) -> None:
        self.points = Points()
        for name, thing in outliving.items():
            check_no_mock(name, thing)
            if hasattr(thing, "observer"):
                _check_unshared(thing, self.points, f"world.{name} ")
                self.watch(thing)
            setattr(self, name, thing)

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...
        def __setattr__(self, name: str, value: Any) -> None: ...

    @property
    def attempt(self) -> int:
        """The number of the running attempt, from 1 (the try number)."""
        return self.points.attempt

    def watch(self, thing: T) -> T:
        """Make the calls of a store (or of anything with an `observer`) points, and return it.

        A store that is watched during an attempt belongs to that attempt: once it is over, calls have no effect.

        Args:
            thing: the store, job system or `World`.
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

    def effect(self, what: str) -> RegisteredEffect:
        """Register an outside effect: `with world.effect("load page 3"): ...`, or as a decorator.

        There is a point before the body and one after it. If the body raises, the effect has not taken place.

        Args:
            what: the name of the effect, for the oracles and for its points.

        Raises:
            TypeError: (as a decorator) the function is async or a generator function.
        """
        return RegisteredEffect(self.points, what)

    def answer(self, what: str, truth: Any, lies: Mapping[str, Any]) -> Any:
        """The answer of a source: the truth, unless the kind `"wrong_once"` puts one of the lies here.

            page = world.answer("page", lambda: source.read(at), {"empty": [], "repeated": lambda: source.read(at - 1)})

        Args:
            what: the question, which names the point.
            truth: the value, or a function that gives it, which is not called if a lie is given.
            lies: wrong answers by name: values, or functions that give one or raise.

        Raises:
            ValueError: there are no lies, or the name of one cannot be written in `only=`.
        """
        check_lies(what, lies)
        lie = self.points.answer(what, tuple(lies))
        told = truth if lie is None else lies[lie]
        return told() if callable(told) else told

    # --- what comes back ----------------------------------------------------------------------------------------

    def recreate_runs(self) -> None:
        """Delete every Dag run and make it again with its run id, in everything in the world that has this method."""
        self._tell("recreate_runs")
        self.life += 1

    def come_back(self, at: datetime) -> None:
        """The attempt has rescheduled itself: tell everything in the world that has this method, such as `World`.

        Args:
            at: the date from which on the same try continues, in another process.
        """
        for thing in self._with("come_back"):
            thing.come_back(at)

    def clear_state(self) -> None:
        """Clear all task state, as a person does, in everything in the world that has this method; the runs go on."""
        self._tell("clear_state")

    def backup(self) -> list[tuple[Any, Any]]:
        """A backup of the database: of everything in the world that has this method."""
        return [(thing, thing.backup()) for thing in self._with("backup")]

    def restore(self, backup: list[tuple[Any, Any]]) -> None:
        """Restore the database from a backup. What lies outside the database, such as jobs, stays.

        Args:
            backup: as `backup` returned it.
        """
        for thing, its_backup in backup:
            thing.restore(its_backup)

    def _tell(self, event: str) -> None:
        for thing in self._with(event):
            getattr(thing, event)()

    def _with(self, method: str) -> list[Any]:
        """Everything in the world that has this method, each once."""
        found = {id(thing): thing for thing in vars(self).values() if callable(getattr(thing, method, None))}
        return list(found.values())

    def follow(self, read_mark: Callable[[], Any]) -> None:
        """Call `read_mark` after each store call, for oracles such as `mark_never_decreases`.

        Args:
            read_mark: returns the mark; None while there is none.
        """
        self.points.read_mark = read_mark


def is_mock(thing: object) -> bool:
    """Whether it is a mock of unittest.mock, which this does not import."""
    return any(kind.__name__ == "NonCallableMock" for kind in type(thing).__mro__)


def check_no_mock(name: str, thing: object) -> None:
    """Check that it is not a mock that has every attribute.

    Raises:
        TypeError: it is such a mock. Nobody can tell whether it stands for a store, and its calls are not points.
    """
    if is_mock(thing) and hasattr(thing, "observer"):
        raise TypeError(
            f"{name}={thing!r} keeps nothing, and its calls are not points.\nPass FakeTaskStore(), World() or"
            f" FakeJobs(). For a client of your own: Mock(spec=Client), called in `with world.effect(...)`."
        )


def _check_unshared(thing: Any, points: Points, name: str = "") -> None:
    watcher = getattr(getattr(thing.observer, "func", None), "__self__", points)
    if isinstance(watcher, Points) and watcher is not points:
        raise SharedWorldError(
            f"{name}{thing!r} is in two worlds, so each way finds what the one before left in it.\nMake it afresh in"
            f" the function that makes the world."
        )
