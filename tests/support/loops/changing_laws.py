"""The laws of a loop over a source that others change: nothing is skipped, and no more is repeated than the bound.

A diary records in order what the attempts did: what they were given and finished, what a source was asked, and what
reached the store. The laws read the diary and the table, and know nothing of positions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal

from tests.support.loops.changing_sources import LIST, STEP, Changing, Table

How = Literal["raise", "break", "stop", "timeout", "kill", "end"]
"""How an attempt ends: with an exception in the body, a `break`, SIGTERM, `execution_timeout`, SIGKILL, or normally."""

ALL = -1
"""A loop inside another one, which records that it is finished."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One line of a diary.

    Args:
        keys: of the rows in an element.
        asked: of the source; of a record that stands within a page, what was asked for that page.
        rows: that were answered; of a record, those of that page.
        moved: it is answered otherwise than the time before.
        n: how many elements the record counts.
        index: the number within that page; 0: at no place within one.
        start: of that page, where a list is cut into pages.
        over: the record says that nothing is left.
    """

    what: Literal["begun", "asked", "given", "finished", "acked", "kept", "ended"]
    keys: tuple[int, ...] = ()
    asked: Any = None
    rows: Sequence[Any] = ()
    moved: bool = False
    n: int = 0
    index: int = 0
    start: int | None = None
    over: bool = False
    how: How = "end"


@dataclass(kw_only=True)
class Laws:
    """Checks the laws on a diary.

    Args:
        table: in its final state.
        source: over it.
        error: the error with which the loop failed for good; None if it reached its end.
        by_hand: whether elements are acknowledged by hand.
        parallel: whether pages are fetched before what was fetched is done.
        inside: whether the loop is inside another one; a start over is then saved only with its first element.
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
        """Raise AssertionError if a law is broken."""
        self.check_failure()
        self._check_attempts(diary)
        if self.error is None:
            assert any(entry.over for entry in diary), "it came to its end, and the record does not say so"
            self.check_nothing_skipped([len(entry.keys) for entry in diary if entry.what == "asked"])
            if self.source.promise == "numbers":
                self._check_no_question_left_out(diary)

    # --- nothing skipped --------------------------------------------------------------------------------------

    def check_failure(self) -> None:
        """Only a source that cannot know its position may fail, and only if its rows shifted."""
        if self.error is None:
            return
        may_fail = isinstance(self.error, self.source.fails) and self._has_changed
        assert may_fail, f"failed: {self.error!r}"

    def check_nothing_skipped(self, lengths: Sequence[int]) -> None:
        """Check that everything that is promised was delivered.

        Args:
            lengths: the lengths of the answers, in order.
        """
        lost = self._promised() - self.given
        assert not lost, f"never delivered: {sorted(lost)}"
        if self.source.promise == "numbers":
            self._check_last_answers()
        if self.source.knows_length and all(after <= before for before, after in pairwise(lengths)):
            lost = self.table.throughout - self.given
            assert not lost or len(set(lengths)) == 1, f"shrank to {lengths[-1]} rows; never delivered: {sorted(lost)}"

    def _promised(self) -> set[int]:
        table = self.table
        if self.source.fixed:
            return set(range(0, table.count * STEP, STEP))
        if self.source.promise == "rows":
            return table.throughout | table.owed
        return table.throughout - table.lowered

    def _check_last_answers(self) -> None:
        for asked, answers in self.table.answered.items():
            *before, last = [{row["id"] for row in rows} for rows in answers]
            was_done_ahead = self.parallel and any(keys <= self.given for keys in before)
            assert was_done_ahead or last <= self.given, (
                f"answered last to {asked!r}, and never delivered: {sorted(last - self.given)}"
            )

    def _check_no_question_left_out(self, diary: Sequence[Entry]) -> None:
        """Each request asks for what comes after the one before it; an attempt may begin with any earlier request."""
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
        attempt, proof = _Attempt(), _Proof()
        for entry in diary:
            match entry.what:
                case "begun":
                    attempt = _Attempt(base=attempt.n, n=attempt.n)
                case "asked" if not attempt.is_open:
                    self._take_answer(entry, attempt, proof)
                case "given":
                    self._check_given(set(entry.keys), attempt)
                case "finished":
                    attempt.finished.append(entry.keys)
                case "acked":
                    attempt.acked = len(attempt.finished)
                case "kept":
                    self._take_down(entry, attempt)
                    if attempt.is_open or not entry.index:
                        proof = _Proof(entry)
                case "ended" if entry.how != "kill" and not self.error:
                    self._check_ended(entry, attempt)

    def _check_ended(self, entry: Entry, attempt: _Attempt) -> None:
        must = attempt.acked if self.by_hand else len(attempt.finished)
        is_counted = not (self.parallel and self._has_changed)
        saved = f"{must} elements were done, and {attempt.taken} are saved"
        assert attempt.taken >= must or not is_counted, f"ended by {entry.how}: {saved}"

    def _take_answer(self, answer: Entry, attempt: _Attempt, proof: _Proof) -> None:
        """Note the answers that come before the attempt gets any element."""
        attempt.is_another |= self.source.restarts and self.inside and self._has_changed
        if proof.is_lost(answer):
            attempt.goes_back = proof.index
            attempt.moved |= set(answer.keys)
            self.committed -= set(answer.keys)

    def _check_given(self, keys: set[int], attempt: _Attempt) -> None:
        if not attempt.is_open:
            attempt.is_open = True
            attempt.base -= attempt.goes_back if attempt.index else 0
            if attempt.is_another:
                self.committed.clear()
        again = keys & self.committed - attempt.moved - self._came_back()
        done_ahead = self.parallel and self._has_changed
        assert not again or done_ahead, f"{sorted(again)} were saved as done, and were delivered again"
        self.given |= keys

    def _take_down(self, entry: Entry, attempt: _Attempt) -> None:
        """What is saved as done."""
        n = attempt.base + len(attempt.finished) if entry.n == ALL else entry.n
        if n < attempt.n and self.source.restarts and not attempt.is_open:
            self.committed.clear()
        attempt.n = n
        if not attempt.is_open:  # the claim, also of a loop that starts over
            attempt.base, attempt.index = n, entry.index
            return
        if attempt.is_another:  # from the start, or from the start of the page: only the loop knows
            attempt.base, attempt.is_another = n - len(attempt.finished), False
        done = n - attempt.base
        if self.parallel:  # what was done ahead, and is not met again, is not counted any more
            done = len(attempt.finished) if entry.over else max(done, attempt.taken)
        assert done <= len(attempt.finished), f"{done} elements are saved as done, and {len(attempt.finished)} are"
        assert done >= attempt.taken, f"{attempt.taken} elements were saved as done, and now {done} are"
        attempt.taken = done
        self.committed.update(*attempt.finished[:done])

    @property
    def _has_changed(self) -> bool:
        """Whether any row stands elsewhere than before."""
        return self.table.deleted or bool(self.table.raised)

    def _came_back(self) -> set[int]:
        """Rows that a number names again because others were inserted before them."""
        return self.table.raised if self.source.promise != "rows" else set()


