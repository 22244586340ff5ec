from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_resume.errors import EndlessSourceError, WrongAnswerError
from airflow_resume.loops import Offset, Page, PageNumber, Source


class Pages:
    """A fetch of pages 1, 2, ... that notes what it is asked for."""

    def __init__(self, *pages: Any) -> None:
        self.pages = pages
        self.asked: list[int] = []

    def __call__(self, number: int) -> Any:
        self.asked.append(number)
        return self.pages[number - 1] if number <= len(self.pages) else []


class Items:
    """A fetch of the numbers from 0 up to `count` that notes what it is asked for."""

    def __init__(self, count: int, *, total: int | None = None, most: int = 1000) -> None:
        self.count, self.total, self.most = count, total, most
        self.asked: list[tuple[int, int]] = []

    def __call__(self, offset: int, limit: int) -> Page[int]:
        self.asked.append((offset, limit))
        return Page(list(range(offset, min(offset + min(limit, self.most), self.count))), total=self.total)


def items(source: Source[Page[Any]], position: Any = None) -> list[list[Any]]:
    return [list(page.items) for page, _ in source.elements(position)]


# --- page numbers ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pages", "options", "asked", "delivered"),
    [
        pytest.param([], {}, [1], [], id="empty first page"),
        pytest.param([[1], [2]], {}, [1, 2, 3], [[1], [2]], id="empty page"),
        pytest.param([[1], [2], [3]], {"stop": 3}, [1, 2], [[1], [2]], id="before stop"),
        pytest.param([[1], [2]], {"stop": 1}, [], [], id="stop at the start"),
        pytest.param([[1], [2]], {"stop": 9}, [1, 2, 3], [[1], [2]], id="empty page before stop"),
        pytest.param([Page([1], pages=2), Page([2], pages=2)], {}, [1, 2], [[1], [2]], id="pages"),
        pytest.param([Page([1], total=3), Page([2, 3], total=3)], {}, [1, 2], [[1], [2, 3]], id="total"),
        pytest.param([[1], Page([2], total=2)], {}, [1, 2], [[1], [2]], id="total, late"),
        pytest.param([Page([1], total=0), [2]], {}, [1, 2, 3], [[1], [2]], id="total that cannot be"),
        pytest.param([Page([1], pages=0), [2]], {}, [1, 2, 3], [[1], [2]], id="pages that cannot be"),
        pytest.param([Page([1], pages=3), Page([], pages=3), [3]], {}, [1, 2, 3, 4], [[1], [], [3]], id="a gap"),
        pytest.param([Page([], pages=3)] * 2 + [[3]], {}, [1, 2, 3, 4], [[], [], [3]], id="a long gap"),
        pytest.param([[1], [2], [3]], {"start": 2}, [2, 3, 4], [[2], [3]], id="start"),
        pytest.param([0, Page([2], pages=2), Page([3], pages=2)], {"start": 2}, [2, 3], [[2], [3]], id="start, pages"),
        pytest.param([(n for n in [1, 2])], {}, [1, 2], [[1, 2]], id="a generator"),
    ],
)
def test_page_numbers_end_where_the_api_or_the_user_says(
    pages: list[Any], options: dict[str, int], asked: list[int], delivered: list[list[int]]
) -> None:
    fetch = Pages(*pages)
    assert items(PageNumber(fetch, **options)) == delivered  # type: ignore[arg-type]
    assert fetch.asked == asked


def test_every_page_knows_the_next_number_where_there_is_one() -> None:
    fetch = Pages(Page([1], pages=2, next="ignored"), Page([2, 3], pages=2))
    assert list(PageNumber(fetch).elements(None)) == [
        (Page([1], 2, pages=2), {"page": 2, "rows": 1}),
        (Page([2, 3], None, pages=2), {"page": 3, "rows": 3, "end": True}),
    ]
    assert [page.next for page, _ in PageNumber(Pages([1], [2], [3]), stop=3).elements(None)] == [2, None]


