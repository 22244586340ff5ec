from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_resume.errors import TokenExpiredError, WrongAnswerError
from airflow_resume.loops import Batches, CursorToken, Files, Page, PageNumber, Source, TimeSlices
from airflow_resume.loops.serial.each import Each
from airflow_resume.loops.sources.places import PlaceLostError, saved


def pages(*sizes: int) -> CursorToken[str]:
    """Pages of these sizes; the items are named by page and place."""

    def fetch(token: Any) -> Page[str]:
        number = token or 0
        items = [f"{number}.{index}" for index in range(sizes[number])]
        return Page(items, number + 1 if number + 1 < len(sizes) else None, total=sum(sizes))

    return CursorToken(fetch)


def items(source: Source[Any], position: Any = None) -> list[Any]:
    """What a later attempt gets from a position on; it goes back to the start of a page, as a loop does."""
    try:
        return [item for item, _ in source.elements(as_kept(position))]
    except PlaceLostError as lost:
        return items(source, lost.position)


def aitems(source: Source[Any], position: Any = None) -> list[Any]:
    async def collected() -> list[Any]:
        return [item async for item, _ in source.aelements(as_kept(position))]

    try:
        return asyncio.run(collected())
    except PlaceLostError as lost:
        return aitems(source, lost.position)


def as_kept(position: Any) -> Any:
    """As a store gives it back."""
    return json.loads(json.dumps(saved(position)))


@given(sizes=st.lists(st.integers(0, 4), min_size=1, max_size=8))
def test_from_every_position_come_the_items_behind_it(sizes: list[int]) -> None:
    everything = list(Each(pages(*sizes)).elements(None))
    assert [item for item, _ in everything] == [f"{page}.{i}" for page, size in enumerate(sizes) for i in range(size)]
    for done, (_, position) in enumerate(everything, start=1):
        left = [item for item, _ in everything[done:]]
        assert items(Each(pages(*sizes)), position) == aitems(Each(pages(*sizes)), position) == left


def test_a_position_is_the_page_and_how_far_it_is_done() -> None:
    assert list(Each(pages(2, 1)).elements(None)) == [
        ("0.0", {"page": None, "index": 1, "of": 2}),
        ("0.1", {"page": {"token": 1, "rows": 2}, "index": 0}),
        ("1.0", {"page": {"end": True, "rows": 3}, "index": 0}),
    ]


def test_pages_without_items_do_not_come_between() -> None:
    positions = [position for _, position in Each(pages(0, 1, 0, 0, 2, 0)).elements(None)]
    assert positions == [
        {"page": {"token": 2, "rows": 1}, "index": 0},
        {"page": {"token": 4, "rows": 1}, "index": 1, "of": 2},
        {"page": {"token": 5, "rows": 3}, "index": 0},
    ]
    assert items(Each(pages(0, 0)), None) == []


@given(
    sizes=st.lists(st.integers(1, 4), min_size=1, max_size=5),
    later=st.lists(st.integers(0, 4), min_size=5, max_size=5),
    data=st.data(),
)
def test_nothing_that_was_not_delivered_is_passed_over_when_pages_have_other_sizes(
    sizes: list[int], later: list[int], data: st.DataObject
) -> None:
    """Items that are in the page at the second time only come as well."""
    everything = list(Each(pages(*sizes)).elements(None))
    done = data.draw(st.integers(1, len(everything)))
    delivered = {item for item, _ in everything[:done]}
    later = later[: len(sizes)]
    left = set(items(Each(pages(*later)), everything[done - 1][1]))
    finished_pages = {int(item.split(".")[0]) for item in delivered if item.endswith(f".{_last(sizes, item)}")}
    there = {f"{page}.{i}" for page, size in enumerate(later) if page not in finished_pages for i in range(size)}
    assert there <= left | delivered


def _last(sizes: list[int], item: str) -> int:
    return sizes[int(item.split(".", maxsplit=1)[0])] - 1


