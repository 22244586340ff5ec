"""Times as text in a column, in formats in which the text sorts as the times do."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache

_TEXT = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
    r"(?:(?P<separator>[T ])[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.(?P<fraction>[0-9]{1,6}))?"
    r"(?P<zone>Z|[+-][0-9]{2}:?[0-9]{2})?)?"
)
LIKES = (
    "2026-01-31 alone, or with T or one space and 23:59:59, then up to six digits of a fraction such as .999, then Z,"
    " +01:00 or +0100"
)
"""The formats of text, for people."""
_UTC_SIGNS = {"Z", "+00:00", "+0000"}


@dataclass(frozen=True)
class TextForm:
    """The format of all values of a column.

    Args:
        separator: between the day and the time of day; None: there is no time of day.
        digits: of the fraction of a second.
        is_utc: the text ends with a sign for UTC.
    """

    separator: str | None
    digits: int
    is_utc: bool

    @property
    def is_day(self) -> bool:
        """Whether it has no time of day."""
        return self.separator is None

    def write(self, reading: datetime) -> str:
        """A bound in the column's format: less than or equal to the text of this time and of all later ones.

        It has no sign of the zone, and no zeros at the end of a fraction. So it is the shortest text of this time, and
        sorts before all longer ones, for any number of digits.
        """
        text = reading.replace(tzinfo=None).isoformat(sep=self.separator or "T", timespec="microseconds")
        return text.rstrip("0").rstrip(".") if reading.microsecond else text.partition(".")[0]

    def fits(self, text: str) -> bool:
        """Whether the text sorts among the values of this format. Text that is not a time is left to the cursor."""
        found = _TEXT.fullmatch(text)
        if found is None or found["separator"] is None or self.is_day:
            return True
        is_elsewhere = self.is_utc and found["zone"] is not None and found["zone"] not in _UTC_SIGNS
        return found["separator"] == self.separator and not is_elsewhere

    def read(self, text: str) -> datetime | str:
        """The time in the text, aware if it has an offset from UTC; other text unchanged."""
        found = _TEXT.fullmatch(text)
        if found is None or found["separator"] is None:
            return text
        # As Python 3.10 can read it: six digits of a fraction, and a colon in the offset.
        seconds, offset = text[: len("2026-01-31T23:59:59")], (found["zone"] or "").replace("Z", "+00:00")
        offset = offset if ":" in offset or not offset else f"{offset[:3]}:{offset[3:]}"
        try:
            return datetime.fromisoformat(f"{seconds}.{found['fraction'] or '':0<6}{offset}")
        except ValueError:  # such as a month 13
            return text


@lru_cache(maxsize=64)
def form_of(like: str) -> TextForm | None:
    """The format of a column, from one of its values; None: it is not known."""
    found = _TEXT.fullmatch(like)
    if found is None:
        return None
    return TextForm(found["separator"], len(found["fraction"] or ""), found["zone"] in _UTC_SIGNS)
