"""What iterates a loop: a generator, and after it what tells an end from an error.

A generator that has raised looks, when it is asked again, as if it were at its end. One that was held in a variable can
be asked again, and code that goes on after the loop would take it for done.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from airflow_resume.loops.run import LoopRun

if TYPE_CHECKING:
    from typing_extensions import Self

R = TypeVar("R")


class Elements(chain[R]):
    """The elements of a generator, as in a plain `for`. A `chain`, as that costs next to nothing an element."""

    _elements: Any

    @classmethod
    def of(cls, run: LoopRun[Any], make: Callable[[LoopRun[Any]], Iterator[R]]) -> Elements[R]:
        """What the generator made for this run gives."""
        elements = make(run)
        run.iterated_by(elements)
        made = cls(elements, _Nothing(run))
        made._elements = elements
        return made

    def close(self) -> None:
        """Leave the loop, as a `break` does."""
        self._elements.close()

    def __getattr__(self, name: str) -> Any:
        """What else a generator has."""
        return getattr(self._elements, name)


class _Nothing:
    """After a generator: its end, or an error, however often it is asked."""

    def __init__(self, run: LoopRun[Any]) -> None:
        self._run = run

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        self._run.check_over()
        raise StopIteration


class AsyncElements(Generic[R]):
    """The elements of an asynchronous generator."""

    def __init__(self, run: LoopRun[Any], make: Callable[[LoopRun[Any]], AsyncGenerator[R, None]]) -> None:
        self._run = run
        self._elements = make(run)
        run.iterated_by(self)

    def __aiter__(self) -> Self:
        return self

    def __anext__(self) -> Any:
        self._run.check_over()
        return self._elements.__anext__()

    async def aclose(self) -> None:
        """Leave the loop, as a `break` does."""
        await self._elements.aclose()
