"""The law of a store: any sequence of calls has the same results as on a dict."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from airflow_resume.store import StateStore
from airflow_resume.testing.contract.samples import written

KEYS = ["a", "a.b"]

# A NUL and half a surrogate pair may be refused.
_texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=20)
_scalars = st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False) | _texts
_inner = st.recursive(
    st.none() | _scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_texts, inner, max_size=3),
    max_leaves=8,
)
_values = _scalars | st.lists(_inner, max_size=3) | st.dictionaries(_texts, _inner, max_size=3)
_keys = st.sampled_from(KEYS)
_calls = (
    st.tuples(st.just("set"), _keys, _values) | st.tuples(st.just("delete"), _keys) | st.tuples(st.just("get"), _keys)
)


def agree_with_a_dict(store: StateStore, *, examples: int) -> None:
    """Make the same sequences of calls on the store and on a dict, and compare.

    Raises:
        AssertionError: they differ; the shortest sequence that was found is shown.
    """

    @settings(
        max_examples=examples,
        derandomize=True,
        database=None,
        deadline=None,
        report_multiple_bugs=False,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=[HealthCheck.too_slow],
    )
    @given(st.lists(_calls, max_size=16))
    def agree(calls: list[tuple[Any, ...]]) -> None:
        for key in KEYS:
            store.delete(key)
        model: dict[str, Any] = {}
        for name, key, *value in calls:
            if name == "set":
                store.set(key, *value)
                model[key] = copy.deepcopy(value[0])
            elif name == "delete":
                store.delete(key)
                model.pop(key, None)
            else:
                assert written(store.get(key, "-")) == written(model.get(key, "-"))
        assert [written(store.get(key, "-")) for key in KEYS] == [written(model.get(key, "-")) for key in KEYS]

    agree()
