from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_resume import values
from airflow_resume.errors import InvalidValueError, SourceChangedError, SourceNotReopenableError, WrongAnswerError
from airflow_resume.loops import Files


def rest(listing: list[Any], position: Any = None, **options: Any) -> list[Any]:
    return [path for path, _ in Files(listing, **options).elements(position)]


def position_after(count: int, listing: list[Any], **options: Any) -> Any:
    """What is saved when that many are finished."""
    _, position = next(itertools.islice(Files(listing, **options).elements(None), count - 1, None))
    return json.loads(json.dumps(position))


ABC = ["a", "b", "c"]


def test_a_position_has_the_last_file_and_a_hash_that_rolls() -> None:
    first, second = position_after(1, ABC), position_after(2, ABC)
    assert second == {"count": 2, "last": "b", "hash": second["hash"]}
    assert len(second["hash"]) == 32
    assert second["hash"] != first["hash"]
    assert second == position_after(2, ["a", "b", "x", "y"]), "what comes behind does not matter"
    assert second["hash"] != position_after(2, ["b", "a"])["hash"]
    assert second["hash"] != position_after(1, ["a/b"])["hash"]


def test_files_that_are_appended_are_taken_up() -> None:
    source = Files([*ABC, "d"])
    assert source.changes(position_after(2, ABC)) == []
    assert rest([*ABC, "d"], position_after(2, ABC)) == ["c", "d"]
    assert rest([*ABC, "d"], position_after(3, ABC)) == ["d"]


CHANGED: dict[str, tuple[list[str], str, list[str] | None]] = {
    "shrank": (["c"], "the listing had 3 finished files, and has only 1 now", []),
    "emptied": ([], "the listing had 3 finished files, and has only 0 now", None),
    "one before": (
        ["0", "a", "b", "c", "d"],
        "the last finished file 'c' was number 3 of the listing, and is 4 now",
        ["d"],
    ),
    "last one gone": (["a", "b", "d"], "the last finished file 'c' is no longer in the listing", None),
    "others": (["x", "b", "c", "d"], "the 3 files before 'd' are not those that were finished", ["d"]),
    "others, at the end": (["x", "b", "c"], "the 3 files before the end are not those that were finished", []),
}


@pytest.mark.parametrize("row", CHANGED)
def test_a_change_in_the_finished_part_is_put_into_words(row: str) -> None:
    listing, words, left = CHANGED[row]
    position = position_after(3, ABC)
    assert [change.replace("is number", "is") for change in Files(listing).changes(position)] == [words]
    if left is None:
        with pytest.raises(SourceChangedError, match="the last of them, 'c', is no longer in the listing"):
            rest(listing, position)
    else:
        assert rest(listing, position) == left, "to go on means behind the last finished file"


def test_after_going_on_in_a_changed_listing_its_positions_are_those_of_today(
    caplog: pytest.LogCaptureFixture,
) -> None:
    today = ["0", "a", "b", "c", "d", "e"]
    ((_, position), _) = Files(today).elements(position_after(3, ABC))
    assert position == position_after(5, today)
    assert Files(today).changes(position) == []
    assert "after 'c': the 4 files up to it count as finished" in caplog.text


@given(
    listing=st.lists(st.text(min_size=1, max_size=4), unique=True, min_size=1, max_size=12),
    other=st.lists(st.text(min_size=1, max_size=4), unique=True, max_size=12),
    data=st.data(),
)
def test_a_change_is_seen_exactly_when_the_finished_part_differs(
    listing: list[str], other: list[str], data: st.DataObject
) -> None:
    done = data.draw(st.integers(1, len(listing)))
    position = position_after(done, listing)
    values.check(position)
    assert (Files(other).changes(position) == []) == (other[:done] == listing[:done])
    assert rest(listing, position) == listing[done:]


# --- what a file is -------------------------------------------------------------------------------------------


class Entry:
    """As a listing of object storage has them; it has no text of its own."""

    def __init__(self, name: str, etag: str = "e") -> None:
        self.name, self.etag = name, etag


