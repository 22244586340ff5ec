"""Which elements are done when they are not done in order.

Theory of operation. Elements are numbered as the source yields them, from the position at which the loop was opened.
The low watermark is the first one that is not done; its position is what is saved, and no hole is ever passed. Above
it, runs of done elements are kept, and saved as run lengths. What an earlier attempt did above its watermark is yielded
by the source once more, and recognised by its number.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic import JsonValue

MAX_BYTES = 500
"""What the run lengths may take in the record."""
_BYTES_A_RUN = 16
"""No run takes more: two numbers of seven digits and two commas."""


@dataclass(frozen=True)
class _Run:
    """Done elements in a row: the numbers of the first and the last, and the position after the last."""

    first: int
    last: int
    after: JsonValue


class Frontier:
    """What is done, from `position` on.

    Args:
        position: of the first element that is not done.
        ahead: what is done above it, as in the record.
    """

    def __init__(self, position: JsonValue, ahead: Sequence[int] | None = None) -> None:
        self.position = position
        self._low = 0
        self._taken = 0
        self._earlier = deque(_spans(ahead or ()))
        self._by_first: dict[int, _Run] = {}
        self._by_last: dict[int, _Run] = {}

    def take(self, after: JsonValue) -> int | None:
        """The number of the element that the source yields next; None when an earlier attempt did it."""
        number = self._taken
        self._taken += 1
        if not (self._earlier and self._earlier[0][0] <= number):
            return number
        first, last = self._earlier.popleft()
        if first < last:
            self._earlier.appendleft((first + 1, last))
        self.finish(number, after)
        return None

    def finish(self, number: int, after: JsonValue) -> None:
        """The element is done; `after` is the position after it."""
        if number == self._low and not self._by_first:
            self._low, self.position = number + 1, after
            return
        run = self._joined(number, after)
        if run.first == self._low:
            self._low, self.position = run.last + 1, run.after
        else:
            self._by_first[run.first] = self._by_last[run.last] = run

    def _joined(self, number: int, after: JsonValue) -> _Run:
        before, behind = self._by_last.pop(number - 1, None), self._by_first.pop(number + 1, None)
        if before is not None:
            del self._by_first[before.first]
        if behind is not None:
            del self._by_last[behind.last]
        return _Run(
            first=number if before is None else before.first,
            last=number if behind is None else behind.last,
            after=after if behind is None else behind.after,
        )

    def ahead(self) -> list[int] | None:
        """What is done above the watermark, as run lengths: not done, done, not done, ..."""
        lengths, at = [], self._low
        done_here = sorted((run.first, run.last) for run in self._by_first.values())
        for first, last in _united(chain(done_here, self._earlier)):
            lengths += [first - at, last + 1 - first]
            at = last + 1
        return lengths or None

    @property
    def is_full(self) -> bool:
        """Whether another hole might make the record too large."""
        runs = len(self._by_first) + len(self._earlier)
        if runs * _BYTES_A_RUN <= MAX_BYTES:
            return False
        return len(str(self.ahead())) + _BYTES_A_RUN > MAX_BYTES


def _spans(ahead: Sequence[int]) -> Iterator[tuple[int, int]]:
    at = 0
    for missing, done in zip(ahead[::2], ahead[1::2], strict=True):
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
