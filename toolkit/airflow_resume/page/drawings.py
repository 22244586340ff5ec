"""Where the parts of a drawing are, in percent of its width and height. Pure.

The page has no style in its markup, as its content security policy allows none. So it draws with SVG, whose places are
attributes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic import JsonValue

    from airflow_resume.watermarks.marks.mark_record import MarkRecord

ROOM = 0.06
"""Free on each side of a line of time, as a part of its length."""
LEAST = 0.8
"""A band is at least so wide, so that it can be seen."""
HEIGHT = 100.0


@dataclass(frozen=True, kw_only=True)
class Band:
    """A part of a line of time.

    Args:
        start, width: in percent. `kind`: `loaded`, `gap`, `island`, `pending` or `now`. `label`: in words.
    """

    start: float
    width: float
    kind: str
    label: str


def bands_of(record: MarkRecord, now: datetime) -> tuple[Band, ...]:
    """The line of a mark: what is loaded, what is not, and what no event has named yet.

    Empty if the values of the mark are neither times nor numbers, as nothing says then how far apart two of them are.
    """
    from airflow_resume.operating.mark_rows import gaps_of
    from airflow_resume.watermarks.marks.outbox import outbox_of

    parts: list[tuple[JsonValue, JsonValue, str]] = [
        *((entry.start, record.at if entry.end is None else entry.end, "pending") for entry in outbox_of(record)),
        *((start, end, "gap") for start, end in gaps_of(record)),
        *((start, end, "island") for start, end in record.islands),
    ]
    mark = number_of(record.at)
    if mark is None:
        return ()
    parts = [part for part in parts if number_of(part[0]) is not None and number_of(part[1]) is not None]
    known = [number_of(value) for part in parts for value in part[:2]]
    moves = [number_of(move.to) for move in record.history]
    first = record.at[0] if isinstance(record.at, list) and record.at else record.at
    is_time = isinstance(first, str) and _moment(first) is not None
    points = [mark, *(each for each in (*known, *moves) if each is not None), *([now.timestamp()] if is_time else [])]
    low, high = min(points), max(points)
    span = (high - low) or 1.0
    low, span = low - ROOM * span, span * (1 + 2 * ROOM)

    def band(start: float, end: float, kind: str, label: str) -> Band:
        at = min(max(100 * (start - low) / span, 0.0), 100.0 - LEAST)
        return Band(
            start=round(at, 2),
            width=round(min(max(100 * (end - start) / span, LEAST), 100 - at), 2),
            kind=kind,
            label=label,
        )

    made = [band(low, mark, "loaded", f"loaded before {words_of(record.at)}")]
    made += [
        band(number_of(start) or 0, number_of(end) or 0, kind, f"{_SAID[kind]}: {words_of(start)} to {words_of(end)}")
        for start, end, kind in parts
    ]
    if is_time:
        made.append(band(now.timestamp(), now.timestamp(), "now", "now"))
    return tuple(made)


_SAID = {"pending": "loaded, and maybe not published", "gap": "not loaded", "island": "loaded beyond a gap"}


def sparkline(values: Sequence[JsonValue]) -> str | None:
    """The points of a line through the values, for `points` of an SVG polyline; None if there is no line to draw."""
    numbers = [number_of(value) for value in values]
    known = [each for each in numbers if each is not None]
    if len(known) < 2 or len(known) < len(numbers):  # noqa: PLR2004  a line has two points
        return None
    low, span = min(known), (max(known) - min(known)) or 1.0
    step = HEIGHT / (len(known) - 1)
    return " ".join(
        f"{round(index * step, 1)},{round(HEIGHT - (each - low) / span * HEIGHT, 1)}"
        for index, each in enumerate(known)
    )


def number_of(value: JsonValue) -> float | None:
    """A time in seconds, a day, or a number, also as text; of a keyset its first member; None for anything else."""
    first = value[0] if isinstance(value, list) and value else value
    if isinstance(first, str):
        moment = _moment(first)
        return float(first) if moment is None and _NUMBER.fullmatch(first) else moment
    return float(first) if isinstance(first, (int, float)) and not isinstance(first, bool) else None


_NUMBER = re.compile(r"-?\d{1,30}(\.\d{1,30})?", re.ASCII)


def _moment(text: str) -> float | None:
    """A day or a time, in seconds; None if it is neither."""
    if not text[:4].isdecimal() or "-" not in text[:5]:
        return None
    try:
        moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
        return (moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)).timestamp()
    except (ValueError, OverflowError):
        return None


def words_of(value: JsonValue) -> str:
    """A value in words."""
    from airflow_resume import values

    text = value if isinstance(value, str) else values.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."  # noqa: PLR2004
