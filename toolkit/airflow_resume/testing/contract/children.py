"""Forked child processes: many at once, and one that is killed."""

from __future__ import annotations

import os
import signal
import traceback
import warnings
from collections.abc import Callable
from contextlib import ExitStack, suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

if TYPE_CHECKING:
    from typing_extensions import Self

T = TypeVar("T")

PATIENCE = 60.0
"""The most seconds that a child may take."""


class Child:
    """A forked process that runs `work` and sends messages; it is killed when the `with` block is left."""

    def __init__(self, work: Callable[[Connection], object]) -> None:
        self.messages, sender = Pipe(duplex=False)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 on, when there are threads
            self.pid = os.fork()
        if self.pid == 0:
            _live(work, sender)
        sender.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.kill(self.pid, signal.SIGKILL)  # it may have ended, but is not waited for yet, so the id is still its own
        os.waitpid(self.pid, 0)
        self.messages.close()

    def receive(self) -> Any:
        """The next message.

        Raises:
            AssertionError: the child failed, takes too long, or ended without a message.
        """
        if not self.messages.poll(PATIENCE):
            raise AssertionError(f"a child process took longer than {PATIENCE} s")
        try:
            failure, message = self.messages.recv()
        except (EOFError, OSError):  # OSError: it was killed in the middle of one
            raise AssertionError("a child process ended without an answer") from None
        if failure is not None:
            raise AssertionError(f"in a child process:\n{failure}")
        return message


class Answering(Child):
    """A child that answers questions with `answer`, one after the other."""

    def __init__(self, answer: Callable[[str], Any]) -> None:
        asked, self._questions = Pipe(duplex=False)

        def live(sender: Connection) -> None:
            while True:
                sender.send((None, answer(asked.recv())))

        super().__init__(live)

    def ask(self, question: str) -> Callable[..., Any]:
        """Ask, and return a function that waits for the answer and raises TimeoutError after `timeout` seconds."""
        self._questions.send(question)
        answers: list[Any] = []

        def answer(*, timeout: float = PATIENCE) -> Any:
            if not answers:
                if timeout < PATIENCE and not self.messages.poll(timeout):
                    raise TimeoutError
                answers.append(self.receive())
            return answers[0]

        return answer


def _live(work: Callable[[Connection], object], sender: Connection) -> NoReturn:
    """Run the work in the child and end the process: no code of the parent may run in it afterwards."""
    try:
        work(sender)
    except BaseException:  # noqa: BLE001  the parent judges
        sender.send((traceback.format_exc(), None))
    finally:
        os._exit(0)


def run_together(work: Callable[[int], T], count: int) -> list[T]:
    """The results of `work(0)`, `work(1)`, ..., each in its own child process; they start at the same moment.

    Raises:
        AssertionError: one of them raised.
    """
    gate, opener = os.pipe()

    def wait_and_work(index: int, sender: Connection) -> None:
        os.close(opener)
        os.read(gate, 1)  # returns when nobody holds the other end any more
        sender.send((None, work(index)))

    with ExitStack() as stack:
        stack.callback(os.close, gate)
        children = [stack.enter_context(Child(lambda sender, i=i: wait_and_work(i, sender))) for i in range(count)]  # type: ignore[misc]
        os.close(opener)
        return [child.receive() for child in children]


def acknowledged_until_killed(work: Callable[[Callable[[T], None]], object], *, after: int) -> list[T]:
    """What a child that calls `work(acknowledge)` acknowledged until it was killed with SIGKILL.

    Args:
        work: works until the child is killed.
        after: acknowledgements to wait for before the kill.

    Raises:
        AssertionError: the child raised, or ended before the kill.
    """
    with Child(lambda sender: work(lambda value: sender.send((None, value)))) as child:
        received = [child.receive() for _ in range(after)]
        os.kill(child.pid, signal.SIGKILL)
        with suppress(AssertionError):  # the end of what it had to say
            while True:
                received.append(child.receive())
    return received
