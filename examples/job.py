"""The job itself: computes the mean arrival delay of each carrier, and takes about as long as it is told to.

    python job.py --flights flights.csv.zip --seconds 5 --result result.json --parent PID

It streams the file and paces itself by the part it has read. It stops when its parent is gone: a job service that
was killed leaves nothing behind. It hurries once there is a file named like the result, with `.hurry` at the end.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TypeVar

from flights_source import open_csv, published_csv

T = TypeVar("T")

HURRY = ".hurry"
_CHUNK = 2000
_NAP = 0.05
"""The most seconds that the job sleeps before it checks for its parent again."""


class Pace:
    """Slows work down to the time that it should take."""

    def __init__(
        self,
        seconds: float,
        *,
        check: Callable[[], None],
        hurry: Callable[[], bool] = lambda: False,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._seconds = seconds
        self._check = check
        self._hurry = hurry
        self._clock = clock
        self._sleep = sleep
        self._start = clock()

    def reach(self, part: float) -> None:
        """Wait until the given part of the time has passed, unless in a hurry; check for the parent at least once."""
        due = self._start + self._seconds * part
        self._check()
        while (left := due - self._clock()) > 0 and not self._hurry():
            self._sleep(min(left, _NAP))
            self._check()


def chunks(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Lists of at most `size` items."""
    rest = iter(items)
    while chunk := list(islice(rest, size)):
        yield chunk


def mean_delays(lines: Iterable[str], *, size: int, pace: Pace) -> dict[str, float]:
    """The mean `arr_delay` of each carrier, over the flights that arrived.

    Args:
        lines: CSV lines, the header first.
        size: Their total length, to know the progress.
        pace: Called with the finished part.
    """
    delays: defaultdict[str, list[int]] = defaultdict(list)
    read = 0
    remaining = iter(lines)
    header = next(csv.reader(remaining))
    for chunk in chunks(remaining, _CHUNK):
        for row in csv.DictReader(chunk, fieldnames=header):
            if row["arr_delay"] != "NA":
                delays[row["carrier"]].append(int(row["arr_delay"]))
        read += sum(map(len, chunk))
        pace.reach(min(1.0, read / size))
    pace.reach(1.0)
    return {carrier: round(sum(found) / len(found), 3) for carrier, found in sorted(delays.items())}


def require_parent(parent: int) -> None:
    """End this process if it has another parent now, because then nobody will ask for the result.

    Raises:
        SystemExit: If it has.
    """
    if os.getppid() != parent:
        raise SystemExit("the job service is gone")


def main() -> None:
    """Compute, then write the result in one step: a reader never sees half of it."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--flights", type=Path, default=None, help="a zipped CSV file")
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--result", type=Path, required=True)
    parser.add_argument("--parent", type=int, required=True, help="stop when this process is gone")
    arguments = parser.parse_args()
    flights = arguments.flights or published_csv()
    hurry = arguments.result.with_suffix(HURRY)
    pace = Pace(arguments.seconds, check=lambda: require_parent(arguments.parent), hurry=hurry.exists)
    with open_csv(flights) as (lines, size):
        result = mean_delays(lines, size=size, pace=pace)
    draft = arguments.result.with_suffix(".draft")
    draft.write_text(json.dumps(result))
    draft.replace(arguments.result)


if __name__ == "__main__":
    main()
