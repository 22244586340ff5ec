"""The loop object that `checkpoint` makes: a thin layer over `LoopRun` and the ways of iterating it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from airflow_resume.arguments import check_flag, check_function, check_whole
from airflow_resume.channel import off_the_loop
from airflow_resume.errors import LoopError, SinkUnsafeError
from airflow_resume.loops.open_loop import Element
from airflow_resume.loops.parallel.in_flight import refuse_what_does_no_work
from airflow_resume.loops.parallel.tasks import amapped
from airflow_resume.loops.parallel.threads import mapped
from airflow_resume.loops.plan import Plan
from airflow_resume.loops.run import LoopRun
from airflow_resume.loops.serial.iterators import AsyncElements, Elements
from airflow_resume.loops.serial.sequence import adelivered, aopen, delivered
from airflow_resume.sink_protocol import append_to

if TYPE_CHECKING:
    from typing_extensions import Self

T = TypeVar("T")
R = TypeVar("R")


class Checkpoint(Generic[T]):
    """A loop that remembers its position. Made by `checkpoint`.

    It has one method for each way of using it, and so more than most classes.
    """

    def __init__(self, plan: Plan[T], within: Checkpoint[Any] | None = None) -> None:
        self._run: LoopRun[T] = LoopRun(plan, None if within is None else within._run)  # noqa: SLF001  of the same class

    def __repr__(self) -> str:
        return f"<Checkpoint {self._run.plan.name!r} of {self._run.plan.source!r}>"

    def __iter__(self) -> Iterator[T]:
        return Elements.of(self._first_iteration(), delivered)

    def __aiter__(self) -> AsyncIterator[T]:
        return AsyncElements(self._first_iteration(awaited=True), adelivered)

    def map(self, fn: Callable[[T], R], *, workers: int, ordered: bool = False) -> Iterator[R]:
        """What `fn` returns for each element, computed in threads; iterate it to the end.

        An element counts as done when the consumer of its result asks for the next one.

        Args:
            fn: called in a thread, with the element.
            workers: how many at a time.
            ordered: give results in the order of the elements, not as they are ready.

        Raises:
            TypeError: `fn` is a coroutine function (use `amap`) or a generator function: calling it does no work.
        """
        refuse_what_does_no_work(fn)
        check_flag("ordered", ordered)
        work = partial(mapped, work=fn, workers=workers, ordered=ordered)
        return Elements.of(self._first_map(fn, workers), work)

    def amap(self, fn: Callable[[T], Awaitable[R]], *, workers: int, ordered: bool = False) -> AsyncIterator[R]:
        """As `map`, for `async for`: `fn` is a coroutine function, and runs in tasks of the event loop.

        Args:
            fn: awaited with the element.
            workers: how many at a time.
            ordered: hand out results in the order of the elements, not as they come.

        Raises:
            TypeError: `fn` returned something that cannot be awaited.
        """
        check_flag("ordered", ordered)
        work = partial(amapped, work=fn, workers=workers, ordered=ordered)
        return AsyncElements(self._first_map(fn, workers, awaited=True), work)

    def ack(self) -> None:
        """Say that all elements delivered so far are done (`ack="manual"`). `async for` saves it at the next element.

        Raises:
            LoopError: the loop acks by itself.
        """
        run = self._run
        if run.plan.ack != "manual":
            raise LoopError(
                f"The loop {run.plan.name!r} acks every element by itself.",
                "Use ack='manual' for ack().",
                loop=run.plan.name,
            )
        loop = run.loop
        loop.ack_delivered()
        if not run.awaited and loop.deliveries.takes_wanted_flush():
            loop.session.keeper.flush()
        if loop.exhausted and not run.managed:
            run.close(None)

    @contextmanager
    def skipping(self) -> Iterator[None]:
        """Skip the element if the body raises an error that `skip=` allows, and undo the body's changes of `state`.

        Use it as a `with` block around the body.

        Raises:
            LoopError: the loop has no `skip=`.
        """
        if self._run.plan.skip is None:
            raise LoopError(
                f"The loop {self._run.plan.name!r} skips nothing.",
                "Give it skip=Skip(on=(ValueError,)).",
                loop=self._run.plan.name,
            )
        with ExitStack() as begun:
            begun.enter_context(self._run.loop.session.keeper.undoing())  # its error does not belong to the element
            try:
                with begun.pop_all():
                    yield
            except Exception as error:
                deliveries = self._run.loop.deliveries
                if not deliveries.may_skip(error):
                    raise
                deliveries.fail_in_hand(error)

    def __enter__(self) -> Self:
        self._run.managed = True
        self._run.open()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        self._run.left_by_with()
        self._run.close(error)

    async def __aenter__(self) -> Self:
        self._check_not_awaited_with_sink()
        self._run.managed = self._run.awaited = True
        await aopen(self._run)
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        self._run.left_by_with()
        await off_the_loop(partial(self._run.close, error))

    @property
    def state(self) -> dict[str, Any]:
        """A dict of your own: JSON (or what `values.encode` knows), saved in the same write as the position."""
        return self._run.loop.state

    @state.setter
    def state(self, state: dict[str, Any]) -> None:
        self._run.loop.state = state

    @property
    def connection(self) -> Any:
        """The connection of the sink, in the transaction that is committed together with the position.

        Ask for it in each element, and write with it only: `loop.connection.execute(...)`. Do not commit.

        Raises:
            LoopError: the loop has no `sink=`, is closed, or the caller is a worker of its `map`.
            SinkUnsafeError: the loop has not begun, or was left before its end; or the element is acked already.
        """
        run = self._run
        if run.is_open and run.has_sink and not (run.is_begun or run.loop.is_closed):
            raise SinkUnsafeError(
                f"The connection of the loop {run.plan.name!r} is used before its first element, so what it writes"
                " would be written again by a retry.",
                "Write it in the body of the loop: `if loop.count == 0:` is true until the first commit.",
                problem="use",
            )
        return run.loop.connection

    def append(self, rows: Any) -> None:
        """Append rows to the table of the sink, such as a `DeltaSink`. They are committed together with the position.

        Args:
            rows: a list of dicts, an Arrow table, a record batch, or a data frame of pandas or polars.

        Raises:
            LoopError: the loop has no `sink=`, is closed, or the caller is a worker of its `map`.
            TypeError, ValueError: the sink is none of a table, or the rows do not fit it. Nothing was appended.
        """
        append_to(self.connection, rows)

    @property
    def element(self) -> Element:
        """The element in hand; in the function of a `map`, the one it was called with."""
        return self._run.loop.element()

    @property
    def done(self) -> bool:
        """Whether the source was exhausted, in this attempt or before."""
        return self._run.is_open and self._run.loop.ledger.done

    @property
    def count(self) -> int:
        """Elements done, in all attempts."""
        return self._run.loop.ledger.live_count

    @property
    def skipped(self) -> int:
        """Elements skipped, in all attempts."""
        return self._run.loop.ledger.skipped

    @property
    def progress(self) -> str:
        """How far the loop is, in words, such as `page 183 of 400`; `done, 400 pages` at the end."""
        counted = self._run.loop.ledger.counted()
        return f"done, {counted.finished()}" if self.done else counted.here()

    def _first_iteration(self, *, awaited: bool = False) -> LoopRun[T]:
        run = self._run
        if run.is_begun:
            raise LoopError(
                f"The loop {run.plan.name!r} was iterated already.",
                "Make another one with checkpoint(...).",
                loop=run.plan.name,
            )
        if awaited:
            self._check_not_awaited_with_sink()
        if awaited and run.plan.ack == "manual" and not run.managed:
            raise LoopError(
                f"The loop {run.plan.name!r} has ack='manual', is on an event loop, and is used in no `async with`.",
                "Use `async with checkpoint(...) as loop`.",
                loop=run.plan.name,
            )
        run.begin()
        run.awaited = awaited
        return run

    def _check_not_awaited_with_sink(self) -> None:
        """Refuse an event loop, which a body with a sink would block."""
        if self._run.plan.keeping.sink is not None:
            raise SinkUnsafeError(
                f"The loop {self._run.plan.name!r} has a sink, whose connection would block the event loop.",
                "Use `for` and `with`, in a function that is not async.",
                problem="use",
            )

    def _first_map(self, fn: object, workers: int, *, awaited: bool = False) -> LoopRun[T]:
        check_function("fn", fn, "a function of an element")
        check_whole("workers", workers, least=1)
        if self._run.plan.ack == "manual":
            raise ValueError("ack='manual' means nothing to map(): an element is done when its result was taken")
        return self._first_iteration(awaited=awaited)
