"""Sources that a user wrote: an object that saves its own state, or a function that resumes."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import closing, nullcontext
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

from airflow_resume import values
from airflow_resume.errors import InvalidValueError, SourceNotReopenableError, WrongAnswerError
from airflow_resume.loops.sources.pages import Page, kind_of
from airflow_resume.loops.sources.source import Source, closed_at_end

if TYPE_CHECKING:
    from pydantic import JsonValue

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class HasState(Protocol):
    """An object that saves its own state, like the loaders of several libraries."""

    def state_dict(self) -> Any:
        """All that is needed to continue after the element given last."""
        ...

    def load_state_dict(self, state: Any, /) -> object:
        """Continue from there."""
        ...


class IterableWithState(HasState, Protocol[T_co]):
    """An iterable that saves its own state."""

    def __iter__(self) -> Iterator[T_co]: ...


class AsyncIterableWithState(HasState, Protocol[T_co]):
    """An iterable for `async for` that saves its own state."""

    def __aiter__(self) -> AsyncIterator[T_co]: ...


class Stateful(Source[T_co]):
    """The elements of an object with `state_dict()` and `load_state_dict(state)`.

    A position is what `state_dict()` returned after an element, before the next one was asked for. It is copied, and
    must be JSON or something that `airflow_resume` encodes as JSON: a datetime, a Decimal, a UUID, bytes or a tuple. In
    a later attempt it is passed to `load_state_dict` of a new object, before that is iterated.

    >>> class Numbers:
    ...     done = 0
    ...     def state_dict(self):
    ...         return {"done": self.done}
    ...     def load_state_dict(self, state):
    ...         self.done = state["done"]
    ...     def __iter__(self):
    ...         while self.done < 3:
    ...             self.done += 1
    ...             yield self.done
    >>> list(Stateful(Numbers()).elements(None))
    [(1, {'done': 1}), (2, {'done': 2}), (3, {'done': 3})]
    >>> list(Stateful(Numbers()).elements({"done": 2}))
    [(3, {'done': 3})]

    Raises:
        SourceNotReopenableError: the object has only one of the two methods.
        InvalidValueError, ValueTooLargeError: the state cannot be saved; its element was not delivered.
    """

    kind = "stateful"

    def __init__(self, stateful: IterableWithState[T_co] | AsyncIterableWithState[T_co]) -> None:
        pair = ("state_dict", "load_state_dict")
        if missing := [name for name in pair if not callable(getattr(stateful, name, None))]:
            raise SourceNotReopenableError(
                f"{type(stateful).__name__} has no method {' and no method '.join(missing)}, so its state cannot be"
                f" {'saved' if 'state_dict' in missing else 'restored'}.",
                "Give it both, or neither.",
                type_name=type(stateful).__name__,
            )
        if isinstance(stateful, type) or not isinstance(stateful, (Iterable, AsyncIterable)):
            raise TypeError(f"Stateful needs an object that can be iterated, not {stateful!r}.\nGive it __iter__.")
        self._stateful = stateful
        self._name = type(stateful).__qualname__

    def definition(self) -> Mapping[str, object]:
        """The class of the object, as a state means nothing to another class."""
        return {"class": self._name}

    def total(self, position: JsonValue) -> int | None:  # noqa: ARG002
        """The number of elements, if the object has a length."""
        try:
            return len(self._stateful)  # type: ignore[arg-type]
        except TypeError:
            return None

    def check(self, position: JsonValue) -> None:
        """It can be decoded. Only the user's code can check more."""
        values.decode(position)

    def elements(self, position: JsonValue) -> Iterator[tuple[T_co, JsonValue]]:
        """The elements, each with the state after it."""
        if not isinstance(self._stateful, Iterable):
            raise TypeError(f"{self._name} is asynchronous.\nIterate the loop with `async for`.")
        self._load(position)
        for element in self._stateful:
            yield element, self._state()

    async def aelements(self, position: JsonValue) -> AsyncIterator[tuple[T_co, JsonValue]]:
        """The same for `async for`."""
        if not isinstance(self._stateful, AsyncIterable):
            for found in self.elements(position):
                yield found
            return
        self._load(position)
        async for element in self._stateful:
            yield element, self._state()

    def _load(self, position: JsonValue) -> None:
        if position is not None:
            self._stateful.load_state_dict(values.decode(position))

    def _state(self) -> JsonValue:
        return saved_position(self._stateful.state_dict(), f"{self._name}.state_dict()")


Pairs: TypeAlias = "Iterator[tuple[T, Any]] | AsyncIterator[tuple[T, Any]]"


