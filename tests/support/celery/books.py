"""What came of a run, in numbers that can be added up over all runs."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

from tests.support.celery.played import JOBS, Everything

UNSAVED_ELEMENTS = 22
"""How many elements an attempt that is killed may have delivered without saving that.

The loop has an element every tenth of a second. It starts a write each second (`max_interval`), and waits for one if
none was completed for a second (`max_uncommitted`). So there are those of two seconds, the one in hand, and one more.
"""

BROKEN = ("jobs twice alive", "elements lost", "rows lost", "marks back")
"""The numbers that must be 0."""


def windows_of(run: Everything) -> list[tuple[int, int]]:
    """The bounds of the windows that were loaded to their end, each once, in the order in which that happened."""
    lines = [line for task_id in ("mark", "next_mark") for line in run.lines(task_id)]
    return list(dict.fromkeys((line["start"], line["end"]) for line in lines if line["ended"]))


def elements_of(run: Everything) -> list[int]:
    """The elements that the loop delivered, in order."""
    return [line["element"] for line in run.lines("loop")]


def books_of(run: Everything) -> dict[str, int]:
    """The numbers of a run that has ended."""
    jobs = [run.books(task_id) for task_id in JOBS]
    delivered, windows = elements_of(run), [(0, 0), *windows_of(run)]
    return {
        "jobs": sum(each["submitted"] for each in jobs),
        "jobs twice alive": sum(each["max_alive"] > 1 for each in jobs),
        "elements": len(set(delivered)),
        "elements lost": max(delivered) + 1 - len(set(delivered)),
        "elements again": len(delivered) - len(set(delivered)),
        "elements again at most": elements_again_at_most(run),
        "rows": max(end for _, end in windows),
        "rows lost": sum(max(0, after[0] - before[1]) for before, after in pairwise(windows)),
    }


def elements_again_at_most(run: Everything) -> int:
    """How many elements may be delivered again.

    A loop that is cleared while it runs starts over, or continues: Airflow does not always tell. Starting over, it may
    deliver everything again that the first attempt had delivered.
    """
    if run.run_id == "cleared":
        return sum(line["try"] == 1 for line in run.lines("loop"))
    return UNSAVED_ELEMENTS * (run.tries["loop"] - 1)


def summary(books: Counter[str]) -> str:
    """The sums of all runs, in a line of text."""
    parts = [f"{name} {books[name]:,}" for name in ("jobs", "elements", "rows")]
    parts += [f"{name} {books[name]:,}" for name in BROKEN]
    parts.append(f"elements delivered again {books['elements again']:,} of at most {books['elements again at most']:,}")
    return ", ".join(parts)
