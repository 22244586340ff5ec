"""A Dag with our objects in it is the same in every process: another order or address would be another Dag version."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.airflow import serialised_dag
from tests.support.airflow.serialised_dag import SECRET, objects

SCRIPT = Path(serialised_dag.__file__)
PROCESSES = range(4)


@pytest.fixture(scope="module")
def serialised(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """By processes with another order of sets and another layout of the memory each."""
    environment = {
        **os.environ,
        "AIRFLOW_HOME": str(tmp_path_factory.mktemp("home")),
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    }
    started = [
        subprocess.Popen(
            [sys.executable, str(SCRIPT), str(number)],
            env={**environment, "PYTHONHASHSEED": str(number)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in PROCESSES
    ]
    found = [process.communicate()[0] for process in started]
    assert [process.returncode for process in started] == [0 for _ in PROCESSES]
    return found


def test_a_dag_is_serialised_alike_by_every_process(serialised: list[str]) -> None:
    assert _differing(serialised) == []


def _differing(serialised: list[str]) -> list[str]:
    """Lines of the first that are not alike in all."""
    return [lines[0] for lines in zip(*(text.splitlines() for text in serialised), strict=True) if len({*lines}) > 1]


def test_no_address_and_no_secret_is_in_it(serialised: list[str]) -> None:
    assert re.findall(r"0x[0-9a-f]{4,}", serialised[0]) == []
    assert SECRET not in serialised[0]


def test_all_objects_are_in_it(serialised: list[str]) -> None:
    default_args: dict[str, Any] = json.loads(serialised[0])["dag"]["default_args"]["__var"]
    assert default_args.keys() >= objects().keys()


@pytest.mark.parametrize("name", [name for name in objects() if not name.startswith("policy")])
def test_an_object_shows_no_address_and_no_secret(name: str) -> None:
    shown = repr(objects()[name])
    assert not re.search(r"0x[0-9a-f]{4,}", shown)
    assert SECRET not in shown
