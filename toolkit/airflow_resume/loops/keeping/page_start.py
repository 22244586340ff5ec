"""The state of a loop at the start of its current page: rows without keys may be delivered again from there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_resume import values
from airflow_resume.loops.loop_record import Level, PageStart

if TYPE_CHECKING:
    from pydantic import JsonValue

MAX_STATE_OF_PAGE = 2_000
"""The largest state, in bytes, that is kept for the start of a page in addition to the current state."""


@dataclass(frozen=True)
class StateAtPage:
    """The state at the start of a page.

    Args:
        page: the position of the page.
        state: as it is saved.
        skipped: how many elements were skipped.
    """

    page: JsonValue
    state: dict[str, JsonValue]
    skipped: int

    @classmethod
    def of_level(cls, level: Level) -> StateAtPage | None:
        """The state at the start of the page that a level has; None between pages."""
        if not is_within_page(level.pos):
            return None
        kept = level.page_start or PageStart(state=level.state, skipped=level.skipped)
        return cls(page_of(level.pos), kept.state, kept.skipped)

    def to_keep(self, position: JsonValue, state: dict[str, JsonValue], skipped: int) -> PageStart | None:
        """The fields that a later attempt needs at this position, if they are small and differ from the record's.

        Args:
            position: of the next element.
            state: as the record has it.
            skipped: as the record has it.
        """
        if (
            not is_within_page(position)
            or self.page != page_of(position)
            or (self.state, self.skipped) == (state, skipped)
        ):
            return None
        if values.stored_size(self.state) > MAX_STATE_OF_PAGE:
            return None
        return PageStart(state=self.state, skipped=self.skipped)


def is_within_page(position: JsonValue) -> bool:
    """Whether the position is within a page whose rows have no keys."""
    return isinstance(position, dict) and "of" in position and "index" in position


def page_of(position: JsonValue) -> JsonValue:
    """The position of the page that this position is in."""
    return position.get("page") if isinstance(position, dict) else None
