"""The options that all sinks of lakes have in common, which are checked in one way."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from airflow_resume.sinks import DeltaSink, IcebergSink, ObjectSink
from airflow_resume.sinks.lake_options import LakeSink

SINKS: dict[str, Callable[..., LakeSink]] = {
    "delta": lambda **options: DeltaSink("flights", **options),
    "iceberg": lambda **options: IcebergSink("lake.flights", **options),
    "objects": lambda **options: ObjectSink("flights", **options),
}


@pytest.fixture(params=SINKS)
def sink_with(request: pytest.FixtureRequest) -> Callable[..., LakeSink]:
    return SINKS[request.param]


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        ({"on_contention": "x"}, ValueError, "on_contention='x'"),
        ({"on_contention": ["wait"]}, (TypeError, ValueError), "on_contention="),
        ({"patience": 3}, TypeError, "patience=3"),
        ({"patience": timedelta(seconds=-1)}, ValueError, "patience="),
        ({"script": 3}, TypeError, "script=3 must be a name"),
    ],
    ids=str,
)
def test_wrong_options_are_refused_at_once_by_all(
    sink_with: Callable[..., LakeSink], wrong: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        sink_with(**wrong)


@pytest.mark.parametrize("name", SINKS)
def test_options_of_a_store_that_are_no_dict_are_not_shown_as_they_may_have_secrets(name: str) -> None:
    option = "catalog_options" if name == "iceberg" else "storage_options"
    with pytest.raises(TypeError, match=f"{option}= was given a value of the type str") as raised:
        SINKS[name](**{option: "token=secret"})
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize("name", SINKS)
def test_options_of_a_store_are_copied(name: str) -> None:
    option = "catalog_options" if name == "iceberg" else "storage_options"
    given = {"a": "b"}
    sink: Any = SINKS[name](**{option: given})
    given["a"] = "c"
    assert sink._options == {"a": "b"}


def test_each_is_shown_by_its_name_and_its_target(sink_with: Callable[..., LakeSink]) -> None:
    sink = sink_with(script="s")
    assert repr(sink) == f"<{type(sink).__name__} {sink.target!r}>"
    assert sink.script == "s"