class ResumeFunction(Source[T_co]):
    """The elements of a function that takes a position, and yields the position after every element.

    `function(position)` returns an iterator of pairs `(element, next_position)`: usually it is a generator function, or
    an asynchronous one, for `async for`. The first position is None. Every other one is what the function itself
    yielded with the last element whose body has finished: JSON, or something that `airflow_resume` encodes as JSON (a
    datetime, a Decimal, a UUID, bytes, a tuple), and not None.

    >>> def lines(position):
    ...     for number in range(position or 0, 3):
    ...         yield f"line {number}", number + 1
    >>> [element for element, _ in ResumeFunction(lines).elements(2)]
    ['line 2']

    Raises:
        WrongAnswerError: the function did not return an iterator of pairs.
        InvalidValueError, ValueTooLargeError: a position cannot be saved; its element was not delivered.
    """

    kind = "function"

    def __init__(self, function: Callable[[Any], Pairs[T_co]]) -> None:
        if not callable(function):
            raise TypeError(f"ResumeFunction needs a function of a position, not {type(function).__name__}")
        _refuse_without_position(function)
        self._function = function
        self._name = getattr(function, "__name__", type(function).__name__)

    def check(self, position: JsonValue) -> None:
        """It can be decoded. Only the user's code can check more."""
        values.decode(position)

    def elements(self, position: JsonValue) -> Iterator[tuple[T_co, JsonValue]]:
        """The elements, each with the position after it."""
        pairs: Any = self._function(values.decode(position))
        if isinstance(pairs, AsyncIterator):
            raise WrongAnswerError(
                f"{self._name} is asynchronous.", "Iterate the loop with `async for`.", call=self._name
            )
        if not isinstance(pairs, Iterator):
            raise self._wrong_answer(pairs)
        with closing(pairs) if hasattr(pairs, "close") else nullcontext():  # type: ignore[type-var]
            for pair in pairs:
                yield self._checked(pair)

    async def aelements(self, position: JsonValue) -> AsyncIterator[tuple[T_co, JsonValue]]:
        """The same for `async for`."""
        pairs: Any = self._function(values.decode(position))
        if isinstance(pairs, Iterator):
            for pair in pairs:
                yield self._checked(pair)
            return
        if not isinstance(pairs, AsyncIterator):
            raise self._wrong_answer(pairs)
        async with closed_at_end(pairs) as open_pairs:
            async for pair in open_pairs:
                yield self._checked(pair)

    def _checked(self, pair: Any) -> tuple[T_co, JsonValue]:
        if not isinstance(pair, tuple) or len(pair) != 2:  # noqa: PLR2004  it is a pair
            raise WrongAnswerError(
                f"{self._name} yielded {kind_of(pair)} instead of a pair.",
                "Yield (element, next_position).",
                call=self._name,
            )
        element, after = pair
        if after is None:
            raise InvalidValueError(
                f"the position that {self._name} yielded with an element is None, which stands for the start.",
                "With the last element, yield a position that says so, such as 'end', and return at once when the"
                " function gets that position.",
                at=f"the position that {self._name} yielded with an element",
            )
        return element, saved_position(after, f"the position that {self._name} yielded with an element")

    def _wrong_answer(self, answer: object) -> WrongAnswerError:
        if inspect.iscoroutine(answer):
            answer.close()  # nobody awaits it
        remedy = "Make it a generator function that yields (element, next_position)."
        if isinstance(answer, Page) or not isinstance(answer, Iterable):
            remedy += " A function that fetches pages goes into a source: checkpoint(CursorToken(fetch), name=...)."
        return WrongAnswerError(
            f"{self._name} returned {kind_of(answer)} instead of an iterator.", remedy, call=self._name
        )


def saved_position(position: object, at: str) -> JsonValue:
    """A user's position as it is saved: a copy, which does not change with the user's object.

    Raises:
        InvalidValueError, ValueTooLargeError: it cannot be saved.
    """
    encoded = values.encode(position)
    values.check_sized(encoded, at=at)
    return encoded


def _refuse_without_position(function: Callable[..., object]) -> None:
    """Refuse a function that cannot be called with a position; one without a signature is accepted."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(None)
    except TypeError as error:
        name = getattr(function, "__name__", type(function).__name__)
        raise TypeError(
            f"{name}{signature} cannot be called with the position to continue from ({error}).\n"
            f"Write `def {name}(position):`, which yields (element, next_position); or pass {name}(...), if that gives"
            f" the same elements in every attempt."
        ) from None
