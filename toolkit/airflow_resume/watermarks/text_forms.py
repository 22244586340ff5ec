"""How times are written as text in a column, so that the text sorts as the times do."""

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
    """How the values of a column are written, all alike.

    Args:
        separator: between the day and the time of day; None: there is no time of day.
        digits: of the fraction of a second.
        is_utc: the text ends with the sign of UTC.
    """

    separator: str | None
    digits: int
    is_utc: bool

    @property
    def is_day(self) -> bool:
        """Whether it has no time of day."""
        return self.separator is None

    def write(self, reading: datetime) -> str:
        """What the column's clock shows, or a bound between two of its values, as the column's text sorts.

        Without the sign of the zone, and without zeros at the end of a fraction: the shortest text that all values from
        there on begin with or come after, however many digits they have.
        """
        text = reading.replace(tzinfo=None).isoformat(sep=self.separator or "T", timespec="microseconds")
        return text.rstrip("0").rstrip(".") if reading.microsecond else text.partition(".")[0]

    def read(self, text: str) -> datetime | str:
        """The time that is written, aware where it has an offset from UTC; text that is none as it is."""
        found = _TEXT.fullmatch(text)
        if found is None or found["separator"] is None:
            return text
        # As Python 3.10 reads it: six digits of a fraction, and a colon in the offset.
        seconds, offset = text[: len("2026-01-31T23:59:59")], (found["zone"] or "").replace("Z", "+00:00")
        offset = offset if ":" in offset or not offset else f"{offset[:3]}:{offset[3:]}"
        try:
            return datetime.fromisoformat(f"{seconds}.{found['fraction'] or '':0<6}{offset}")
        except ValueError:  # such as a month 13
            return text


@lru_cache(maxsize=64)
def form_of(like: str) -> TextForm | None:
    """The form of a column, by one of its values; None: it is none of those that are known here."""
    found = _TEXT.fullmatch(like)
    if found is None:
        return None
    return TextForm(found["separator"], len(found["fraction"] or ""), found["zone"] in _UTC_SIGNS)
