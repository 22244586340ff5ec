"""A record that no attempt can have saved follows `on_unreadable`, and the error names its key and its place."""

from __future__ import annotations

import copy
from contextlib import suppress
from typing import Any

import pytest

from airflow_resume import checkpoint
from airflow_resume.errors import UnreadableRecordError
from airflow_resume.store import MemoryStore
from airflow_resume.testing import TaskAttempt, task_context
from tests.support.loops.interrupted_loops import SOURCES, left_by, loop_of

KEY = "resume.loop.l"
CASES = [
    pytest.param(name, position, id=f"{name}-{number}")
    for name, (*_, positions) in SOURCES.items()
    for number, position in enumerate(positions)
]


@pytest.mark.parametrize("name", SOURCES)
def test_a_position_that_was_saved_is_none(name: str) -> None:
    whole = len(list(loop_of(name, MemoryStore())))
    assert len(list(loop_of(name, left_by(name)))) == whole - 2


@pytest.mark.parametrize(("name", "position"), CASES)
def test_a_damaged_position(name: str, position: Any) -> None:
    store = left_by(name)
    store.values[KEY]["pos"] = position  # type: ignore[call-overload,index]
    before = copy.deepcopy(store.values)
    with pytest.raises(UnreadableRecordError, match=rf"'{KEY}' cannot be read: its pos was changed by hand"):
        next(iter(loop_of(name, store)))
    assert store.values == before
    whole = len(list(loop_of(name, MemoryStore())))
    assert len(list(loop_of(name, store, on_unreadable="restart"))) == whole


FIELDS: dict[str, Any] = {
    "n": -5,
    "skipped": -1,
    "ahead": {"by": 1, "runs": [1], "far": 3},
    "state": {"a": {"~datetime": "zz"}},
    "t0": "2026-01-01T00:00:00",
    "ts": "yesterday",
    "pos_at": "2026-01-01T00:00:00",
    "inner": {"in": {"kind": 7}},
}


@pytest.mark.parametrize("field", FIELDS)
def test_a_damaged_field(field: str) -> None:
    store = left_by("list")
    store.values[KEY][field] = FIELDS[field]  # type: ignore[call-overload,index]
    with pytest.raises(UnreadableRecordError, match=rf"'{KEY}' cannot be read: it.* {field}|its {field}|\({field}"):
        next(iter(loop_of("list", store)))
    assert list(loop_of("list", store, on_unreadable="restart")) == list(range(6))


@pytest.mark.parametrize("damage", [{"pos": "abc"}, {"state": {"a": {"~uuid": "zz"}}}])
def test_a_damaged_loop_inside_another(damage: dict[str, Any]) -> None:
    store, seen = MemoryStore(), []

    def run(deadly: int | None = None, **options: Any) -> None:
        outer = checkpoint(["a"], name="l", store=store, durability="sync")
        with outer:
            for _ in outer:
                for number in checkpoint(range(4), name="in", within=outer, **options):
                    if number == deadly:
                        raise ZeroDivisionError
                    seen.append(number)

    with suppress(ZeroDivisionError):
        run(2)
    record: Any = store.values[KEY]
    record["inner"]["in"].update(damage)
    with pytest.raises(UnreadableRecordError, match=rf"'{KEY}' cannot be read: in the loop 'in', its"):
        run()
    run(on_unreadable="restart")
    assert seen == [0, 1, 0, 1, 2, 3]


def damage(attempt: TaskAttempt) -> None:
    record: Any = attempt.task_store.values[KEY]
    attempt.task_store.set(KEY, {**record, "pos": "abc"})


def test_a_cleared_task_starts_over_whatever_the_position_is() -> None:
    first = task_context()
    with first:
        list(checkpoint(range(3), name="l"))
        damage(first)
    with first.clear():
        assert list(checkpoint(range(3), name="l")) == [0, 1, 2]


def test_what_to_do_is_said_in_a_task_and_outside() -> None:
    store = left_by("list")
    store.values[KEY]["pos"] = "abc"  # type: ignore[call-overload,index]
    with pytest.raises(UnreadableRecordError) as caught:
        next(iter(loop_of("list", store)))
    assert str(caught.value).endswith("delete the key from the store (on_unreadable='restart' does that by itself).")
    first = task_context()
    with first:
        next(iter(checkpoint(range(3), name="l")))
        damage(first)
    with first.retry(), pytest.raises(UnreadableRecordError, match="in Airflow's UI and clear the task"):
        next(iter(checkpoint(range(3), name="l")))


BAD_SEEN: dict[str, list[Any]] = {
    "list": ["abc", {"of": "many"}, {"of": -1}, [6]],
    "tokens": ["abc", {"rows": "many"}, {"pages": 1.5}],
    "tokens, each": [{"rows": "many"}, [6]],
    "numbers": [{"rows": "many"}],
}


@pytest.mark.parametrize(("name", "kept"), [(name, kept) for name, all_kept in BAD_SEEN.items() for kept in all_kept])
def test_what_is_kept_beside_a_position_may_be_damaged_as_well(name: str, kept: Any) -> None:
    store = left_by(name)
    store.values[KEY]["seen"] = kept  # type: ignore[call-overload,index]
    before = copy.deepcopy(store.values)
    with pytest.raises(UnreadableRecordError, match=rf"'{KEY}' cannot be read: its seen was changed by hand"):
        next(iter(loop_of(name, store)))
    assert store.values == before
    whole = len(list(loop_of(name, MemoryStore())))
    assert len(list(loop_of(name, store, on_unreadable="restart"))) == whole
