"""What Airflow has where a reference should be: it is right, or an error by name that shows it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from airflow.sdk.state import TaskScope
from hypothesis import example, given
from hypothesis import strategies as st

from airflow_resume.backends import SqlStoreBackend
from airflow_resume.backends.values.references import Reference, read
from airflow_resume.errors import (
    StateReferenceError,
    UnreadableRecordError,
)
from airflow_resume.shown import short_repr
from airflow_resume.values import MAX_SHOWN, dumps

SCOPE = TaskScope(dag_id="dag", run_id="run", task_id="task")
GOOD = f"airflow-resume:1:{'a' * 32}:{'b' * 64}:key"

_keys = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), min_size=1, max_size=512)
_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(_keys)
def test_a_reference_is_read_as_it_was_written(key: str) -> None:
    reference = Reference(store_id="a" * 32, scope_hash="b" * 64, key=key)
    assert read(str(reference)) == reference


@given(st.recursive(st.booleans() | st.integers() | st.text(), st.lists, max_leaves=5))
@example("airflow-resume:1:a:b:c")
@example(GOOD)
def test_no_json_is_taken_for_a_reference(value: object) -> None:
    assert read(dumps(value)) == value


# --- what is neither ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stored", "why"),
    [
        ("s3://bucket/state/key.json", "no JSON, Expecting value"),
        ("", "no JSON"),
        ('{"page": 3', "no JSON"),
        (" " + GOOD, "no JSON"),
        ("NaN", "NaN is no number"),
        ('{"n": [-Infinity]}', "-Infinity is no number"),
        ("1e999", "a float out of range is no number"),
        ("null", "it is null"),
        ("[" * 100_000, "nested too deeply"),
        ("9" * 10_000, "no JSON, Exceeds the limit"),
        (1, "no text"),
        (10**6_000, "no text"),
        (True, "no text"),
        ([1], "no text"),
        ({"page": 3}, "no text"),
        (b"1", "no text"),
    ],
    ids=short_repr,
)
def test_what_is_neither_a_value_nor_a_reference_is_shown_with_what_to_do(
    backend: SqlStoreBackend, stored: Any, why: str
) -> None:
    for read_it in (backend.deserialize_task_state_store_from_ref, backend.deserialize_asset_state_store_from_ref):
        with pytest.raises(StateReferenceError, match=why) as caught:
            read_it(stored)
        assert "It was written by another backend, or by hand." in caught.value.message
        assert "[workers] state_store_backend" in str(caught.value.remedy)
        assert "delete the key" in str(caught.value.remedy)


def test_what_stands_there_is_escaped_and_cut_short(backend: SqlStoreBackend) -> None:
    with pytest.raises(StateReferenceError) as caught:
        backend.deserialize_task_state_store_from_ref("\x1b[31mforged\nline" + "x" * 10_000)
    assert r"Airflow has '\x1b[31mforged\nlinexxx" in caught.value.message
    assert len(caught.value.message) < 300
    assert "\n" not in caught.value.message


@pytest.mark.parametrize(
    "stored",
    [
        "airflow-resume:",
        "airflow-resume:1:",
        "airflow-resume:0:a:b:c",
        "airflow-resume:01:a:b:c",
        "airflow-resume:\u00b2:a:b:c",
        f"airflow-resume:{'9' * 5_000}:a",
        GOOD[:-3],  # no key
        GOOD[:60],
        GOOD.upper(),
        GOOD + "\n",
        GOOD + ":more",
        GOOD + "%",
        GOOD + "%00",
        GOOD + "%ff",
        GOOD + "%ed%a0%80",
        GOOD + "\ud800",
        GOOD + "k" * 510,
        GOOD + "x" * 1_000_000,
    ],
    ids=short_repr,
)
def test_a_reference_that_was_cut_off_or_changed_is_refused(stored: str) -> None:
    backend = SqlStoreBackend("sqlite://", on_dangling="missing")
    with pytest.raises(StateReferenceError) as caught:
        backend.deserialize_task_state_store_from_ref(stored)
    assert type(caught.value) is StateReferenceError
    assert len(str(caught.value)) < 400


def test_a_reference_of_a_newer_version_says_so() -> None:
    with pytest.raises(StateReferenceError, match=r"has version 2, and this one knows 1\.\nUpgrade airflow-resume"):
        read("airflow-resume:2:" + "something else\n" * 1_000)


# --- anything -------------------------------------------------------------------------------------------------


@given(st.text() | _json | st.binary())
def test_anything_is_a_value_or_an_error_by_name(stored: Any) -> None:
    try:
        found = read(stored)
    except StateReferenceError as error:
        assert len(error.message) < 5 * MAX_SHOWN
    else:
        assert found == json.loads(stored)


@given(_json)
def test_json_is_the_value_or_no_value_that_is_ever_kept(value: Any) -> None:
    stored = json.dumps(value)
    try:
        found = read(stored)
    except StateReferenceError:
        assert value is None or "NaN" in stored or "Infinity" in stored
    else:
        assert found == value


@given(_keys, st.data())
def test_a_reference_with_a_change_never_gives_the_value_of_another(key: str, data: st.DataObject) -> None:
    backend = SqlStoreBackend("sqlite://", inline_bytes=0)
    stored = backend.serialize_task_state_store_to_ref(value="mine", key=key, scope=SCOPE)
    start = data.draw(st.integers(0, len(stored)))
    end = data.draw(st.integers(start, len(stored)))
    changed = stored[:start] + data.draw(st.text(max_size=5)) + stored[end:]
    try:
        found = backend.deserialize_task_state_store_from_ref(changed)
    except StateReferenceError:
        return
    finally:
        backend.close()
    assert found == ("mine" if _key_of(changed) == key else json.loads(changed))


def _key_of(stored: str) -> str | None:
    found = read(stored)
    return found.key if isinstance(found, Reference) else None


# --- a value that looks like one ------------------------------------------------------------------------------


@pytest.mark.parametrize("inline_bytes", [0, 4_096])
@pytest.mark.parametrize("value", [GOOD, "airflow-resume:2:x", {"__airflow_state_ref__": GOOD}, "null", ""])
def test_a_value_that_looks_like_a_reference_comes_back(value: Any, inline_bytes: int) -> None:
    backend = SqlStoreBackend("sqlite://", inline_bytes=inline_bytes)
    stored = backend.serialize_task_state_store_to_ref(value=value, key="key", scope=SCOPE)
    assert backend.deserialize_task_state_store_from_ref(stored) == value


# --- a row that was changed by hand ---------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", "no json", "null", "NaN", "[" * 100_000], ids=short_repr)
def test_a_row_that_holds_no_value_is_an_error_by_name_behind_a_reference(text: str) -> None:
    backend = SqlStoreBackend("sqlite://", inline_bytes=0, on_dangling="missing")
    stored = backend.serialize_task_state_store_to_ref(value=1, key="key", scope=SCOPE)
    backend.set(SCOPE, "key", text)
    with pytest.raises(UnreadableRecordError, match=r"The value of 'key' in <SqlStoreBackend .*\n.*delete the key"):
        backend.deserialize_task_state_store_from_ref(stored)
