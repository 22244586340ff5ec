"""The world: what outlives an attempt."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from airflow_resume.testing.points import Points, Source

T = TypeVar("T")


class CrashWorld:
    """Everything that is still there when an attempt has died: stores, sinks, job systems.

    `CrashWorld(store=FakeTaskStore(), jobs=FakeJobs(), loaded=[])` has these as attributes. Those with an attribute
    `observer` (the fake stores, `FakeJobs`) are watched: their calls are points. Outside effects of your own are
    registered with `effect`. Subclass it for a world with methods; nothing needs to be overridden.

    Attributes:
        points: of this way, see `airflow_resume.testing.points`.
    """

    points: Points

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
        thing.observer = self.points.observer(source)  # type: ignore[attr-defined]
        return thing

    @contextmanager
    def effect(self, what: str) -> Iterator[None]:
        """Register an outside effect: `with world.effect("load page 3"): ...`, or as a decorator.

        There is a point before the body and one after it. A body that raises has not had its effect.
        """
        self.points.reach("before", what, "effect")
        yield
        self.points.reach("after", what, "effect")

    def follow(self, read_mark: Callable[[], Any]) -> None:
        """Call `read_mark` after each store call, for oracles such as `mark_never_decreases`."""
        self.points.read_mark = read_mark
