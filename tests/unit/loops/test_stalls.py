"""Attempts that die without a word: which element kills them, and whether one does at all."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from airflow_resume import checkpoint
from airflow_resume.errors import StalledError
from airflow_resume.loops import CursorToken, Page
from airflow_resume.loops.skip import Skip
from airflow_resume.testing import TaskAttempt, task_context

COUNT, POISON = 50, 30


class Killed:
    """Attempts that are killed: their loops are never left."""

    def __init__(self, **options: Any) -> None:
        self._attempt: TaskAttempt | None = None
        self._options = options
        self._dead: list[Iterator[int]] = []

    def until(self, last: int) -> list[int]:
        """What the next attempt delivers, which is killed with `last` in hand, if it comes to it."""
        self._attempt = task_context() if self._attempt is None else self._attempt.retry()
        loop = iter(checkpoint(range(COUNT), name="l", context=self._attempt.context, **self._options))
        self._dead.append(loop)
        delivered = []
        for element in loop:
            delivered.append(element)
            if element == last:
                break
        return delivered


@pytest.mark.parametrize("durability", ["async", "sync"])
def test_attempts_that_each_come_further_are_no_stall_however_short_they_are(durability: str) -> None:
    killed = Killed(durability=durability)
    for last in range(5, COUNT, 5):
        assert killed.until(last)[-1] == last


@pytest.mark.parametrize("durability", ["async", "sync", "exit"])
def test_the_element_that_kills_is_named_wherever_it_is(durability: str) -> None:
    killed = Killed(durability=durability)
    with pytest.raises(StalledError, match=f"stands at {POISON}"):
        for _ in range(8):
            killed.until(POISON)


def test_a_map_after_an_attempt_that_died_works_on_one_element_at_a_time() -> None:
    killed = Killed()
    killed.until(0)
    attempt = task_context() if killed._attempt is None else killed._attempt.retry()
    loop = checkpoint(range(COUNT), name="l", context=attempt.context)
    assert list(loop.map(lambda number: number, workers=8)) == list(range(COUNT))


@pytest.mark.parametrize("durability", ["async", "sync", "exit"])
def test_no_other_element_is_skipped_than_the_one_that_kills(durability: str) -> None:
    killed = Killed(durability=durability, skip=Skip(stalled=True))
    delivered: list[int] = []
    for _ in range(8):
        delivered += killed.until(POISON)
    assert set(delivered) == set(range(COUNT))
    assert delivered[-1] == COUNT - 1


def test_a_token_that_is_too_old_behind_attempts_that_died_skips_no_element_from_the_start() -> None:
    class TooOldError(Exception):
        pass

    def fetch(token: int | None) -> Page[int]:
        if token == 1 and is_old:
            raise TooOldError
        return Page([token or 0], (token or 0) + 1 if (token or 0) < 2 else None)

    def loop(attempt: TaskAttempt) -> Iterator[Page[int]]:
        source = CursorToken(fetch, expired=TooOldError)
        return iter(checkpoint(source, name="l", durability="sync", skip=skip, context=attempt.context))

    is_old, skip, attempt, dead = False, Skip(stalled=True), task_context(), []
    for _ in range(4):
        dead.append(loop(attempt))
        for page in dead[-1]:
            if list(page.items) == [1]:
                break
        attempt = attempt.retry()
    is_old = True
    pages = loop(attempt)
    assert list(next(pages).items) == [0]
