"""The acked elements of one loop, in memory and as fields of its record. Makes no store call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from airflow_resume.attempt import utc_now
from airflow_resume.errors import InvalidValueError, UsageError, ValueTooLargeError
from airflow_resume.loops.keeping.age import Age
from airflow_resume.loops.keeping.counted_stretch import CountedStretch
from airflow_resume.loops.keeping.frontier import Frontier, is_recognised
from airflow_resume.loops.keeping.page_start import StateAtPage, is_within_page, page_of
from airflow_resume.loops.keeping.room import Growth
from airflow_resume.loops.keeping.saved_state import SavedState
from airflow_resume.loops.loop_record import Level, LevelChanges, SkippedElement
from airflow_resume.loops.progress import Progress
from airflow_resume.loops.skip import MAX_SKIPS, error_in_words
from airflow_resume.loops.sources.chunks import ChunkCursor
from airflow_resume.loops.sources.places import named, saved
from airflow_resume.loops.sources.source import Source
from airflow_resume.shown import get_logger

if TYPE_CHECKING:
    from datetime import datetime

    from pydantic import JsonValue

log = get_logger(__name__)

MAX_NAME = 40
"""Characters of the name of an inner loop, in words."""


class Ledger:
    """The acked elements of one loop.

    It has more attributes than most classes: one for nearly every field of `Level`, as each changes by itself.

    Args:
        place: the name of the loop in messages.
        source: of the loop.
        level: as the record has it when the loop is opened.
        now: the clock.
    """

    def __init__(self, place: str, source: Source[Any], level: Level, *, now: Callable[[], datetime] = utc_now) -> None:
        self.place = place
        self._source = source
        self._saved = level
        self.age = Age(source, level, now)
        ahead = level.ahead
        self.count, self.done = level.n, level.done
        self.short = level.short
        """If the source ended too early, in this attempt or an earlier one: how many of the announced elements came."""
        if ahead is not None and not is_recognised(ahead, source):
            log.warning("The source of %r changed: %d elements that were done ahead are done again", place, ahead.done)
            self.count -= ahead.done
            ahead = None
        self.frontier = Frontier(source, level.pos, ahead)
        self.skipped, self._skips = level.skipped, list(level.skips or ())
        self._inner = InnerLoops(place, level.inner) if level.inner else None
        self.growth = Growth(place, level)
        self.state = SavedState(place, level.state, self.growth)
        self._page_start = StateAtPage.of_level(level)
        self.stretch: CountedStretch | None = None
        """The elements that are only counted; None while each one is acked by itself."""

    def foresee(self, after: JsonValue, *, in_order: bool) -> None:
        """Prepare for the delivery of an element or a chunk, with the position after it.

        Checks that the record has room for the position, and keeps the state at the start of a page.

        Args:
            after: the position.
            in_order: whether it replaces the previous position; if not, the record may have to keep both.

        Raises:
            ValueTooLargeError: the record has no room for it.
        """
        if after.__class__ is not int:
            self.growth.see_position(after, copies=1 if in_order else 2)
            if not (isinstance(after, dict) and "index" in after):
                return
            position = self.frontier.position
            if is_within_page(position) or (self._page_start and self._page_start.page == page_of(position)):
                return
            self._page_start = None
            if in_order:  # in a `map`, no state is kept for the start of a page
                try:  # noqa: SIM105  a `with` costs more, for every page
                    self._page_start = StateAtPage(page_of(position), self.state.copy(), self.skipped)
                except (InvalidValueError, ValueTooLargeError):
                    pass  # the next ack raises it

    def take(self, before: JsonValue, after: JsonValue) -> int | None:
        """The number of the next element of the source; None if an earlier attempt has done it.

        Raises:
            ValueTooLargeError: the state has grown so much that it may not fit into the record if it grows further.
        """
        if self.state.saved:
            self.growth.see_next()
        number = self.frontier.take(before, after)
        if self.frontier.forgotten:
            self._count_forgotten()
        return number

    def ack(self, number: int, before: JsonValue, after: JsonValue) -> None:
        """Ack an element whose body has finished. The levels of the loops inside it are dropped.

        A time-out may come at any call. So all calls come first, and what must be consistent is set after them.
        """
        kept = self.state
        state = kept.copy() if kept.now or kept.saved else kept.saved
        self.frontier.finish(number, before, after)
        self.count += 1
        kept.saved, self._inner = state, None

    # --- elements that are only counted -----------------------------------------------------------------------

    def begin_stretch(self, cursor: ChunkCursor[Any], in_hand: Callable[[], int], *, keeps_state: bool) -> None:
        """From now on, only count the elements of the chunk; for `in_hand` see `CountedStretch`.

        Args:
            cursor: of the chunk.
            in_hand: which element of the stretch is in hand.
            keeps_state: whether bodies change the state; then `keep_state` is to be called when one has finished.
        """
        state = self.state.saved if keeps_state else None
        self.stretch = CountedStretch(cursor, in_hand, number=self.frontier.next_number, count=self.count, state=state)

    def keep_state(self, done: int) -> bool:
        """Note that `done` elements of the stretch are done, and keep the present state.

        Returns:
            False if the state has to be measured. Then nothing was kept, and the element needs an `ack`.
        """
        stretch, state = self.stretch, self.state.glance()
        if stretch is None or state is None:
            return False
        stretch.keep(done, state)
        return True

    @property
    def live_count(self) -> int:
        """How many elements are done, those of the stretch too. It changes nothing, because another thread may ask."""
        stretch = self.stretch
        count = self.count if stretch is None else stretch.count
        # The stretch may have ended in the meantime.
        return count if self.stretch is stretch else self.live_count

    @property
    def has_uncounted(self) -> bool:
        """Whether elements of the stretch are done and not counted yet, of this loop or of one inside it."""
        stretch = self.stretch
        is_late = stretch is not None and stretch.has_begun and stretch.count != self.count
        return is_late or (self._inner is not None and self._inner.has_uncounted)

    def count_stretch(self) -> None:
        """Count the elements of the stretch that are done, in this loop and in those inside it.

        The count is set last. If this is interrupted before that, the next call does all of it again.
        """
        stretch = self.stretch
        if stretch is not None and stretch.has_begun and stretch.count != self.count:
            done, state = stretch.done
            stretch.cursor.move_to(stretch.first_passed + done)
            if state is not None:
                self.state.saved = state
            self.frontier.set_next(stretch.first_number + done, stretch.cursor.here)
            self.count = stretch.first_count + done
        if self._inner is not None:
            self._inner.count_stretch()

    def skip(self, number: int, before: JsonValue, after: JsonValue, error: BaseException | str) -> None:
        """Note that the element is skipped, and undo what its body did to the state."""
        self.state.restore()
        text = error if isinstance(error, str) else error_in_words(error)
        skips = [*self._skips, SkippedElement(pos=named(before), error=text)][-MAX_SKIPS:]
        self.ack(number, before, after)
        self._skips, self.skipped = skips, self.skipped + 1

    def start_over(self, position: JsonValue) -> None:
        """Note that nothing is done any more."""
        self._source.recall(position, None)
        self.short = None
        self.frontier = Frontier(self._source, position)
        self.count, self.done, self.skipped, self._skips = 0, False, 0, []
        self._page_start = None
        self.state.saved, self._inner = {}, None
        self.state.restore()

    def go_back(self, position: JsonValue, done: int) -> None:
        """Go back to the start of a page of which `done` elements were done, and restore the state from there."""
        self.frontier = Frontier(self._source, position, self.frontier.ahead())
        self.count = max(self.count - done, 0)
        start = self._page_start
        if start is not None and start.page == page_of(position):
            self._skips = self._skips[: max(len(self._skips) - (self.skipped - start.skipped), 0)]
            self.skipped = start.skipped
            self.state.go_back(start.state)
        self._inner = None

    def finish(self) -> None:
        """Note that nothing is left to do."""
        self.done = True
        self.frontier.forget_unseen()
        self._count_forgotten()

    def _count_forgotten(self) -> None:
        self.count -= self.frontier.forgotten
        self.frontier.forgotten = 0

    @property
    def inner(self) -> InnerLoops:
        """The loops inside the element in hand."""
        if self._inner is None:
            self._inner = InnerLoops(self.place, {})
        return self._inner

    # --- as it is written down --------------------------------------------------------------------------------

    def level(self) -> Level:
        """The level with all that is acked."""
        return self._saved.changed(**self.fields())

    @property
    def total(self) -> int | None:
        """How many elements there are, as far as is known now or was known before."""
        known = self._source.total(self.frontier.position)
        return self._saved.total if known is None else known

    def counted(self) -> Progress:
        """How far the loop is, in numbers."""
        rows = self._source.rows(self.frontier.position)
        return Progress(noun=self._source.noun, n=self.count, total=self.total, rows=rows, skipped=self.skipped)

    def fields(self) -> LevelChanges:
        """What has changed since the level was saved."""
        position, start, total = self.frontier.position, self._page_start, self.total
        if total is not None and self.done and self.short is None:
            # A loop that is done has done all there were, though a source that has changed may count more now.
            total = min(total, self.count)
        inner = None if self._inner is None else self._inner.levels()
        return LevelChanges(
            pos=saved(position),
            pos_at=self.age.received(position),
            ahead=self.frontier.ahead(),
            done=self.done,
            n=self.count,
            total=total,
            state=self.state.saved,
            skipped=self.skipped,
            skips=self._skips or None,
            page_start=None if start is None else start.to_keep(position, self.state.saved, self.skipped),
            seen=self._source.seen(position),
            short=self.short,
            inner=inner or None,
        )


class InnerLoops:
    """The loops inside the element in hand, which are kept in the level of the loop around them.

    Args:
        place: what the loop around them is called in messages.
        saved: levels of loops that do not run, by name: an earlier attempt saved them, or an error ended the loop.
    """

    def __init__(self, place: str, saved: Mapping[str, Level]) -> None:
        self._place = place
        self._saved = dict(saved)
        self._running: dict[str, Ledger] = {}

    def __len__(self) -> int:
        return len(self._running) + len(self._saved)

    def level_of(self, name: str) -> Level | None:
        """What is saved of the loop `name`.

        Raises:
            UsageError: there was one of that name inside this element already.
        """
        if name in self._running:
            raise UsageError(
                f"{name!r} is used twice inside one element of {self._place!r}: the second loop would continue from the"
                " record of the first.",
                "Give each its own name.",
                name=name,
            )
        return self._saved.get(name)

    def begin(self, name: str, ledger: Ledger) -> None:
        """Note that the loop `name` runs."""
        self._saved.pop(name, None)
        self._running[name] = ledger

    def end(self, name: str, ledger: Ledger) -> None:
        """Note that an error ended the loop `name`. It may run again."""
        if self._running.get(name) is ledger:
            self._saved[name] = ledger.level()
            del self._running[name]

    def levels(self) -> dict[str, Level]:
        """All of them, as they are written down."""
        return {**self._saved, **{name: ledger.level() for name, ledger in self._running.items()}}

    def in_words(self) -> str:
        """Where the newest one is, such as ` (pages: page 183 of 400)`."""
        for name in reversed(self._running):
            ledger = self._running[name]
            return f" ({name[:MAX_NAME]}: {ledger.counted().here()}{ledger.inner.in_words()})"
        for name in reversed(self._saved):  # what its elements are called is known when it runs again
            return f" ({name[:MAX_NAME]}: {self._saved[name].n:,} done)"
        return ""

    @property
    def has_uncounted(self) -> bool:
        """As `Ledger.has_uncounted`, of those that run."""
        return any(ledger.has_uncounted for ledger in self._running.values())

    def count_stretch(self) -> None:
        """As `Ledger.count_stretch`, for those that run."""
        for ledger in self._running.values():
            ledger.count_stretch()
