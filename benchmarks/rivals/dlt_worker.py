"""dlt's `incremental`: rows that pass through a resource, and the greatest cursor value of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import dlt  # type: ignore[import-not-found,unused-ignore]
from protocol import processor_time, serve

PAGE = 1_000


@lru_cache(maxsize=1)
def rows_of(count: int) -> list[dict[str, Any]]:
    return [{"x": number, "y": number} for number in range(count)]


def one_by_one(rows: list[dict[str, Any]]) -> Iterator[Any]:
    yield from rows


def in_pages(rows: list[dict[str, Any]]) -> Iterator[Any]:
    for start in range(0, len(rows), PAGE):
        yield rows[start : start + PAGE]


def incremental(rows: list[dict[str, Any]], deliver: Callable[[list[dict[str, Any]]], Iterator[Any]]) -> float:
    def resource(x: Any = dlt.sources.incremental("x", initial_value=0)) -> Iterator[Any]:  # noqa: B008  dlt's way
        yield from deliver(rows)

    through = dlt.resource(resource)()
    return processor_time(lambda: deque(through, maxlen=0))


serve(
    {
        "rows": lambda count: incremental(rows_of(count), one_by_one),
        "pages": lambda count: incremental(rows_of(count), in_pages),
    }
)
