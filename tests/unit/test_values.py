from __future__ import annotations

import math
from collections.abc import Callable
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from enum import IntEnum
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_resume import values
from airflow_resume.errors import InvalidKeyError, InvalidValueError, ValueTooLargeError
from airflow_resume.testing.fakes import wire


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "place", "remedy"),
    [
        (None, "$ is None", "leave the key out"),
        ({"a": [1, {"b": math.nan}]}, "$.a[1].b", "text"),
        ([math.inf], "$[0]", "text"),
        ({"at": datetime(2026, 1, 1, tzinfo=timezone.utc)}, "$.at is a datetime", "Store text"),
        ({"a": (1, 2)}, "$.a is a tuple", "list"),
        ([b"x"], "$[0] is a bytes", "text"),
        ({1: "x"}, "$ has the key 1", "str(1)"),
        ([2**64], "$[0] is an integer outside 64 bits", "text"),
        ([-(2**63) - 1], "$[0] is an integer outside 64 bits", "text"),
        ({"a": "\ud800"}, "$.a has half a surrogate pair", "Decode"),
        ({"a": "\x00"}, "$.a has a NUL", "Remove"),
        (nested(100), "nested more than 64 levels", "Flatten"),
    ],
)
def test_what_the_store_would_refuse_or_change_is_refused_with_place_and_remedy(
    value: Any, place: str, remedy: str
) -> None:
    with pytest.raises(InvalidValueError) as caught:
        values.check(value)
    assert place in str(caught.value)
    assert remedy in str(caught.value)


@pytest.mark.parametrize("value", [0, "", False, [], {}, 2**64 - 1, -(2**63), {"a": None}, "é😀", 1.5, nested(60)])
def test_what_the_store_keeps_is_accepted(value: Any) -> None:
    values.check(value)


exact = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(values.MIN_INT, values.MAX_INT)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"))
    | st.binary()
    | st.dates()
    | st.datetimes()
    | st.datetimes(timezones=st.just(timezone.utc))
    | st.decimals(allow_nan=False, allow_infinity=False)
    | st.uuids(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text("ab~", max_size=3), inner) | st.tuples(inner, inner),
    max_leaves=8,
)


@given(exact)
def test_decode_gives_back_what_encode_was_given(value: Any) -> None:
    encoded = values.encode(value)
    if encoded is not None:
        values.check(encoded)
    decoded = values.decode(encoded)
    assert decoded == value
    assert type(decoded) is type(value)


def test_a_dict_that_looks_like_a_tag_is_not_mistaken_for_one() -> None:
    assert values.decode(values.encode({"~datetime": "tomorrow"})) == {"~datetime": "tomorrow"}


@pytest.mark.parametrize(
    "tagged",
    [
        {"~datetime": "garbage"},
        {"~datetime": 7},
        {"~date": []},
        {"~decimal": "garbage"},
        {"~decimal": [0, [1], 0]},
        {"~uuid": "garbage"},
        {"~uuid": 1.5},
        {"~bytes": "garbage!"},
        {"~bytes": 5},
        {"~tuple": 7},
        {"~tuple": "abc"},
        {"~tuple": [1, {"~uuid": None}]},
        {"~dict": 3},
        {"~dict": [1]},
    ],
)
def test_what_is_tagged_and_was_never_encoded_is_refused(tagged: Any) -> None:
    for stored in (tagged, [tagged], {"a": tagged, "b": 1}):
        with pytest.raises(
            InvalidValueError, match=r"is tagged as a \w+ and cannot be read as one\.\nIt was changed by hand"
        ):
            values.decode(stored)


def test_a_value_too_large_names_its_size_the_limit_and_its_biggest_part() -> None:
    with pytest.raises(
        ValueTooLargeError, match=r"'k' has 60,0\d\d bytes and may have 60,000.*\$\.state\.big"
    ) as caught:
        values.check_size("k", {"state": {"big": "x" * 60_000, "small": 1}})
    assert "store its address" in str(caught.value)


@pytest.mark.parametrize("name", ["", ".a/b", "a b", "é", "x" * 200, "a\n", "a\x00"])
def test_a_name_that_cannot_be_a_key_is_refused(name: str) -> None:
    with pytest.raises(InvalidKeyError, match="cannot be a name"):
        values.make_key("resume.job", name)


