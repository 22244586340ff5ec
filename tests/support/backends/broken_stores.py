"""Stores and backends with one fault each, and the test of the contract that must find it."""

from __future__ import annotations

import copy
import json
import math
import os
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from datetime import datetime, timedelta, timezone
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from airflow_resume.store import MemoryStore
from airflow_resume.testing import StoreContract
from airflow_resume.testing.contract import Ability
from tests.support.backends.memory_backend import MemoryBackend
from tests.support.backends.sqlite_store import SqliteStore

CAUGHT_BY: dict[str, str] = {}
"""For each broken class, the test that must fail, with its case."""


def caught_by(test: str) -> Callable[[type], type]:
    """Make a test class of the contract for the broken class."""

    def make(broken: type) -> type:
        CAUGHT_BY[broken.__name__] = test
        others: dict[str, Any] = {name: None for name in dir(StoreContract) if name.startswith("test_")}
        others["promises"] = getattr(broken, "promises", ())
        del others[test.partition("[")[0]]
        globals()[f"Test{broken.__name__}"] = type(broken.__name__, (StoreContract,), _supplied(broken) | others)
        return broken

    return make


def _supplied(broken: type) -> dict[str, Any]:
    """The fixture that gives the contract its store or backend."""
    if issubclass(broken, SqliteStore):

        def open_store(_self: Any, tmp_path: Path) -> Any:
            return partial(broken, tmp_path / "state.db")

        return {"open_store": pytest.fixture(open_store)}
    name = "backend" if issubclass(broken, MemoryBackend) else "store"
    return {name: pytest.fixture(lambda _self: broken(), name=name)}


# --- stores in memory -----------------------------------------------------------------------------------------


class KeyedStore(MemoryStore):
    """A store that changes keys."""

    def keyed(self, key: str) -> str:
        raise NotImplementedError

    def get(self, key: str, default: Any = None) -> Any:
        return super().get(self.keyed(key), default)

    def set(self, key: str, value: Any) -> None:
        super().set(self.keyed(key), value)

    def delete(self, key: str) -> None:
        super().delete(self.keyed(key))


@caught_by("test_keys_that_look_alike_are_two[case]")
class MergesCase(KeyedStore):
    def keyed(self, key: str) -> str:
        return key.lower()


@caught_by("test_keys_that_look_alike_are_two[trailing space]")
class MergesTrailingSpaces(KeyedStore):
    def keyed(self, key: str) -> str:
        return key.rstrip()


@caught_by("test_keys_that_look_alike_are_two[emoji]")
class MergesEmoji(KeyedStore):
    def keyed(self, key: str) -> str:
        return "".join(letter if ord(letter) < 2**16 else "?" for letter in key)


@caught_by("test_keys_that_look_alike_are_two[the last of 200 characters]")
class CutsKeys(KeyedStore):
    def keyed(self, key: str) -> str:
        return key[:191]


@caught_by("test_keys_that_look_alike_are_two[a NUL]")
class EndsKeysAtNul(KeyedStore):
    def keyed(self, key: str) -> str:
        return key.partition("\x00")[0]


@caught_by("test_keys_that_look_alike_are_two[a line break]")
class StripsLineBreaks(KeyedStore):
    def keyed(self, key: str) -> str:
        return key.rstrip("\n")


@caught_by("test_keys_that_look_alike_are_two[a path]")
class TakesKeysForPaths(KeyedStore):
    def keyed(self, key: str) -> str:
        return os.path.normpath(key)


@caught_by("test_keys_that_look_alike_are_two[case]")
class RefusesUpperCase(KeyedStore):
    def keyed(self, key: str) -> str:
        if key != key.lower():
            raise ValueError(key)
        return key


@caught_by("test_keys_that_look_alike_are_two[a dot]")
class DeletesAllAtADot(MemoryStore):
    def set(self, key: str, value: Any) -> None:
        if key == ".":
            raise ValueError(key)
        super().set(key, value)

    def delete(self, key: str) -> None:
        if key == ".":
            self.values.clear()
        super().delete(key)


@caught_by("test_many_keys_keep_their_values")
class DropsAWrite(MemoryStore):
    writes = 0

    def set(self, key: str, value: Any) -> None:
        self.writes += 1
        if self.writes != 50:
            super().set(key, value)


@caught_by("test_the_last_value_replaces_those_before")
class KeepsTheFirst(MemoryStore):
    def set(self, key: str, value: Any) -> None:
        if key not in self.values:
            super().set(key, value)


