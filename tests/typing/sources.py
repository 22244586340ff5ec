"""What users' type checkers see of the sources of a loop. Checked by mypy and pyright, never executed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

from typing_extensions import assert_type

from airflow_resume.loops import (
    Batches,
    CursorToken,
    Files,
    Keyset,
    Offset,
    Page,
    PageNumber,
)
from airflow_resume.loops.serial.each import Each
from airflow_resume.loops.sources.stateful import ResumeFunction, Stateful


def fetch(_token: Any) -> Page[dict[str, int]]:
    return Page([])


async def afetch(_token: Any) -> Page[int]:
    return Page([])


def numbered(_number: int) -> list[str]:
    return []


async def anumbered(_number: int) -> Page[str]:
    return Page([])


def behind(_after: int | None, _limit: int) -> list[dict[str, int]]:
    return []


def resumed(_position: int | None) -> Iterator[tuple[str, int]]:
    yield "", 1


async def aresumed(_position: Any) -> AsyncIterator[tuple[str, int]]:
    yield "", 1


class Reader:
    def state_dict(self) -> dict[str, int]:
        return {}

    def load_state_dict(self, state: dict[str, int]) -> None: ...

    def __iter__(self) -> Iterator[float]:
        return iter([1.0])


assert_type(CursorToken(fetch), CursorToken[dict[str, int]])
assert_type(CursorToken(afetch, expired=lambda error: "410" in str(error)), CursorToken[int])
assert_type(CursorToken(afetch, expired=(KeyError, LookupError)), CursorToken[int])
assert_type(PageNumber(numbered), PageNumber[str])
assert_type(PageNumber(anumbered), PageNumber[str])
assert_type(Offset(lambda _offset, _limit: [1], limit=2), Offset[int])
assert_type(Keyset(behind, key="id", limit=3), Keyset[dict[str, int]])
assert_type(Batches([1]), Batches[int])
assert_type(Batches([1], size=2), Batches[list[int]])
assert_type(Files([Path()]), Files[Path])
assert_type(Stateful(Reader()), Stateful[float])
assert_type(ResumeFunction(resumed), ResumeFunction[str])
assert_type(ResumeFunction(aresumed), ResumeFunction[str])
assert_type(Each(CursorToken(fetch)), Each[dict[str, int]])
assert_type(Each(Batches([1], size=2)), Each[int])
assert_type(Each(PageNumber(numbered)), Each[str])
