"""Sources that end before all has come that they had announced."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_resume import checkpoint
from airflow_resume.errors import IncompleteLoopError
from airflow_resume.loops import Batches, CursorToken, Keyset, Offset, Page, PageNumber
from airflow_resume.store import MemoryStore
from airflow_resume.testing import task_context
from tests.support.kit.raised import having

KEY = "resume.loop.l"


class Api:
    """Rows from 0 up to `there`, of which it announces `total`, in pages of two."""

    def __init__(self, there: int, total: int | None = None, *, pages: int | None = None) -> None:
        self.there, self.total, self.pages = there, total, pages

    def page(self, start: int, size: int = 2) -> Page[int]:
        return Page(list(range(start, min(start + size, self.there))), total=self.total, pages=self.pages)

    def of_token(self, token: int | None) -> Page[int]:
        start = token or 0
        page = self.page(start)
        more = start + 2 if start + 2 < self.there else None
        return Page(page.items, more, total=self.total, pages=self.pages)


SOURCES: dict[str, Callable[[Api], Any]] = {
    "tokens": lambda api: CursorToken(api.of_token),
    "page number": lambda api: PageNumber(lambda number: api.page(2 * (number - 1))),
    "offset": lambda api: Offset(api.page, limit=2),
    "keyset": lambda api: Keyset(
        lambda after, limit: api.page(0 if after is None else after + 1, limit), key=lambda row: row, limit=2
    ),
}


def run(source: Any, store: MemoryStore, **options: Any) -> list[Any]:
    """An attempt, and the rows it was given."""
    rows: list[Any] = []
    for element in checkpoint(source, name="l", store=store, **options):
        rows += element.items if isinstance(element, Page) else [element]
    return rows


@pytest.mark.parametrize("each", [False, True])
@pytest.mark.parametrize("name", SOURCES)
def test_fewer_rows_than_announced_are_an_error_and_the_next_attempt_takes_it_for_the_end(
    name: str,
    each: bool,  # noqa: FBT001
    caplog: pytest.LogCaptureFixture,
) -> None:
    store, api = MemoryStore(), Api(5, 8)
    with pytest.raises(IncompleteLoopError, match="ended after 5 of 8 rows that it had announced"):
        run(SOURCES[name](api), store, each=each)
    record: Any = store.values[KEY]
    assert (record["done"], record["short"]) == (False, "5 of 8 rows")
    assert run(SOURCES[name](api), store, each=each) == []
    record = store.values[KEY]
    assert (record["done"], record["short"]) == (True, "5 of 8 rows")
    assert "ended after 5 of 8 rows that it had announced; the end is accepted" in caplog.text


@pytest.mark.parametrize("name", ["page number", "offset", "keyset"])
def test_what_came_late_is_delivered_by_the_retry(name: str) -> None:
    store, api = MemoryStore(), Api(4, 8)
    with pytest.raises(IncompleteLoopError, match="4 of 8"):
        run(SOURCES[name](api), store)
    api.there = 6
    with pytest.raises(IncompleteLoopError, match="6 of 8"):
        run(SOURCES[name](api), store)
    api.there = 8
    assert run(SOURCES[name](api), store) == [6, 7]
    record: Any = store.values[KEY]
    assert (record["done"], record.get("short")) == (True, None)


@pytest.mark.parametrize("name", SOURCES)
def test_a_policy_takes_it_at_once_or_never(name: str, caplog: pytest.LogCaptureFixture) -> None:
    api, store = Api(5, 8), MemoryStore()
    assert run(SOURCES[name](api), store, on_short="warn") == list(range(5))
    record: Any = store.values[KEY]
    assert (record["done"], record["short"]) == (True, "5 of 8 rows")
    assert "the end is accepted" in caplog.text
    store = MemoryStore()
    for _ in range(3):
        with pytest.raises(IncompleteLoopError, match="To start over, pass restart=True; or say on_short='warn'"):
            run(SOURCES[name](api), store, on_short="fail")
    with (
        task_context(),
        pytest.raises(IncompleteLoopError, match="To start over, clear the task; or say on_short='warn'"),
    ):
        list(checkpoint(SOURCES[name](api), name="l", on_short="fail"))


@given(there=st.integers(0, 9), fewer=st.integers(0, 3), name=st.sampled_from(sorted(SOURCES)))
def test_a_total_that_is_met_or_was_too_small_is_no_shortfall(there: int, fewer: int, name: str) -> None:
    store = MemoryStore()
    rows = run(SOURCES[name](Api(there, there)), store)
    assert rows == list(range(there))
    if name in {"tokens", "keyset"}:  # by numbers, the API is believed where its total says that the end is here
        assert run(SOURCES[name](Api(there, max(there - fewer, 0))), MemoryStore()) == list(range(there))


def test_a_total_that_only_an_earlier_attempt_was_told_still_counts() -> None:
    store, api = MemoryStore(), Api(6, 8)
    loop = checkpoint(SOURCES["offset"](api), name="l", store=store)
    for number, _ in enumerate(loop):
        if number == 1:
            break
    api.total = None
    with pytest.raises(IncompleteLoopError, match="6 of 8 rows"):
        run(SOURCES["offset"](api), store)


def test_a_total_that_shrinks_under_a_number_has_moved_rows() -> None:
    """A body that deletes what it has done, by page numbers: half of the rows are passed over, and that is said."""
    rows = list(range(12))

    def fetch(number: int) -> Page[int]:
        return Page(rows[2 * (number - 1) : 2 * number], total=len(rows))

    done: list[int] = []
    with pytest.raises(IncompleteLoopError, match="6 of 12 rows"):
        for page in checkpoint(PageNumber(fetch), name="l", store=MemoryStore()):
            done += page.items
            del rows[:2]
    assert done == [0, 1, 4, 5, 8, 9]


@pytest.mark.parametrize("name", ["tokens", "keyset"])
def test_a_total_that_shrinks_as_rows_are_deleted_is_right_where_nothing_moves(name: str) -> None:
    api, done = Api(8, 8), list[int]()
    for page in checkpoint(SOURCES[name](api), name="l", store=MemoryStore()):
        done += page.items
        api.total = 8 - len(done)
    assert done == list(range(8))


@pytest.mark.parametrize("make", [lambda: CursorToken(Api(4, pages=3).of_token), lambda: PageNumber(_late_silence)])
def test_fewer_pages_than_announced(make: Callable[[], Any]) -> None:
    store = MemoryStore()
    with pytest.raises(IncompleteLoopError, match="2 of 3 pages"):
        run(make(), store)
    assert run(make(), store) == []
    record: Any = store.values[KEY]
    assert (record["done"], record["short"]) == (True, "2 of 3 pages")


def _late_silence(number: int) -> Any:
    """Says how many pages there are with the first one only."""
    return Page([1], pages=3) if number == 1 else [2] if number == 2 else []


def test_page_numbers_end_at_stop_though_more_were_announced() -> None:
    source: PageNumber[int] = PageNumber(lambda number: Page([number], total=9, pages=9), stop=4)
    assert run(source, MemoryStore()) == [1, 2, 3]


def test_a_loop_that_starts_over_forgets_what_was_announced() -> None:
    store = MemoryStore()
    with pytest.raises(IncompleteLoopError, check=having(problem="short")):
        run(SOURCES["offset"](Api(4, 8)), store, fingerprint={"day": 1})
    assert run(SOURCES["offset"](Api(4)), store, fingerprint={"day": 2}) == [0, 1, 2, 3]
    record: Any = store.values[KEY]
    assert (record["done"], record.get("short"), record.get("seen")) == (True, None, None)


@pytest.mark.parametrize("make", [list, deque])
@pytest.mark.parametrize("size", [1, 2])
def test_a_list_whose_elements_the_body_takes_out_is_short(make: Callable[[Any], Any], size: int) -> None:
    numbers = make(range(8))
    taken = 0
    with pytest.raises((IncompleteLoopError, RuntimeError), match=r"4 of 8 elements|mutated"):
        for _ in checkpoint(Batches(numbers, size=size), name="l", store=MemoryStore()):
            for _ in range(size):
                numbers.remove(numbers[0])
                taken += 1
    assert taken <= 4


def test_a_list_to_which_the_body_appends_is_not() -> None:
    numbers = [1, 2, 3]
    done = []
    for number in checkpoint(numbers, name="l", store=MemoryStore()):
        done.append(number)
        if number < 3:
            numbers.append(number + 10)
    assert done == [1, 2, 3, 11, 12]


def test_by_hand_the_end_is_where_the_source_ended_not_where_it_was_acked() -> None:
    store = MemoryStore()
    loop = checkpoint([1, 2, 3], name="l", ack="manual", store=store)
    assert list(loop) == [1, 2, 3]
    loop.ack()
    assert store.values[KEY]["done"]  # type: ignore[index, call-overload]


@given(count=st.integers(0, 40), limit=st.integers(1, 30), most=st.integers(1, 30), gaps=st.lists(st.integers(1, 30)))
def test_an_api_that_gives_fewer_than_asked_for_loses_nothing(
    count: int, limit: int, most: int, gaps: list[int]
) -> None:
    """It clamps the limit, or leaves out what the user may not see."""
    sizes = iter(gaps)

    def fetch(offset: int, limit: int) -> list[int]:
        return list(range(offset, min(offset + min(limit, most, next(sizes, most)), count)))

    assert run(Offset(fetch, limit=limit), MemoryStore()) == list(range(count))


def test_an_unknown_policy_is_refused_at_the_call() -> None:
    with pytest.raises(ValueError, match="on_short='never'"):
        checkpoint([1], name="l", on_short="never", store=MemoryStore())  # type: ignore[call-overload]


@pytest.mark.parametrize("each", [False, True])
@pytest.mark.parametrize("name", SOURCES)
def test_a_source_that_is_used_again_forgets_what_was_announced_before(name: str, *, each: bool) -> None:
    api = Api(6, 6)
    source = SOURCES[name](api)
    assert run(source, MemoryStore(), each=each) == list(range(6))
    api.there, api.total = 4, None
    assert run(source, MemoryStore(), each=each) == list(range(4))


@pytest.mark.parametrize("name", SOURCES)
def test_a_source_of_inner_loops_forgets_it_with_every_element(name: str) -> None:
    api = Api(6, 6)
    source, rows = SOURCES[name](api), []
    outer = checkpoint([6, 4], name="l", store=MemoryStore())
    for there in outer:
        api.there, api.total = there, 6 if there == 6 else None
        rows.append(sum(len(page.items) for page in checkpoint(source, name="in", within=outer)))
    assert rows == [6, 4]