@caught_by("test_it_behaves_as_a_dict")
class DeletesByPrefix(MemoryStore):
    def delete(self, key: str) -> None:
        for found in [found for found in self.values if found.startswith(key)]:
            del self.values[found]


@caught_by("test_to_delete_what_is_missing_is_no_error")
class CannotDeleteTheMissing(MemoryStore):
    def delete(self, key: str) -> None:
        del self.values[key]


@caught_by("test_a_deleted_key_is_missing")
class DoesNotDelete(MemoryStore):
    def delete(self, key: str) -> None:
        pass


@caught_by("test_a_deleted_key_can_be_set_again")
class DeletesForGood(MemoryStore):
    def delete(self, key: str) -> None:
        super().delete(key)
        self.values = _Without(self.values, key)


class _Without(dict[str, Any]):
    def __init__(self, values: dict[str, Any], key: str) -> None:
        super().__init__(values)
        self._key = key

    def __setitem__(self, key: str, value: Any) -> None:
        if key != self._key:
            super().__setitem__(key, value)


@caught_by("test_a_value_is_a_copy_both_ways")
class SharesTheObject(MemoryStore):
    def set(self, key: str, value: Any) -> None:
        self.values[key] = value

    def get(self, key: str, default: Any = None) -> Any:
        return self.values.get(key, default)


@caught_by("test_a_value_is_a_copy_both_ways")
class SharesWhatIsRead(MemoryStore):
    def get(self, key: str, default: Any = None) -> Any:
        return self.values.get(key, default)


class JsonStore(MemoryStore):
    """A store that changes the JSON."""

    def kept(self, value: Any) -> Any:
        raise NotImplementedError

    def set(self, key: str, value: Any) -> None:
        super().set(key, self.kept(value))


DOUBTFUL = "test_what_json_cannot_hold_comes_back_unchanged_or_is_refused"


@caught_by(f"{DOUBTFUL}[None]")
class SwallowsNone(MemoryStore):
    def set(self, key: str, value: Any) -> None:
        if value is not None:
            super().set(key, value)


@caught_by(f"{DOUBTFUL}[nested NaN]")
class MakesNaNNull(JsonStore):
    def kept(self, value: Any) -> Any:
        return json.loads(json.dumps(value).replace("NaN", "null"))


@caught_by(f"{DOUBTFUL}[tuple]")
class MakesTuplesLists(JsonStore):
    def kept(self, value: Any) -> Any:
        return json.loads(json.dumps(value))


@caught_by(f"{DOUBTFUL}[bytes]")
class MakesEverythingText(JsonStore):
    def kept(self, value: Any) -> Any:
        return json.loads(json.dumps(value, default=str))


@caught_by(f"{DOUBTFUL}[NaN]")
class RefusesAndForgets(JsonStore):
    def set(self, key: str, value: Any) -> None:
        self.delete(key)
        if value != value or value is math.inf:  # noqa: PLR0124  NaN
            raise ValueError(value)
        super(JsonStore, self).set(key, value)


@caught_by("test_every_kind_of_json_comes_back_unchanged[2^53+1]")
class MakesNumbersFloats(JsonStore):
    def kept(self, value: Any) -> Any:
        return json.loads(json.dumps(value), parse_int=float)


@caught_by("test_every_kind_of_json_comes_back_unchanged[true]")
class MakesBooleansNumbers(JsonStore):
    def kept(self, value: Any) -> Any:
        return int(value) if isinstance(value, bool) else value


@caught_by("test_every_kind_of_json_comes_back_unchanged[text that looks like a truth]")
class TakesYesForTrue(JsonStore):
    def kept(self, value: Any) -> Any:
        return True if value == "yes" else value


@caught_by("test_every_kind_of_json_comes_back_unchanged[members with marks]")
class ReplacesDotsInMembers(JsonStore):
    def kept(self, value: Any) -> Any:
        return {name.replace(".", "_"): item for name, item in value.items()} if isinstance(value, dict) else value


@caught_by("test_every_kind_of_json_comes_back_unchanged[members that look like a tag]")
class UnpacksTags(JsonStore):
    def kept(self, value: Any) -> Any:
        return value["__var"] if isinstance(value, dict) and "__var" in value else value


@caught_by("test_every_kind_of_json_comes_back_unchanged[empty list]")
class TakesTheEmptyForMissing(MemoryStore):
    def get(self, key: str, default: Any = None) -> Any:
        return super().get(key) or default


