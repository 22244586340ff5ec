"""No record outgrows its store: what is only history goes, and the rest is refused before the work, not after it."""

from __future__ import annotations

import json
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_resume import PollPolicy, ResumePolicy, checkpoint, run_job, values
from airflow_resume.errors import JobFailedError, JobHookError, ValueTooLargeError
from airflow_resume.jobs.record import MAX_OWN_ID_BYTES
from airflow_resume.loops import Checkpoint, CursorToken, Page, Skip
from airflow_resume.testing import FakeJobs, TaskAttempt, task_context
from tests.support.kit.raised import having

AT_ONCE = ResumePolicy(poll=PollPolicy(interval=timedelta(0), max_interval=timedelta(0), jitter=0))

sizes = st.sampled_from([10, 20_000, 29_000, 40_000, 55_000, 58_000, 59_600]) | st.integers(0, 70_000)
letters = st.sampled_from(["x", "é", "\x01", '"'])


def stored(attempt: TaskAttempt, key: str) -> Any:
    return attempt.task_store.values[key]


def bytes_of(value: Any) -> int:
    return len(json.dumps(value))


class Pages:
    """An API whose tokens have the sizes that are given."""

    def __init__(self, tokens: list[str]) -> None:
        self.tokens = [f"{number}{token}" for number, token in enumerate(tokens)]
        self.worked: list[int] = []

    def fetch(self, token: str | None) -> Page[int]:
        number = 0 if token is None else self.tokens.index(token) + 1
        return Page([number], self.tokens[number] if number < len(self.tokens) else None)

    def loop(self, attempt: TaskAttempt, **options: Any) -> Checkpoint[Page[int]]:
        return checkpoint(CursorToken(self.fetch), name="l", durability="sync", context=attempt.context, **options)


def run_pages(pages: Pages, attempt: TaskAttempt) -> bool:
    """Whether the loop came to its end; what is worked on is noted."""
    try:
        for page in pages.loop(attempt):
            pages.worked.append(page.items[0])
    except ValueTooLargeError:
        return False
    return True


