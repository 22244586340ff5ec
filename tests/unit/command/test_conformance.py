from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from airflow_resume.command import conformance
from airflow_resume.command.conformance import fixture_of

Command = Callable[..., Any]
Module = Callable[[str], str]

STORES = """
from contextlib import contextmanager
from functools import partial
from tempfile import TemporaryDirectory

from airflow_resume.backends import SqlStateStore, SqlStoreBackend


def backend():
    print("opened")
    return SqlStoreBackend("sqlite://")


def store():
    return SqlStateStore(backend(), "scope")


@contextmanager
def managed():
    yield store()


@contextmanager
def opener():
    with TemporaryDirectory() as folder:
        yield partial(SqlStoreBackend, f"sqlite:///{folder}/state.db")


class Forgetful(dict):
    def set(self, key, value):
        pass

    def delete(self, key):
        pass


def fails():
    raise OSError("no route to host")


def number():
    return 1


not_a_function = 1
"""

FEW = "test_abilities or test_a_missing_key or scan or opened_again"


@pytest.mark.parametrize(
    ("factory", "fixture"),
    [("backend", "backend"), ("store", "store"), ("managed", "store"), ("opener", "open_backend")],
)
def test_what_a_factory_makes_is_found_out(module: Module, factory: str, fixture: str) -> None:
    assert fixture_of(f"{module(STORES)}:{factory}") == fixture


def test_the_groups_the_abilities_and_why_tests_were_skipped_are_one_document(command: Command, module: Module) -> None:
    name = f"{module(STORES)}:backend"
    code, out, err = command("conformance", name, "-k", FEW, "-o", "json")
    found = json.loads(out)
    assert (code, err, found["factory"], found["supplied_as"]) == (0, "opened\n", name, "backend")
    assert found["abilities"]["several scopes"]
    assert not found["abilities"]["scan"]
    assert found["groups"]["extras"] == {"passed": 1, "failed": 0, "skipped": 2}
    assert found["skipped"]["no scan: give the store a method `scan(prefix)`"] == 2
    assert found["failed"] == {}


def test_a_factory_that_gives_a_function_is_tested_over_processes(command: Command, module: Module) -> None:
    code, out, _ = command("conformance", f"{module(STORES)}:opener", "-k", "opened_again")
    assert code == 0
    assert out.splitlines() == ["GROUP      PASSED  FAILED  SKIPPED", "processes  2       0       0"]


def test_a_store_that_fails_ends_with_1_and_says_in_what(command: Command, module: Module) -> None:
    code, out, _ = command("conformance", f"{module(STORES)}:Forgetful", "-k", "threads_lose")
    assert code == 1
    assert "processes  0       1       0" in out
    assert "failed test_threads_lose_no_write: " in out


@pytest.mark.parametrize(
    ("factory", "message"),
    [
        ("{}", "names no factory. Write MODULE:FACTORY"),
        ("no_such_module:store", "no_such_module cannot be imported: ModuleNotFoundError"),
        ("{}:none", "has no function 'none'"),
        ("{}:not_a_function", "has no function 'not_a_function'"),
        ("{}:fails", "fails failed: OSError: no route to host"),
        ("{}:number", "number makes a int: neither a store nor a backend"),
    ],
)
def test_a_factory_that_cannot_be_used_is_one_line(
    command: Command, module: Module, factory: str, message: str
) -> None:
    code, out, err = command("conformance", factory.format(module(STORES)))
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert message in err


def test_that_no_test_was_run_is_not_taken_for_success(command: Command, module: Module) -> None:
    code, _, err = command("conformance", f"{module(STORES)}:store", "-k", "no_such_test")
    assert code == 1
    assert "No test was run; pytest said:" in err


def test_without_pytest_it_says_what_to_install(
    command: Command, module: Module, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conformance, "find_spec", lambda _: None)
    assert "pip install pytest" in command("conformance", f"{module(STORES)}:store").err