def test_a_page_of_another_length_is_delivered_from_its_start(caplog: pytest.LogCaptureFixture) -> None:
    same = Each(pages(2, 3, 1))
    _, _, _, (_, position), *_ = same.elements(None)
    assert position == {"page": {"token": 1, "rows": 2}, "index": 2, "of": 3}
    assert items(same, position) == ["1.2", "2.0"]
    assert caplog.text == ""
    for size in (2, 4):
        other = Each(pages(2, size, 1))
        assert items(other, position) == [f"1.{index}" for index in range(size)] + ["2.0"]
        assert f"A page had 3 items, of which 2 were done, and has {size} now" in caplog.text


@pytest.mark.parametrize(
    "rows",
    [["a", "b"], ("a", "b"), deque("ab"), range(2), iter(["a", "b"]), {"a": 1, "b": 2}.values()],
)
def test_items_may_be_any_that_have_an_order(rows: Any) -> None:
    assert len(items(Each(Batches([rows])))) == 2


class Frame:
    columns = ("a", "b")

    def __len__(self) -> int:
        return 2

    def __getitem__(self, name: str) -> Any:
        raise AssertionError

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)


@pytest.mark.parametrize("page", [Page(Frame()), 5, "text", b"text", {"a": 1}, {1, 2}, None])  # type: ignore[arg-type]
def test_what_has_no_rows_is_named(page: Any) -> None:
    with pytest.raises(WrongAnswerError, match=r"the source gave a \w+\.\nMake it a list of rows"):
        items(Each(Batches([page])))


def test_what_the_source_says_is_passed_on() -> None:
    def expired(_error: Exception) -> bool:
        return True

    def fetch(token: Any) -> Page[int]:
        if token == "old":  # noqa: S105  a page's
            raise KeyError
        return Page([1, 2], "t", total=9)

    source = CursorToken(fetch, expired=expired, max_age=timedelta(hours=1), on_expired="fail")
    each = Each(source)
    assert (each.kind, each.noun) == ("each cursor_token", "row")
    assert (each.on_expired, each.max_age) == ("fail", timedelta(hours=1))
    assert (each.first(), each.total(None), each.rows({"page": None, "index": 1, "of": 2})) == (None, None, None)
    next(each.elements(None))
    assert each.total(None) == 9
    with pytest.raises(TokenExpiredError):
        items(each, {"page": {"token": "old", "rows": 2}, "index": 0})
    assert Each(PageNumber(lambda _number: [], size=5)).definition() == {"start": 1, "size": 5}
    assert Each(Batches(range(7), size=3)).total(None) == 7
    assert Each(Batches([[1, 2], [3]])).total(None) is None  # two lists, of who knows how many


def test_a_first_position_and_changes_are_those_of_the_page() -> None:
    start = datetime(2026, 1, 1, tzinfo=timezone.utc)
    slices: Any = TimeSlices(start, start + timedelta(hours=2), timedelta(hours=1))
    assert Each(slices).first() == {"page": slices.first(), "index": 0}
    listings: Any = Files([["a", "b"], ["c"]], identity="".join)
    (_, position), *_ = Each(listings).elements(None)
    assert items(Each(listings), position) == ["b", "c"]
    *_, (_, position) = Each(listings).elements(None)
    assert Each(listings).changes(position) == []
    shrunk: Any = Files([["a", "b"]], identity="".join)
    assert Each(shrunk).changes(position) == ["the listing had 2 finished files, and has only 1 now"]


def test_only_a_source_can_be_delivered_one_by_one() -> None:
    with pytest.raises(TypeError, match="needs a source of pages or lists, not list"):
        Each([[1], [2]])  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", [list, deque])
def test_a_body_may_take_what_is_done_out_of_the_list_that_is_the_page(kind: Any) -> None:
    """Such as a fetch that gives a list of its own, or of a cache."""

    def drained(source_of: Any) -> tuple[list[int], list[int]]:
        rows = kind([1, 2, 3, 4])
        seen = []
        for row, _ in Each(source_of(rows)).elements(None):
            seen.append(row)
            rows.remove(row)
        return seen, list(rows)

    assert drained(lambda rows: CursorToken(lambda _token: Page(rows, total=4))) == ([1, 2, 3, 4], [])
    assert drained(lambda rows: Batches([rows])) == ([1, 2, 3, 4], [])
    assert drained(lambda rows: PageNumber(lambda number: rows if number == 1 else [], size=4)) == ([1, 2, 3, 4], [])