@pytest.mark.parametrize(
    ("path", "last"),
    [
        ("a/b.csv", "a/b.csv"),
        (Path("a") / "b.csv", str(Path("a") / "b.csv")),
        (PurePosixPath("a/b.csv"), "a/b.csv"),
        (b"a".decode(), "a"),
        (7, "7"),
        ("ä.csv", "ä.csv"),
        ("", ""),
    ],
)
def test_a_file_is_delivered_as_it_was_given_and_told_by_its_path(path: Any, last: str) -> None:
    ((given_path, position),) = Files([path]).elements(None)
    assert given_path is path
    assert position["last"] == last  # type: ignore[index, call-overload]


@pytest.mark.parametrize("name", ["x" * 101, "dir/" * 4000 + "a", "nul\0", "\udcff.csv", os.fsdecode(b"\xff" * 200)])
def test_a_name_that_is_long_or_cannot_be_stored_is_shortened(name: str) -> None:
    position = position_after(1, [name, "next"])
    values.check(position)
    assert len(values.dumps(position)) < 300
    assert rest([name, "next"], position) == ["next"]
    assert rest(["new", name, "next"], position) == ["next"]
    assert position["last"] != position_after(1, [name[:-1] + "b"])["last"]


def test_a_last_file_that_may_be_either_of_two_is_no_place_to_go_on_from() -> None:
    long = "x" * 101
    position = position_after(1, [long])
    with pytest.raises(SourceChangedError, match="no longer in the listing"):
        rest(["new", long, position["last"]], position)


def test_identity_tells_files_apart() -> None:
    entries = [Entry("a"), Entry("b"), Entry("c")]
    for identity in (lambda entry: entry.name, lambda entry: (entry.name, entry.etag)):
        position = position_after(2, entries, identity=identity)
        assert rest(entries, position, identity=identity) == entries[2:]
    replaced = [Entry("a", "new"), *entries[1:]]
    assert Files(replaced, identity=lambda entry: (entry.name, entry.etag)).changes(position) != []


@pytest.mark.parametrize(
    ("listing", "identity", "error", "message"),
    [
        (["a", "b", "a"], None, WrongAnswerError, "'a' is in the listing more than once"),
        ([Path("a"), "a"], None, WrongAnswerError, "'a' is in the listing more than once"),
        ([Entry("a")], None, TypeError, r"of a Entry differs from attempt to attempt.*\nSay .*identity=lambda"),
        ([Entry("a")], lambda _entry: None, InvalidValueError, "the identity of a file is None"),
        ([Entry("a")], lambda entry: entry, InvalidValueError, "the identity of a file is a Entry"),
    ],
)
def test_files_that_cannot_be_told_apart_are_named(
    listing: list[Any], identity: Any, error: type[Exception], message: str
) -> None:
    for use in (lambda source: source.changes(None), lambda source: list(source.elements(None))):
        with pytest.raises(error, match=message):
            use(Files(listing, identity=identity))


# --- the listing ----------------------------------------------------------------------------------------------


def test_the_listing_is_read_once_and_only_when_it_is_needed() -> None:
    read: list[str] = []

    def listed() -> Iterator[str]:
        for name in ABC:
            read.append(name)
            yield name

    source = Files(listed())
    assert read == []
    assert source.total(None) == 3
    assert source.changes(None) == []
    assert [path for path, _ in source.elements(None)] == ABC == read


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: Files({"a"}), SourceNotReopenableError, r"sorted\(\.\.\.\)"),
        (lambda: Files("a.csv"), TypeError, "not 'a.csv'\\.\nPass a list"),
        (lambda: Files(Path("a")), TypeError, "Pass a list"),  # type: ignore[arg-type]
        (lambda: Files(5), TypeError, "not 5"),  # type: ignore[arg-type]
        (lambda: Files(["a"], identity="name"), TypeError, "identity='name'"),  # type: ignore[arg-type]
    ],
)
def test_bad_arguments_are_refused_at_the_call(make: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()