@caught_by("test_a_large_value_comes_back_whole[70000]")
class CutsText(JsonStore):
    def kept(self, value: Any) -> Any:
        return value[:65535] if isinstance(value, str) else value


@caught_by("test_a_large_value_comes_back_whole[70000]")
class RefusesSeventyKilobytes(JsonStore):
    def kept(self, value: Any) -> Any:
        if len(repr(value)) > 2**16:
            raise ValueError("too large")
        return value


@caught_by("test_a_missing_key_gives_the_default")
class IgnoresTheDefault(MemoryStore):
    def get(self, key: str, default: Any = None) -> Any:
        return super().get(key)


@caught_by("test_scan_gives_the_keys_with_the_prefix")
class ScansWithWildcards(MemoryStore):
    def scan(self, prefix: str) -> list[str]:
        return [key for key in self.values if key[0:1] == prefix[0:1] and len(key) >= len(prefix)]


# --- backends -------------------------------------------------------------------------------------------------


class ScopedBackend(MemoryBackend):
    """A backend that changes scopes."""

    def scoped(self, scope: Any) -> Any:
        raise NotImplementedError

    def get(self, scope: Any, key: str, *, session: Any = None) -> str | None:
        return super().get(self.scoped(scope), key)

    def set(self, scope: Any, key: str, value: str, **options: Any) -> None:
        super().set(self.scoped(scope), key, value, **options)

    def delete(self, scope: Any, key: str, *, session: Any = None) -> None:
        super().delete(self.scoped(scope), key)


@caught_by("test_map_indices_share_nothing")
class LeaksBetweenMapIndices(ScopedBackend):
    def scoped(self, scope: Any) -> Any:
        return (scope.dag_id, scope.run_id, scope.task_id) if hasattr(scope, "task_id") else scope


@caught_by("test_scopes_share_nothing")
class JoinsIdsWithDots(ScopedBackend):
    def scoped(self, scope: Any) -> Any:
        names = ("dag_id", "run_id", "task_id", "map_index", "asset_id")
        return ".".join(str(getattr(scope, name, "")) for name in names)


@caught_by("test_what_is_set_in_one_scope_is_missing_in_the_others")
class ForgetsTheRun(ScopedBackend):
    def scoped(self, scope: Any) -> Any:
        return (scope.dag_id, scope.task_id, scope.map_index) if hasattr(scope, "task_id") else scope


@caught_by("test_to_clear_a_scope_leaves_the_others[task]")
class ClearsAllMapIndices(MemoryBackend):
    def clear(self, scope: Any, *, all_map_indices: bool = False, session: Any = None) -> None:
        super().clear(scope, all_map_indices=True)


@caught_by("test_to_clear_all_map_indices_leaves_the_other_tasks[clear]")
class ClearsOneMapIndexOnly(MemoryBackend):
    def clear(self, scope: Any, *, all_map_indices: bool = False, session: Any = None) -> None:
        super().clear(scope)


@caught_by("test_to_delete_in_one_scope_leaves_the_others[task]")
class DeletesInAllScopes(MemoryBackend):
    def delete(self, scope: Any, key: str, *, session: Any = None) -> None:
        for row in [row for row in self.rows if row[1] == key]:
            del self.rows[row]


@caught_by("test_to_delete_in_one_scope_leaves_the_others[asset]")
class KeepsTheStateOfAssets(MemoryBackend):
    def delete(self, scope: Any, key: str, *, session: Any = None) -> None:
        if hasattr(scope, "task_id"):
            super().delete(scope, key)


@caught_by("test_to_clear_a_scope_leaves_the_others[asset]")
class ClearsAllAssets(MemoryBackend):
    def clear(self, scope: Any, *, all_map_indices: bool = False, session: Any = None) -> None:
        for row in [row for row in self.rows if type(row[0]) is type(scope) and not hasattr(scope, "task_id")]:
            del self.rows[row]
        super().clear(scope, all_map_indices=all_map_indices)


@caught_by("test_to_clear_all_map_indices_leaves_the_other_tasks[aclear]")
class ClearsOneMapIndexIfAsync(MemoryBackend):
    async def aclear(self, scope: Any, *, all_map_indices: bool = False, session: Any = None) -> None:
        self.clear(scope)


@caught_by("test_the_async_methods_see_the_same[asset]")
class ForgetsAsyncWritesOfAssets(MemoryBackend):
    async def aset(self, scope: Any, key: str, value: str, **options: Any) -> None:
        if hasattr(scope, "task_id"):
            self.set(scope, key, value)


