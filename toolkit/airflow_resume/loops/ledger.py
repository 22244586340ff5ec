"""What is acked of one loop, in memory, and as it is written down. Makes no store call."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from airflow_resume import values
from airflow_resume.attempt import utc_now
from airflow_resume.errors import InvalidValueError, NameInUseError, ValueTooLargeError
from airflow_resume.loops.frontier import Frontier, is_recognised
from airflow_resume.loops.places import named, saved
from airflow_resume.loops.progress import Count
from airflow_resume.loops.record import Level, PageStart, SkippedElement
from airflow_resume.loops.room import Growth
from airflow_resume.loops.saved_state import SavedState
from airflow_resume.loops.skip import MAX_SKIPS, described
from airflow_resume.loops.source import Source

if TYPE_CHECKING:
    from datetime import datetime

    from pydantic import JsonValue

log = logging.getLogger(__name__)

MAX_STATE_OF_PAGE = 2_000
"""Bytes up to which the state at the start of a page is kept beside the state itself."""
MAX_NAME = 40
"""Characters of the name of an inner loop, in words."""


def _nothing() -> None:
    pass


def _is_within_page(position: JsonValue) -> bool:
    """Whether rows of the page are done that have no keys."""
    return isinstance(position, dict) and "of" in position and "index" in position


def _page_of(position: JsonValue) -> JsonValue:
    return position.get("page") if isinstance(position, dict) else None


class Ledger:
    """What is acked of one loop.

    Args:
        place: what the loop is called in messages.
        source: knows how much there is.
        level: as it stands in the record when the loop is opened.
        now: the time.
    """

    def __init__(self, place: str, source: Source[Any], level: Level, *, now: Callable[[], datetime] = utc_now) -> None:
        self.place = place
        self._source = source
        self._left = level
        self._clock = now
        # The clock may have been put back: nothing was received in the future.
        since = None if level.pos_at is None else min(level.pos_at, self._now())
        self._stands_since = (source.expiring(level.pos), since)
        ahead = level.ahead
        self.count, self.done = level.n, level.done
        self.short = level.short
        """What was announced and had not come when the source ended, in this attempt or the one before."""
        if ahead is not None and not is_recognised(ahead, source):
            log.warning("The source of %r changed: %d elements that were done ahead are done again", place, ahead.done)
            self.count -= ahead.done
            ahead = None
        self.frontier = Frontier(source, level.pos, ahead)
        self.skipped, self._skips = level.skipped, list(level.skips or ())
        self._inner_left = dict(level.inner or {})
        self._inner: dict[str, Ledger] = {}
        self.growth = Growth(place, level)
        self._state = SavedState(place, level.state, self.growth)
        kept = level.page_start or PageStart(state=level.state, skipped=level.skipped)
        # The position of a page, and the state and how many were skipped at its start.
        self._page_start: tuple[JsonValue, dict[str, JsonValue], int] | None = None
        if _is_within_page(level.pos):
            self._page_start = (_page_of(level.pos), kept.state, kept.skipped)
        self.settle_own: Callable[[], None] = _nothing
        """Counts what the loop has coasted past; by whoever runs it."""

    @property
    def state(self) -> dict[str, Any]:
        """The user's own, as it is now."""
        return self._state.now

    @state.setter
    def state(self, state: dict[str, Any]) -> None:
        self._state.replace(state)

    # --- what happens -----------------------------------------------------------------------------------------

    def foresee(self, after: JsonValue, *, in_order: bool) -> None:
        """An element, or a chunk of them, will be delivered, and this is the position after it.

        Args:
            after: the position.
            in_order: it comes in place of the one before; if not, both may have to be kept.

        Raises:
            ValueTooLargeError: it has no room in the record.
        """
        if after.__class__ is not int:
            self.growth.see_position(after, copies=1 if in_order else 2)
            self._note_page(in_order=in_order)

    def _note_page(self, *, in_order: bool) -> None:
        """Keep what there is at the start of a page, for `go_back`. In a map it has no state of its own."""
        position = self.frontier.position
        if _is_within_page(position) or (self._page_start and self._page_start[0] == _page_of(position)):
            return
        self._page_start = None
        if not in_order:
            return
        try:  # noqa: SIM105  a `with` costs more, for every page
            self._page_start = (_page_of(position), self._state.copy(), self.skipped)
        except (InvalidValueError, ValueTooLargeError):
            pass  # the next ack raises it

    def take(self, before: JsonValue, after: JsonValue) -> int | None:
        """The number of the next element of the source; None when an earlier attempt did it.

        Raises:
            ValueTooLargeError: the state has grown so large that there may be no room for more of it.
        """
        if self._state.saved:
            self.growth.see_next()
        number = self.frontier.take(before, after)
        if self.frontier.forgotten:
            self._count_forgotten()
        return number

    def ack(self, number: int, before: JsonValue, after: JsonValue) -> None:
        """The body of the element has finished. What was kept about loops inside it goes.

        A time-out may come at any call. So all that takes one comes first, and what belongs together is set after it.
        """
        state = self._state.copy()
        inner: dict[str, Ledger] = {}
        left: dict[str, Level] = {}
        self.frontier.finish(number, before, after)
        self.count += 1
        self._state.saved, self._inner, self._inner_left = state, inner, left

    @property
    def acked_state(self) -> dict[str, JsonValue]:
        """The state as it was when the last element was done, in JSON."""
        return self._state.saved

    def glance_at_state(self) -> dict[str, JsonValue] | None:
        """As `SavedState.glance`."""
        return self._state.glance()

    def set_done(
        self, count: int, next_number: int, position: JsonValue, state: dict[str, JsonValue] | None = None
    ) -> None:
        """So many elements are done, all that come before one; its number, its position, and the state before it.

        The count is set last: as long as it is not, what calls this does so again.
        """
        if state is not None:
            self._state.saved = state
        self.frontier.set_next(next_number, position)
        self.count = count

    def skip(self, number: int, before: JsonValue, after: JsonValue, error: BaseException | str) -> None:
        """The element is passed over; what its body did to the state is undone."""
        self._state.restore()
        text = error if isinstance(error, str) else described(error)
        skips = [*self._skips, SkippedElement(pos=named(before), error=text)][-MAX_SKIPS:]
        self.ack(number, before, after)
        self._skips, self.skipped = skips, self.skipped + 1

    def ack_state(self) -> bool:
        """The state as it is now belongs to what is acked, as no element is in hand; whether that changed it."""
        state = self._state.copy()
        is_new, self._state.saved = state != self._state.saved, state
        return is_new

    def share_state(self, owner: object, name: str) -> None:
        """Workers run from now on, and may not change the state."""
        self._state.share(owner, name)

    def close_state(self, name: str) -> None:
        """Nothing that is done to the state from now on is saved, so nothing may be done to it."""
        self._state.close(name)

    def start_over(self, position: JsonValue) -> None:
        """Nothing is done any more."""
        self._source.recall(position, None)
        self.short = None
        self.frontier = Frontier(self._source, position)
        self.count, self.done, self.skipped, self._skips = 0, False, 0, []
        self._page_start = None
        self._state.saved, self._inner, self._inner_left = {}, {}, {}
        self._state.restore()

    def go_back(self, position: JsonValue, done: int) -> None:
        """Go on at the start of a page: so many of its elements were done, and come again; the state is as it was."""
        self.frontier = Frontier(self._source, position, self.frontier.ahead())
        self.count = max(self.count - done, 0)
        start = self._page_start
        if start is not None and start[0] == _page_of(position):
            _, state, skipped = start
            self._skips = self._skips[: max(len(self._skips) - (self.skipped - skipped), 0)]
            self.skipped = skipped
            self._state.go_back(state)
        self._inner, self._inner_left = {}, {}

    def finish(self) -> None:
        """Nothing is left to do."""
        self.done = True
        self.frontier.forget_unseen()
        self._count_forgotten()

    def _count_forgotten(self) -> None:
        self.count -= self.frontier.forgotten
        self.frontier.forgotten = 0

    # --- loops inside the element in hand ---------------------------------------------------------------------

    def inner_left(self, name: str) -> Level | None:
        """What an earlier attempt left of the loop `name` inside the element in hand.

        Raises:
            NameInUseError: there was one of that name inside this element already.
        """
        if name in self._inner:
            raise NameInUseError(
                f"{name!r} is used twice inside one element of {self.place!r}: the second loop would take the first"
                " one's record for its own.",
                "Give each its own name.",
            )
        return self._inner_left.get(name)

    @property
    def inner_count(self) -> int:
        """Of loops inside the element in hand, done ones too."""
        return len(self._inner) + len(self._inner_left)

    def enter(self, name: str, inner: Ledger) -> None:
        """The loop `name` runs inside the element in hand."""
        self._inner_left.pop(name, None)
        self._inner[name] = inner

    def leave(self, name: str, inner: Ledger) -> None:
        """The loop `name` was left by an error, and may be entered again; unless the element it was in is done."""
        if self._inner.get(name) is inner:
            self._inner_left[name] = inner.level()
            del self._inner[name]

    # --- as it is written down --------------------------------------------------------------------------------

    def level(self) -> Level:
        """All that is acked."""
        return self._left.model_copy(update=self.fields())

    @property
    def total(self) -> int | None:
        """How many elements there are, as far as is known now or was known before."""
        known = self._source.total(self.frontier.position)
        return self._left.total if known is None else known

    @property
    def rows(self) -> int | None:
        """How many rows the elements before the position have, where the source counts them."""
        return self._source.rows(self.frontier.position)

    def counted(self) -> Count:
        """How far the loop is, in numbers."""
        return Count(noun=self._source.noun, n=self.count, total=self.total, rows=self.rows, skipped=self.skipped)

    def inside(self) -> str:
        """Where the newest loop inside the element in hand is, such as ` (pages: page 183 of 400)`."""
        for name in reversed(self._inner):
            inner = self._inner[name]
            return f" ({name[:MAX_NAME]}: {inner.counted().here()}{inner.inside()})"
        for name in reversed(self._inner_left):  # what its elements are called is known when it runs again
            return f" ({name[:MAX_NAME]}: {self._inner_left[name].n:,} done)"
        return ""

    def settle(self) -> None:
        """Count what this loop and those inside it have coasted past."""
        self.settle_own()
        for inner in self._inner.values():
            inner.settle()

    def fields(self) -> dict[str, Any]:
        """The fields of `level` that change."""
        self.settle()
        inner = {**self._inner_left, **{name: ledger.level() for name, ledger in self._inner.items()}}
        return {
            "pos": saved(self.frontier.position),
            "pos_at": self.received(),
            "ahead": self.frontier.ahead(),
            "done": self.done,
            "n": self.count,
            "total": self.total,
            "state": self._state.saved,
            "skipped": self.skipped,
            "skips": self._skips or None,
            "page_start": self._kept_of_page(),
            "seen": self._source.seen(self.frontier.position),
            "short": self.short,
            "inner": inner or None,
        }

    def _now(self) -> datetime:
        return self._source.age_now() or self._clock()

    def _kept_of_page(self) -> PageStart | None:
        """What `go_back` of a later attempt needs, where that is not what the record has anyway, and is small."""
        position, start = self.frontier.position, self._page_start
        if start is None or not _is_within_page(position) or start[0] != _page_of(position):
            return None
        _, state, skipped = start
        if (state, skipped) == (self._state.saved, self.skipped) or values.stored_size(state) > MAX_STATE_OF_PAGE:
            return None
        return PageStart(state=state, skipped=skipped)

    def received(self) -> datetime | None:
        """When what the position needs was received, where it gets too old."""
        position = self.frontier.position
        if not self._source.expires(position):
            return None
        received = self._source.received(position)
        if received is None:
            expiring = self._source.expiring(position)
            if expiring != self._stands_since[0] or self._stands_since[1] is None:
                self._stands_since = (expiring, self._now())
            received = self._stands_since[1]
        return received and received.replace(microsecond=0)
