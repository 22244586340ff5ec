from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from airflow_resume.backends.references import Reference, is_inline, parse
from airflow_resume.values import dumps

_keys = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)


@given(_keys)
def test_a_reference_is_read_as_it_was_written(key: str) -> None:
    reference = Reference(store_id="a" * 32, scope_hash="b" * 64, key=key)
    assert parse(str(reference)) == reference
    assert not is_inline(str(reference))


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists, max_leaves=5))
def test_no_json_is_taken_for_a_reference(value: object) -> None:
    assert is_inline(dumps(value))