@caught_by("test_an_expiry_that_is_set_by_the_async_method_counts")
class KeepsAsyncWritesForEver(MemoryBackend):
    async def aset(self, scope: Any, key: str, value: str, **options: Any) -> None:
        self.set(scope, key, value)


@caught_by("test_abilities")
class LostItsCleanup(MemoryStore):
    promises = (Ability.CLEANUP,)

    def clean_up(self) -> None:
        self.values.clear()


@caught_by("test_a_backend_keeps_the_text_as_it_is[spaces]")
class KeepsJsonNotText(MemoryBackend):
    def set(self, scope: Any, key: str, value: str, **options: Any) -> None:
        super().set(scope, key, json.dumps(json.loads(value)), **options)


@caught_by("test_the_async_methods_see_the_same[task]")
class ForgetsAsyncWrites(MemoryBackend):
    async def aset(self, scope: Any, key: str, value: str, **options: Any) -> None:
        pass


@caught_by("test_a_reference_is_the_same_each_time_and_leads_to_the_value[task]")
class MakesRandomReferences(MemoryBackend):
    def serialize_task_state_store_to_ref(self, **value: Any) -> str:
        return os.urandom(8).hex()


@caught_by("test_what_was_set_again_is_not_collected[for an hour]")
class DeletesWhatWasRefreshed(MemoryBackend):
    def set(self, scope: Any, key: str, value: str, **options: Any) -> None:
        first = self.rows.get((scope, key), (value, options.get("expires_at")))[1]
        super().set(scope, key, value, expires_at=first)


@caught_by("test_the_last_retention_counts")
class KeepsForEverOnce(MemoryBackend):
    def set(self, scope: Any, key: str, value: str, **options: Any) -> None:
        super().set(scope, key, value, **(options if (scope, key) not in self.rows else {}))


@caught_by("test_what_has_expired_is_collected_and_nothing_else")
class CollectsOneBatchOnly(MemoryBackend):
    def cleanup(self) -> None:
        before = dict(self.rows)
        super().cleanup()
        self.rows = dict([*before.items()][100:]) | self.rows


@caught_by("test_to_clean_an_empty_store_is_no_error")
class CannotCleanNothing(MemoryBackend):
    def cleanup(self) -> None:
        min(self.rows)


@caught_by("test_a_value_with_a_retention_is_kept_until_then")
class ForgetsWhatExpires(MemoryBackend):
    def set(self, scope: Any, key: str, value: str, *, expires_at: Any = None, session: Any = None) -> None:
        if expires_at is None:
            super().set(scope, key, value)


@caught_by("test_what_has_expired_is_there_until_it_is_collected")
class ExpiresByItself(MemoryBackend):
    def get(self, scope: Any, key: str, *, session: Any = None) -> str | None:
        expires_at = self.rows.get((scope, key), (None, None))[1]
        gone = expires_at is not None and expires_at < datetime.now(timezone.utc)
        return None if gone else super().get(scope, key)


class RoundsExpiries(MemoryBackend):
    """A backend that rounds expiry to whole seconds."""

    def rounded(self, seconds: float) -> float:
        raise NotImplementedError

    def set(self, scope: Any, key: str, value: str, *, expires_at: Any = None, session: Any = None) -> None:
        if expires_at is not None:
            expires_at = datetime.fromtimestamp(self.rounded(expires_at.timestamp()), timezone.utc)
        super().set(scope, key, value, expires_at=expires_at)


@caught_by("test_half_a_second_is_half_a_second")
class CutsSeconds(RoundsExpiries):
    def rounded(self, seconds: float) -> float:
        return math.floor(seconds)


@caught_by("test_half_a_second_is_half_a_second")
class RoundsSecondsUp(RoundsExpiries):
    def rounded(self, seconds: float) -> float:
        return math.ceil(seconds)


@caught_by("test_half_a_second_is_half_a_second")
class KeepsNothingForEver(MemoryBackend):
    """A backend that treats "never" as "soon"."""

    def set(self, scope: Any, key: str, value: str, *, expires_at: Any = None, session: Any = None) -> None:
        soon = datetime.now(timezone.utc) + timedelta(seconds=0.3)
        super().set(scope, key, value, expires_at=expires_at or soon)


@caught_by("test_what_was_collected_can_be_set_again")
class CollectsForGood(MemoryBackend):
    def __init__(self) -> None:
        super().__init__()
        self.expired: set[Any] = set()

    def set(self, scope: Any, key: str, value: str, *, expires_at: Any = None, session: Any = None) -> None:
        super().set(scope, key, value, expires_at=expires_at)
        self.expired |= {(scope, key)} if expires_at is not None else set()

    def cleanup(self) -> None:
        self.rows = {row: value for row, value in self.rows.items() if row not in self.expired}


