"""The laws of a loop over a source that others change: nothing skipped, and nothing again beyond the bound.

What the attempts did stands in a diary, in order: what they were given and finished, what a source was asked, and what
reached the store. The laws read the diary and the table, and know nothing of positions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from changing_sources import STEP, Changing, Table

How = Literal["raise", "break", "stop", "timeout", "kill", "end"]
"""How an attempt ends: by an exception in the body, a `break`, SIGTERM, `execution_timeout`, SIGKILL, or by itself."""

ALL = -1
"""The loop is inside another one, which says that all of it is done."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One line of a diary.

    Args:
        keys: of the rows in an element.
        asked: of the source.
        moved: it is answered otherwise than the time before.
        n: how many elements the record counts.
        over: the record says that nothing is left.
    """

    what: Literal["begun", "asked", "given", "finished", "acked", "kept", "ended"]
    keys: tuple[int, ...] = ()
    asked: Any = None
    moved: bool = False
    n: int = 0
    over: bool = False
    how: How = "end"


@dataclass(kw_only=True)
class Laws:
    """What must hold for a diary.

    Args:
        table: as it is in the end.
        source: over it.
        error: with which the loop failed for good; None: it came to its end.
        by_hand: whether elements are acked by hand.
        parallel: whether pages are fetched before what was fetched is done.
        inside: whether the loop is inside another one, so that its start over is saved with its first element only.
    """

    table: Table
    source: Changing
    error: BaseException | None = None
    by_hand: bool = False
    parallel: bool = False
    inside: bool = False

    given: set[int] = field(default_factory=set)
    committed: set[int] = field(default_factory=set)

    def check(self, diary: Sequence[Entry]) -> None:
        """Raise AssertionError if one is broken."""
        self.check_failure()
        self._check_attempts(diary)
        if self.error is None:
            assert any(entry.over for entry in diary), "it came to its end, and the record does not say so"
            self.check_nothing_skipped([len(entry.keys) for entry in diary if entry.what == "asked"])
            if self.source.promise == "numbers":
                self._check_no_question_left_out(diary)

    # --- nothing skipped --------------------------------------------------------------------------------------

    def check_failure(self) -> None:
        """Only a source that cannot know its place may fail, and only when its rows shifted."""
        if self.error is None:
            return
        shifted = self.table.lowered or self.table.raised
        assert isinstance(self.error, self.source.fails) and shifted, f"failed: {self.error!r}"

    def check_nothing_skipped(self, lengths: Sequence[int]) -> None:
        """See that all that is promised was given.

        Args:
            lengths: of the answers, in turn.
        """
        lost = self._promised() - self.given
        assert not lost, f"never delivered: {sorted(lost)}"
        if self.source.promise == "numbers":
            self._check_last_answers()
        if self.source.shrinks_loudly and min(lengths) < lengths[0]:
            lost = self.table.throughout - self.given
            assert not lost, f"the list shrank from {lengths[0]} to {min(lengths)}; never delivered: {sorted(lost)}"

    def _promised(self) -> set[int]:
        table = self.table
        if self.source.fixed:
            return set(range(0, table.count * STEP, STEP))
        if self.source.promise == "rows":
            return table.throughout | table.owed
        return table.throughout - table.lowered

    def _check_last_answers(self) -> None:
        for asked, rows in self.table.answered.items():
            lost = {row["id"] for row in rows} - self.given
            assert not lost, f"answered last to {asked!r}, and never delivered: {sorted(lost)}"

    def _check_no_question_left_out(self, diary: Sequence[Entry]) -> None:
        """Each asks for what is behind the one before; an attempt may begin with any that were asked before."""
        asked_before: dict[Any, int] = {}
        behind: set[Any] = set()
        before: Any = None
        for entry in diary:
            if entry.what == "begun":
                before = None
            elif entry.what == "asked":
                after = self._behind(entry)
                if before is None:
                    right = not asked_before or entry.asked in asked_before or entry.asked in behind
                else:
                    right = entry.asked in {before.asked, self._behind(before)}
                assert right, f"asked for {entry.asked!r} after {before!r}; before that {asked_before}"
                asked_before[entry.asked] = len(entry.keys)
                behind.add(after)
                before = entry

    def _behind(self, entry: Entry) -> int:
        by_offset = self.source.make.__name__.startswith("offsets")
        return int(entry.asked) + (len(entry.keys) if by_offset else 1)

    # --- each attempt -----------------------------------------------------------------------------------------

    def _check_attempts(self, diary: Sequence[Entry]) -> None:
        base, last = 0, 0
        finished: list[tuple[int, ...]] = []
        acked, is_open, moved, taken, may_restart = 0, False, set[int](), 0, False
        for entry in diary:
            match entry.what:
                case "begun":
                    base, finished, acked, is_open, moved, taken, may_restart = last, [], 0, False, set(), 0, False
                case "asked" if entry.moved and self.source.restarts and self.inside:
                    may_restart = True
                case "asked" if entry.moved and self.source.pages and (self.parallel or not is_open):
                    moved |= set(entry.keys)
                case "given":
                    is_open = True
                    again = set(entry.keys) & self.committed - moved - self._came_back()
                    if again and may_restart:
                        base, again, may_restart = 0, set(), False
                        self.committed.clear()
                    assert not again, f"{sorted(again)} were saved as done, and were delivered again"
                    self.given |= set(entry.keys)
                case "finished":
                    finished.append(entry.keys)
                case "acked":
                    acked = len(finished)
                case "kept":
                    n = base + len(finished) if entry.n == ALL else entry.n
                    if n < last and self.source.restarts:
                        self.committed.clear()
                    last = n
                    if not is_open:  # the claim, also of a loop that starts over
                        base = last
                        continue
                    # What was done ahead, and is not met again, is not counted any more.
                    done = len(finished) if entry.over else max(n - base, taken) if self.parallel else n - base
                    assert done <= len(finished), f"{done} elements are saved as done, and {len(finished)} are"
                    assert done >= taken, f"{taken} elements were saved as done, and now {done} are"
                    taken = done
                    for keys in finished[:done]:
                        self.committed |= set(keys)
                case "ended" if entry.how != "kill":
                    must = acked if self.by_hand else len(finished)
                    assert taken >= must or self.error, (
                        f"ended by {entry.how}: {must} elements were done, and {taken} are saved"
                    )

    def _came_back(self) -> set[int]:
        """Rows that a number stands for again, as others were inserted before them."""
        return self.table.raised if self.source.promise != "rows" else set()

