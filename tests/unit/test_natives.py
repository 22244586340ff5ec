"""Values of other libraries: taken as Python's own, or refused with the conversion to write."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import pytest

from airflow_resume import checkpoint, values
from airflow_resume.errors import InvalidValueError
from airflow_resume.loops import CursorToken, Offset, Page
from airflow_resume.natives import native
from airflow_resume.store import MemoryStore

numpy, pandas, arrow = (pytest.importorskip(name) for name in ("numpy", "pandas", "pyarrow"))
NEW_YEAR = datetime(2026, 1, 1, tzinfo=timezone.utc)


class Colour(Enum):
    RED = "red"


class Pair(NamedTuple):
    a: int


class Moment(datetime):
    """As pendulum has them."""


KEPT = [Decimal("1.10"), NEW_YEAR, NEW_YEAR.date(), b"\x00\xff", UUID(int=1), ("a", 1), ("a", (NEW_YEAR, b"")), 5, "t"]
TAKEN = [
    (numpy.int64(5), 5),
    (numpy.float32(0.5), 0.5),
    (numpy.bool_(True), True),
    (numpy.str_("a"), "a"),
    (numpy.datetime64("2026-01-01"), datetime(2026, 1, 1)),  # noqa: DTZ001
    (pandas.Timestamp(NEW_YEAR), NEW_YEAR),
    (arrow.scalar(5), 5),
    ((numpy.int64(1), pandas.Timestamp(NEW_YEAR)), (1, NEW_YEAR)),
]
REFUSED: list[tuple[Any, str]] = [
    (pandas.Timestamp("2026-01-01 00:00:00.123456789"), "value.to_pydatetime()"),
    (numpy.datetime64("2026-01-01T00:00:00.123456789"), "str(value)"),
    (timedelta(1), "value.total_seconds()"),
    (Moment(2026, 1, 1, tzinfo=timezone.utc), "datetime.fromisoformat(value.isoformat())"),
    (Colour.RED, "value.value"),
    (Path("/a"), "str(value)"),
    ({1, 2}, "sorted(value)"),
    (bytearray(b"a"), "bytes(value)"),
    (numpy.arange(2), "value.tolist()"),
]


def pages(token: Any, asked: list[Any]) -> Any:
    """A first page that names the token, and a last one."""

    def fetch(given: Any) -> Page[int]:
        asked.append(given)
        return Page([1], token) if given is None else Page([2])

    return CursorToken(fetch)


@pytest.mark.parametrize(("given", "kept"), [*((value, value) for value in KEPT), *TAKEN])
def test_a_token_comes_back_in_the_same_attempt_and_in_the_next(given: Any, kept: Any) -> None:
    asked: list[Any] = []
    list(checkpoint(pages(given, asked), name="l", store=MemoryStore()))
    store = MemoryStore()
    for number, _ in enumerate(checkpoint(pages(given, asked), name="l", store=store)):
        if number == 1:
            break
    list(checkpoint(pages(given, asked), name="l", store=store))
    assert [(token, type(token)) for token in asked if token is not None] == [(kept, type(kept))] * 3


@pytest.mark.parametrize(("given", "line"), REFUSED)
def test_a_token_a_position_or_a_state_that_cannot_be_kept_is_refused_with_what_to_write(given: Any, line: str) -> None:
    def resuming(_position: Any) -> Any:
        yield 1, given

    class Reader:
        def state_dict(self) -> Any:
            return {"at": given}

        def load_state_dict(self, _state: Any) -> None:
            raise AssertionError

        def __iter__(self) -> Any:
            return iter([1])

    with pytest.raises(InvalidValueError) as told:
        list(checkpoint(pages(given, []), name="l", store=MemoryStore()))
    assert line in str(told.value)
    for source in (resuming, Reader()):
        with pytest.raises(InvalidValueError) as told:
            list(checkpoint(source, name="l", store=MemoryStore()))  # type: ignore[call-overload]
        assert line in str(told.value)
    with pytest.raises(InvalidValueError) as told, checkpoint([1, 2], name="l", store=MemoryStore()) as loop:
        for _ in loop:
            loop.state["v"] = given
    assert line in str(told.value)


@pytest.mark.parametrize("given", [numpy.int64(5), numpy.bool_(True), pandas.Timestamp(NEW_YEAR)])
def test_a_position_or_state_of_the_users_is_not_converted_as_it_would_come_back_as_something_else(given: Any) -> None:
    def resuming(_position: Any) -> Any:
        yield 1, given

    with pytest.raises(InvalidValueError, match=r"value\.(item|to_pydatetime)\(\)"):
        list(checkpoint(resuming, name="l", store=MemoryStore()))


def test_a_total_may_be_a_number_of_numpy() -> None:
    source: Offset[int] = Offset(lambda offset, _limit: Page([offset], total=numpy.int64(2)), limit=1)
    assert len(list(checkpoint(source, name="l", store=MemoryStore()))) == 2
    assert source.total_rows(None) == 2


@pytest.mark.parametrize("missing", [pandas.NaT, pandas.NA, arrow.scalar(None, arrow.int64())])
def test_what_is_missing_is_none(missing: Any) -> None:
    assert native(missing) is None


@pytest.mark.parametrize("value", [object(), Pair(1), Colour.RED, [numpy.int64(1)], numpy.arange(2)])
def test_what_is_not_known_stays_as_it_is(value: Any) -> None:
    assert native(value) is value


def test_a_named_tuple_as_a_token_is_refused_as_it_would_come_back_as_a_tuple() -> None:
    with pytest.raises(InvalidValueError, match=r"is a Pair.*\n.*tuple\(value\)"):
        list(checkpoint(pages(Pair(1), []), name="l", store=MemoryStore()))


@pytest.mark.parametrize("value", [(1, "a"), {1, 2}, timedelta(1), Path("/a"), numpy.arange(2), Pair(1)])
def test_where_only_json_is_taken_the_line_to_write_is_taken(value: Any) -> None:
    with pytest.raises(InvalidValueError) as told:
        values.check(value)
    line = str(told.value.remedy).partition(", such as ")[2].removesuffix(".")
    values.check(eval(line.partition(", or ")[2].partition(" where")[0] or line, {"value": value}))  # noqa: S307  ours


# --- functions that resume ------------------------------------------------------------------------------------


def without_position() -> Any:
    yield 1, 1


def with_two(_position: Any, _other: Any) -> Any:
    yield 1, 1


@pytest.mark.parametrize("function", [without_position, with_two, lambda *, position: position])
def test_a_function_that_takes_no_position_is_refused_at_the_call(function: Callable[..., Any]) -> None:
    with pytest.raises(TypeError, match=r"cannot be called with the position.*\nWrite `def .*\(position\):`"):
        checkpoint(function, name="l", store=MemoryStore())


@pytest.mark.parametrize("function", [lambda position=None: iter([(1, 1)]), lambda *_any: iter([(1, 1)])])
def test_a_function_that_may_take_one_is_taken(function: Callable[..., Any]) -> None:
    assert list(checkpoint(function, name="l", store=MemoryStore())) == [1]


def test_none_behind_the_last_element_is_refused_with_what_to_write() -> None:
    """It would mean the start, and a retry would deliver everything again."""

    def resuming(position: Any) -> Any:
        yield from [(1, "t"), (2, None)] if position is None else [(2, None)]

    store, delivered = MemoryStore(), list[int]()
    with pytest.raises(InvalidValueError, match=r"None, which stands for the start.*\n.*such as 'end'"):
        delivered.extend(checkpoint(resuming, name="l", store=store))

    def guarded(position: Any) -> Any:
        if position != "end":
            yield from ((element, after or "end") for element, after in resuming(position))

    assert list(checkpoint(guarded, name="l", store=store)) == [2]