@caught_by("test_what_has_no_expiry_is_not_collected")
class CollectsEverything(MemoryBackend):
    def cleanup(self) -> None:
        self.rows.clear()


@caught_by("test_an_expiry_in_any_time_zone_is_the_same_moment[14]")
class DropsTheTimeZone(MemoryBackend):
    def set(self, scope: Any, key: str, value: str, *, expires_at: Any = None, session: Any = None) -> None:
        naive = None if expires_at is None else expires_at.replace(tzinfo=timezone.utc)
        super().set(scope, key, value, expires_at=naive)


@caught_by("test_a_key_that_expired_in_one_scope_stays_in_the_others")
class CollectsByKey(MemoryBackend):
    def cleanup(self) -> None:
        before = set(self.rows)
        super().cleanup()
        gone = {key for _, key in before - set(self.rows)}
        self.rows = {row: value for row, value in self.rows.items() if row[1] not in gone}


# --- stores in a file -----------------------------------------------------------------------------------------


def until_another_comes(path: Path) -> None:
    """Wait until two processes have reached this, so that a fault that needs both is always found."""
    path.with_name(f"came-{os.getpid()}").touch()
    while len(list(path.parent.glob("came-*"))) < 2:
        time.sleep(0.001)


@caught_by("test_what_was_acknowledged_survives_kill_9")
class WritesLater(SqliteStore):
    """A store that keeps writes in memory until it is closed."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.waiting: dict[str, Any] = {}

    def set(self, key: str, value: Any, **options: Any) -> None:
        self.waiting[key] = value

    def get(self, key: str, default: Any = None) -> Any:
        return self.waiting.get(key, super().get(key, default))

    def close(self) -> None:
        for key, value in self.waiting.items():
            super().set(key, value)
        self.waiting = {}


@caught_by("test_each_acknowledged_change_survives_a_kill_9_right_after_it")
class DeletesLater(SqliteStore):
    """A store that keeps deletions in memory until it is closed."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.waiting: set[str] = set()

    def delete(self, key: str) -> None:
        self.waiting.add(key)

    def get(self, key: str, default: Any = None) -> Any:
        return default if key in self.waiting else super().get(key, default)

    def close(self) -> None:
        for key in self.waiting:
            super().delete(key)


@caught_by("test_what_another_process_sets_first_or_deletes_is_seen_at_once")
class RemembersWhatIsMissing(SqliteStore):
    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.missing: set[str] = set()

    def get(self, key: str, default: Any = None) -> Any:
        found = None if key in self.missing else super().get(key)
        if found is None:
            self.missing.add(key)
        return default if found is None else found

    def set(self, key: str, value: Any, **options: Any) -> None:
        self.missing.discard(key)
        super().set(key, value, **options)


@caught_by("test_what_another_process_sets_is_seen_at_once")
class Caches(SqliteStore):
    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.read: dict[str, Any] = {}

    def get(self, key: str, default: Any = None) -> Any:
        if key not in self.read:
            self.read[key] = super().get(key, default)
        return copy.deepcopy(self.read[key])


@caught_by("test_what_was_set_is_there_when_opened_again")
class KeepsNothing(SqliteStore):
    def __init__(self, path: Path) -> None:
        path.unlink(missing_ok=True)
        super().__init__(path)


@caught_by("test_what_was_deleted_is_gone_when_opened_again")
class DeletesForItselfOnly(SqliteStore):
    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.deleted: set[str] = set()

    def delete(self, key: str) -> None:
        self.deleted.add(key)

    def get(self, key: str, default: Any = None) -> Any:
        return default if key in self.deleted else super().get(key, default)


@caught_by("test_processes_may_all_be_the_first")
class LooksThenCreates(SqliteStore):
    def __init__(self, path: Path) -> None:
        super().__init__(path)
        found = path.exists()
        if not found:
            until_another_comes(path)  # what lies between the look and the table, made longer
            with closing(sqlite3.connect(path, timeout=30)) as connection:
                connection.execute(
                    "CREATE TABLE state (key TEXT PRIMARY KEY, value TEXT, expires REAL, version INTEGER)"
                )


