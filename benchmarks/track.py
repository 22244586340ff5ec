"""What `window.track` costs for each row."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from functools import partial
from typing import Any, TypeAlias

import pandas as pd
import polars as pl
import pyarrow as pa

from airflow_resume.attempt import Claim
from airflow_resume.watermarks import Cursor, CursorType, Window
from airflow_resume.watermarks.marks.mark_record import WindowRecord
from airflow_resume.watermarks.windows.plan import WindowPlan
from benchmarks.environments import DLT, Worker, worker
from benchmarks.harness import Result, Scale, Work, compare, exhaust, extra_at_most, ratio_at_most

START = datetime(2026, 1, 1, tzinfo=timezone.utc)
PLAIN = "a loop with a running maximum"
FIVE_TIMES = (ratio_at_most(1 / 5),)

Rows: TypeAlias = list[dict[str, Any]]


def measure(scale: Scale) -> Iterator[Result]:
    count, rounds = scale.size(1_000_000, quick=20_000), scale.rounds(5)
    with worker(DLT, "dlt_worker.py", scale) as dlt:
        rivals = {} if dlt is None else {"dlt incremental, pages of 1,000": dlt.work("pages", count=count)}
        yield from beside("int", Cursor.int(), rows_of(count, int), end=count, rounds=rounds, rivals=rivals)
        if dlt is not None:
            yield from row_by_row(dlt, scale.size(50_000, quick=1_000), rounds)
    for kind, cursor, value_of, end in (
        ("int, no end", Cursor.int(), int, None),
        ("datetime", Cursor.datetime(), instant, START + timedelta(days=1)),
        ("text", Cursor.text(), "{:09}".format, "x"),
        ("Decimal", Cursor.decimal(), Decimal, Decimal(count)),
    ):
        yield from beside(kind, cursor, rows_of(count, value_of), end=end, rounds=rounds, rivals={})
    yield from frames(count, rounds)


def beside(
    kind: str, cursor: CursorType[Any], rows: Rows, *, end: Any, rounds: int, rivals: Mapping[str, Work]
) -> list[Result]:
    assert tracked(rows, cursor, end) == running_maximum(rows) == rows[-1]["x"]
    return compare(
        f"a row through window.track ({kind})",
        {
            "window.track": lambda: tracked(rows, cursor, end),
            PLAIN: lambda: running_maximum(rows),
            **rivals,
        },
        per=len(rows),
        unit="ns",
        rounds=rounds,
        targets={PLAIN: (extra_at_most(100),), **dict.fromkeys(rivals, FIVE_TIMES)},
        headline=kind == "int",
        clock=time.process_time,
    )


def row_by_row(dlt: Worker, count: int, rounds: int) -> list[Result]:
    """A row by itself costs dlt so much that fewer tell as well."""
    rows = rows_of(count, int)
    rival = "dlt incremental, row by row"
    return compare(
        f"a row through window.track (int), {count:,} in all",
        {"window.track": lambda: tracked(rows, Cursor.int(), count), rival: dlt.work("rows", count=count)},
        per=count,
        unit="ns",
        rounds=rounds,
        targets={rival: FIVE_TIMES},
        clock=time.process_time,
    )


def frames(count: int, rounds: int) -> list[Result]:
    """A frame by its columns, beside its rows as dicts: times, with and without what tells rows of one moment apart."""
    frame = pd.DataFrame(rows_of(count, instant))
    of = {"pandas": frame, "polars": pl.from_pandas(frame), "Arrow": pa.Table.from_pandas(frame)}

    def passed(rows: Any, **options: Any) -> None:
        window = window_of(Cursor.datetime(), START, START + timedelta(days=1))
        found = window.track(rows, "x", **options)
        exhaust(found if isinstance(rows, list) else ())
        assert window.tally.top == instant(count - 1)

    by_dicts = 'to_dict("records"), then window.track'
    works: dict[str, Work] = {f"window.track of {name}": partial(passed, data) for name, data in of.items()}
    with_ids: dict[str, Work] = {
        f"window.track of {name}, unique=": partial(passed, data, unique="y") for name, data in of.items()
    }
    return compare(
        f"a row of a frame of {count:,}",
        {**works, **with_ids, by_dicts: lambda: passed(frame.to_dict("records"))},
        per=count,
        unit="ns",
        rounds=min(rounds, 3),
        targets={by_dicts: FIVE_TIMES},
        clock=time.process_time,
    )


def instant(number: int) -> datetime:
    return START + timedelta(microseconds=number)


def rows_of(count: int, value_of: Callable[[int], Any]) -> Rows:
    return [{"x": value_of(number), "y": number} for number in range(count)]


def running_maximum(rows: Rows) -> Any:
    top = rows[0]["x"]
    for row in rows:
        value = row["x"]
        if value > top:  # noqa: PLR1730  max() is a call, and slower
            top = value
    return top


def tracked(rows: Rows, cursor: CursorType[Any], end: Any) -> Any:
    window = window_of(cursor, rows[0]["x"], end)
    exhaust(window.track(rows, "x"))
    return window.tally.top


def window_of(cursor: CursorType[Any], start: Any, end: Any) -> Window[Any]:
    record = WindowRecord(key="k", start=0, base_rev=0, epoch="e" * 16, claim=Claim(try_number=1, at=START))
    return Window[Any](WindowPlan(cursor=cursor, start=start, end=end, at=start, begun=record))
