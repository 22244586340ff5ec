"""Sources that change under the loop: what is delivered, by the table in docs/loops.md."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from airflow_resume import checkpoint
from airflow_resume.errors import SourceChangedError
from airflow_resume.loops import CursorToken, Files, Keyset, Offset, Page, PageNumber, Skip
from airflow_resume.loops.sources.places import described
from airflow_resume.store import MemoryStore

KEY = "resume.loop.l"
SIZE = 3
NEW_YEAR = datetime(2026, 1, 1, tzinfo=timezone.utc)


@dataclass
class Table:
    """Rows in the order of their ids, asked for in every way."""

    ids: list[int]
    versions: dict[int, int] = field(default_factory=dict)

    def rows(self, ids: list[int]) -> list[dict[str, Any]]:
        return [{"id": key, "at": NEW_YEAR, "version": self.versions.get(key, 0)} for key in ids]

    def behind(self, after: int | None, limit: int) -> list[dict[str, Any]]:
        return self.rows([key for key in self.ids if after is None or key > after][:limit])

    def before(self, after: int | None, limit: int) -> list[dict[str, Any]]:
        return self.rows([key for key in reversed(self.ids) if after is None or key < after][:limit])

    def of_token(self, after: int | None) -> Page[dict[str, Any]]:
        found = self.behind(after, SIZE)
        return Page(found, found[-1]["id"] if found and found[-1]["id"] != self.ids[-1] else None)

    def from_offset(self, offset: int, limit: int) -> list[dict[str, Any]]:
        return self.rows(self.ids[offset : offset + limit])

    def of_number(self, number: int) -> list[dict[str, Any]]:
        return self.from_offset(SIZE * (number - 1), SIZE)


SOURCES: dict[str, Callable[[Table], Any]] = {
    "keyset": lambda table: Keyset(table.behind, key="id", limit=SIZE),
    "keyset, descending": lambda table: Keyset(table.before, key="id", limit=SIZE, descending=True),
    "keyset of two columns": lambda table: Keyset(
        lambda after, limit: table.behind(after and after[1], limit), key=("at", "id"), limit=SIZE
    ),
    "tokens": lambda table: CursorToken(table.of_token),
    "offset": lambda table: Offset(table.from_offset, limit=SIZE),
    "page number": lambda table: PageNumber(table.of_number, check_repeats=False),
}
BY_KEY = ("keyset", "keyset, descending", "keyset of two columns", "tokens")
"""What is deleted or inserted moves no other row to another page."""


@dataclass
class Attempts:
    """Attempts at one loop over the rows of a table."""

    name: str
    table: Table
    drains: bool = False
    each: bool = True
    store: MemoryStore = field(default_factory=MemoryStore)
    done: list[int] = field(default_factory=list)
    again: int = 0

    def run(self, leave_at: int | None = None) -> list[int]:
        """One attempt, which leaves in the body of an element; what it was given."""
        options: dict[str, Any] = {"each": self.each, "durability": "sync"}
        source = SOURCES[self.name](self.table)
        loop: Any = checkpoint(source, name="l", store=self.store, max_stalls=None, **options)
        delivered: list[int] = []
        before = set(self.done)
        for number, element in enumerate(loop):
            ids = [row["id"] for row in ([element] if self.each else element.items)]
            delivered += ids
            if number == leave_at:
                break
            self.done += ids
            if self.drains:
                self.table.ids = [key for key in self.table.ids if key not in ids]
        self.again = len(before & set(delivered))
        return delivered

    @property
    def record(self) -> Any:
        """In the store."""
        return self.store.values[KEY]


# --- the table of the page ------------------------------------------------------------------------------------

Change = Literal["deleted", "inserted", "updated"]


def change(table: Table, what: Change, done: list[int]) -> None:
    """Of the rows that are done, the first; or a row in front of it."""
    if what == "deleted":
        table.ids.remove(done[0])
    elif what == "inserted":
        table.ids.append(done[0] + (5 if done[0] > 50 else -5))
        table.ids.sort()
    else:
        table.versions[done[0]] = 1


GOES_ON = {(name, what) for name in SOURCES if name.startswith("keyset") for what in ("deleted", "inserted", "updated")}


@pytest.mark.parametrize("what", ["deleted", "inserted", "updated"])
@pytest.mark.parametrize("name", SOURCES)
def test_a_page_that_changed_in_its_done_part_is_gone_on_with_or_comes_again(
    name: str, what: Change, caplog: pytest.LogCaptureFixture
) -> None:
    attempts = Attempts(name, Table(list(range(10, 110, 10))))
    assert len(attempts.run(leave_at=2)) == 3
    done = list(attempts.done)
    change(attempts.table, what, done)
    left = attempts.run()
    there = [key for key in attempts.table.ids if key in {*range(10, 110, 10)}]
    assert set(there) <= {*done, *left}, "nothing was passed over"
    comes_again = "delivering it from its start" in caplog.text
    assert comes_again is ((name, what) not in GOES_ON)
    assert attempts.again == (0 if not comes_again else len(set(done) & set(attempts.table.ids)))
    assert attempts.record["done"]
    assert attempts.record["n"] == len(left) + (0 if comes_again else len(done)), "what comes again is counted once"


@pytest.mark.parametrize("name", BY_KEY)
def test_a_loop_that_deletes_what_it_has_done_loses_nothing(name: str) -> None:
    """The commonest way of draining a queue."""
    attempts = Attempts(name, Table(list(range(40))), drains=True)
    while attempts.run(leave_at=4)[4:]:
        pass
    assert sorted(attempts.done) == list(range(40))
    assert attempts.table.ids == []


@pytest.mark.parametrize("name", SOURCES)
def test_an_unchanged_page_is_gone_on_within(name: str, caplog: pytest.LogCaptureFixture) -> None:
    attempts = Attempts(name, Table(list(range(10))))
    for leave_at in (1, 1, 0, 2, None):
        attempts.run(leave_at)
    assert sorted(attempts.done) == list(range(10))
    assert "from its start" not in caplog.text


@pytest.mark.parametrize("drains", [False, True])
@pytest.mark.parametrize("name", BY_KEY)
def test_pages_behind_a_key_are_gone_on_with(name: str, *, drains: bool) -> None:
    attempts = Attempts(name, Table(list(range(10, 130, 10))), drains, each=False)
    attempts.run(leave_at=2)
    done = list(attempts.done)
    assert len(done) == 6
    in_front = done[0] + (1 if done[0] > 50 else -1)
    attempts.table.ids = sorted({*attempts.table.ids, in_front} - {done[1]})
    attempts.table.versions[done[2]] = 1
    attempts.run()
    assert sorted(attempts.done) == list(range(10, 130, 10)), "what was inserted in the done part is not delivered"


def test_a_row_whose_key_grows_is_delivered_again() -> None:
    attempts = Attempts("keyset", Table([1, 2, 3, 4, 5]))
    attempts.run(leave_at=2)
    attempts.table.ids = [2, 3, 4, 5, 6]
    attempts.run()
    assert attempts.done == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("each", [False, True])
@pytest.mark.parametrize("name", ["offset", "page number"])
def test_with_numbers_what_is_inserted_in_front_brings_rows_twice(name: str, *, each: bool) -> None:
    attempts = Attempts(name, Table(list(range(10, 19))), each=each)
    attempts.run(leave_at=3 if each else 1)
    attempts.table.ids.insert(0, 5)
    attempts.run()
    assert attempts.done == [10, 11, 12, 12, 13, 14, 15, 16, 17, 18]


def test_of_a_generator_nothing_is_noticed() -> None:
    """The page says so: a list is."""
    store, files, done = MemoryStore(), list("abcdef"), list[str]()
    for leave_at in (2, None):
        names = list(files)
        for number, name in enumerate(checkpoint((each for each in names), name="l", store=store)):
            if number == leave_at:
                break
            files.remove(name)
            done.append(name)
    assert done == ["a", "b", "e", "f"]


def test_what_is_inserted_into_a_list_of_dicts_is_not_noticed_and_what_is_appended_is_delivered() -> None:
    store, rows, done = MemoryStore(), [{"id": 1}, {"id": 2}], list[int]()
    for leave_at in (1, None):
        for number, row in enumerate(checkpoint(rows, name="l", store=store)):
            if number == leave_at:
                break
            done.append(row["id"])
        rows = [{"id": 0}, *rows, {"id": 3}]
    assert done == [1, 1, 2, 3]


@pytest.mark.parametrize("name", ["offset", "page number"])
def test_with_numbers_whole_pages_shift_and_that_is_not_noticed(name: str) -> None:
    """The page says so: with these, what is deleted moves the rest."""
    attempts = Attempts(name, Table(list(range(9))))
    attempts.run(leave_at=3)
    del attempts.table.ids[:3]
    assert attempts.run() == [6, 7, 8]


# --- any changes between any attempts -------------------------------------------------------------------------

steps = st.lists(
    st.tuples(
        st.integers(0, 5),
        st.lists(st.integers(0, 60), max_size=3),
        st.lists(st.integers(0, 60), max_size=3),
        st.lists(st.integers(0, 60), max_size=2),
    ),
    max_size=6,
)
"""How many elements an attempt does, and then the ids that are deleted, inserted and updated."""


@given(name=st.sampled_from(BY_KEY), ids=st.sets(st.integers(0, 60), max_size=14), steps=steps, drains=st.booleans())
@settings(max_examples=300, deadline=None)
def test_what_stays_is_delivered_whatever_happens_around_it(
    *, name: str, ids: set[int], steps: list[Any], drains: bool
) -> None:
    attempts = Attempts(name, Table(sorted(ids)), drains)
    deleted: set[int] = set()
    for leave_at, gone, new, updated in steps:
        attempts.run(leave_at)
        assert attempts.again <= SIZE
        deleted |= set(gone)
        attempts.table.ids = sorted((set(attempts.table.ids) | (set(new) - set(attempts.done))) - set(gone))
        attempts.table.versions |= dict.fromkeys(updated, leave_at + 1)
    attempts.run()
    assert attempts.again <= SIZE
    assert ids - deleted <= set(attempts.done)
    assert attempts.record["done"]


@given(
    name=st.sampled_from(["offset", "page number"]),
    count=st.integers(0, 14),
    steps=st.lists(
        st.tuples(st.integers(0, 5), st.integers(0, 2), st.sets(st.integers(0, 14), max_size=2)), max_size=6
    ),
)
@settings(max_examples=200, deadline=None)
def test_with_numbers_what_is_appended_or_updated_loses_nothing(name: str, count: int, steps: list[Any]) -> None:
    attempts = Attempts(name, Table(list(range(count))))
    for leave_at, more, updated in steps:
        attempts.run(leave_at)
        if attempts.record["done"]:
            break
        attempts.table.ids += range(len(attempts.table.ids), len(attempts.table.ids) + more)
        attempts.table.versions |= dict.fromkeys(updated, leave_at + 1)
    attempts.run()
    assert attempts.again <= SIZE
    assert attempts.record["done"]
    assert set(range(count)) <= set(attempts.done)


@given(data=st.data())
@settings(max_examples=100, deadline=None)
def test_a_map_takes_nothing_for_done_that_only_stands_where_something_done_stood(data: st.DataObject) -> None:
    """Rows done ahead of others are known by what they are, not by their place."""
    table = Table(list(range(12)))
    store, failing = MemoryStore(), data.draw(st.sets(st.integers(0, 11), min_size=1, max_size=3))
    done: set[int] = set()

    def attempt(broken: set[int]) -> None:
        loop = checkpoint(CursorToken(table.of_token), name="l", each=True, store=store, max_stalls=None)

        def work(row: Any) -> int:
            if row["id"] in broken:
                raise ValueError(row)
            return int(row["id"])

        for key in loop.map(work, workers=3):
            done.add(key)
            if data.draw(st.booleans()):
                table.ids.remove(key)

    with pytest.raises(ValueError, match="id"):
        attempt(failing)
    kept = set(table.ids)
    attempt(set())
    assert kept <= done
    record: Any = store.values[KEY]
    assert record["done"]


# --- what proves a place --------------------------------------------------------------------------------------


class Opaque:
    """Its text has an address."""


class Shown:
    def __init__(self, number: int) -> None:
        self.number = number

    def __repr__(self) -> str:
        return f"Shown({self.number})"


@dataclass
class Half:
    """Shows nothing of what tells it from others."""

    number: int = field(repr=False)
    kind: str = "row"


class Slotted:
    __slots__ = ("__number",)

    def __init__(self, number: int) -> None:
        self.__number = number

    def __repr__(self) -> str:
        return "Slotted"


class Modelled(BaseModel):
    number: int = Field(repr=False)
    tags: set[str] = {"a", "b", "c"}


class Stateless:
    """Whatever tells it from others is elsewhere."""

    def __init__(self, _number: int) -> None:
        pass

    def __repr__(self) -> str:
        return "Stateless"


class InATuple(NamedTuple):
    row: Half
    at: datetime = NEW_YEAR


class Failing:
    def __repr__(self) -> str:
        raise RuntimeError("broken")


@pytest.mark.parametrize(
    ("item", "goes_on"),
    [
        (lambda number: number, True),
        (lambda number: {"id": number, "tags": [1.5, None, True, b"x"]}, True),
        (lambda number: {"at": NEW_YEAR + timedelta(number)}, True),
        (lambda number: (number, NEW_YEAR), True),
        (lambda number: Path(f"/{number}"), True),
        (Shown, True),
        (lambda number: "\ud800" * number, True),
        (Half, True),
        (Slotted, True),
        (lambda number: Modelled(number=number), True),
        (lambda number: InATuple(Half(number)), True),
        (lambda number: {"row": Half(number)}, True),
        (lambda number: frozenset({f"{number}", "a", "b"}), True),
        (Stateless, False),
        (lambda _number: Opaque(), False),
        (lambda _number: Failing(), False),
        (lambda number: {"a": Opaque(), "id": number}, False),
    ],
)
def test_items_of_any_kind_are_recognised_or_come_again(item: Callable[[int], Any], *, goes_on: bool) -> None:
    store = MemoryStore()

    def attempt(leave_at: int | None) -> list[Any]:
        loop = checkpoint([[item(number) for number in range(4)]], name="l", each=True, store=store)
        delivered = []
        for element in loop:
            delivered.append(element)
            if len(delivered) - 1 == leave_at:
                break
        return delivered

    attempt(2)
    assert len(attempt(None)) == (2 if goes_on else 4)


@pytest.mark.parametrize(
    "item",
    [
        Half,
        Slotted,
        Shown,
        lambda number: Modelled(number=number),
        lambda number: InATuple(Half(number)),
        lambda number: {"row": Half(number)},
        lambda number: [Half(number)],
        lambda number: NEW_YEAR.time().replace(minute=number),
        timedelta,
        lambda number: Fraction(number, 7),
        lambda number: {number, "a"},
    ],
)
def test_items_that_look_alike_are_told_apart(item: Callable[[int], Any]) -> None:
    assert described(item(1)) == described(item(1))
    assert described(item(1)) != described(item(2))


def test_an_item_that_refers_to_others_without_end_is_not_described() -> None:
    row: Any = Shown(1)
    row.number = [row, row]
    with pytest.raises(ValueError, match=r"Shown|list"):
        described(row)


@pytest.mark.parametrize("item", [Half, Slotted, Stateless])
def test_a_page_that_is_filled_up_with_others_that_look_alike_loses_none(item: Callable[[int], Any]) -> None:
    store, done = MemoryStore(), list[Any]()
    for rows, leave_at in (
        ([item(number) for number in range(4)], 2),
        ([item(number) for number in range(2, 6)], None),
    ):
        page: Page[Any] = Page(rows)
        source = CursorToken[Any]({None: page}.__getitem__)
        for number, row in enumerate(checkpoint(source, each=True, name="l", store=store)):
            if number == leave_at:
                break
            done.append(row)
    assert len(done) == 2 + 4


def test_a_body_that_changes_its_rows_in_place_gets_the_page_again_and_loses_nothing() -> None:
    store = MemoryStore()

    def attempt(leave_at: int | None) -> list[int]:
        delivered: list[int] = []
        source = CursorToken(lambda _token: Page([{"id": number} for number in range(4)]))
        for row in checkpoint(source, name="l", each=True, store=store, durability="sync"):
            delivered.append(row["id"])
            row["id"] = -1
            if len(delivered) - 1 == leave_at:
                break
        return delivered

    assert attempt(2) == [0, 1, 2]
    assert attempt(None) == [0, 1, 2, 3]


def test_a_body_that_changes_the_keys_of_its_rows_moves_no_position() -> None:
    table, store = Table(list(range(8))), MemoryStore()

    def attempt(leave_at: int | None) -> list[int]:
        delivered: list[int] = []
        source = Keyset(table.behind, key="id", limit=4)
        for row in checkpoint(source, name="l", each=True, store=store, durability="sync"):
            delivered.append(row["id"])
            row["id"] += 100
            if len(delivered) - 1 == leave_at:
                break
        return delivered

    assert attempt(2) + attempt(None) == [0, 1, 2, 2, 3, 4, 5, 6, 7]


def test_an_element_has_one_id_in_every_attempt_also_where_the_page_comes_again() -> None:
    for later in ([0, 1, 2, 3], [9, 1, 2, 3]):
        store, ids = MemoryStore(), dict[int, set[str]]()
        for rows, leave_at in (([0, 1, 2, 3], 2), (later, None)):
            with checkpoint([rows], name="l", each=True, store=store) as loop:
                for number, element in enumerate(loop):
                    ids.setdefault(element, set()).add(loop.element.id)
                    if number == leave_at:
                        break
        assert all(len(each) == 1 for each in ids.values())
        assert ids[2].isdisjoint(ids[3])


def test_positions_of_older_releases_are_taken_up_from_the_start_of_the_page(caplog: pytest.LogCaptureFixture) -> None:
    table = Table(list(range(8)))
    for name, page in (
        ("keyset", {"after": 2, "rows": 3}),
        ("tokens", {"token": 2, "rows": 3}),
        ("offset", {"offset": 3}),
        ("page number", {"page": 2, "rows": 3}),
    ):
        attempts = Attempts(name, table)
        attempts.run(leave_at=4)
        attempts.record.update(pos={"page": page, "index": 1, "of": 3}, n=4)
        assert attempts.run() == [3, 4, 5, 6, 7]
        assert attempts.record["n"] == 8
    assert caplog.text.count("not certainly the same ones") == 4


# --- lists ----------------------------------------------------------------------------------------------------


def listed(files: list[Any], store: MemoryStore, done: list[Any], leave_at: int | None = None, **options: Any) -> None:
    """An attempt whose body moves each file away."""
    for number, path in enumerate(checkpoint(sorted(files), name="l", store=store, **options)):
        if number == leave_at:
            return
        files.remove(path)
        done.append(path)


class Named(dict[str, str]):
    """As an API lists them."""

    def __lt__(self, other: Any) -> bool:
        return bool(self["name"] < other["name"])


@pytest.mark.parametrize("kind", [str, Path, lambda name: Named(name=name), lambda name: (name, 1)])
def test_a_list_whose_files_are_moved_by_the_body_loses_none(
    kind: Callable[[str], Any], caplog: pytest.LogCaptureFixture
) -> None:
    """`sorted(glob(...))`."""
    store, done, files = MemoryStore(), list[Any](), [kind(f"{number}.csv") for number in range(10)]
    everything = list(files)
    with caplog.at_level("INFO"):
        for leave_at in (3, 2, None):
            listed(files, store, done, leave_at)
    assert done == everything
    assert files == []
    assert caplog.text.count("started over, as the source changed") == 2


def test_a_new_file_that_sorts_first_is_not_passed_over() -> None:
    store, done = MemoryStore(), list[str]()
    for files, leave_at in ((["b", "c", "d"], 1), (["a", "b", "c", "d"], None)):
        for number, path in enumerate(checkpoint(files, name="l", store=store)):
            if number == leave_at:
                break
            done.append(path)
    assert set(done) == set("abcd")


@pytest.mark.parametrize("later", [["a", "b", "c", "d", "e"], ["a", "b", "c"]])
def test_a_list_that_has_its_done_part_goes_on(later: list[str]) -> None:
    store, done = MemoryStore(), list[str]()
    for files, leave_at in ((["a", "b", "c", "d"], 2), (later, None)):
        for number, path in enumerate(checkpoint(files, name="l", store=store)):
            if number == leave_at:
                break
            done.append(path)
    assert done == later


def test_a_list_that_changed_follows_on_change() -> None:
    store = MemoryStore()
    next(iter(checkpoint(["a", "b"], name="l", store=store)))
    for number, _ in enumerate(checkpoint(["a", "b"], name="l", store=store)):
        if number:
            break
    with pytest.raises(SourceChangedError, match="element 1 is not the one that was done"):
        list(checkpoint(["b", "c"], name="l", store=store, on_change="fail"))
    assert list(checkpoint(["b", "c"], name="l", store=store, on_change="resume")) == ["c"]


def test_elements_of_a_list_that_cannot_be_recognised_are_taken_for_the_same_while_there_are_as_many() -> None:
    store = MemoryStore()
    for number, row in enumerate(checkpoint([{"id": 1}, {"id": 2}, {"id": 3}], name="l", store=store)):
        row["seen"] = True
        if number == 1:
            break
    assert list(checkpoint([{"id": 1}, {"id": 2}, {"id": 3}], name="l", store=store)) == [{"id": 2}, {"id": 3}]


def test_a_listing_of_files_that_are_moved_loses_none() -> None:
    store, done, files = MemoryStore(), list[str](), [f"{number}.csv" for number in range(10)]
    for leave_at in (3, 2, None):
        for number, path in enumerate(checkpoint(Files(sorted(files)), name="l", store=store)):
            if number == leave_at:
                break
            files.remove(path)
            done.append(path)
    assert len(done) == 10


# --- the state, when a page comes again -----------------------------------------------------------------------


@pytest.mark.parametrize("durability", ["sync", "exit"])
@pytest.mark.parametrize("stop_at", [[1], [4], [5], [4, 5], [4, 3]])
def test_a_state_counts_a_page_once_that_comes_again(stop_at: list[int], durability: Any) -> None:
    """A body that writes into its rows: the done ones are never recognised."""
    store = MemoryStore()
    options: dict[str, Any] = {"durability": durability, "skip": Skip(on=(KeyError,))}

    def attempt(leave_at: int | None) -> None:
        def fetch(token: Any) -> Page[dict[str, Any]]:
            first = token or 0
            return Page([{"n": number} for number in range(first, first + 3)], first + 3 if first < 6 else None)

        with checkpoint(CursorToken(fetch), each=True, name="l", store=store, **options) as loop:
            loop.state.setdefault("sum", 0)
            for row in loop:
                number = row["n"]
                if number == leave_at:
                    raise ZeroDivisionError
                row["done"] = True
                loop.state["sum"] += number
                if number == 3:
                    with loop.skipping():
                        raise KeyError(number)

    for leave_at in stop_at:
        with pytest.raises(ZeroDivisionError):
            attempt(leave_at)
    attempt(None)
    record: Any = store.values[KEY]
    assert record["state"] == {"sum": sum(range(9)) - 3}
    assert (record["n"], record["skipped"], len(record["skips"])) == (9, 1, 1)
    assert "page_start" not in record


def test_what_a_page_began_with_is_kept_only_where_it_differs_and_is_small() -> None:
    for text, kept in (("", False), ("x" * 100, True), ("x" * 3_000, False)):
        store = MemoryStore()
        with checkpoint(Offset(lambda *_: Page([1, 2, 3]), limit=3), each=True, name="l", store=store) as loop:
            loop.state["text"] = text
            for number in loop:
                if number == 3:
                    break
                if text:
                    loop.state["n"] = number
        record: Any = store.values[KEY]
        assert ("page_start" in record) is kept
