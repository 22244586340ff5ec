"""`make matrix`: which backend keeps which part of the contract, tried here and now, as a table in docs/conformance.md.

It runs the contract's tests in tests/contract. Where a database server is missing, the column stays as it was. A
test compares the page with what those tests expect, so a page that is out of date is noticed.
"""

from __future__ import annotations

import importlib.util
import platform
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from tests.support.backends.conformance_page import Column, Faults, on_page, put_on_page, read, write
from tests.support.backends.databases import MYSQL, POSTGRESQL, ask

TESTS = Path(__file__).parents[2] / "contract"


@dataclass(frozen=True)
class Tried:
    """A backend, and the class with the tests of it."""

    file: str
    test_class: str
    distribution: str | None = None
    """The distribution of a backend that is not ours."""
    database: str | None = None


COLUMNS = {
    "`SqlStoreBackend` on SQLite": Tried("test_sql_backend", "TestStoreOnSqlite", None, "SQLite"),
    "on PostgreSQL": Tried("test_sql_backend", "TestStoreOnPostgreSQL", None, "PostgreSQL"),
    "on MariaDB": Tried("test_sql_backend", "TestStoreOnMySQL", None, "MariaDB"),
    "`HardenedMetastoreBackend` on SQLite": Tried(
        "test_hardened_metastore", "TestHardenedOnSqlite", "apache-airflow", "SQLite"
    ),
    "hardened, on PostgreSQL": Tried(
        "test_hardened_metastore", "TestHardenedOnPostgreSQL", "apache-airflow", "PostgreSQL"
    ),
    "Airflow's `MetastoreBackend` on SQLite": Tried(
        "test_metastore_backend", "TestMetastoreOnSqlite", "apache-airflow", "SQLite"
    ),
    "Airflow's, on PostgreSQL": Tried(
        "test_metastore_backend", "TestMetastoreOnPostgreSQL", "apache-airflow", "PostgreSQL"
    ),
    "Object storage of common.io, on files": Tried(
        "test_object_storage_backend", "TestObjectStorageBackend", "apache-airflow-providers-common-io"
    ),
    "Airflow's accessor in a task (`FakeTaskStore`)": Tried("test_fake_task_store", "TestFakeTaskStore"),
    "`MemoryStore`": Tried("test_memory_store", "TestMemoryStore"),
}

ROWS = {
    "values come back as they were set": (
        "test_a_missing_key_gives_the_default",
        "test_every_kind_of_json_comes_back_unchanged",
        "test_the_last_value_replaces_those_before",
        "test_a_value_is_a_copy_both_ways",
        "test_many_keys_keep_their_values",
        "test_it_behaves_as_a_dict",
    ),
    "a value that is not JSON is refused, or kept unchanged": (
        "test_what_json_cannot_hold_comes_back_unchanged_or_is_refused",
    ),
    "large values come back whole": ("test_a_large_value_comes_back_whole",),
    "keys that look alike are different keys": ("test_keys_that_look_alike_are_two",),
    "a deleted key is gone, and can be set again": (
        "test_a_deleted_key_is_missing",
        "test_a_deleted_key_can_be_set_again",
        "test_to_delete_what_is_missing_is_no_error",
    ),
    "tasks, map indices and assets share nothing": (
        "test_scopes_share_nothing",
        "test_map_indices_share_nothing",
        "test_what_is_set_in_one_scope_is_missing_in_the_others",
        "test_to_delete_in_one_scope_leaves_the_others",
        "test_to_clear_a_scope_leaves_the_others",
        "test_to_clear_all_map_indices_leaves_the_other_tasks",
    ),
    "text is kept character by character": ("test_a_backend_keeps_the_text_as_it_is",),
    "the async methods do the same as the others": ("test_the_async_methods_see_the_same",),
    "a reference is always the same": ("test_a_reference_is_the_same_each_time_and_leads_to_the_value",),
    "a value is there until it expires": ("test_a_value_with_a_retention_is_kept_until_then",),
    "an expired value stays until a cleanup": ("test_what_has_expired_is_there_until_it_is_collected",),
    "an expiry of half a second is exact": ("test_half_a_second_is_half_a_second",),
    "a cleanup deletes expired values, and nothing else": (
        "test_to_clean_an_empty_store_is_no_error",
        "test_what_has_no_expiry_is_not_collected",
        "test_what_has_expired_is_collected_and_nothing_else",
        "test_what_was_set_again_is_not_collected",
        "test_the_last_retention_counts",
        "test_what_was_collected_can_be_set_again",
        "test_an_expiry_in_any_time_zone_is_the_same_moment",
        "test_an_expiry_that_is_set_by_the_async_method_counts",
        "test_a_key_that_expired_in_one_scope_stays_in_the_others",
    ),
    "a key that is set again during a cleanup stays": ("test_what_is_set_again_during_a_cleanup_is_not_collected",),
    "threads lose no write": ("test_threads_lose_no_write",),
    "processes lose no write, and see the writes of others at once": (
        "test_what_was_set_is_there_when_opened_again",
        "test_what_was_deleted_is_gone_when_opened_again",
        "test_what_another_process_sets_is_seen_at_once",
        "test_what_another_process_sets_first_or_deletes_is_seen_at_once",
        "test_processes_lose_no_write",
        "test_processes_may_all_be_the_first",
    ),
    "it works after a fork, in parent and child": ("test_a_forked_child_and_its_parent_use_the_same_store",),
    "a reader never sees a part of a value": (
        "test_of_processes_that_write_one_key_a_whole_value_stays",
        "test_a_write_that_is_killed_leaves_the_value_before",
    ),
    "an acknowledged write survives `kill -9`": (
        "test_what_was_acknowledged_survives_kill_9",
        "test_each_acknowledged_change_survives_a_kill_9_right_after_it",
        "test_after_kill_9_others_can_write",
    ),
    "compare-and-set": (
        "test_compare_and_set_writes_over_the_expected_version_only",
        "test_every_write_changes_the_version",
        "test_compare_and_set_does_not_bring_back_what_was_deleted",
        "test_of_threads_of_which_one_is_in_the_middle_of_compare_and_set_one_wins",
        "test_of_processes_of_which_one_is_in_the_middle_of_compare_and_set_one_wins",
        "test_of_processes_that_compare_and_set_at_once_one_wins",
    ),
    "a scan of keys": ("test_scan_gives_the_keys_with_the_prefix", "test_scan_does_not_give_what_was_deleted"),
}
"""The properties of the table, each with the tests that check it."""