def test_behind_the_last_page_nothing_is_fetched() -> None:
    """Some APIs answer with 404 there."""
    fetch = Pages()
    assert items(PageNumber(fetch), {"page": 3, "rows": 3, "end": True}) == []
    assert items(PageNumber(fetch, stop=3), {"page": 5, "rows": 3}) == []
    assert items(Offset(Items(9), limit=3), {"offset": 3, "end": True}) == []
    assert fetch.asked == []


def test_page_numbers_know_their_total() -> None:
    fetch = Pages(Page([1], pages=7))
    for options, total in [({}, 7), ({"stop": 4}, 3), ({"stop": 40}, 7)]:
        source: PageNumber[int] = PageNumber(fetch, **options)  # type: ignore[arg-type]
        assert source.total(None) is None
        _, after = next(source.elements(None))
        assert source.total(after) == total
    sized: PageNumber[int] = PageNumber(Pages(Page([1, 2], total=5)), size=2)
    next(sized.elements(None))
    assert (sized.total(None), sized.total_rows(None)) == (3, 5)


def test_first_number_and_size_change_what_a_number_means() -> None:
    fetch = Pages()
    assert PageNumber(fetch).definition() == {"start": 1}
    assert PageNumber(fetch, start=0, size=50).definition() == {"start": 0, "size": 50}
    assert Offset(Items(0), limit=3).definition() == {}


# --- offsets --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fetch", "asked"),
    [
        pytest.param(Items(0), [0], id="empty first page"),
        pytest.param(Items(5), [0, 3, 5], id="short page"),
        pytest.param(Items(6), [0, 3, 6], id="empty page"),
        pytest.param(Items(5, most=2), [0, 2, 4, 5], id="an API that gives less than it is asked for"),
        pytest.param(Items(6, total=6), [0, 3], id="total"),
        pytest.param(Items(6, total=6, most=2), [0, 2, 4], id="short pages before the total"),
        pytest.param(Items(4, total=6), [0, 3, 4, 4], id="less than the total"),
        pytest.param(Items(4, total=0), [0, 3, 4], id="a total that cannot be"),
    ],
)
def test_offsets_end_at_an_empty_page_or_at_the_total(fetch: Items, asked: list[int]) -> None:
    assert [item for page in items(Offset(fetch, limit=3)) for item in page] == list(range(fetch.count))
    assert fetch.asked == [(offset, 3) for offset in asked]


def test_an_offset_says_what_comes_next() -> None:
    source = Offset(Items(5, total=5), limit=3)
    assert [(page.next, after) for page, after in source.elements(None)] == [
        (3, {"offset": 3}),
        (None, {"offset": 5, "end": True}),
    ]
    assert (source.total(None), source.total_rows(None), source.rows({"offset": 3})) == (2, 5, 3)


@given(count=st.integers(0, 30), limits=st.lists(st.integers(1, 9), min_size=1, max_size=10))
def test_the_limit_may_change_between_attempts(count: int, limits: list[int]) -> None:
    """Every attempt takes one page, and the last one the rest."""
    fetch, position, delivered = Items(count), None, list[int]()
    for limit in limits:
        page, position = next(Offset(fetch, limit=limit).elements(position), (Page([]), position))
        delivered += page.items
    delivered += [item for page in items(Offset(fetch, limit=5), position) for item in page]
    assert delivered == list(range(count))


def test_a_page_longer_than_the_limit_is_refused() -> None:
    with pytest.raises(WrongAnswerError, match=r"fetch\(0, 2\) returned 3 items and limit=2"):
        items(Offset(lambda _offset, _limit: [1, 2, 3], limit=2))


# --- the same for both ----------------------------------------------------------------------------------------


def two_pages(answer: Callable[[], Any], **options: Any) -> list[Source[Page[Any]]]:
    """Both kinds of source over a fetch that does not look at what it is asked for."""
    return [
        PageNumber(lambda _number: answer(), stop=4, **options),
        Offset(lambda _offset, _limit: answer(), limit=2, **options),
    ]


