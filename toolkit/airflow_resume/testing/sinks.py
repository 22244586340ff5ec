"""A sink whose steps are points of the crash explorer, and an oracle for the rows in it.

def attempt(world):
sink = world.watch(WatchedSink(SqlSink(world.url)))
with checkpoint(pages, name="orders", sink=sink, context=...) as loop:
for page in loop:
loop.connection.execute(insert(orders), page)

explore_crashes(attempt, oracle=each_row_exactly_once(read_rows), world=...)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from airflow_resume.sink_protocol import Claimant, ClaimedPosition, check_use_in
from airflow_resume.testing.crashes.outcome import ExplorationOutcome, Oracle
from airflow_resume.testing.errors import OracleBrokenError

if TYPE_CHECKING:
    from pydantic import JsonValue


class WatchedSink:
    """A sink whose steps are points: before the position is written, before the commit, and after it.

    Before the position is written, the rows of the body are in the transaction, or in memory. Before the commit, the
    position is too. After it, the reply may get lost (`"reply_lost"`). Every commit has the last two points, also those
    of a claim.

    Pass it to `world.watch` in each attempt. The sink and its engine belong to the attempt, because a process that dies
    takes its connections along.

    Args:
        sink: that keeps the positions: a `SqlSink`, or one of a lake such as a `DeltaSink`.
    """

    observed_as = "store"

    def __init__(self, sink: Any) -> None:
        self._sink = sink
        self.observer: Callable[[str, str], object] | None = None
        if hasattr(sink, "commits"):
            sink.commits = self._commit
            return
        dialect: Any = sink.engine.dialect
        commit = dialect.do_commit
        dialect.do_commit = lambda raw: self._commit(lambda: commit(raw))

    def _commit(self, commit: Callable[[], None]) -> None:
        self.reach("before", "commit")
        commit()
        self.reach("after", "commit")

    def reach(self, phase: str, what: str) -> None:
        """Pass a point."""
        if self.observer is not None:
            self.observer(phase, what)

    @property
    def target(self) -> str:
        """That of the sink."""
        target: str = self._sink.target
        return target

    @property
    def script(self) -> str | None:
        """That of the sink."""
        script: str | None = self._sink.script
        return script

    def claim(self, identity: Sequence[JsonValue], claimant: Claimant) -> WatchedPosition:
        """Claim a position, as the sink does.

        Args:
            identity: of the position.
            claimant: the running attempt.
        """
        self.reach("before", "claim")
        return WatchedPosition(self._sink.claim(identity, claimant), self)


class WatchedPosition:
    """A position whose commits are points. Made by `WatchedSink.claim`.

    Args:
        claimed: the position of the sink.
        sink: that passes the points.
    """

    def __init__(self, claimed: ClaimedPosition, sink: WatchedSink) -> None:
        self._claimed, self._sink, self.position = claimed, sink, claimed.position

    @property
    def connection(self) -> Any:
        """That of the sink."""
        return self._claimed.connection

    @property
    def version(self) -> int:
        """That of the sink."""
        return self._claimed.version

    def commit(self, position: JsonValue) -> None:
        """Commit, as the sink does."""
        self._sink.reach("before", "write position")
        self._claimed.commit(position)

    def rollback(self) -> None:
        """Roll back, as the sink does."""
        self._claimed.rollback()

    def check_use(self, check: Callable[[], None]) -> None:
        """Check each use of the connection, as the sink does."""
        check_use_in(self._claimed, check)

    def savepoint(self) -> AbstractContextManager[object]:
        """A savepoint of the sink."""
        return self._claimed.savepoint()

    def close(self) -> None:
        """Close the position of the sink."""
        self._claimed.close()


def each_row_exactly_once(query: Callable[[Any], Iterable[Any]]) -> Oracle:
    """The sink has the same rows as in the run without a crash: none was lost, and none was written twice.

    Args:
        query: returns all rows that the world's sink has at the end, each as a value that can be hashed.

    Raises:
        OracleBrokenError: (the oracle does) there are no rows in the run without a crash.
    """

    def each_row_is_there_once(outcome: ExplorationOutcome[Any]) -> None:
        wanted, found = Counter(query((outcome.clean or outcome).world)), Counter(query(outcome.world))
        if not wanted:
            raise OracleBrokenError(
                f"{query!r} returned no rows after the run without a crash, so none can be lost.\nLet it return all"
                " rows of the sink."
            )
        if lost := wanted - found:
            raise AssertionError(f"lost rows: {_listed(lost)}")
        if repeated := found - wanted:
            raise AssertionError(f"repeated rows: {_listed(repeated)}")

    return each_row_is_there_once


def _listed(rows: Counter[Any]) -> str:
    shown = [f"{row!r} {count} x" for row, count in sorted(rows.items(), key=repr)]
    return ", ".join(shown[:10]) + (f", and {len(shown) - 10} more" if len(shown) > 10 else "")  # noqa: PLR2004
