"""The counts of a soak, some of which must be 0 whatever was killed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import pairwise


@dataclass(kw_only=True)
class Counts:
    """The counts. Those marked `broken` must be 0."""

    jobs: int = 0
    jobs_alive_twice: int = field(default=0, metadata={"broken": True})
    jobs_submitted_again: int = field(default=0, metadata={"broken": True})
    results_missing: int = field(default=0, metadata={"broken": True})
    elements: int = 0
    elements_lost: int = field(default=0, metadata={"broken": True})
    elements_repeated: int = 0
    rows: int = 0
    rows_lost: int = field(default=0, metadata={"broken": True})
    rows_repeated: int = 0
    marks_moved: int = 0
    marks_moved_back: int = field(default=0, metadata={"broken": True})

    @property
    def broken(self) -> list[str]:
        """The names of the counts that must be 0 and are not."""
        return [each.name for each in fields(self) if each.metadata.get("broken") and getattr(self, each.name)]

    @property
    def is_complete(self) -> bool:
        """Whether something of each kind was counted."""
        return bool(self.jobs and self.elements and self.rows)

    def add_job(self, stats: Mapping[str, int], results: Sequence[int]) -> None:
        """Add a task instance whose job has ended: the service's statistics, and the jobs whose results were read."""
        self.jobs += 1
        self.jobs_alive_twice += stats["max_alive"] > 1
        self.jobs_submitted_again += stats["submitted"] - 1
        self.results_missing += not results

    def add_loop(self, delivered: Iterable[int], count: int) -> None:
        """Add a task instance whose loop has ended: the elements in the order of delivery, and how many there are."""
        times = Counter(delivered)
        self.elements += count
        self.elements_lost += sum(number not in times for number in range(count))
        self.elements_repeated += times.total() - len(times)

    def add_partition(self, loaded: Sequence[tuple[int, int]], marks: Sequence[int]) -> None:
        """Add a partition: what was loaded, as `[start, end)`, and the values of its mark in the order seen."""
        times = Counter(row for start, end in loaded for row in range(start, end))
        mark = marks[-1] if marks else max((end for _, end in loaded), default=0)
        self.rows += mark
        self.rows_lost += sum(row not in times for row in range(mark))
        self.rows_repeated += times.total() - len(times)
        moves = [(before, after) for before, after in pairwise(marks) if before != after]
        self.marks_moved += len(moves)
        self.marks_moved_back += sum(after < before for before, after in moves)
