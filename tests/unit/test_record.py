from __future__ import annotations

from typing import Any, ClassVar

import pytest

from airflow_resume.errors import InvalidValueError, StoreUnavailableError, UnreadableRecordError
from airflow_resume.record import Record, StoredRecord
from airflow_resume.store import MemoryStore
from tests.support.kit.raised import having


class Example(Record):
    n: int = 0
    extra_text: str | None = None


def slot(stored: Any = None) -> StoredRecord[Example]:
    store = MemoryStore()
    if stored is not None:
        store.set("k", stored)
    return StoredRecord(store, "k", Example)


def test_a_missing_record_is_none() -> None:
    assert slot().read() is None


def test_what_is_written_is_read() -> None:
    place = slot()
    place.write(Example(key="k", n=3))
    assert place.read() == Example(key="k", n=3)


def test_fields_of_a_newer_minor_version_are_kept() -> None:
    place = slot({"v": 1, "key": "k", "n": 1, "later": {"x": [1, None]}})
    record = place.read()
    assert record is not None
    place.write(record.model_copy(update={"n": 2}))
    assert place.store.get("k") == {"v": 1, "key": "k", "n": 2, "later": {"x": [1, None]}}


@pytest.mark.parametrize(
    ("stored", "why"),
    [
        ({"v": 2, "key": "k"}, "newer version.*\nUpgrade airflow-resume"),
        ("nonsense", "not a record"),
        ({"key": "k"}, "not a record"),
        ([1], "not a record"),
        ({"v": True, "key": "k"}, "not a record"),
        ({"v": 0, "key": "k"}, "not a record"),
        ({"v": -1, "key": "k"}, "not a record"),
        ({"v": 1, "key": "k", "n": "many"}, "changed by hand or damaged.*n:"),
    ],
)
def test_an_unreadable_record_says_why_and_what_to_do(stored: Any, why: str) -> None:
    with pytest.raises(UnreadableRecordError, match=why) as caught:
        slot(stored).read()
    assert "Nothing was touched" in str(caught.value)
    assert "delete the key" in str(caught.value)


def test_the_record_of_another_key_is_refused() -> None:
    with pytest.raises(StoreUnavailableError, match=r"Asked for 'k'.*'other'", check=having(key="k")):
        slot({"v": 1, "key": "other"}).read()


def test_a_record_the_store_would_refuse_is_not_written() -> None:
    place = slot()
    with pytest.raises(InvalidValueError, match=r"k\.extra_text"):
        place.write(Example(key="k", extra_text="\x00"))
    assert place.read() is None


class Told(Record):
    FIRST: ClassVar[tuple[str, ...]] = ("n", "missing")

    n: int = 0
    words: str | None = "three"

    def summary(self) -> str | None:
        return self.words


def test_a_summary_is_stored_first_and_then_what_people_look_for() -> None:
    stored = Told(key="k", n=3).to_json()
    assert list(stored.items()) == [("summary", "three"), ("n", 3), ("v", 1), ("key", "k"), ("words", "three")]
    assert "summary" not in Told(key="k", words=None).to_json()


def test_a_summary_is_not_read() -> None:
    place = slot({"v": 1, "key": "k", "n": 3, "summary": {"of": "a newer kind"}})
    assert place.read() == Example(key="k", n=3)


@pytest.mark.parametrize("error", [ValueError("x"), TypeError(), KeyError("x"), OverflowError(), RecursionError()])
def test_whatever_a_part_of_it_raises_is_one_error(error: Exception) -> None:
    with pytest.raises(UnreadableRecordError, match="changed by hand or damaged") as caught, slot().reading():
        raise error
    assert caught.value.__cause__ is error


def test_other_errors_of_the_package_pass() -> None:
    with pytest.raises(StoreUnavailableError), slot().reading():
        raise StoreUnavailableError