@pytest.mark.parametrize("name", ["a", ".", "..", "Orders:2026-01_%2F", "x" * 189])
def test_a_key_is_the_prefix_and_the_name(name: str) -> None:
    assert values.make_key("resume.job", name) == f"resume.job.{name}"


def test_a_fingerprint_differs_when_the_value_does_and_not_by_the_order_of_keys() -> None:
    assert values.fingerprint({"a": 1, "b": 2}) == values.fingerprint({"b": 2, "a": 1})
    assert len({values.fingerprint(v) for v in (1, "1", 1.5, None, [1], date(2026, 1, 1), "2026-01-01")}) == 7


@pytest.mark.parametrize(
    ("given_id", "plain"),
    [
        (0, 0),
        ("", ""),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (("a", 1), ["a", 1]),
        ({"cluster": "c", "id": 3}, {"cluster": "c", "id": 3}),
    ],
)
def test_an_id_of_another_system_becomes_plain_json(given_id: Any, plain: Any) -> None:
    assert values.plain_id(given_id) == plain


@pytest.mark.parametrize("given_id", [None, object(), math.nan, Decimal(1), timedelta(1)])
def test_an_id_that_is_not_json_is_refused(given_id: Any) -> None:
    with pytest.raises(InvalidValueError, match="the id"):
        values.plain_id(given_id)


class _Enum(IntEnum):
    A = 1


_LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters())
    | st.sampled_from([2**63, 2**64, -(2**63) - 1, "\ud800", "\x00", "\\u0041", "\x7f", b"", (), _Enum.A])
)
_ANYTHING = st.recursive(
    _LEAVES,
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(0, 3), inner),
)


@given(_ANYTHING)
def test_what_is_plain_at_a_glance_is_kept_by_airflow_as_it_is(value: object) -> None:
    plain = values.plain_json(value)
    if plain is not None:
        values._check(value, "$", 0)
        sent: Any = value
        assert wire.kept(wire.set_sent("key", sent)[1]) == plain


@given(_ANYTHING)
def test_what_is_seen_at_a_glance_changes_no_verdict(value: object) -> None:
    def verdict(check: Callable[[], object]) -> str:
        try:
            check()
        except (InvalidValueError, RecursionError) as error:
            return str(error)
        return "fine"

    if value is not None:
        assert verdict(lambda: values.check(value)) == verdict(lambda: values._check(value, "$", 0))


EVIL = "x\n2026-01-01 CRITICAL forged\x1b[2J\u202e" + "y" * 5_000


class Odd:
    def __repr__(self) -> str:
        return EVIL


@pytest.mark.parametrize(
    "refused",
    [
        lambda: values.check({EVIL: None, "b": object()}),
        lambda: values.check({EVIL: object()}),
        lambda: values.check({EVIL: {EVIL: {EVIL: math.nan}}}),
        lambda: values.check({EVIL: 2**70}),
        lambda: values.check({EVIL: "\x00"}),
        lambda: values.check({EVIL + "\x00": 1}),
        lambda: values.check({EVIL + "\ud800": 1}),
        lambda: values.check({Odd(): 1}),
        lambda: values.check({(EVIL,): 1}),
        lambda: values.make_key("resume.job", EVIL),
        lambda: values.make_key("resume.job", "k" * 100_000),
        lambda: values.check_size(EVIL, "v" * 70_000),
        lambda: values.check_size("resume.loop.l", {EVIL: {EVIL: "v" * 70_000}}),
        lambda: values.decode({"~datetime": EVIL}),
        lambda: values.plain_id({EVIL: object()}),
    ],
)
def test_what_a_message_shows_of_keys_and_values_is_escaped_and_short(refused: Any) -> None:
    with pytest.raises((InvalidKeyError, InvalidValueError)) as caught:
        refused()
    for text in (caught.value.message, caught.value.remedy or ""):
        assert text.isprintable()
        assert len(text) < 700


def test_a_long_key_of_a_record_is_shown_whole() -> None:
    key = "resume.loop." + "k" * 188
    with pytest.raises(InvalidValueError, match=key):
        values.check_size(key, "v" * 70_000)
