"""Which elements are done, if they are not done in order.

Theory of operation. Elements are numbered as the source yields them, from the position at which the loop was opened.
The low watermark is the first element that is not done. Its position is saved. In the next attempt the source also
yields the elements above it that are done. They must be recognised then, although the source may have changed: a page
may have other rows, a listing another file.

If elements can be counted (`Source.numbering`), they are saved as run lengths, which are short even if one element
takes very long. Otherwise each element is identified by a hash of the positions before and after it, and only some
hashes fit into the record. When it is full, no element is started until the lowest one is done.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

from airflow_resume import values
from airflow_resume.loops.loop_record import ID_DIGITS, Ahead
from airflow_resume.loops.sources.places import identity_of
from airflow_resume.loops.sources.source import Source

if TYPE_CHECKING:
    from pydantic import JsonValue

MAX_BYTES = 500
"""The space for run lengths in the record."""
_BYTES_A_RUN = 16
"""The most bytes of one run: two numbers of seven digits and two commas."""
MAX_IDS = 80
FURTHEST_AHEAD = 1_000
"""The furthest that an element identified by a hash can be ahead, because no pool has that many threads."""


@dataclass(frozen=True)
class _Run:
    """Consecutive elements that are done: the numbers of the first and the last, and the position after the last."""

    first: int
    last: int
    after: JsonValue


class Frontier:
    """Which elements are done, from `position` on.

    Args:
        source: of the elements.
        position: of the first element that is not done.
        ahead: the later elements that an earlier attempt has done, if they can be recognised; see `is_recognised`.
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
        """How many elements that were done ahead are not in the source any more, but are still counted."""
        self._earlier_ids = {ahead.ids[at : at + ID_DIGITS] for at in range(0, len(ahead.ids), ID_DIGITS)}

    @property
    def next_number(self) -> int:
        """The number of the next element."""
        return self._taken

    def take(self, before: JsonValue, after: JsonValue) -> int | None:
        """The number of the element that the source yields next; None if an earlier attempt has done it."""
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
        """Whether no element is done above the low watermark or in flight. Then elements need only be counted."""
        return self._taken == self._low and not (self._by_first or self._earlier or self._earlier_ids)

    def set_next(self, number: int, position: JsonValue) -> None:
        """Note that all elements before this one are taken and done. Only if `is_plain`."""
        self._low = self._taken = number
        self.position = position

    def finish(self, number: int, before: JsonValue, after: JsonValue) -> None:
        """Note that the element is done; `before` and `after` are the positions around it.

        A time-out may come at any call. So all calls come first, and what must be consistent is set after them.
        """
        if number == self._low and not self._by_first:
            self._low, self.position = number + 1, after
            return
        below, above = self._by_last.get(number - 1), self._by_first.get(number + 1)
        run = _Run(
            first=number if below is None else below.first,
            last=number if above is None else above.last,
            after=after if above is None else above.after,
        )
        reaches_down = run.first == self._low
        ids = self._ids
        if reaches_down:
            ids = {known_number: known for known_number, known in ids.items() if known_number > run.last}
        elif self._numbering is None:
            ids = {**ids, number: _id_of(before, after)}
        # Nothing is called from here on.
        if below is not None:
            del self._by_first[below.first], self._by_last[below.last]
        if above is not None:
            del self._by_first[above.first], self._by_last[above.last]
        self._ids = ids
        if reaches_down:
            self._low, self.position = run.last + 1, run.after
        else:
            self._by_first[run.first] = self._by_last[run.last] = run

    def forget_unseen(self) -> None:
        """Forget the elements that an earlier attempt has done and that did not come again, as the source has ended."""
        self.forgotten += len(self._earlier_ids) + sum(last + 1 - first for first, last in self._earlier)
        self._earlier.clear()
        self._earlier_ids.clear()

    def ahead(self) -> Ahead | None:
        """The elements above the low watermark that are done."""
        if not (self._by_first or self._earlier or self._earlier_ids):
            return None
        if self._numbering is None:
            return Ahead(ids="".join(sorted({*self._ids.values(), *self._earlier_ids})))
        far = self._earlier_far if self._earlier else self._by_last[max(self._by_last)].after
        return Ahead(by=self._numbering, runs=self._run_lengths(), far=far)

    def _run_lengths(self) -> list[int]:
        """How many elements are not done, then how many are done, and so on in turn."""
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
    """Whether the elements that were done ahead can be recognised: by the same numbers, or by hashes."""
    if not ahead.runs:
        return source.numbering() is None
    return ahead.by == source.numbering() and not source.changes(ahead.far)


def _id_of(before: JsonValue, after: JsonValue) -> str:
    return values.fingerprint(identity_of(before, after), length=ID_DIGITS)


def _spans(runs: Sequence[int]) -> Iterator[tuple[int, int]]:
    at = 0
    for missing, done in zip(runs[::2], runs[1::2], strict=True):
        first = at + missing
        at = first + done
        yield first, at - 1


def _united(spans: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """The spans, with adjacent ones joined: a run of this attempt may end where a run of an earlier attempt begins."""
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
