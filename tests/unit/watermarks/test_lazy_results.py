"""A body that hands back its work undone: the window is not committed, in a function and in an operator."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, closing
from itertools import chain, islice
from typing import Any

import pandas as pd
import polars as pl
import pytest
from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowFailException
from sqlalchemy import create_engine, text

from airflow_resume.errors import UsageError
from airflow_resume.testing import TaskAttempt
from airflow_resume.watermarks import Window
from airflow_resume_mixins import WatermarkMixin
from tests.support.watermarks.whole_numbers import Counter, a_try, numbers, rows, stands

Body = Callable[[Window[Any]], Any]


async def later(window: Window[Any]) -> Window[Any]:
    return window


async def in_time(window: Window[Any]) -> Any:
    yield window


class Ahead:
    """An iterator of a class of its own."""

    def __iter__(self) -> Iterator[int]:
        return self

    def __next__(self) -> int:
        raise StopIteration


OPEN = ExitStack()
"""What a body has left open."""


def coroutine(window: Window[Any]) -> Any:
    return OPEN.enter_context(closing(later(window)))


def selected(window: Window[Any]) -> Any:
    return OPEN.enter_context(closing(sqlite3.connect(":memory:"))).execute("SELECT 3 AS n")


def selected_by_sqlalchemy(window: Window[Any]) -> Any:
    engine = create_engine("sqlite://")
    OPEN.callback(engine.dispose)
    return OPEN.enter_context(engine.connect()).execute(text("SELECT 3 AS n"))


LAZY: dict[str, Body] = {
    "generator": lambda window: (row for row in rows(3)),
    "map": lambda window: map(print, rows(3)),
    "filter": lambda window: filter(None, rows(3)),
    "zip": lambda window: zip(rows(3), rows(4), strict=True),
    "chain": lambda window: chain(rows(3), rows(4)),
    "islice": lambda window: islice(rows(3), 1),
    "iter": lambda window: iter(rows(3)),
    "tracked rows": lambda window: window.track(rows(3), "n"),
    "slices": lambda window: window.split(1),
    "iterator of a class": lambda window: Ahead(),
    "coroutine": coroutine,
    "asynchronous generator": in_time,
    "future": lambda window: Future(),
    "lazy frame": lambda window: pl.LazyFrame({"n": [3]}),
    "chunks": lambda window: pd.DataFrame({"n": [3]}).itertuples(),
    "cursor": selected,
    "result of SQLAlchemy": selected_by_sqlalchemy,
    "in a tuple": lambda window: (map(print, rows(3)), 3),
    "in a dict": lambda window: {"rows": map(print, rows(3))},
}


def in_a_function(body: Body, _: TaskAttempt) -> Any:
    def load(window: Window[Any]) -> Any:
        return body(window)

    return numbers(Counter(10))(load)()


def in_an_operator(body: Body, attempt: TaskAttempt) -> Any:
    class Load(WatermarkMixin, BaseOperator):
        watermark = numbers(Counter(10))

        def execute_window(self, context: Any, window: Window[Any]) -> Any:
            return body(window)

    return Load(task_id="load").execute(attempt.context)  # type: ignore[arg-type]


@pytest.mark.parametrize("where", [in_a_function, in_an_operator])
@pytest.mark.parametrize("name", list(LAZY))
def test_work_that_is_not_done_commits_nothing(where: Any, name: str) -> None:
    undone = pytest.raises(TypeError, match=r"its work is not done.*\nReturn a list of what it gives")
    name_of_body = "load" if where is in_a_function else "execute_window of Load"
    with OPEN, a_try() as attempt, undone as raised:
        where(LAZY[name], attempt)
    assert str(raised.value).startswith("load returned a" if where is in_a_function else "execute_window of Load")
    assert isinstance(raised.value, AirflowFailException)  # the next try would return it too
    assert isinstance(raised.value, UsageError)
    assert raised.value.name == name_of_body
    assert stands(attempt) == "0"


def inserted(window: Window[Any]) -> Any:
    with closing(sqlite3.connect(":memory:")) as database:
        return database.execute("CREATE TABLE t (n)")


def inserted_by_sqlalchemy(window: Window[Any]) -> Any:
    engine = create_engine("sqlite://")
    with engine.begin() as connection:
        return connection.execute(text("CREATE TABLE t (n)"))


def done(window: Window[Any]) -> Future[int]:
    future: Future[int] = Future()
    future.set_result(3)
    return future


DONE: dict[str, Body] = {
    "nothing": lambda window: None,
    "list": lambda window: rows(3),
    "tuple": lambda window: (3, "x"),
    "dict": lambda window: {"n": [3]},
    "text": lambda window: "x",
    "range": lambda window: range(3),
    "frame": lambda window: pd.DataFrame({"n": [3]}),
    "polars": lambda window: pl.DataFrame({"n": [3]}),
    "cursor of an INSERT": inserted,
    "result of an INSERT": inserted_by_sqlalchemy,
    "done future": done,
}


@pytest.mark.parametrize("where", [in_a_function, in_an_operator])
@pytest.mark.parametrize("name", list(DONE))
def test_work_that_is_done_is_committed(where: Any, name: str) -> None:
    with a_try() as attempt:
        where(DONE[name], attempt)
    assert stands(attempt) == "10"


def test_an_asynchronous_body_is_awaited_and_its_result_looked_at() -> None:
    async def lazily(window: Window[Any]) -> Any:
        return map(print, rows(3))

    async def fully(window: Window[Any]) -> Any:
        return rows(3)

    attempt = a_try()
    with attempt, pytest.raises(TypeError, match="lazily returned a map"):
        asyncio.run(numbers(Counter(10))(lazily)())
    assert stands(attempt) == "0"
    with attempt.retry():
        assert asyncio.run(numbers(Counter(10))(fully)()) == rows(3)
    assert stands(attempt) == "10"