@dataclass(kw_only=True)
class _Attempt:
    """What the laws track of an attempt.

    Args:
        base: how many elements were finished when it began.
        n: how many elements the record counts.
        taken: how many elements of this attempt are saved as done.
        acked: how many were acked by hand.
        moved: rows of pages that may be repeated because they have changed.
        index: the position of the record within a page.
        is_another: the source is, and the loop is inside another one, so that its start over is saved later.
        goes_back: to the start of a page, of which so many rows were done.
    """

    base: int = 0
    n: int = 0
    taken: int = 0
    acked: int = 0
    is_open: bool = False
    index: int = 0
    is_another: bool = False
    goes_back: int = 0
    finished: list[tuple[int, ...]] = field(default_factory=list)
    moved: set[int] = field(default_factory=set)


class _Proof:
    """What a record knows of its page: the length, and the rows that were finished."""

    def __init__(self, record: Entry | None = None) -> None:
        self._record = record
        self.index = 0 if record is None else record.index

    def is_lost(self, question: Entry) -> bool:
        """Whether the page is answered again and its finished part has changed."""
        record = self._record
        if record is None or not self.index or question.asked != record.asked:
            return False
        rows = question.rows
        if record.start is not None:
            rows = rows[record.start : record.start + LIST]
        return len(rows) != len(record.rows) or list(rows[: self.index]) != list(record.rows[: self.index])