@caught_by("test_processes_lose_no_write")
class WritesTheWholeFile(SqliteStore):
    """A store that reads all values, changes one and writes all."""

    def set(self, key: str, value: Any, *, retention: timedelta | None = None) -> None:
        everything = {**(SqliteStore.get(self, "all") or {}), key: value}
        until_another_comes(self._path)  # as above
        time.sleep(0.001)
        super().set("all", everything)

    def get(self, key: str, default: Any = None) -> Any:
        return (super().get("all") or {}).get(key, default)


@caught_by("test_after_kill_9_others_can_write")
class LocksWithAFile(SqliteStore):
    """A store that holds the lock from its first write until it is closed, which a killed process never does."""

    locked = False

    def set(self, key: str, value: Any, **options: Any) -> None:
        if not self.locked:
            self._path.with_suffix(".lock").touch(exist_ok=False)
            self.locked = True
        super().set(key, value, **options)

    def close(self) -> None:
        if self.locked:
            self._path.with_suffix(".lock").unlink()


@caught_by("test_a_forked_child_and_its_parent_use_the_same_store")
class BelongsToAProcess(SqliteStore):
    """A store with one connection, which must not be used after a fork."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.pid = os.getpid()

    def get(self, key: str, default: Any = None) -> Any:
        return super().get(key, default) if self.pid == os.getpid() else default


@caught_by("test_of_processes_that_write_one_key_a_whole_value_stays")
class TearsValues(SqliteStore):
    """A store that keeps a list in two halves."""

    def set(self, key: str, value: Any, **options: Any) -> None:
        half = len(value) // 2 if isinstance(value, list) else 0
        super().set(f"{key}.1", value[:half] if half else [])
        time.sleep(0.001)  # as above
        super().set(f"{key}.2", value[half:] if half else value)

    def get(self, key: str, default: Any = None) -> Any:
        first, second = super().get(f"{key}.1"), super().get(f"{key}.2", default)
        return first + second if first else second


@caught_by("test_threads_lose_no_write")
class OneThreadOnly(SqliteStore):
    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.connection = sqlite3.connect(":memory:")

    def set(self, key: str, value: Any, **options: Any) -> None:
        self.connection.execute("SELECT 1")
        super().set(key, value, **options)

    def close(self) -> None:
        self.connection.close()


@caught_by("test_compare_and_set_writes_over_the_expected_version_only")
class DoesNotCompare(SqliteStore):
    def compare_and_set(self, key: str, expected_version: int, value: Any) -> int | None:
        self.set(key, value)
        return expected_version + 1


@caught_by("test_compare_and_set_does_not_bring_back_what_was_deleted")
class BringsBackTheDeleted(SqliteStore):
    def compare_and_set(self, key: str, expected_version: int, value: Any) -> int | None:
        return super().compare_and_set(key, 0 if self.get(key) is None else expected_version, value)


@caught_by("test_every_write_changes_the_version")
class ForgetsToCount(SqliteStore):
    def set(self, key: str, value: Any, **options: Any) -> None:
        self._ask("UPDATE state SET value = :value WHERE key = :key", key=key, value=json.dumps(value))


class ComparesThenSets(SqliteStore):
    """A compare-and-set that is not atomic although nothing can be interposed."""

    def compare_and_set(self, key: str, expected_version: int, value: Any) -> int | None:
        if expected_version == 0 and self.get(key) is not None:
            return None
        self.set(key, value)
        return 1


IN_THE_MIDDLE = "of_which_one_is_in_the_middle_of_compare_and_set_one_wins"


@caught_by(f"test_of_processes_{IN_THE_MIDDLE}")
class ComparesThenSetsInProcesses(ComparesThenSets):
    pass


@caught_by(f"test_of_threads_{IN_THE_MIDDLE}")
class ComparesThenSetsInThreads(MemoryStore):
    def compare_and_set(self, key: str, expected_version: int, value: Any) -> int | None:
        if expected_version == 0 and self.get(key) is not None:
            return None
        self.set(key, value)
        return 1


@caught_by("test_of_processes_that_compare_and_set_at_once_one_wins")
class BothWinAtOnce(ComparesThenSets):
    """No line of Python lies in between, so only a race shows the fault; here each process waits for another one."""

    def compare_and_set(self, key: str, expected_version: int, value: Any) -> int | None:
        if expected_version == 0 and self.get(key) is not None:
            return None
        until_another_comes(self._path)
        self.set(key, value)
        return 1


@caught_by("test_scan_does_not_give_what_was_deleted")
class ScansTheDeleted(SqliteStore):
    def delete(self, key: str) -> None:
        self._ask("UPDATE state SET value = 'null' WHERE key = :key", key=key)
