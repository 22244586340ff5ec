"""What only a sink in an Iceberg table has: snapshots that expire or are rolled back, and the retries of pyiceberg."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import NoSuchNamespaceError
from pyiceberg.table import Table, Transaction
from pyiceberg.types import LongType

from airflow_resume.errors import SinkError, SinkTableError, SinkUnsafeError, SupersededError
from airflow_resume.sink_protocol import Claimant
from airflow_resume.sinks import IcebergSink
from airflow_resume.sinks.decide import Held, Stamp
from airflow_resume.sinks.iceberg_table import PREFIX, RECORD, Ancestor, IcebergLakeTable, newest_record
from airflow_resume.sinks.lake_record import LakeKey, LakeRecord
from tests.support.sinks.lakes import SCHEMA, IcebergLake

TASK: list[Any] = ["loop", "dag", "run", "task", -1, "orders"]
KEY, OTHER = LakeKey.of(TASK), LakeKey.of(["loop", "another"])


def attempt(try_number: int) -> Claimant:
    return Claimant(owner="a task", try_number=try_number)


@pytest.fixture
def lake(tmp_path: Path) -> IcebergLake:
    lake = IcebergLake(tmp_path)
    lake.make()
    return lake


def changed(lake: IcebergLake, change: Callable[[Table], object]) -> None:
    with lake.catalog() as catalog:
        change(catalog.load_table(lake.NAME))


# --- which record counts, as a table; `pytest -s` prints it ---------------------------------------------------------


def text(number: int, key: LakeKey = KEY) -> str:
    return LakeRecord(held=Held(by=attempt(1)), stamp=Stamp("n", number), position=f"at {number}").dumps(key)


def ours(number: int, key: LakeKey = KEY) -> dict[str, Any]:
    return {"operation": "append", RECORD: text(number, key)}


def kept(number: int, snapshot: int, first: int | None = None) -> str:
    return json.dumps({"at": "2026-01-01T00:00:00+00:00", "first": first, "snapshot": snapshot, "record": text(number)})


OF_OTHERS: dict[str, Any] = {"operation": "append"}
# The sequence numbers and summaries of the snapshots that are known, the oldest first, and the parent of the oldest
# one; the property; the position that counts, and the number of the last commit. The id of a snapshot is its number.
TABLES: dict[str, tuple[list[tuple[int, Any]], int | None, str | None, tuple[object, int] | type[Exception] | None]] = {
    "no snapshot": ([], None, None, None),
    "snapshots of others": ([(1, OF_OTHERS), (2, ours(3, OTHER))], None, None, None),
    "the newest": ([(1, OF_OTHERS), (2, ours(0)), (3, ours(1))], None, kept(1, 3), ("at 1", 1)),
    "under snapshots of others": ([(1, ours(0)), (2, OF_OTHERS), (3, OF_OTHERS)], None, kept(0, 1), ("at 0", 0)),
    "expired": ([(9, OF_OTHERS)], 8, kept(4, 8), ("at 4", 4)),
    "expired, and others after it": ([(10, OF_OTHERS)], 9, kept(4, 8), SinkUnsafeError),
    "expired, as pyiceberg does it": ([(9, OF_OTHERS)], None, kept(4, 8), SinkUnsafeError),
    "no snapshot is the present one": ([], None, kept(4, 8), SinkUnsafeError),
    "rolled back": ([(1, OF_OTHERS), (2, ours(0))], None, kept(4, 8), ("at 0", 4)),
    "rolled back, older ones have expired": ([(5, ours(2))], 4, kept(4, 8), ("at 2", 4)),
    "rolled back, expired after others had appended": ([(9, OF_OTHERS)], 5, kept(4, 8, 2), SinkUnsafeError),
    "rolled back to one of others between ours": ([(5, OF_OTHERS)], 4, kept(4, 8, 2), SinkUnsafeError),
    "rolled back to before all": ([(1, OF_OTHERS)], None, kept(4, 8, 2), (None, 4)),
    "rolled back to before all, others have appended": (
        [(1, OF_OTHERS), (9, OF_OTHERS)],
        None,
        kept(4, 8, 2),
        (None, 4),
    ),
    "the same, if it is not known where ours begin": ([(1, OF_OTHERS)], None, kept(4, 8), SinkUnsafeError),
    "rolled back to before all, older have expired": ([(5, OF_OTHERS)], 4, kept(4, 8, 6), (None, 4)),
    "the property was removed": ([(5, ours(0)), (6, ours(1))], 4, None, ("at 1", 1)),
    "of a newer release": ([(1, {RECORD: f'{{"v": 2, "key": "{KEY.hashed}"}}'})], None, None, SinkError),
}


@pytest.mark.parametrize("name", TABLES)
def test_the_record_that_counts(name: str) -> None:
    snapshots, before, kept_text, wanted = TABLES[name]
    parents = [before, *(number for number, _ in snapshots)]
    line = [
        Ancestor(number, parent, number, summary) for parent, (number, summary) in zip(parents, snapshots, strict=False)
    ][::-1]
    if isinstance(wanted, type):
        with pytest.raises(wanted):
            newest_record(line, kept_text, KEY, "x")
        print(f"{name:50} {wanted.__name__}")
        return
    found = newest_record(line, kept_text, KEY, "x")
    assert (None if found is None else (found.position, found.stamp.version)) == wanted
    print(f"{name:50} {wanted}")


# --- a real table ---------------------------------------------------------------------------------------------------


def test_a_table_without_any_snapshot_takes_a_claim(tmp_path: Path) -> None:
    lake = IcebergLake(tmp_path)
    with lake.catalog() as catalog:
        catalog.create_namespace("lake")
    for number in (1, 2):
        position = lake.sink(schema=SCHEMA).claim(TASK, attempt(number))
        position.connection.append([{"id": number}])
        position.commit(number)
    assert lake.ids() == [1, 2]


def test_the_position_outlives_its_snapshot(lake: IcebergLake) -> None:
    position = lake.sink().claim(TASK, attempt(1))
    position.connection.append([{"id": 1}])
    position.commit(1)
    lake.add_by_others(2)
    expire_all(lake)
    assert lake.sink().claim(TASK, attempt(2)).position == 1
    with pytest.raises(SupersededError):
        position.commit(2)
    assert lake.ids() == [1, 2]


def committed_and_rolled_back(lake: IcebergLake) -> None:
    """Positions 1 and 2 are committed with their rows, and the table is rolled back to position 1; others append."""
    position = lake.sink().claim(TASK, attempt(1))
    position.connection.append([{"id": 1}])
    position.commit(1)
    mark = lake.mark()
    position.connection.append([{"id": 2}])
    position.commit(2)
    changed(lake, lambda table: table.manage_snapshots().set_current_snapshot(mark).commit())
    lake.add_by_others(100)
    expire_all(lake)
    assert lake.ids() == [1, 100]


def remove_earlier_metadata(lake: IcebergLake) -> None:
    with lake.catalog() as catalog:
        present = catalog.load_table(lake.NAME).metadata_location.rpartition("/")[2]
    for path in lake.folder.rglob("*.metadata.json"):
        if path.name != present:
            path.unlink()


def test_the_property_is_ahead_of_rows_that_were_rolled_back_and_does_not_count(lake: IcebergLake) -> None:
    committed_and_rolled_back(lake)
    again = lake.sink().claim(TASK, attempt(2))
    assert again.position == 1
    again.connection.append([{"id": 2}])
    again.commit(2)
    assert lake.ids() == [1, 2, 100]


def test_if_nobody_knows_whether_rows_were_rolled_back_the_claim_is_refused(lake: IcebergLake) -> None:
    committed_and_rolled_back(lake)
    remove_earlier_metadata(lake)
    with pytest.raises(SinkUnsafeError, match="nobody knows whether its rows were rolled back") as raised:
        lake.sink().claim(TASK, attempt(2))
    assert raised.value.problem == "history"
    assert lake.commits() == 1
    assert lake.sink().claim(["loop", "another"], attempt(1)).position is None


def test_a_rollback_to_before_the_first_commit_is_known_also_if_older_snapshots_have_expired(lake: IcebergLake) -> None:
    lake.add_by_others(100)
    expire_all(lake)
    mark = lake.mark()
    position = lake.sink().claim(TASK, attempt(1))
    position.connection.append([{"id": 1}])
    position.commit(1)
    lake.restore(mark)
    remove_earlier_metadata(lake)
    assert lake.sink().claim(TASK, attempt(2)).position is None
    assert lake.ids() == [100]


def expire_all(lake: IcebergLake) -> None:
    changed(
        lake,
        lambda table: (
            table.maintenance.expire_snapshots()
            .older_than(datetime.now(timezone.utc).replace(tzinfo=None) + timedelta(days=1))
            .commit()
        ),
    )
    assert lake.commits() == 1


def test_positions_that_nobody_has_moved_for_long_are_forgotten(lake: IcebergLake) -> None:
    lake.sink().claim(["loop", "old"], attempt(1)).commit(1)
    old = LakeKey.of(["loop", "old"])
    lake.sink().claim(TASK, attempt(1))
    assert properties(lake) == {PREFIX + old.hashed, PREFIX + KEY.hashed}
    lake.sink(keep_positions=timedelta(0)).claim(TASK, attempt(2))
    assert properties(lake) == {PREFIX + KEY.hashed}
    assert lake.sink().claim(["loop", "old"], attempt(2)).position == 1, "its snapshot is still there"


def properties(lake: IcebergLake) -> set[str]:
    with lake.catalog() as catalog:
        return {name for name in catalog.load_table(lake.NAME).properties if name.startswith(PREFIX)}


@pytest.mark.skipif(not hasattr(Transaction, "_rebuild_snapshot_updates"), reason="pyiceberg < 0.12 has no retries")
def test_the_retries_of_pyiceberg_would_pass_over_the_claim_of_another_attempt(
    lake: IcebergLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Why commits are given to the catalog directly: with this change, rows of a superseded attempt are there."""

    def commit(self: IcebergLakeTable, transaction: Transaction) -> None:
        transaction.commit_transaction()

    old, new = lake.sink().claim(TASK, attempt(1)), lake.sink().claim(TASK, attempt(2))
    old.connection.append([{"id": 1}])
    with pytest.raises(SupersededError):
        old.commit(1)
    with monkeypatch.context() as patched:
        patched.setattr(IcebergLakeTable, "_commit", commit)
        late = lake.sink().claim(TASK, attempt(3))
        newest = lake.sink().claim(TASK, attempt(4))
        late.connection.append([{"id": 1}])
        late.commit(1)
        assert lake.ids() == [1], "if this fails, pyiceberg refuses it by itself now"
    newest.rollback()
    with pytest.raises(SupersededError):
        new.commit(2)