@dataclass
class Outcomes:
    """A plugin of pytest that records the result of each test of each class."""

    passed: dict[str, set[str]] = field(default_factory=dict)
    faults: dict[str, dict[str, str]] = field(default_factory=dict)
    """For each class, the tests that fail, with the reason."""

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Called for the set-up, the test and what comes after it."""
        *_, test_class, test = report.nodeid.split("::")
        if hasattr(report, "wasxfail"):
            self.faults.setdefault(test_class, {})[test] = report.wasxfail.removeprefix("reason: ")
        elif report.failed:
            self.faults.setdefault(test_class, {})[test] = report.longreprtext.splitlines()[-1]
        elif report.passed and report.when == "call":
            self.passed.setdefault(test_class, set()).add(test)

    def of(self, test_class: str, tests: tuple[str, ...]) -> Faults | None:
        """Which of the tests fail; None if none of them could run."""
        faults = {test: why for test, why in sorted(self.faults.get(test_class, {}).items()) if name_of(test) in tests}
        passed = any(name_of(test) in tests for test in self.passed.get(test_class, ()))
        return faults if faults or passed else None


def name_of(test: str) -> str:
    """The name of a test without its case."""
    return test.partition("[")[0]


def play() -> Outcomes:
    """Run the contract on every backend that is available."""
    outcomes = Outcomes()
    files = dict.fromkeys(str(TESTS / f"{tried.file}.py") for tried in COLUMNS.values())
    classes = " or ".join(tried.test_class for tried in COLUMNS.values())
    pytest.main(["-q", "-n2", "--no-header", "--tb=no", "-r", "", "-k", classes, *files], plugins=[outcomes])
    return outcomes


def versions_of(tried: Tried) -> str:
    """The versions that the backend was tried with."""
    theirs = [] if tried.distribution is None else [f"{tried.distribution} {version(tried.distribution)}"]
    databases = {
        "SQLite": lambda: sqlite3.sqlite_version,
        "PostgreSQL": lambda: _asked(POSTGRESQL.found(), "SHOW server_version"),
        "MariaDB": lambda: _asked(MYSQL.found(), "SELECT version()"),
    }
    database = [] if tried.database is None else [f"{tried.database} {databases[tried.database]()}"]
    return ", ".join([*theirs, *database]) or f"Python {platform.python_version()}"


def _asked(server: Any, question: str) -> str:
    """A version, without what the packager added."""
    answer: Any = ask(server, question)
    return str(answer[0][0]).split()[0].partition("-")[0]


def column_of(tried: Tried, outcomes: Outcomes, before: Column | None) -> Column | None:
    """The column of a backend; the one from before if its server is missing."""
    if not outcomes.passed.get(tried.test_class):
        return before
    rows = {row: outcomes.of(tried.test_class, tests) for row, tests in ROWS.items()}
    return Column(versions=versions_of(tried), rows=rows)


def load(tried: Tried) -> Any:
    """The class with the tests."""
    spec = importlib.util.spec_from_file_location(f"matrix_{tried.file}", TESTS / f"{tried.file}.py")
    if spec is None or spec.loader is None:
        raise LookupError(tried.file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, tried.test_class)


def main() -> None:
    """Run the contract, and write the page."""
    outcomes = play()
    before: Mapping[str, Column] = read(on_page()) if on_page() else {}
    found = {name: column_of(tried, outcomes, before.get(name)) for name, tried in COLUMNS.items()}
    put_on_page(write({name: column for name, column in found.items() if column is not None}))
    print("docs/conformance.md was written")
    for name, tried in COLUMNS.items():
        if not outcomes.passed.get(tried.test_class):
            print(f"left unchanged, because nothing could be tried: {name}")


if __name__ == "__main__":
    main()