def test_a_page_that_comes_twice_is_an_error_unless_that_is_right() -> None:
    for source in two_pages(lambda: [1, 2]):
        delivered: list[Any] = []
        with pytest.raises(EndlessSourceError, match=r"fetch\(2.*same 2 items.*\n.*check_repeats=False"):
            delivered.extend(source.elements(None))
        assert len(delivered) <= 1
    assert items(PageNumber(lambda _number: [1, 2], stop=4, check_repeats=False)) == [[1, 2]] * 3
    total = Offset(lambda _offset, _limit: Page([1, 2], total=6), limit=2, check_repeats=False)
    assert items(total) == [[1, 2]] * 3


def test_pages_that_do_not_compare_to_a_yes_or_no_are_delivered_as_they_are() -> None:
    class Frame:
        columns = ("a",)

        def __len__(self) -> int:
            return 2

        def __getitem__(self, name: str) -> Any:
            raise KeyError(name)

        def __iter__(self) -> Any:
            return iter(self.columns)

        def __eq__(self, _other: object) -> Any:
            class Truth:
                def __bool__(self) -> bool:
                    raise ValueError("ambiguous")

            return Truth()

        __hash__ = None  # type: ignore[assignment]

    frame: Any = Frame()
    pages = list(PageNumber(lambda _number: frame, stop=4).elements(None))
    assert [page.items is frame for page, _ in pages] == [True, True, True]
    assert pages[-1][1] == {"page": 4, "rows": 6}


async def agenerator() -> AsyncIterator[int]:
    yield 1


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (None, "None"),
        ("text", "a str"),
        (b"bytes", "a bytes"),
        ({"items": [1]}, "a dict"),
        (5, "a int"),
        (agenerator(), "a async_generator"),
        (Page({"a": 1}), "a dict"),  # type: ignore[arg-type]
    ],
)
def test_what_has_no_items_is_refused(answer: Any, kind: str) -> None:
    for source in two_pages(lambda: answer):
        with pytest.raises(WrongAnswerError, match=rf"fetch\(.*\) returned {kind} instead of the items"):
            items(source)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: PageNumber([1]), TypeError, "PageNumber needs a function"),  # type: ignore[arg-type]
        (lambda: PageNumber(Pages(), start="1"), TypeError, "start='1'"),  # type: ignore[arg-type]
        (lambda: PageNumber(Pages(), start=True), TypeError, "start=True"),
        (lambda: PageNumber(Pages(), start=3, stop=2), ValueError, "stop=2 must be at least 3"),
        (lambda: PageNumber(Pages(), size=0), ValueError, "size=0"),
        (lambda: Offset(Items(1), limit=0), ValueError, "limit=0"),
        (lambda: Offset(Items(1), limit=2.0), TypeError, r"limit=2\.0"),  # type: ignore[arg-type]
    ],
)
def test_bad_arguments_are_refused_at_the_call(make: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()


@pytest.mark.parametrize("total", [1, 2, 3, 4, 5, 6, 7, 8])
@pytest.mark.parametrize("each_attempt", [False, True])
def test_a_total_that_is_less_than_what_comes_ends_nothing_before_it(
    total: int,
    each_attempt: bool,  # noqa: FBT001
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Or it is that of the page. One at which the rows so far end cannot be told from a true one."""
    sources: list[Callable[[], Any]] = [
        lambda: Offset(Items(9, total=total), limit=3),
        lambda: PageNumber(lambda number: Items(9, total=total)(3 * number - 3, 3), size=3),
    ]
    for make in sources:
        source, position, delivered = make(), None, []
        for _ in range(5) if each_attempt else ():
            for page, after in make().elements(position):
                delivered += page.items
                position = after
                break
        if not each_attempt:
            delivered = [item for page in items(source) for item in page]
        assert delivered == list(range(6 if total == 6 else 9))
    assert ("The API said total=" in caplog.text) is (total not in {1, 2, 6})


def test_a_total_that_is_a_full_first_page_costs_one_request_more() -> None:
    fetch = Items(3, total=3)
    assert items(Offset(fetch, limit=3)) == [[0, 1, 2]]
    assert fetch.asked == [(0, 3), (3, 3)]