def test_columns_that_were_added_since_the_claim_are_null_in_what_was_appended_before(lake: IcebergLake) -> None:
    position = lake.sink().claim(TASK, attempt(1))
    position.connection.append([{"id": 1}])
    changed(lake, lambda table: table.update_schema().add_column("more", LongType()).commit())
    lake.add_by_others(0)
    position.commit(1)
    position.connection.append([{"id": 2, "more": 3}])
    position.commit(2)
    assert sorted((row["id"], row["more"]) for row in lake.rows()) == [(0, None), (1, None), (2, 3)]


def test_a_table_that_is_missing_is_an_error_by_name(lake: IcebergLake) -> None:
    sink = IcebergSink("lake.orders", catalog="tests", catalog_options=lake.options)
    with pytest.raises(
        SinkTableError, match=r"no Iceberg table tests:lake\.orders\.\nMake it, or give the sink schema="
    ):
        sink.claim(TASK, attempt(1))


def test_a_table_of_the_first_format_is_refused(lake: IcebergLake) -> None:
    with lake.catalog() as catalog:
        catalog.create_table("lake.old", schema=SCHEMA, properties={"format-version": "1"})
    with pytest.raises(SinkUnsafeError, match="format version 1"):
        IcebergSink("lake.old", catalog="tests", catalog_options=lake.options).claim(TASK, attempt(1))


