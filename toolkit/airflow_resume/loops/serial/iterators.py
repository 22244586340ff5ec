"""The iterators of a loop: a generator, and after it a check whether it has ended or failed.

A generator that has raised an error, and is then asked for another element, looks as if it were at its end. That can
happen to a generator in a variable, and the code after the loop would then believe that the loop is done.
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
    """The elements of a generator, for a plain `for`. It is a `chain`, which costs next to nothing per element."""

    _elements: Any

    @classmethod
    def of(cls, run: LoopRun[Any], make: Callable[[LoopRun[Any]], Iterator[R]]) -> Elements[R]:
        """The elements of the generator that `make` returns for this run."""
        elements = make(run)
        run.iterated_by(elements)
        made = cls(elements, _EndOrError(run))
        made._elements = elements
        return made

    def close(self) -> None:
        """Leave the loop, as a `break` does."""
        self._elements.close()

    def __getattr__(self, name: str) -> Any:
        """The other methods of a generator."""
        return getattr(self._elements, name)


class _EndOrError:
    """After the generator: the end, or an error, each time it is asked."""

    def __init__(self, run: LoopRun[Any]) -> None:
        self._run = run

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        self._run.check_exit()
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
        self._run.check_exit()
        return self._elements.__anext__()

    async def aclose(self) -> None:
        """Leave the loop, as a `break` does."""
        await self._elements.aclose()
