"""Bodies that take elements out of the list they loop over."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import pytest

from airflow_resume import checkpoint
from airflow_resume.errors import IncompleteLoopError, SourceChangedError
from airflow_resume.loops import Batches
from airflow_resume.store import MemoryStore
from tests.support.kit.raised import is_one


class BodyError(Exception):
    """Of a body."""


class Drained:
    """Attempts whose body takes out what it has done, and appends as many where it `refills`."""

    def __init__(self, letters: str, *, refills: int = 0, **options: Any) -> None:
        self.queue, self.refills, self.options = list(letters), refills, options
        self.store, self.done = MemoryStore(), list[str]()

    def run(self, fails_at: str = "") -> list[str]:
        """One attempt, and what is delivered in it."""
        delivered = []
        for letter in checkpoint(self.queue, name="l", store=self.store, **self.options):
            delivered.append(letter)
            if letter == fails_at:
                raise BodyError
            self.queue.remove(letter)
            self.done.append(letter)
            if self.refills:
                self.refills -= 1
                self.queue.append(letter.upper())
        return delivered

    def attempts(self, fails_at: str = "") -> int:
        """Until one ends without an error."""
        for attempt in range(1, 20):
            try:
                self.run(fails_at if attempt == 1 else "")
            except (BodyError, IncompleteLoopError) as error:
                assert isinstance(error, BodyError) or is_one(error, IncompleteLoopError, problem="short")
                continue
            return attempt
        raise AssertionError("never done")


@pytest.mark.parametrize("durability", ["sync", "exit", "async"])
@pytest.mark.parametrize("refills", [0, 2])
@pytest.mark.parametrize("fails_at", ["", "c", "e"])
def test_none_is_left_when_the_loop_is_done(fails_at: str, refills: int, durability: str) -> None:
    drained = Drained("abcdefgh", refills=refills, durability=durability)
    assert drained.attempts(fails_at) > 1
    assert drained.queue == []
    assert len(drained.done) == 8 + refills
    assert set(drained.done) >= set("abcdefgh")


def test_a_retry_with_the_list_as_it_was_starts_over() -> None:
    """No index that was done means the same in it."""
    drained = Drained("abcdefgh")
    with pytest.raises(BodyError):
        drained.run("e")
    drained.queue[:] = "abcdefgh"
    with pytest.raises(BodyError):
        drained.run("a")
    with pytest.raises(IncompleteLoopError, match="4 of 8 elements"):
        drained.run()
    drained.queue[:] = "abcdefgh"
    with pytest.raises(IncompleteLoopError, match="4 of 8 elements"):
        drained.run()


def test_where_a_change_fails_a_retry_is_refused() -> None:
    drained = Drained("abcdefgh", on_change="fail")
    with pytest.raises(BodyError):
        drained.run("e")
    with pytest.raises(SourceChangedError, match="taken elements out"):
        drained.run()


def test_elements_that_no_fingerprint_knows() -> None:
    rows = [{"id": number} for number in range(6)]
    store, seen = MemoryStore(), set()
    for _ in range(9):
        try:
            for row in checkpoint(rows, name="l", store=store):
                seen.add(row["id"])
                rows.remove(row)
        except IncompleteLoopError as error:
            assert is_one(error, IncompleteLoopError, problem="short")
            continue
        break
    assert (rows, seen) == ([], set(range(6)))


@pytest.mark.parametrize("make", [deque, dict.fromkeys])
def test_what_raises_when_it_changes_starts_over(make: Callable[[str], Any]) -> None:
    queue, store, seen = make("abcd"), MemoryStore(), []
    for _ in range(9):
        try:
            for letter in checkpoint(queue, name="l", store=store):
                seen.append(letter)
                _take(queue, letter)
        except RuntimeError:
            continue
        break
    assert (seen, len(queue)) == (list("abcd"), 0)


def _take(queue: Any, letter: str) -> None:
    if isinstance(queue, dict):
        del queue[letter]
    else:
        queue.popleft()


@pytest.mark.parametrize("size", [1, 2])
def test_a_list_emptied_when_all_was_delivered_is_done(size: int) -> None:
    letters, store = list("abcd"), MemoryStore()
    for element in checkpoint(Batches(letters, size=size), name="l", store=store, durability="sync"):
        if "d" in element:
            letters.clear()
    assert list(checkpoint(Batches(list("abcd"), size=size), name="l", store=store)) == []


def test_elements_replaced_where_they_stand_are_not_moved() -> None:
    letters: list[str | None] = list("abcd")
    for number, _ in enumerate(checkpoint(letters, name="l", store=MemoryStore(), durability="sync")):
        letters[number] = None
    assert letters == [None] * 4
