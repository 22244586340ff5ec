"""What a task can find out about the state stores, as cases that run on Airflow's accessors and on the fakes alike.

A case is a list of calls; its outcome is what each of them returned or raised. The life-cycle cases are told by
several attempts of one task, with an event between them.
"""

from __future__ import annotations

import asyncio
import collections
import dataclasses
import datetime as dt
import decimal
import enum
import pathlib
import uuid
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from typing import Any

from airflow.sdk import Asset
from airflow.sdk.execution_time.context import NEVER_EXPIRE
from pydantic import BaseModel

NOT_FOUND = 404

Call = tuple[Any, ...]
"""The name of a method and its arguments; a callable argument is called first; a last dict of options by `**`."""

ONE = Asset("facts_one")
FIRST = Asset("facts_first", uri="s3://facts/first")
SECOND = Asset("facts_second")
LIFE = Asset("facts_life")
CLEARED = Asset("facts_cleared")
MAPPED = Asset("facts_mapped")
RUNS = Asset("facts_runs")


# --- outcomes -------------------------------------------------------------------------------------------------


def outcome(call: Callable[[], object]) -> str:
    """What the call returned, or raised, as text that is equal exactly when they are the same."""
    try:
        return _shortened(repr(call()))
    except Exception as error:  # noqa: BLE001  it is the outcome
        return _raised(error)


def _shortened(text: str, most: int = 120) -> str:
    return text if len(text) <= most else f"{text[:most]}... {len(text)}"


def _raised(error: Exception) -> str:
    answer = getattr(error, "error", None)
    if answer is None:
        return f"raised {type(error).__name__}"
    status = (answer.detail or {}).get("status_code")
    return (
        f"raised {type(error).__name__} {answer.error.value} {status}{_unknown(answer) if status == NOT_FOUND else ''}"
    )


def _unknown(answer: Any) -> str:
    """What the API server does not know: the task instance, the asset, or the path."""
    said = answer.detail["detail"]["detail"]
    return " " + (said if isinstance(said, str) else f"{said['reason']} {said['message'].split()[0]}")


def run_case(store: Any, calls: list[Call]) -> list[str]:
    """Make the calls on a store that is emptied first."""
    store.clear()
    return [outcome(lambda call=call: _make(store, call)) for call in calls]  # type: ignore[misc]


def _make(store: Any, call: Call) -> object:
    name, *arguments = call
    options = arguments.pop()[0] if arguments and isinstance(arguments[-1], Options) else {}
    found = getattr(store, name)(*[argument() if callable(argument) else argument for argument in arguments], **options)
    return asyncio.run(found) if asyncio.iscoroutine(found) else found


class Options(tuple):
    """Marks the keyword arguments of a call."""

    __slots__ = ()


def options(**given: object) -> Options:
    return Options([given])


# --- values ---------------------------------------------------------------------------------------------------


class Colour(str, enum.Enum):
    RED = "red"


class Number(enum.IntEnum):
    ONE = 1


class Plain(enum.Enum):
    A = "a"


class Text(str):
    __slots__ = ()


class Whole(int):
    pass


class Row(list):
    pass


@dataclasses.dataclass
class Point:
    x: int = 1


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth - 1):
        value = [value]
    return value


