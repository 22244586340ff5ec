"""What `window.track` adds to a row, over a loop that keeps the greatest value itself: a line for each kind of value.

python tests/benchmarks/bench_track.py
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

from airflow_resume.attempt import Claim
from airflow_resume.watermarks import Cursor, CursorType, Window
from airflow_resume.watermarks.record import WindowRecord

ROWS, ROUNDS = 1_000_000, 5
START = datetime(2026, 1, 1, tzinfo=timezone.utc)


def running_maximum(rows: list[dict[str, Any]], start: Any) -> Any:
    top = start
    for row in rows:
        value = row["x"]
        if value > top:  # noqa: PLR1730  max() is a call, and slower
            top = value
    return top


def tracked(rows: list[dict[str, Any]], cursor: CursorType[Any], start: Any, end: Any) -> Any:
    record = WindowRecord(key="k", base_rev=0, epoch="e", claim=Claim(try_number=1, at=START))
    window = Window[Any](cursor=cursor, start=start, end=end, at=start, record=record)
    for _ in window.track(rows, "x"):
        pass
    return window.tally.top


def nanoseconds_a_row(loop: Callable[[], Any]) -> float:
    """The least of some rounds, of processor time."""
    best = float("inf")
    for _ in range(ROUNDS):
        started = time.process_time()
        loop()
        best = min(best, time.process_time() - started)
    return best / ROWS * 1e9


def compare(name: str, cursor: CursorType[Any], value_of: Callable[[int], Any], end: Any) -> None:
    rows = [{"x": value_of(number), "y": number} for number in range(ROWS)]
    start = value_of(0)
    assert running_maximum(rows, start) == tracked(rows, cursor, start, end)
    plain = nanoseconds_a_row(lambda: running_maximum(rows, start))
    ours = nanoseconds_a_row(lambda: tracked(rows, cursor, start, end))
    print(f"track, {name:22} {ours:4.0f} ns a row, a running maximum {plain:3.0f}: {ours - plain:4.0f} more")


def main() -> None:
    compare("ints, no end", Cursor.int(), lambda number: number, None)
    compare("ints", Cursor.int(), lambda number: number, ROWS)
    compare("times", Cursor.datetime(), lambda number: START + timedelta(microseconds=number), START + timedelta(1))
    compare("text", Cursor.text(), lambda number: f"{number:09}", "x")
    compare("decimals", Cursor.decimal(), Decimal, Decimal(ROWS))


if __name__ == "__main__":
    main()
