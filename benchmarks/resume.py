"""What it costs to resume in the middle: at element 1,000,000 as at element 1,000, with every kind of source."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from copy import deepcopy
from itertools import islice
from typing import Any

from airflow_resume import checkpoint
from airflow_resume.loops import CursorToken, Keyset, Offset, Page, Source
from benchmarks.counting import CountingStore
from benchmarks.harness import Result, Scale, Seconds, at_most, compare, ratio_at_most, tell

LIMIT = 1_000
EARLY = 1_000


class Data:
    """Numbers, handed out in every way there is, and how often they were asked for."""

    def __init__(self, count: int) -> None:
        self.numbers = range(count)
        self.asked = 0

    def page(self, start: int, limit: int = LIMIT) -> range:
        self.asked += 1
        return self.numbers[start : start + limit]

    def after_token(self, token: Any) -> Page[int]:
        start = int(token or 0)
        items = self.page(start)
        return Page(items, str(start + LIMIT) if start + LIMIT < len(self.numbers) else None)

    def after_key(self, after: int | None, limit: int) -> range:
        return self.page(0 if after is None else after + 1, limit)


SOURCES: dict[str, Callable[[Data], Source[Any] | range]] = {
    "sequence": lambda data: data.numbers,
    "token": lambda data: CursorToken(data.after_token),
    "offset": lambda data: Offset(data.page, limit=LIMIT),
    "keyset": lambda data: Keyset(data.after_key, key=lambda number: number, limit=LIMIT),
}


def measure(scale: Scale) -> Iterator[Result]:
    late = scale.size(1_000_000, quick=20_000)
    for name, source_of in SOURCES.items():
        row, far, near = f"resume at element {late:,}, {name}", f"at element {late:,}", f"at element {EARLY:,}"
        resumes = {far: Resume(source_of, late, late), near: Resume(source_of, late, EARLY)}
        yield from compare(
            f"{row}: until it is there", resumes, rounds=scale.rounds(21), targets={near: (ratio_at_most(1.5),)}
        )
        calls, pages = resumes[far].calls, resumes[far].asked
        yield from tell(f"{row}: store calls", {far: calls}, unit="calls", targets={far: (at_most(2),)})
        if name != "sequence":
            yield from tell(f"{row}: pages asked for", {far: pages}, unit="calls", targets={far: (at_most(1),)})


class Resume:
    """The second attempt of a loop whose first one was left behind some elements."""

    def __init__(self, source_of: Callable[[Data], Source[Any] | range], count: int, stop: int) -> None:
        self._source_of, self._data, self._stop = source_of, Data(2 * count), stop
        self._left = CountingStore()
        with self._loop(self._left) as loop:
            for _ in islice(loop, stop + 1):  # the one in hand is not done
                pass
        self.calls = self.asked = 0

    def __call__(self) -> Seconds:
        store = CountingStore()
        store.values = deepcopy(self._left.values)
        self._data.asked = 0
        started = time.perf_counter()
        with self._loop(store) as loop:
            first = next(iter(loop))
            took = time.perf_counter() - started
            self.calls, self.asked = store.calls, self._data.asked
        assert first == self._stop
        return Seconds(took)

    def _loop(self, store: CountingStore) -> Any:
        source: Any = self._source_of(self._data)
        if isinstance(source, range):
            return checkpoint(source, name="loop", store=store)
        return checkpoint(source, each=True, name="loop", store=store)
