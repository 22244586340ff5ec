"""Which elements are done when they are not done in order.

Theory of operation. Elements are numbered as the source yields them, from the position at which the loop was opened.
The low watermark is the first one that is not done; its position is what is saved, and no hole is ever passed. What is
done above it is yielded by the source once more in the next attempt, and must be recognised there, though the source
may have changed: a page may have other rows, a listing another file. Where elements can be counted (`Source.numbering`)
run lengths do, however long a straggler takes. Elsewhere each is known by the positions before and after it, of which
only so many fit into the record; then nothing is started until the lowest hole is closed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

from airflow_resume import values
from airflow_resume.loops.places import told_apart
from airflow_resume.loops.record import ID_DIGITS, Ahead
from airflow_resume.loops.source import Source

if TYPE_CHECKING:
    from pydantic import JsonValue

MAX_BYTES = 500
"""What the run lengths may take in the record."""
_BYTES_A_RUN = 16
"""No run takes more: two numbers of seven digits and two commas."""
MAX_IDS = 80
FURTHEST_AHEAD = 1_000
"""Nothing that was done ahead and is known by its id lies further: no pool has that many threads."""


@dataclass(frozen=True)
class _Run:
    """Done elements in a row: the numbers of the first and the last, and the position after the last."""

    first: int
    last: int
    after: JsonValue


class Frontier:
    """What is done, from `position` on.

    Args:
        source: of the elements.
        position: of the first element that is not done.
        ahead: what an earlier attempt did above it, if that can still be recognised: see `is_recognised`.
    """

    def __init__(self, source: Source[Any], position: JsonValue, ahead: Ahead | None = None) -> None:
        self.position = position
        self._numbering = source.numbering()
        self._low = 0
        self._taken = 0
        self._by_first: dict[int, _Run] = {}
        self._by_last: dict[int, _Run] = {}
        self._ids: dict[int, str] = {}
        ahead = Ahead() if ahead is None else ahead
        self._earlier, self._earlier_far = deque(_spans(ahead.runs)), ahead.far
        self.forgotten = 0
        """How many that were done ahead are there no more, and have not been taken off the count yet."""
        self._earlier_ids = {ahead.ids[at : at + ID_DIGITS] for at in range(0, len(ahead.ids), ID_DIGITS)}

    @property
    def next_number(self) -> int:
        """The number of the next element."""
        return self._taken

    def take(self, before: JsonValue, after: JsonValue) -> int | None:
        """The number of the element that the source yields next; None when an earlier attempt did it."""
        number = self._taken
        self._taken += 1
        if self._earlier_ids and number >= FURTHEST_AHEAD:
            self.forgotten += len(self._earlier_ids)
            self._earlier_ids.clear()
        if (self._earlier or self._earlier_ids) and self._was_done(number, before, after):
            self.finish(number, before, after)
            return None
        return number

    def _was_done(self, number: int, before: JsonValue, after: JsonValue) -> bool:
        if self._earlier and self._earlier[0][0] <= number:
            first, last = self._earlier.popleft()
            if first < last:
                self._earlier.appendleft((first + 1, last))
            return True
        if not self._earlier_ids:
            return False
        known = _id_of(before, after)
        was_done = known in self._earlier_ids
        self._earlier_ids.discard(known)
        return was_done

    @property
    def is_plain(self) -> bool:
        """Whether nothing is done above the watermark, nor in flight: then elements need only be counted."""
        return self._taken == self._low and not (self._by_first or self._earlier or self._earlier_ids)

    def set_next(self, number: int, position: JsonValue) -> None:
        """All before this element are taken and done; only where `is_plain`."""
        self._low = self._taken = number
        self.position = position

    def finish(self, number: int, before: JsonValue, after: JsonValue) -> None:
        """The element is done; `before` and `after` are the positions around it.

        A time-out may come at any call. So all calls come first, and what belongs together is set after them.
        """
        if number == self._low and not self._by_first:
            self._low, self.position = number + 1, after
            return
        ahead, behind = self._by_last.get(number - 1), self._by_first.get(number + 1)
        run = _Run(
            first=number if ahead is None else ahead.first,
            last=number if behind is None else behind.last,
            after=after if behind is None else behind.after,
        )
        reaches_down = run.first == self._low
        ids = self._ids
        if reaches_down:
            ids = {known_number: known for known_number, known in ids.items() if known_number > run.last}
        elif self._numbering is None:
            ids = {**ids, number: _id_of(before, after)}
        # Nothing is called from here on.
        if ahead is not None:
            del self._by_first[ahead.first], self._by_last[ahead.last]
        if behind is not None:
            del self._by_first[behind.first], self._by_last[behind.last]
        self._ids = ids
        if reaches_down:
            self._low, self.position = run.last + 1, run.after
        else:
            self._by_first[run.first] = self._by_last[run.last] = run

    def forget_unseen(self) -> None:
        """The source has ended: what was done earlier and has not come again is there no more."""
        self.forgotten += len(self._earlier_ids) + sum(last + 1 - first for first, last in self._earlier)
        self._earlier.clear()
        self._earlier_ids.clear()

    def ahead(self) -> Ahead | None:
        """What is done above the watermark."""
        if not (self._by_first or self._earlier or self._earlier_ids):
            return None
        if self._numbering is None:
            return Ahead(ids="".join(sorted({*self._ids.values(), *self._earlier_ids})))
        far = self._earlier_far if self._earlier else self._by_last[max(self._by_last)].after
        return Ahead(by=self._numbering, runs=self._run_lengths(), far=far)

    def _run_lengths(self) -> list[int]:
        """So many not done, so many done, and so on."""
        lengths, at = [], self._low
        done_here = sorted((run.first, run.last) for run in self._by_first.values())
        for first, last in _united(chain(done_here, self._earlier)):
            lengths += [first - at, last + 1 - first]
            at = last + 1
        return lengths

    @property
    def is_full(self) -> bool:
        """Whether another element done out of order might make the record too large."""
        if self._numbering is None:
            return len(self._ids) + len(self._earlier_ids) >= MAX_IDS
        runs = len(self._by_first) + len(self._earlier)
        if runs * _BYTES_A_RUN <= MAX_BYTES:
            return False
        return len(str(self._run_lengths())) + _BYTES_A_RUN > MAX_BYTES


def is_recognised(ahead: Ahead, source: Source[Any]) -> bool:
    """Whether what an earlier attempt did ahead has the same numbers now, or is known by more than numbers."""
    if not ahead.runs:
        return source.numbering() is None
    return ahead.by == source.numbering() and not source.changes(ahead.far)


def _id_of(before: JsonValue, after: JsonValue) -> str:
    return values.fingerprint(told_apart(before, after), length=ID_DIGITS)


def _spans(runs: Sequence[int]) -> Iterator[tuple[int, int]]:
    at = 0
    for missing, done in zip(runs[::2], runs[1::2], strict=True):
        first = at + missing
        at = first + done
        yield first, at - 1


def _united(spans: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Neighbours become one: the run of this attempt may end where one of an earlier attempt goes on."""
    current: tuple[int, int] | None = None
    for first, last in spans:
        if current is not None and first == current[1] + 1:
            current = (current[0], last)
            continue
        if current is not None:
            yield current
        current = (first, last)
    if current is not None:
        yield current
