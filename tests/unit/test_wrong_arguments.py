"""A wrong argument is refused at the call: the message names it and shows what was given, and no store is touched."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from typing import Any, NamedTuple

import pytest
from airflow.sdk import Asset, BaseOperator

from airflow_resume import PollPolicy, ResumePolicy, arun_job, checkpoint, run_job, watermark
from airflow_resume.backends import SqlStateStore, SqlStoreBackend
from airflow_resume.loops import Batches, CursorToken, Files, Keyset, Offset, PageNumber, Skip, TimeSlices
from airflow_resume.sinks import SqlSink
from airflow_resume.store import MemoryStore
from airflow_resume.testing import CrashWorld, FakeJobs, explore_crashes, explore_freezes, explore_interleavings
from airflow_resume.testing.errors import ExplorerError
from airflow_resume.watermarks import AsyncWatermark, Cursor, SqlColumn, sql_now
from airflow_resume_mixins import ResumableJobMixin
from tests.support.jobs.hooks import LookUpHooks

NEW_YEAR = datetime(2026, 1, 1, tzinfo=timezone.utc)
DAY = timedelta(days=1)
INT = Cursor.int()


class Untouched:
    """A store of which nothing is asked."""

    async def aget(self, *_given: Any) -> Any:
        raise AssertionError("the store was read")

    def get(self, *_given: Any) -> Any:
        raise AssertionError("the store was read")

    def set(self, *_given: Any) -> None:
        raise AssertionError("the store was written")

    async def aset(self, *_given: Any) -> None:
        raise AssertionError("the store was written")

    def delete(self, *_given: Any) -> None:
        raise AssertionError("the store was written")


class Job(LookUpHooks, ResumableJobMixin, BaseOperator):
    """An operator whose attributes are given by name, as those of a subclass are."""


def operated(**given: Any) -> None:
    options = {name: given.pop(name) for name in ("resume_policy", "durable") if name in given}
    operator = type("Job", (Job,), given)(task_id="t", **options)
    operator.execute_resumable({"task_state_store": Untouched()})


def explored(explore: Callable[..., Any]) -> Callable[..., Any]:
    def attempt(_world: CrashWorld) -> None:
        raise AssertionError("the attempt has run")

    first = {"runs": [attempt, attempt]} if explore is explore_interleavings else {"attempt": attempt}
    return lambda **given: explore(**{**first, "oracle": lambda _outcome: None, **given})


class Case(NamedTuple):
    """A public callable.

    Args:
        of: whose signature has the parameters.
        call: takes them by name, and gives the others that it needs itself.
        wrong: values that each parameter does not take.
        free: parameters that take anything.
    """

    of: Callable[..., Any]
    call: Callable[..., Any]
    wrong: dict[str, list[Any]]
    free: tuple[str, ...] = ()


def alike(given: list[Any], *names: str) -> dict[str, list[Any]]:
    """The same wrong values for several parameters."""
    return dict.fromkeys(names, given)


CHOICE: list[Any] = ["x", 3, None, [], True]
OPTIONAL_CHOICE: list[Any] = ["x", 3, [], True]
FLAG: list[Any] = ["yes", 1, 0, None, []]
WHOLE: list[Any] = ["3", 1.5, True, [], -1]
LENGTH: list[Any] = ["3", 3, True, [], -DAY]
NAME: list[Any] = [3, None, True, b"x", [], "", "a b"]
FUNCTION: list[Any] = [3, "x", True, []]
STORE: list[Any] = [3, "x", True, [], {}, MemoryStore]
CONTEXT: list[Any] = [3, "x", True, []]
MATCH: list[Any] = [3, "x", ("x",), [OSError], (int,), int]
LIMITS: dict[str, list[Any]] = alike([*WHOLE, None], "max_points", "max_pairs", "max_attempts")
EXPLORER: dict[str, list[Any]] = {
    **LIMITS,
    "oracle": [None, 3, "x", [3], True],
    "world": [None, 3, "x"],
    "kinds": [None, 3, "x", "crash", [3], True],
    "retry_on": [None, 3, "x", [OSError], (3,)],
    "only": [3, [], "x", True],
    "find_all": FLAG,
}
TURNS: dict[str, list[Any]] = {
    **EXPLORER,
    **alike(["3", 1.5, True, [], None], "switches", "max_ways", "max_points", "max_pairs"),
    "prune": FLAG,
    "watchdog": ["3", None, True, [], -1.0],
}
JOB: dict[str, list[Any]] = {
    "jobs": [3, "x", None, FakeJobs],
    "name": NAME,
    "policy": [3, "x", {}, ResumePolicy, PollPolicy(), None],
    "inputs": [object(), {1: 2}, float("nan")],
    "statuses": [3, "x", ["DONE"], {"DONE": 3}, {"DONE": "x"}],
    "context": CONTEXT,
    "store": STORE,
}


def job(**given: Any) -> None:
    run_job(**{"jobs": FakeJobs(), "store": Untouched(), **given})


def awaited_job(**given: Any) -> None:
    asyncio.run(arun_job(**{"jobs": FakeJobs(), "store": Untouched(), **given}))


def fetch(*_given: Any) -> Any:
    raise AssertionError("it was fetched")


def of(make: Callable[..., Any], **needed: Any) -> Callable[..., Any]:
    return lambda **given: make(**{**needed, **given})


FETCH: list[Any] = [3, "x", None, []]
CASES: dict[str, Case] = {
    "checkpoint": Case(
        checkpoint,
        of(checkpoint, source=[1], name="l"),
        {
            "source": [3, "x", None, b"x"],
            "name": NAME,
            "each": FLAG,
            **alike(CHOICE, "durability", "delivery", "ack", "on_clear", "on_unreadable"),
            "on_change": OPTIONAL_CHOICE,
            **alike(CHOICE, "on_done", "on_store_error", "on_empty", "on_short", "on_shutdown"),
            **alike([*LENGTH, None], "interval", "max_interval", "max_uncommitted"),
            "fingerprint": [3, "x", True, ["x"], {"x": object()}, {3: 1}],
            "skip": [3, "x", True, [], ValueError, Skip],
            "max_stalls": [*WHOLE, 0],
            "restart": FLAG,
            "within": [3, "x", True, []],
            "context": CONTEXT,
            "store": STORE,
            "sink": [3, "sqlite://", True, [], {}, SqlSink],
            "commit_every": ["3", 1.5, True, [], 0, -DAY, None],
        },
    ),
    "SqlSink": Case(
        SqlSink,
        of(SqlSink, database="sqlite://"),
        {
            "database": [3, None, True, [], MemoryStore()],
            "table": [3, None, True, [], ""],
            "schema": [3, True, [], ""],
            "script": [3, True, [], ""],
            "on_contention": CHOICE,
            "patience": [*LENGTH, None],
        },
    ),
    "Skip": Case(
        Skip, of(Skip, stalled=True), {"on": [3, "x", None, [OSError], (int,)], "limit": WHOLE, "stalled": FLAG}
    ),
    "Batches": Case(Batches, of(Batches, iterable=[1]), {"iterable": [3, "x", None], "size": [*WHOLE, None, 0]}),
    "Files": Case(Files, of(Files, paths=["a"]), {"paths": [3, "x", None], "identity": FUNCTION}),
    "Keyset": Case(
        Keyset,
        of(Keyset, fetch=fetch, key="id", limit=2),
        {
            "fetch": FETCH,
            "key": [3, None, [], (), ("id", 3)],
            "limit": [*WHOLE, None, 0],
            "descending": [3, "id", None, ("x",), ["id"]],
            "unique": FLAG,
        },
    ),
    "Offset": Case(
        Offset,
        of(Offset, fetch=fetch, limit=2),
        {"fetch": FETCH, "limit": [*WHOLE, None, 0], "check_repeats": FLAG},
    ),
    "PageNumber": Case(
        PageNumber,
        of(PageNumber, fetch=fetch),
        {
            "fetch": FETCH,
            "start": ["3", 1.5, True, [], None],
            "stop": WHOLE,
            "size": [*WHOLE, 0],
            "check_repeats": FLAG,
        },
    ),
    "CursorToken": Case(
        CursorToken,
        of(CursorToken, fetch=fetch),
        {
            "fetch": FETCH,
            "expired": [3, "x", int, ("x",)],
            "max_age": LENGTH,
            "on_expired": OPTIONAL_CHOICE,
            "max_empty": [*WHOLE, None],
            "now": [*FUNCTION, None],
            "monotonic": [*FUNCTION, None],
        },
    ),
    "TimeSlices": Case(
        TimeSlices,
        of(TimeSlices, start=NEW_YEAR, step=DAY),
        {
            "start": [3, "2026-01-01", None, NEW_YEAR.replace(tzinfo=None)],
            "end": [3, "2026-01-01", NEW_YEAR.replace(tzinfo=None)],
            "step": [*LENGTH, None, timedelta(0)],
            "now": [*FUNCTION, None],
        },
    ),
    "run_job": Case(run_job, job, JOB),
    "arun_job": Case(arun_job, awaited_job, JOB),
    "ResumePolicy": Case(
        ResumePolicy,
        ResumePolicy,
        {
            **alike(CHOICE, "on_clear", "on_input_change", "on_lost_submission", "on_failed_job"),
            **alike(CHOICE, "on_gone_job", "on_stray_job", "on_shutdown", "wait"),
            "cancel_on": [3, "user", None, ["x"], {3}, [[]]],
            "poll": [3, "x", None, {}, PollPolicy],
            "keep_result": FLAG,
            **alike([*LENGTH, None], "confirm_gone", "unknown_timeout"),
        },
    ),
    "PollPolicy": Case(
        PollPolicy,
        PollPolicy,
        {
            **alike([*LENGTH, None], "interval", "max_interval"),
            "timeout": LENGTH,
            "backoff": ["3", None, True, [], 0.5, float("nan")],
            "jitter": ["3", None, True, [], -0.5, float("nan")],
            "max_consecutive_errors": [*WHOLE, None, 0],
        },
    ),
    "watermark": Case(
        watermark,
        of(watermark, asset=Asset("a"), initial=0, delay=0),
        {
            "asset": [3, "a", None, Asset],
            "initial": [None, object(), [], True],
            "name": NAME,
            "cursor": [3, "int", True, [], Cursor.int, Cursor],
            "advance": OPTIONAL_CHOICE,
            **alike(["3", True, [], -1, DAY], "delay", "lookback", "max_span"),
            "now": FUNCTION,
            "nulls": OPTIONAL_CHOICE,
            **alike(CHOICE, "future", "when_empty", "backfill", "on_gap", "on_missing"),
            "partition": [object(), float("nan"), {3: 1}],
            "history": [*WHOLE, None],
            "migrate": FUNCTION,
            "shared": FLAG,
            "sql": [3, "x", True, object(), [3]],
        },
    ),
    "AsyncWatermark": Case(
        AsyncWatermark,
        of(AsyncWatermark, store=Untouched(), initial=0),
        {
            "store": [3, "x", None, {}, MemoryStore()],
            "initial": [None, object(), [], True],
            "name": NAME,
            "cursor": [3, "int", True, [], Cursor.int],
        },
    ),
    "SqlColumn": Case(
        SqlColumn,
        SqlColumn,
        {
            "type": OPTIONAL_CHOICE,
            "tz": [3, "x", True, []],
            "like": [3, "x", True, []],
            "digits": WHOLE,
            "driver": [3, "x", True, []],
        },
    ),
    "sql_now": Case(
        sql_now,
        of(sql_now, source="db"),
        {"source": [3, None, [], True], "tz": [3, "x", True, []], "query": [3, True, []]},
    ),
    "Cursor.datetime": Case(
        Cursor.datetime,
        Cursor.datetime,
        {"tz": [3, "x", True, []], "granularity": LENGTH, "naive": FLAG},
    ),
    "Cursor.date": Case(Cursor.date, Cursor.date, {"tz": [3, "x", True, []]}),
    "Cursor.int": Case(Cursor.int, Cursor.int, {"granularity": [1.5, True, [], -1]}),
    "Cursor.decimal": Case(Cursor.decimal, Cursor.decimal, {"granularity": [1.5, True, [], -1]}),
    "Cursor.text": Case(Cursor.text, Cursor.text, {"collation": [3, True, []]}),
    "Cursor.keyset": Case(
        Cursor.keyset,
        lambda **given: Cursor.keyset(*({"first": INT, "second": INT, "more": INT} | given).values()),
        alike([3, "x", None, Cursor.int], "first", "second", "more"),
    ),
    "SqlStoreBackend": Case(
        SqlStoreBackend,
        lambda **given: SqlStoreBackend(**({} if "conn_id" in given else {"url": "sqlite://"}) | given),
        {
            "url": [3, True, []],
            "conn_id": [3, True, []],
            "inline_bytes": WHOLE,
            "on_dangling": OPTIONAL_CHOICE,
            "max_value_bytes": [*WHOLE, None, 0],
            "keep_versions": [*WHOLE, 0],
            "codec": [3, True, [], object()],
            "patience": ["3", None, True, [], -1],
            "now": [*FUNCTION, None],
        },
    ),
    "SqlStateStore": Case(
        SqlStateStore,
        of(SqlStateStore, backend=SqlStoreBackend("sqlite://"), scope="s"),
        {"backend": [3, "x", None, SqlStoreBackend], "scope": [3, None, True, [], {}]},
    ),
    "explore_crashes": Case(
        explore_crashes,
        explored(explore_crashes),
        {
            **EXPLORER,
            "attempt": [None, 3, "x"],
            "errors": [None, 3, "x", [3], {3: OSError}, {"x": 3}, True],
            "double": FLAG,
            "allowed_to_fail": [None, 3, "x", [OSError], (3,)],
        },
    ),
    "explore_interleavings": Case(
        explore_interleavings,
        explored(explore_interleavings),
        {**TURNS, "runs": [None, 3, "x", [3, 4]], "may_fail": [None, 3, "x", [OSError], (3,)]},
    ),
    "explore_freezes": Case(explore_freezes, explored(explore_freezes), {**TURNS, "attempt": [None, 3, "x"]}),
}
OF_OPERATORS: dict[str, list[Any]] = {
    "resume_policy": [3, "x", {}, ResumePolicy],
    "durable": FLAG,
    "external_id_key": [3, None, True, b"x", []],
    "submission_is_idempotent": ["yes", 1, []],
    **alike(MATCH, "job_not_found", "transient_errors", "refused_errors", "ambiguous_errors"),
    **alike([3, "x", True], "find_job", "find_jobs", "cancel_job", "classify_job_status", "job_inputs"),
    **alike([3, "x", True], "job_trigger", "job_url", "get_job_result", "poll_until_complete"),
}


IN_WORDS = {
    "first": "part of a keyset",
    "second": "part of a keyset",
    "more": "part of a keyset",
    "sql": "column",
    "errors": "only=",
}
"""What a message calls an argument, where not by its name."""


def every_wrong_value() -> Iterator[Any]:
    cases = {
        **{name: (case.call, case.wrong) for name, case in CASES.items()},
        "ResumableJobMixin": (operated, OF_OPERATORS),
    }
    for name, (call, wrong) in cases.items():
        for parameter, given in wrong.items():
            for number, value in enumerate(given):
                yield pytest.param(call, parameter, value, id=f"{name}-{parameter}-{number}")


@pytest.mark.parametrize(("call", "parameter", "value"), every_wrong_value())
def test_a_wrong_argument_is_named_and_shown(call: Callable[..., Any], parameter: str, value: Any) -> None:
    with pytest.raises((TypeError, ValueError, ExplorerError)) as told:
        call(**{parameter: value})
    message = str(told.value)
    assert parameter in message.lower() or IN_WORDS[parameter] in message
    parts = [*value, *getattr(value, "values", list)()] if isinstance(value, (list, tuple, set, dict)) else []
    known = [*map(repr, [value, *parts]), getattr(value, "__name__", type(value).__name__)]
    assert any(text[:60] in message for text in known)


@pytest.mark.parametrize("name", CASES)
def test_every_parameter_has_wrong_values(name: str) -> None:
    case = CASES[name]
    assert {*case.wrong, *case.free} == set(inspect.signature(case.of).parameters)
