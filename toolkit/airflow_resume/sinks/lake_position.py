"""How a position in a lake is claimed, and the commits that move it.

Theory of operation. A lake is a table, or a folder with a log of its files. A commit replaces its current state by a
new one, if no other commit came first. Each of our commits carries the record of the position, so what was written and
the position become visible together. `Lake.put` commits only if no record of this key was written since the lake was
looked at. So of two attempts only the one that claimed last can commit, and the other one looks, and finds the claim of
its successor. If a commit raises an error, the lake is looked at: it contains our record, or it does not.
"""

from __future__ import annotations

import secrets
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from airflow_resume.errors import SinkError, SinkUnsafeError, SupersededError
from airflow_resume.shown import get_logger
from airflow_resume.sink_protocol import Claimant
from airflow_resume.sinks.contention import LOOK_SECONDS, Races, Watch, raced, refusal
from airflow_resume.sinks.decide import Claiming, Committed, Held, OnContention, Stamp, decide_claim, decide_commit
from airflow_resume.sinks.forks import ThisProcess
from airflow_resume.sinks.lake_record import LakeKey, LakeRecord

if TYPE_CHECKING:
    from pydantic import JsonValue

log = get_logger(__name__)


class LakeMovedError(Exception):
    """Commits of others came first, so nothing was committed. Look at the lake, and try again."""


class LakeWriter(ABC):
    """What the body of a loop or a window writes with, in the thread that claimed the position or commits it.

    What another thread writes belongs to no element: the commit may have begun, or a later element be in hand.
    """

    def __init__(self) -> None:
        self.pending: list[Any] = []
        """What is written, and not committed."""
        self.is_over = False
        """Whether the loop or the window is over."""
        self.check_use: Callable[[], None] | None = None
        """Raises an error if the body may not write now."""
        self.lock = threading.Lock()
        """Is held by a commit, and by a change of `pending`."""
        self.thread = threading.get_ident()
        """The one that may write."""
        self._process = ThisProcess()

    def check(self) -> None:
        """Check that the caller may write.

        Raises:
            SinkUnsafeError: this is another thread, or a fork of the process, or the loop or the window is over, or it
                may not write here.
        """
        self._process.check("a lake")
        if self.is_over:
            raise SinkUnsafeError("The loop or the window is over, and its last commit too.", problem="use")
        if self.thread != threading.get_ident():
            raise SinkUnsafeError(
                "Another thread than that of the loop or the window wrote to its sink. Nobody knows to which element"
                " that belongs, and the commit of the element may have begun.",
                "Have the thread return what is to be written, such as with loop.map, and write it in the body.",
                problem="use",
            )
        if self.check_use is not None:
            self.check_use()

    @abstractmethod
    def forget(self, after: int = 0) -> None:
        """Forget what was written, except for the first so many."""


class Lake(Protocol):
    """What takes writes and a record in one commit."""

    target: str
    """What it is called in messages, without anything secret."""
    key: LakeKey
    """Of the position."""

    def look(self) -> LakeRecord | None:
        """Read the newest record of the key; None if there is none."""
        ...

    def put(self, record: LakeRecord, pending: Sequence[Any]) -> None:
        """Commit what was written and a record, if no record of this key was written since `look` or the last `put`.

        Raises:
            LakeMovedError: others came first.
            Exception: whatever the lake raises. What became of the commit is not known.
        """
        ...

    def writer(self, record: LakeRecord) -> LakeWriter:
        """What the body writes with.

        Args:
            record: of the claim.
        """
        ...