def nested_dict(depth: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(depth - 1):
        value = {"k": value}
    return value


_NAN, _INF = float("nan"), float("inf")
_DAY = dt.datetime(2026, 1, 2, 3, 4, tzinfo=dt.timezone.utc)

VALUES: dict[str, Any] = {
    "text": "v",
    "empty text": "",
    "unicode": "grün \U0001f600 \u2028",
    "NUL in text": "a\x00b",
    "long text": "x" * 70_000,
    "very long text": "x" * 1_000_000,
    "zero": 0,
    "false": False,
    "true": True,
    "float": 1.5,
    "whole float": 5.0,
    "minus zero": -0.0,
    "large float": 1e300,
    "exact float": 0.1 + 0.2,
    "2^53+1": 2**53 + 1,
    "2^63": 2**63,
    "2^64-1": 2**64 - 1,
    "2^64": 2**64,
    "-2^63": -(2**63),
    "-2^63-1": -(2**63) - 1,
    "list with 2^64": [2**64],
    "empty list": [],
    "empty dict": {},
    "mixed": {"a": [1, "b", {"c": False}], "": 0.5},
    "order of keys": {"b": 1, "a": 2},
    "None": None,
    "nested None": [None, {"a": None}],
    "NaN": _NAN,
    "infinity": _INF,
    "nested NaN": [_NAN],
    "nested infinity": {"a": -_INF},
    "datetime": _DAY,
    "nested datetime": [_DAY],
    "date": _DAY.date(),
    "timedelta": dt.timedelta(1),
    "tuple": (1, 2),
    "nested tuple": {"a": (1, 2)},
    "set": {1},
    "bytes": b"b",
    "bytearray": bytearray(b"b"),
    "Decimal": decimal.Decimal("1.5"),
    "UUID": uuid.UUID(int=1),
    "complex": 1j,
    "path": pathlib.PurePosixPath("p"),
    "object": Point(),
    "int keys": {1: "a"},
    "nested int keys": [{1: "a"}],
    "None key": {None: "a"},
    "enum of text": Colour.RED,
    "enum of int": Number.ONE,
    "other enum": Plain.A,
    "nested enums": [Colour.RED, Number.ONE],
    "enum key": {Colour.RED: 1},
    "text of a subclass": Text("t"),
    "int of a subclass": Whole(3),
    "list of a subclass": Row([1]),
    "OrderedDict": collections.OrderedDict(b=1, a=2),
    "lone surrogate": "\ud800",
    "nested surrogate": ["\udfff"],
    "surrogate key": {"\ud800": 1},
    "nesting of 100": nested(100),
    "nesting of 150": nested(150),
    "nesting of 190": nested(190),
    "dicts nested 150": nested_dict(150),
    "nesting of 200": nested(200),
    "nesting of 250": nested(250),
    "nesting of 260": nested(260),
    "nesting of 1000": nested(1000),
}


# --- keys -----------------------------------------------------------------------------------------------------

KEYS: dict[str, Any] = {
    "plain": "k",
    "ours": "resume.job.a-b:c%20_d",
    "slash": "a/b",
    "slash at the end": "a/",
    "slash at the start": "/a",
    "slash only": "/",
    "space": "a b",
    "space only": " ",
    "space at the end": "a ",
    "unicode": "grün",
    "question mark": "a?b=c",
    "hash": "a#b",
    "percent": "%",
    "percent slash": "a%2Fb",
    "plus": "a+b",
    "newline": "a\nb",
    "newline at the end": "a\n",
    "tab": "a\tb",
    "NUL": "a\x00b",
    "empty": "",
    "one dot": ".",
    "two dots": "..",
    "three dots": "...",
    "dot and slash": "./a",
    "dots in between": "a/../b",
    "dot in between": "a/./b",
    "dots at the end": "a/..",
    "percent dot": "%2E",
    "512 characters": "x" * 512,
    "513 characters": "x" * 513,
    "2000 characters": "x" * 2000,
    "lone surrogate": "\ud800",
    "int": 5,
    "None": None,
    "bytes": b"k",
    "text of a subclass": Text("t"),
    "enum of text": Colour.RED,
}


def _value_case(value: object) -> list[Call]:
    def given() -> object:
        return value

    return [("set", "k", given), ("get", "k", "default")]


def _key_case(key: object) -> list[Call]:
    return [
        ("set", "witness", 1),
        ("set", key, 2),
        ("get", key, "default"),
        ("delete", key),
        ("get", key, "default"),
        ("get", "witness"),
    ]


_BOTH: dict[str, list[Call]] = {
    **{f"value: {name}": _value_case(value) for name, value in VALUES.items()},
    **{f"key: {name}": _key_case(key) for name, key in KEYS.items()},
    "a missing key": [("get", "k"), ("get", "k", None), ("get", "k", [1]), ("get", "k", options(default="d"))],
    "any default is given back as it is": [("get", "k", lambda: (1, 2)), ("get", "k", b"d")],
    "delete of a missing key": [("delete", "k")],
    "delete twice": [("set", "k", 1), ("delete", "k"), ("delete", "k"), ("get", "k")],
    "the last write wins": [("set", "k", 1), ("set", "k", {"a": 2}), ("get", "k")],
    "clear": [("set", "a", 1), ("set", "b", 2), ("clear",), ("get", "a"), ("get", "b"), ("clear",)],
    "keys differ by case": [("set", "k", 1), ("get", "K")],
    "a refused write leaves the value": [("set", "k", 1), ("set", "k", None), ("set", "k", b"b"), ("get", "k")],
    "a write of NaN leaves the value": [("set", "k", 1), ("set", "k", _NAN), ("get", "k")],
    "a set without a value": [("set", "k")],
    "a get without a key": [("get",)],
    "a list of keys": [("keys",), ("items",)],
}

TASK_CASES: dict[str, list[Call]] = {
    **_BOTH,
    "retention: for ever": [("set", "k", 1, options(retention=NEVER_EXPIRE)), ("get", "k")],
    "retention: an hour": [("set", "k", 1, options(retention=dt.timedelta(hours=1))), ("get", "k")],
    "retention: past, and not collected yet": [
        ("set", "k", 1, options(retention=dt.timedelta(seconds=-1))),
        ("get", "k"),
    ],
    "retention: none": [("set", "k", 1, options(retention=None)), ("get", "k")],
    "retention: the largest, but another": [
        ("set", "k", 1, options(retention=dt.timedelta(days=999_999_999, hours=23, minutes=59, seconds=59)))
    ],
    "retention: seconds": [("set", "k", 1, options(retention=60)), ("get", "k")],
    "retention: by position": [("set", "k", 1, dt.timedelta(1))],
    "retention: of a value that is refused": [("set", "k", None, options(retention=60))],
    "no async methods": [("aget", "k"), ("aset", "k", 1), ("adelete", "k"), ("aclear",)],
}

ASSET_CASES: dict[str, list[Call]] = {
    **_BOTH,
    "no retention": [("set", "k", 1, options(retention=NEVER_EXPIRE)), ("get", "k")],
    "async methods": [
        ("aget", "k", "default"),
        ("aset", "k", {"a": 1}),
        ("aget", "k"),
        ("get", "k"),
        ("adelete", "k"),
        ("aget", "k"),
        ("aset", "k", 2),
        ("aclear",),
        ("get", "k"),
    ],
    "async methods refuse alike": [("aset", "k", None), ("aset", "k", b"b"), ("aset", "k", 2**64), ("aset", "", 1)],
}


# --- assets ---------------------------------------------------------------------------------------------------


def asset_look_ups(stores: Any) -> dict[str, str]:
    """Of a task with the inlet FIRST, and the outlets FIRST, SECOND and a reference to ONE by name."""
    stores[FIRST].clear()
    stores[SECOND].clear()
    looks: dict[str, Callable[[], object]] = {
        "by asset": lambda: stores[FIRST].set("k", 1),
        "by name": lambda: stores[Asset.ref(name="facts_first")].get("k"),
        "by an asset of that name and another uri": lambda: stores[Asset("facts_first", uri="s3://other")].get("k"),
        "by uri": lambda: stores[Asset.ref(uri="s3://facts/first")].get("k"),
        "another asset": lambda: stores[SECOND].get("k", "default"),
        "a declared reference": lambda: stores[Asset.ref(name="facts_one")].get("nothing"),
        "the asset of a declared reference": lambda: stores[ONE].get("nothing"),
        "an undeclared asset": lambda: stores[Asset("facts_other")],
        "an undeclared uri": lambda: stores[Asset.ref(uri="s3://other")],
        "a text": lambda: stores["facts_first"],
        "the short form with several": lambda: stores.get("k"),
        "the short form of set with several": lambda: stores.set("k", 1),
        "the short form of clear with several": stores.clear,
        "the async short form with several": lambda: asyncio.run(stores.aget("k")),
        "is a mapping": lambda: isinstance(stores, Mapping),
    }
    return {name: outcome(look) for name, look in looks.items()}


def look_ups_of_an_unknown_asset(stores: Any) -> dict[str, str]:
    """Of a task whose only outlet is a reference by a uri that no active asset has."""
    looks: dict[str, Callable[[], object]] = {
        "get": lambda: stores.get("k"),
        "get with a default": lambda: stores.get("k", "default"),
        "set": lambda: stores.set("k", 1),
        "delete": lambda: stores.delete("k"),
        "clear": stores.clear,
        "by uri": lambda: stores[Asset.ref(uri="s3://facts/nowhere")].get("k"),
    }
    return {name: outcome(look) for name, look in looks.items()}


def all_of(store: Any, cases: Mapping[str, list[Call]]) -> dict[str, list[str]]:
    """The outcome of every case."""
    return {name: run_case(store, calls) for name, calls in cases.items()}


# --- life cycle -----------------------------------------------------------------------------------------------


def seen_by_an_attempt(context: Any, mark: object) -> dict[str, Any]:
    """What an attempt of a task with one asset finds, and it leaves `mark` under the key `last`."""
    ti, store, asset = context["ti"], context["task_state_store"], context["asset_state_store"]
    found = {
        "try_number": ti.try_number,
        "max_tries": ti.max_tries,
        "clear_number": context["dag_run"].clear_number,
        "map_index": ti.map_index,
        "last": outcome(lambda: store.get("last")),
        "of the asset": outcome(lambda: asset.get("last")),
        "XCom": outcome(lambda: ti.xcom_pull(key="last", map_indexes=ti.map_index)),
        "context": seen_of_the_context(context),
    }
    found["push"] = outcome(lambda: ti.xcom_push("last", mark))
    found["pull"] = outcome(lambda: ti.xcom_pull(key="last", map_indexes=ti.map_index))
    found["set"] = outcome(lambda: store.set("last", mark))
    found["set of the asset"] = outcome(lambda: asset.set("last", mark))
    return found


def seen_of_the_context(context: Any) -> dict[str, Any]:
    """What stands in the context, besides the stores and events."""
    ti, run = context["ti"], context["dag_run"]
    looks: dict[str, Callable[[], object]] = {
        "the same task": lambda: context["task"] is ti.task,
        "the same ti": lambda: context["task_instance"] is ti,
        "get_template_context": lambda: ti.get_template_context() is context,
        "Dag": lambda: (context["dag"].dag_id, ti.task_id in context["dag"].task_ids),
        "task": lambda: (ti.task.task_id, ti.task.retries, ti.task.params == {}, ti.task.map_index_template),
        "key": lambda: context["task_instance_key_str"] == f"{ti.dag_id}__{ti.task_id}__{ti.run_id}",
        "count": lambda: context["task_reschedule_count"],
        "params": lambda: context["params"],
        "partition": lambda: (context["partition_key"], context["partition_date"]),
        "no success before": lambda: [context[f"prev_{name}_date_success"] == None for name in ("start", "end")],  # noqa: E711
        "no logical date": lambda: context["logical_date"],
        "no ds": lambda: context["ds"],
        "macro": lambda: context["macros"].ds_add("2026-01-01", 1),
        "variable": lambda: context["var"]["value"].get("no_such", "default"),
        "triggering events": lambda: len(context["triggering_asset_events"]),
        **{f"{name} of the run": lambda name=name: getattr(run, name) for name in _OF_A_RUN},  # type: ignore[misc, dict-item]
        "a field that runs do not have": lambda: run.nothing,
        "state": lambda: (ti.state, ti.is_mapped, ti.end_date, ti.rendered_map_index, ti.queue),
        "ids": lambda: (ti.id.version, ti.dag_version_id.version, ti.id == ti.dag_version_id),
        "host": lambda: isinstance(ti.hostname, str),
        "log": lambda: ti.log_url.split("/runs/")[1].replace(ti.run_id, "RUN"),
        "state of the run": lambda: str(ti.get_dagrun_state(ti.dag_id, ti.run_id)),
        "times": lambda: run.run_after <= run.start_date <= ti.start_date,
    }
    keys = sorted(set(context) - _KEYS_OF_TASKFLOW)
    return {"keys": keys, **{name: outcome(look) for name, look in looks.items()}}


def attributes_of(context: Any) -> dict[str, dict[str, str]]:
    """The names of what a task can use of the objects of its context, with their types."""
    found = {"ti": context["ti"], "dag_run": context["dag_run"]}
    return {name: _types_of(thing) for name, thing in found.items()}


def _types_of(thing: Any) -> dict[str, str]:
    names = [name for name in {*dir(thing), *vars(thing)} if not (name.startswith("_") or hasattr(BaseModel, name))]
    types: dict[str, str] = {}
    for name in sorted(names):
        with suppress(AttributeError):
            value = getattr(thing, name)
            types[name] = "function" if callable(value) else _KINDS.get(type(value).__name__, type(value).__name__)
    return types


_KINDS = {"DateTime": "datetime", "TaskInstanceState": "str", "DagRunState": "str", "DagRunType": "str"}
_KINDS |= {"_PythonDecoratedOperator": "operator", "PlainTask": "operator"}
"""Of subclasses, the class of which they are."""

_KEYS_OF_TASKFLOW = {"templates_dict", "item"}
"""What the operator of a `@task` adds: a key of its own, and the arguments of the function."""

_OF_A_RUN = (
    "logical_date",
    "data_interval_start",
    "data_interval_end",
    "end_date",
    "run_type",
    "state",
    "conf",
    "consumed_asset_events",
    "partition_key",
    "partition_date",
    "note",
    "team_name",
)


def seen_of_xcoms(context: Any, mark: object) -> dict[str, str]:
    """What pulls of all kinds give, in one run after another."""
    ti = context["ti"]
    values: dict[str, object] = {
        "mark": mark,
        "a tuple": (1, (2, "b")),
        "a time": _DAY,
        "a set": {1},
        "nothing": None,
        "zero": 0,
        "an object": object(),
        "a dict": {"a": [1, 2.5, None]},
    }
    pushes = {f"push of {key}": outcome(lambda key=key: ti.xcom_push(key, values[key])) for key in values}  # type: ignore[misc]
    looks: dict[str, Callable[[], object]] = {
        **{f"pull of {key}": lambda key=key: ti.xcom_pull(key=key) for key in values},  # type: ignore[misc, dict-item]
        "a missing key": lambda: ti.xcom_pull(key="no"),
        "a missing key with a default": lambda: ti.xcom_pull(key="no", default=7),
        "a default for what is None": lambda: ti.xcom_pull(key="nothing", map_indexes=-1, default=7),
        "by index": lambda: ti.xcom_pull(key="mark", map_indexes=-1),
        "by no index": lambda: ti.xcom_pull(key="mark", map_indexes=None),
        "by another index": lambda: ti.xcom_pull(key="mark", map_indexes=3, default=7),
        "by indices": lambda: ti.xcom_pull(key="mark", map_indexes=[-1, 3], default=7),
        "of a task": lambda: ti.xcom_pull("run", key="mark"),
        "of tasks": lambda: ti.xcom_pull(["run", "other"], key="mark"),
        "of a list of one task": lambda: ti.xcom_pull(["run"], key="mark"),
        "of a list by index": lambda: ti.xcom_pull(["run"], key="mark", map_indexes=-1),
        "of no task": lambda: ti.xcom_pull([], key="mark"),
        "of another Dag": lambda: ti.xcom_pull("run", dag_id="other", key="mark"),
        "of the first run": lambda: ti.xcom_pull(key="mark", run_id="run-1"),
        "with those of before": lambda: _sorted(ti.xcom_pull(key="mark", include_prior_dates=True)),
        "the newest with those of before": lambda: ti.xcom_pull(key="mark", include_prior_dates=True, map_indexes=-1),
        "what was returned": ti.xcom_pull,
    }
    return {**pushes, **{name: outcome(look) for name, look in looks.items()}}


def _sorted(found: Any) -> Any:
    return sorted(found) if isinstance(found, list) else found


def seen_when_replaced(context: Any) -> dict[str, str]:
    """What an attempt finds after it was cleared while it ran; `last` had been set before."""
    store, asset, ti = context["task_state_store"], context["asset_state_store"], context["ti"]
    looks: dict[str, Callable[[], object]] = {
        "pull": lambda: ti.xcom_pull(key="last"),
        "push": lambda: ti.xcom_push("late", 1),
        "pull what was pushed": lambda: ti.xcom_pull(key="late"),
        "get": lambda: store.get("last", "default"),
        "set": lambda: store.set("last", "late"),
        "delete": lambda: store.delete("last"),
        "clear": store.clear,
        "get of the asset": lambda: asset.get("last"),
        "set of the asset": lambda: asset.set("late", 1),
        "delete of the asset": lambda: asset.delete("late"),
    }
    return {name: outcome(look) for name, look in looks.items()}


def seen_of_events(context: Any, mark: object) -> dict[str, str]:
    """What the events of earlier runs say, and this one leaves `mark` in its own."""
    context["outlet_events"][RUNS].extra["mark"] = mark
    events = context["inlet_events"][RUNS]
    looks: dict[str, Callable[[], object]] = {
        "all": lambda: [event.extra for event in events],
        "newest": lambda: [event.extra for event in context["inlet_events"][RUNS].ascending(False).limit(1)],
        "last one": lambda: context["inlet_events"][0][-1].extra,
        "number": lambda: len(context["inlet_events"][Asset.ref(name="facts_runs")]),
        "source": lambda: [(event.source_task_id, event.source_map_index) for event in events],
        "later ones": lambda: len(context["inlet_events"][RUNS].after("2100-01-01T00:00:00+00:00")),
        "earlier ones": lambda: len(context["inlet_events"][RUNS].before("2000-01-01T00:00:00+00:00")),
        "another asset": lambda: context["inlet_events"][ONE],
    }
    return {name: outcome(look) for name, look in looks.items()}


class LeftOpen:
    """An asynchronous generator that is held when an attempt ends, and what is to be seen then."""

    def __init__(self, context: Any) -> None:
        self._store = context["task_state_store"]
        self._finalised = False
        self.elements = self._generator()

    async def _generator(self) -> AsyncIterator[int]:
        self._event_loop = asyncio.get_running_loop()
        try:
            yield 1
        finally:
            self._finalised = True

    def seen(self) -> dict[str, object]:
        return {
            "set": outcome(lambda: self._store.set("last", "word")),
            "get": outcome(lambda: self._store.get("last")),
            "finalised": self._finalised,
            "event loop runs": self._event_loop.is_running(),
        }