@settings(max_examples=60)
@given(st.lists(st.tuples(letters, sizes), min_size=1, max_size=6))
def test_a_position_is_refused_before_its_element_and_never_after_it(tokens: list[tuple[str, int]]) -> None:
    pages, attempt = (
        Pages([letter * (size // len(json.dumps(letter)[1:-1])) for letter, size in tokens]),
        task_context(),
    )
    for _ in range(3):
        whole = run_pages(pages, attempt)
        attempt = attempt.retry()
    assert pages.worked == sorted(set(pages.worked)), "nothing was done twice"
    assert stored(attempt, "resume.loop.l")["n"] == len(pages.worked)
    assert whole == (len(pages.worked) == len(pages.tokens) + 1)


@settings(max_examples=40)
@given(st.lists(st.tuples(letters, sizes), min_size=1, max_size=6))
def test_so_is_that_of_a_page_whose_items_are_delivered_one_by_one(tokens: list[tuple[str, int]]) -> None:
    pages, attempt = Pages([letter * (size // 6) for letter, size in tokens]), task_context()
    for _ in range(3):
        with suppress(ValueTooLargeError):
            for item in checkpoint(CursorToken(pages.fetch), name="l", each=True, context=attempt.context):
                pages.worked.append(item)
        attempt = attempt.retry()
    assert pages.worked == sorted(set(pages.worked)), "nothing was done twice"


@settings(max_examples=40)
@given(st.lists(sizes, min_size=1, max_size=8))
def test_so_is_one_behind_others_that_are_not_done_yet(tokens: list[int]) -> None:
    pages, attempt = Pages(["x" * size for size in tokens]), task_context()
    for _ in range(3):
        with suppress(ValueTooLargeError):
            loop = checkpoint(CursorToken(pages.fetch), name="l", durability="sync", context=attempt.context)
            for number in loop.map(lambda page: page.items[0], workers=3):
                pages.worked.append(number)
        attempt = attempt.retry()
    assert len(pages.worked) == len(set(pages.worked)), "nothing was done twice"


def test_a_token_that_fits_by_itself_and_not_beside_the_rest_is_refused_before_its_page() -> None:
    pages, attempt = Pages(["x" * 59_500]), task_context()
    with pytest.raises(ValueTooLargeError, match=r"With the position of 'resume.loop.l' .*, and 57,000 are allowed"):
        list(pages.loop(attempt))
    assert stored(attempt, "resume.loop.l")["n"] == 0


def test_a_token_of_half_the_room_is_gone_on_from_in_the_next_attempt() -> None:
    pages, attempt = Pages(["x" * 40_000, "y" * 40_000, "z" * 40_000]), task_context()
    for _ in range(2):
        with suppress(KeyError):
            for page in pages.loop(attempt):
                if page.items[0] == 2 and len(pages.worked) == 2:
                    pages.worked.append(-1)
                    raise KeyError
                pages.worked.append(page.items[0])
        attempt = attempt.retry()
    assert pages.worked == [0, 1, -1, 2, 3]


@settings(max_examples=15)
@given(st.integers(0, 3_000), st.integers(40, 70), letters)
def test_skips_make_room_for_the_position(size: int, count: int, letter: str) -> None:
    length = size // len(json.dumps(letter)[1:-1])
    pages, attempt = Pages([letter * length for _ in range(count)]), task_context()
    with pages.loop(attempt, skip=Skip(on=(ValueError,), limit=1_000)) as loop:
        for _ in loop:
            with loop.skipping():
                raise ValueError("é" * 1_000)
    record = stored(attempt, "resume.loop.l")
    assert (record["skipped"], record["done"]) == (count + 1, True)
    assert record["skips"][-1]["error"].startswith("ValueError"), "the newest stay"
    assert bytes_of(record) <= values.MAX_BYTES


@settings(max_examples=10)
@given(st.integers(250, 1_400), letters)
def test_a_state_that_grows_is_refused_before_the_next_element(growth: int, letter: str) -> None:
    attempt, worked = task_context(), []
    length = max(1, growth // len(json.dumps(letter)[1:-1]))
    for _ in range(3):
        with suppress(ValueTooLargeError):
            loop = checkpoint(range(80_000 // growth), name="l", durability="sync", context=attempt.context)
            for number in loop:
                worked.append(number)
                loop.state["seen"] = loop.state.get("seen", "") + letter * length
        attempt = attempt.retry()
    assert worked == sorted(set(worked)), "nothing was done twice"
    assert stored(attempt, "resume.loop.l")["n"] == len(worked)


def test_a_state_of_one_body_that_is_too_large_fails_for_good_at_its_end() -> None:
    attempt = task_context()
    loop = checkpoint(range(3), name="l", durability="sync", context=attempt.context)
    with pytest.raises(ValueTooLargeError, match="With the state of"):
        for _ in loop:
            loop.state["all"] = "x" * 59_000
    assert stored(attempt, "resume.loop.l")["n"] == 0


def test_loops_inside_one_element_are_refused_before_they_begin_when_there_is_no_room_for_them() -> None:
    attempt = task_context()
    worked: list[tuple[int, int]] = []

    def run() -> None:
        for _ in (outer := checkpoint(["all"], name="outer", durability="sync", context=attempt.context)):
            for table in range(2_000):
                inner = checkpoint([1], name=f"rows-of-{table:-^150}", within=outer)
                worked.extend((table, row) for row in inner)

    for _ in range(2):
        with pytest.raises(ValueTooLargeError, match=r"With the loop 'resume.loop.outer/rows-of-"):
            run()
        attempt = attempt.retry()
    assert worked == sorted(set(worked)), "nothing was done twice"
    assert len(worked) > 100


@settings(max_examples=30)
@given(st.lists(st.tuples(sizes, sizes, st.integers(0, 900)), min_size=1, max_size=4))
def test_positions_and_states_of_loops_in_one_another_fit_together(parts: list[tuple[int, int, int]]) -> None:
    attempt, worked = task_context(), []

    def run() -> None:
        pages = Pages(["x" * outer for outer, _, _ in parts])
        source = checkpoint(CursorToken(pages.fetch), name="o", durability="sync", context=attempt.context)
        for page in source:
            number = page.items[0]
            rows = Pages(["y" * inner for _, inner, _ in parts])
            inner = checkpoint(CursorToken(rows.fetch), name="i", within=source)
            for row in inner:
                worked.append((number, row.items[0]))
                inner.state["s"] = "z" * parts[min(number, len(parts) - 1)][2]
            source.state["s"] = "z" * parts[min(number, len(parts) - 1)][2]

    for _ in range(3):
        with suppress(ValueTooLargeError):
            run()
        attempt = attempt.retry()
    assert worked == sorted(set(worked)), "nothing was done twice"


# --- jobs -------------------------------------------------------------------------------------------------------


@settings(max_examples=40)
@given(st.integers(1, 60_500), letters, st.integers(1, 30), st.text("xé", max_size=4_000))
def test_the_record_of_a_job_is_written_whatever_its_ids_and_its_history(
    size: int, letter: str, generations: int, result: str
) -> None:
    id_of = letter * (size // len(json.dumps(letter)[1:-1]))
    fits = bytes_of(f"00:{id_of}") <= MAX_OWN_ID_BYTES
    scripts = [["FAILED"]] * generations + [["SUCCEEDED"]]
    jobs = FakeJobs(ids=lambda number: f"{number:02}:{id_of}", scripts=scripts, results=lambda _id: result)
    attempt = task_context(retries=99)
    for _ in range(generations):
        refused = pytest.raises(JobHookError, check=having(hook="submit"))
        with pytest.raises(JobFailedError) if fits else refused:
            run_job(jobs, policy=AT_ONCE, context=attempt.context)
        if not fits:
            assert "cancel" in [event.call for event in jobs.events]
            return
        attempt = attempt.retry()
    run_job(jobs, policy=AT_ONCE, context=attempt.context)
    record = stored(attempt, "resume.job.job")
    assert (record["generation"], record["status"]) == (generations + 1, "succeeded")
    assert record["id"] == f"{generations:02}:{id_of}"
    assert bytes_of(record) <= values.MAX_BYTES
    assert len(jobs.jobs) == generations + 1