class LakePosition:
    """A position in a lake that this attempt has claimed. Made by `claim_in_lake`.

    Args:
        lake: that was looked at.
        record: of the claim.
        gives_back: whether to give the claim back at the end, in a commit of its own.
        patience: for how long to try a commit when commits of others come first, in seconds.
        monotonic: a clock, in seconds.
        sleep: waits for a number of seconds.
    """

    def __init__(
        self,
        lake: Lake,
        record: LakeRecord,
        *,
        gives_back: bool,
        patience: float,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._lake, self._record, self._gives_back = lake, record, gives_back
        self._patience, self._monotonic, self._sleep = patience, monotonic, sleep
        self.position = record.position
        self._writer = lake.writer(record)
        self._is_lost = self._is_in_doubt = self._is_closed = False
        self._process = ThisProcess()

    @property
    def connection(self) -> Any:
        """What the body writes with."""
        return self._writer

    @property
    def version(self) -> int:
        """How many commits the record has seen, as far as is known."""
        return self._record.stamp.version

    def commit(self, position: JsonValue) -> None:
        """Commit what was written, and the position.

        Raises:
            SupersededError: another attempt has claimed the position. Nothing was committed.
            SinkBusyError: others always committed first. Nothing was committed.
            SinkError: the record is gone, or it is not known what became of an earlier commit.
            Exception: the error of the lake. Nothing was committed.
        """
        self._process.check(self._lake.target)
        if self._is_in_doubt:
            raise self._doubt()
        with self._writer.lock:
            self._writer.thread = threading.get_ident()
            self._commit(self._record.moved(position))
            self._writer.pending.clear()

    def _doubt(self) -> SinkError:
        return SinkError(
            f"It is not known what became of an earlier commit to {self._lake.target}.",
            "A retry looks, and continues where the sink stands.",
            sink=self._lake.target,
        )

    def _commit(self, record: LakeRecord) -> None:
        races = Races(self._patience, self._monotonic, self._sleep)
        while not self._try(record, races):
            races.lost()

    def _try(self, record: LakeRecord, races: Races) -> bool:
        """Whether the commit took place; False if it did not, and may be tried again."""
        self._is_in_doubt = True
        try:
            self._lake.put(record, self._writer.pending)
        except Exception as error:
            found = self._lake.look()
            if found is not None and found.stamp == record.stamp and found.commit != record.commit:
                raise self._doubt() from error  # an earlier commit came late
            self._is_in_doubt = False
            match decide_commit(None if found is None else found.stamp, self._record.stamp):
                case Committed.YES:
                    log.warning("%s: a commit raised %r, and took place; its reply was lost", self._lake.target, error)
                case Committed.NO if isinstance(error, LakeMovedError) and not races.are_over:
                    return False
                case Committed.NO:
                    self._writer.pending.clear()  # it may still come, so nothing of it may be removed
                    if isinstance(error, LakeMovedError):
                        raise raced(self._lake.key.identity, self._lake.target, races) from error
                    raise
                case Committed.SUPERSEDED:
                    self._is_lost = True
                    raise SupersededError(key=self._lake.key.identity) from error
                case Committed.GONE:
                    raise SinkError(
                        f"The position of {self._lake.key.identity} is gone from {self._lake.target}, as after a"
                        " restore. Nothing was committed.",
                        "A retry continues where the sink stands.",
                        sink=self._lake.target,
                    ) from error
        self._is_in_doubt = False
        self._record = record
        return True

    def rollback(self) -> None:
        """Forget what was written since the last commit."""
        self._forget()

    def _forget(self) -> None:
        if self._is_in_doubt or self._is_lost or self._process.is_another:
            # It may be committed, or belongs to the parent of this process, so nothing of it may be removed.
            self._writer.pending.clear()
        else:
            self._writer.forget()

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        """A block whose writes are forgotten if it raises an error."""
        before = len(self._writer.pending)
        try:
            yield
        except BaseException:
            if not self._process.is_another:
                self._writer.forget(before)
            raise

    def check_use(self, check: Callable[[], None]) -> None:
        """Call this before whatever is written from now on; it raises an error if that may not be."""
        self._writer.check_use = check

    def close(self) -> None:
        """Forget what was not committed. Give the claim back, if others may wait for it."""
        if self._is_closed:
            return
        self._is_closed = True
        self._writer.is_over = True
        self._forget()
        if not self._gives_back or self._is_lost or self._is_in_doubt or self._process.is_another:
            return
        try:
            self._commit(self._record.released())
        except Exception as error:  # noqa: BLE001  the claim is then taken over by the next attempt all the same
            log.debug("%s: the claim of %s was not given back: %r", self._lake.target, self._lake.key.identity, error)


def claim_in_lake(
    lake: Lake,
    claimant: Claimant,
    *,
    on_contention: OnContention,
    patience: float,
    monotonic: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> LakePosition:
    """Claim a position, by a commit without rows.

    Args:
        lake: that keeps it.
        claimant: the running attempt.
        on_contention: what to do about another run.
        patience: how long to wait for a run that says nothing, in seconds.
        monotonic: a clock, in seconds.
        sleep: waits for a number of seconds.

    Raises:
        SupersededError: a later attempt has claimed it. Nothing was touched.
        SinkBusyError: another run works on it.
        SinkError: it cannot be claimed.
    """
    watch, races = Watch(patience, monotonic), Races(patience, monotonic, sleep)
    while True:
        found = lake.look()
        decision = Claiming.INSERT
        if found is not None:
            decision = decide_claim(found.held, claimant, on_contention, watch.sign_of(found.stamp))
            if decision is Claiming.WAIT:
                sleep(LOOK_SECONDS)
                continue
            if decision is not Claiming.TAKE_OVER:
                raise refusal(decision, lake.key.identity, found.held.by, lake.target)
        nonce = secrets.token_hex(16)
        before = found or LakeRecord(held=Held(by=claimant), stamp=Stamp(nonce, -1))
        record = before.taken_over(claimant, nonce)
        if _is_put(lake, record, before):
            return LakePosition(
                lake,
                record,
                gives_back=on_contention != "take_over",
                patience=patience,
                monotonic=monotonic,
                sleep=sleep,
            )
        if races.are_over:
            raise raced(lake.key.identity, lake.target, races)
        races.lost()


def _is_put(lake: Lake, record: LakeRecord, before: LakeRecord) -> bool:
    """Whether a claim was committed; False if others came first."""
    try:
        lake.put(record, [])
    except Exception as error:
        found = lake.look()
        if found is not None and found.stamp == record.stamp:
            return True
        if isinstance(error, LakeMovedError) or (found is not None and found.stamp != before.stamp):
            return False
        raise
    return True
