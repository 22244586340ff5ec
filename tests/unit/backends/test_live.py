"""Whatever is handed to a cleanup as the live references: no live value goes, and the plan is what is done."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from airflow.sdk.state import TaskScope
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_resume.backends import Reason, SqlStoreBackend
from airflow_resume.backends.values.codecs import PREFIX
from airflow_resume.errors import StateReferenceError

SCOPE = TaskScope(dag_id="dag", run_id="run", task_id="task")
LARGE = "x" * 5_000
LATER = datetime.now(timezone.utc) + timedelta(days=1)
REF = "__airflow_state_ref__"
ENCRYPTED = [f"{PREFIX}1:gAAAA", f"{PREFIX}1:", f"{PREFIX}2:of a later version", f"{PREFIX}0:17", PREFIX]
"""Values inline, of this process or of another one with a codec."""
KEYS = [f"key.{number}" for number in range(10)] + ["100%: a key/é"]


class Mirror:
    """Writes backwards."""

    def encode(self, text: str) -> str:
        return text[::-1]

    def decode(self, text: str) -> str:
        return text[::-1]


@pytest.fixture
def live(backend: SqlStoreBackend) -> list[str]:
    """References to values that were written long ago."""
    references = [backend.serialize_task_state_store_to_ref(value=LARGE, key=key, scope=SCOPE) for key in KEYS]
    backend._now = lambda: LATER
    return references


FORMS: dict[str, Callable[[list[str]], Any]] = {
    "a list": list,
    "a tuple": tuple,
    "a set": set,
    "an iterator": iter,
    "a generator": lambda live: (reference for reference in live),
    "the keys of a dict": lambda live: dict.fromkeys(live).keys(),
    "each twice": lambda live: live * 2,
    "as the API shows them": lambda live: [{"__airflow_state_ref__": reference} for reference in live],
    "as the API's JSON": lambda live: [json.dumps({"__airflow_state_ref__": reference}) for reference in live],
    "among what is inline": lambda live: ["{}", '"text"', "17", *live, '{"page": 3}'],
    "among what is encrypted": lambda live: [*ENCRYPTED, *({REF: each} for each in ENCRYPTED), *live],
    "among what is encrypted, as JSON": lambda live: [
        *map(json.dumps, ENCRYPTED),
        *(json.dumps({REF: each}) for each in ENCRYPTED),
        *live,
    ],
    "as JSON texts": lambda live: [json.dumps(reference) for reference in live],
    "quoted in another way": lambda live: [reference.replace("key", "%6Bey") for reference in live],
}


@pytest.mark.parametrize("form", FORMS)
def test_no_live_value_goes_in_whatever_form_the_references_come(
    backend: SqlStoreBackend, live: list[str], form: str
) -> None:
    plan = list(backend.plan_cleanup(live=FORMS[form](live), live_as_of=LATER))
    assert {judged.reason for judged in plan} == {Reason.REFERENCED}
    assert backend.clean(live=FORMS[form](live), live_as_of=LATER).orphaned == 0
    assert backend.scan(SCOPE, "") == sorted(KEYS)


def test_what_a_backend_with_a_codec_hands_to_airflow_is_read_by_its_cleanup() -> None:
    with closing(SqlStoreBackend("sqlite://", codec=Mirror())) as backend:
        values: list[Any] = [{"page": 3}, LARGE, "text", LARGE]
        shown = [
            backend.serialize_task_state_store_to_ref(value=value, key=f"key{number}", scope=SCOPE)
            for number, value in enumerate(values)
        ]
        backend._now = lambda: LATER
        assert backend.clean(live=[{REF: each} for each in shown[:3]], live_as_of=LATER).orphaned == 1
        assert backend.scan(SCOPE, "") == ["key1"]


def breaks(live: list[str]) -> Iterator[str]:
    yield live[0]
    raise OSError("the API is away")


NEITHER = "where a value or a reference"
NONSENSE: dict[str, tuple[Callable[[list[str]], Any], type[Exception], str]] = {
    "one text": (lambda live: live[0], TypeError, "live is a str"),
    "bytes": (lambda live: live[0].encode(), TypeError, "live is a bytes"),
    "a dict by reference": (dict.fromkeys, TypeError, "live is a dict"),
    "a number": (lambda _live: 5, TypeError, "live is a int"),
    "None among them": (lambda live: [*live, None], TypeError, "has a NoneType in it"),
    "numbers": (lambda live: [*live, 3], TypeError, "has a int in it"),
    "lists": (lambda live: [[*live]], TypeError, "has a list in it"),
    "an object of another kind": (lambda live: [{"ref": live[0]}], TypeError, "has a NoneType in it"),
    "a reference after a blank": (
        lambda live: [" " + each for each in live],
        StateReferenceError,
        NEITHER,
    ),
    "paths of another backend": (
        lambda live: [*live, "s3://bucket/state"],
        StateReferenceError,
        NEITHER,
    ),
    "a reference torn before its version": (
        lambda live: [*live, "airflow-resume:en"],
        StateReferenceError,
        "is not a reference",
    ),
    "a torn reference": (lambda live: [*live, live[0][:30]], StateReferenceError, "is not a reference"),
    "those of another database": (
        lambda live: [reference.replace(live[0].split(":")[2], "0" * 32) for reference in live],
        StateReferenceError,
        "All 11 references of live lead to other databases",
    ),
    "what breaks off": (breaks, OSError, "the API is away"),
}


@pytest.mark.parametrize("given_as", NONSENSE)
def test_what_makes_no_sense_is_refused_and_nothing_is_deleted(
    backend: SqlStoreBackend, live: list[str], given_as: str
) -> None:
    form, error, message = NONSENSE[given_as]
    for call in (backend.clean, backend.plan_cleanup):
        with pytest.raises(error, match=message):
            call(live=form(live), live_as_of=LATER)
    assert backend.scan(SCOPE, "") == sorted(KEYS)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"live_as_of": LATER.replace(tzinfo=None)}, "live_as_of=.* has no zone"),
        ({"live_as_of": LATER + timedelta(minutes=1)}, "live_as_of=.* has not come yet"),
        ({"live_as_of": "2026-01-01"}, "live_as_of='2026-01-01' must be a datetime"),
        ({"live_as_of": LATER, "settled": -timedelta(hours=1)}, "settled=.* may not be negative"),
        ({"live_as_of": LATER, "settled": 3600}, "settled=3600 must be a timedelta"),
        ({}, "live and live_as_of go together"),
    ],
)
def test_a_time_that_makes_no_sense_is_refused(
    backend: SqlStoreBackend, live: list[str], options: dict[str, Any], message: str
) -> None:
    for call in (backend.clean, backend.plan_cleanup):
        with pytest.raises((ValueError, TypeError), match=message):
            call(live=live, **options)
    assert backend.scan(SCOPE, "") == sorted(KEYS)


def test_a_time_of_any_length_may_have_to_pass(backend: SqlStoreBackend, live: list[str]) -> None:
    assert backend.clean(live=live[:1], live_as_of=LATER, settled=timedelta.max).orphaned == 0
    assert backend.clean(live=live[:1], live_as_of=LATER).orphaned == len(KEYS) - 1


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=30) | st.binary(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=2),
    max_leaves=6,
)


@settings(max_examples=150, deadline=None)
@given(kept=st.sets(st.integers(0, 5)), junk=st.lists(ANYTHING, max_size=3), at=st.integers(0, 3))
def test_the_plan_is_what_is_done_whatever_stands_among_the_references(
    kept: set[int], junk: list[Any], at: int
) -> None:
    backend = SqlStoreBackend("sqlite://")
    references = [
        backend.serialize_task_state_store_to_ref(value=LARGE, key=f"k{number}", scope=SCOPE) for number in range(6)
    ]
    backend._now = lambda: LATER
    live: list[Any] = [references[number] for number in sorted(kept)]
    live[at:at] = junk
    outcomes: list[object] = []
    try:
        outcomes.append(
            sorted(judged.key for judged in backend.plan_cleanup(live=live, live_as_of=LATER) if judged.reason.deletes)
        )
        backend.clean(live=iter(live), live_as_of=LATER)
        outcomes.append(sorted({f"k{number}" for number in range(6)} - set(backend.scan(SCOPE, ""))))
        assert outcomes[0] == outcomes[1] == [f"k{number}" for number in range(6) if number not in kept]
    except (TypeError, StateReferenceError):
        assert backend.scan(SCOPE, "") == [f"k{number}" for number in range(6)]
    backend.close()