def test_a_namespace_is_not_made(lake: IcebergLake) -> None:
    sink = IcebergSink("pond.orders", catalog="tests", catalog_options=lake.options, schema=SCHEMA)
    with pytest.raises(NoSuchNamespaceError):
        sink.claim(TASK, attempt(1))


def test_a_table_may_be_given(lake: IcebergLake) -> None:
    lake.sink().claim(TASK, attempt(1)).commit(1)
    table = load_catalog("tests", **lake.options).load_table(lake.NAME)
    sink = IcebergSink(table)
    assert sink.claim(TASK, attempt(2)).position == 1
    assert sink.target == "lake.flights"


def test_types_and_partitions_of_a_table_are_kept(lake: IcebergLake) -> None:
    schema = pa.schema(
        [("at", pa.timestamp("us", tz="UTC")), ("cost", pa.decimal128(10, 2)), ("tags", pa.list_(pa.string()))]
    )
    sink = IcebergSink("lake.orders", catalog="tests", catalog_options=lake.options, schema=schema)
    position = sink.claim(TASK, attempt(1))
    row = {"at": datetime(2026, 1, 1, tzinfo=timezone.utc), "cost": None, "tags": ["a"]}
    position.connection.append([row])
    position.commit(1)
    with lake.catalog() as catalog:
        assert catalog.load_table("lake.orders").scan().to_arrow().to_pylist() == [row]


def test_a_missing_package_is_named_with_its_extra(lake: IcebergLake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "airflow_resume.sinks.iceberg_table")
    monkeypatch.setitem(sys.modules, "pyiceberg.catalog", None)
    with pytest.raises(ModuleNotFoundError, match=r"IcebergSink needs .*\nInstall airflow-resume\[iceberg\]"):
        lake.sink().claim(TASK, attempt(1))


def test_messages_have_no_secrets() -> None:
    sink = IcebergSink("lake.orders", catalog="prod", catalog_options={"token": "secret"})
    assert sink.target == "prod:lake.orders"
    assert "secret" not in repr(sink)


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"table": 3}, TypeError),
        ({"table": "orders"}, TypeError),
        ({"table": Table}, TypeError),
        ({"catalog": 3}, TypeError),
        ({"catalog_options": "x"}, TypeError),
        ({"schema": {"id": "int"}}, TypeError),
        ({"keep_positions": 3}, TypeError),
        ({"on_contention": "x"}, ValueError),
        ({"patience": 3}, TypeError),
        ({"script": 3}, TypeError),
    ],
    ids=str,
)
def test_wrong_arguments_are_refused_at_once(wrong: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        IcebergSink(**{"table": "lake.flights", **wrong})
