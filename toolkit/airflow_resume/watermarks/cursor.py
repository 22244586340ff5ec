"""The type of a watermark: how its values are read, compared and written as text, exactly."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import ClassVar

from airflow_resume.errors import CursorTypeError


class DatetimeCursor:
    """Points in time, aware, exact to the microsecond, kept as ISO 8601 in UTC."""

    type: ClassVar[str] = "datetime"

    def parse(self, value: object, *, what: str) -> datetime:
        """The value as a point in time in UTC.

        Raises:
            CursorTypeError: not a datetime or its ISO 8601 text, or one without an offset: `2026-01-01 00:00` is not
                a point in time before it is said where.
        """
        moment = _from_text(value, what) if isinstance(value, str) else value
        if not isinstance(moment, datetime):
            raise CursorTypeError(f"{what} is {value!r}, a {type(value).__name__}; this watermark needs a datetime")
        if moment.tzinfo is None:
            raise CursorTypeError(
                f"{what} is {value!r}, which has no offset from UTC; write {value}+00:00 if it is UTC"
            )
        utc = moment.astimezone(timezone.utc)
        # A plain datetime whatever came in: a pendulum DateTime, say, counts by rules of its own.
        return datetime(
            utc.year, utc.month, utc.day, utc.hour, utc.minute, utc.second, utc.microsecond, tzinfo=timezone.utc
        )

    def text(self, value: datetime) -> str:
        """The value as it is kept."""
        return value.isoformat()


def _from_text(text: str, what: str) -> datetime:
    try:
        # Python 3.10 does not read the Z.
        return datetime.fromisoformat(text[:-1] + "+00:00" if text.endswith(("Z", "z")) else text)
    except ValueError as error:
        raise CursorTypeError(f"{what} is {text!r}, which is not ISO 8601 such as 2026-01-01T00:00:00Z") from error


class Cursor:
    """The types of a watermark."""

    @staticmethod
    def datetime() -> DatetimeCursor:
        """Points in time."""
        return DatetimeCursor()
