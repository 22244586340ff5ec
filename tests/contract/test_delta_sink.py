"""What only a sink in a Delta table has: its log, restores, properties and options of its store."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError

from airflow_resume.errors import SinkError, SinkTableError, SinkUnsafeError, SupersededError
from airflow_resume.sink_protocol import Claimant
from airflow_resume.sinks import DeltaSink
from airflow_resume.sinks.decide import Held, Stamp
from airflow_resume.sinks.delta_log import RECORD, LoggedCommit, newest_record
from airflow_resume.sinks.lake_record import LakeKey, LakeRecord
from tests.support.sinks.lakes import SCHEMA, DeltaLake

TASK: list[Any] = ["loop", "dag", "run", "task", -1, "orders"]
KEY, OTHER = LakeKey.of(TASK), LakeKey.of(["loop", "another"])


def attempt(try_number: int) -> Claimant:
    return Claimant(owner="a task", try_number=try_number)


@pytest.fixture
def lake(tmp_path: Path) -> DeltaLake:
    lake = DeltaLake(tmp_path)
    lake.make()
    return lake


# --- which record counts, as a table; `pytest -s` prints it ---------------------------------------------------------


def ours(number: int, key: LakeKey = KEY) -> dict[str, Any]:
    record = LakeRecord(held=Held(by=attempt(1)), stamp=Stamp("n", number), position=f"at {number}")
    return {RECORD: record.dumps(key)}


def restore(**to: Any) -> dict[str, Any]:
    return {"operation": "RESTORE", "operationParameters": to}


def add(path: str, **more: Any) -> dict[str, Any]:
    return {"add": {"path": path, "partitionValues": {}, "size": 1, "dataChange": True, **more}}


def remove(path: str, **more: Any) -> dict[str, Any]:
    return {"remove": {"path": path, "dataChange": True, **more}}


def logged(number: int, commit: Mapping[str, Any] | list[dict[str, Any]]) -> LoggedCommit:
    """A commit that says this of itself, or has these actions."""
    actions = commit if isinstance(commit, list) else [{"commitInfo": commit}]
    return LoggedCommit(number, [json.dumps(action).encode() for action in actions])


def rows_of_ours(number: int, path: str) -> list[dict[str, Any]]:
    return [{"commitInfo": ours(number)}, add(path)]


WRITE: dict[str, Any] = {"operation": "WRITE"}
SAME: dict[str, Any] = {"dataChange": False}
VECTOR: dict[str, Any] = {"deletionVector": {"storageType": "u", "pathOrInlineDv": "x", "offset": 1}}
LOADED: list[Any] = [WRITE, ours(0), rows_of_ours(1, "a"), rows_of_ours(2, "b")]
"""A log with a claim and two elements."""
LOGS: dict[str, tuple[int, list[Mapping[str, Any] | list[dict[str, Any]]], object]] = {
    "the newest": (2, [WRITE, ours(0), ours(1), ours(2)], "at 2"),
    "under commits of others": (1, [WRITE, ours(0), ours(1), WRITE, ours(5, OTHER)], "at 1"),
    "the log begins later": (1, [WRITE, WRITE], "forgotten"),
    "an older one than the state says": (2, [WRITE, ours(0), ours(1)], "forgotten"),
    "restored to a commit with a record": (2, [WRITE, ours(0), ours(1), ours(2), restore(version="2")], "at 1"),
    "restored to one between records": (1, [WRITE, ours(0), WRITE, ours(1), restore(version=2)], "at 0"),
    "restored to one before all": (1, [WRITE, ours(0), ours(1), restore(version="0")], None),
    "moved on after a restore": (3, [WRITE, ours(0), ours(1), ours(2), restore(version="1"), ours(3)], "at 3"),
    "restored twice": (2, [WRITE, ours(0), ours(1), restore(version="1"), ours(2), restore(version=3)], "at 0"),
    "restored twice, at last to before": (
        2,
        [WRITE, ours(0), ours(1), ours(2), restore(version="2"), restore(version=3)],
        "at 2",
    ),
    "restored to a time": (1, [WRITE, ours(0), ours(1), restore(datetime="2026-01-01T00:00:00Z")], SinkUnsafeError),
    "restored to a time, as Spark says it": (
        1,
        [WRITE, ours(0), ours(1), restore(version="", timestamp="2026-01-01 00:00:00.0")],
        SinkUnsafeError,
    ),
    "restored to a time, and then to a version": (
        1,
        [WRITE, ours(0), ours(1), restore(datetime="2026-01-01"), restore(version="1")],
        "at 0",
    ),
    "not said, the last element is gone": (2, [*LOADED, [remove("b")]], "at 1"),
    "not said, all elements are gone": (2, [*LOADED, [remove("a"), remove("b")]], "at 0"),
    "not said, to before the first commit": (1, [WRITE, rows_of_ours(0, "a"), ours(1), [remove("a")]], None),
    "not said, moved on since": (3, [*LOADED, [remove("b")], rows_of_ours(3, "c")], "at 3"),
    "not said, below commits of others": (2, [*LOADED, [remove("b")], WRITE, [WRITE, add("x")]], "at 1"),
    "not said, under a name that is empty": (2, [*LOADED, [{"commitInfo": {"engineInfo": "x"}}, remove("b")]], "at 1"),
    "not said, back to what others had removed": (
        2,
        [[add("x")], *LOADED[1:3], [{"commitInfo": WRITE}, remove("x")], ours(2), [add("x"), remove("a")]],
        "at 0",
    ),
    "not said, twice": (2, [*LOADED, [remove("b")], [remove("a")]], "at 0"),
    "not said, with other statistics since": (2, [*LOADED, [add("a", **SAME)], [remove("b")]], "at 1"),
    "rows of others were deleted": (2, [[add("x")], *LOADED[1:], [remove("x")]], "at 2"),
    "an element of ours was deleted, and not the last one": (2, [*LOADED, [remove("a")]], "at 2"),
    "rows were overwritten": (2, [*LOADED, [remove("a"), remove("b"), add("c")]], "at 2"),
    "rows of a file were deleted": (2, [*LOADED, [remove("b"), add("b", **VECTOR)]], "at 2"),
    "files were compacted": (2, [*LOADED, [remove("a", **SAME), remove("b", **SAME), add("c", **SAME)]], "at 2"),
    "of a newer release": (1, [WRITE, {RECORD: f'{{"v": 2, "key": "{KEY.hashed}"}}'}], SinkError),
    "no record at all": (1, [WRITE, {RECORD: "?"}, {RECORD: "[1]"}], SinkError),
}


@pytest.mark.parametrize("name", LOGS)
def test_the_record_that_counts(name: str) -> None:
    version, log, wanted = LOGS[name]
    begins = 7 if name == "the log begins later" else 0
    commits = [logged(begins + number, commit) for number, commit in enumerate(log)][::-1]
    if isinstance(wanted, type):
        with pytest.raises(wanted):
            newest_record(commits, KEY, version, "x")
        print(f"{name:45} {wanted.__name__}")
        return
    found = newest_record(commits, KEY, version, "x")
    assert (found.position if found else "forgotten") == wanted
    assert found is None or found.stamp.version == version
    print(f"{name:45} {wanted}")


def test_it_is_not_known_whether_rows_were_removed_by_a_restore_to_what_the_log_has_forgotten() -> None:
    commits = [logged(7 + number, commit) for number, commit in enumerate([*LOADED[1:], [remove("a"), remove("b")]])]
    assert newest_record(commits[:-1][::-1], KEY, 2, "x") is not None
    assert newest_record(commits[::-1], KEY, 2, "x") is not None  # those are the files of a commit that is there
    commits[-1] = logged(commits[-1].number, [remove("older"), remove("b")])
    with pytest.raises(SinkUnsafeError, match="does not say whether it was a restore") as raised:
        newest_record(commits[::-1], KEY, 2, "x")
    assert raised.value.problem == "history"


# --- a real table ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["restore", "delete"])
def test_a_commit_that_does_not_say_that_it_is_a_restore_is_known_by_the_files(lake: DeltaLake, way: str) -> None:
    position = lake.sink().claim(TASK, attempt(1))
    marks = [lake.mark()]
    for number in (1, 2, 3):
        position.connection.append([{"id": number}])
        position.commit(number)
        marks.append(lake.mark())
    lake.add_by_others(10)
    if way == "restore":
        lake.restore(marks[1])
    else:
        lake.table.delete("id = 10")
    file = lake.folder / "flights" / "_delta_log" / f"{lake.mark():020d}.json"
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join(line for line in lines if '"commitInfo"' not in line))
    known = [1] if way == "restore" else [1, 2, 3]
    assert lake.ids() == known
    assert lake.sink().claim(TASK, attempt(2)).position == known[-1]


def test_a_position_is_found_behind_checkpoints_and_hundreds_of_commits_of_others(lake: DeltaLake) -> None:
    position = lake.sink().claim(TASK, attempt(1))
    position.connection.append([{"id": 1}])
    position.commit(1)
    for number in range(120):
        lake.add_by_others(1000 + number)
    assert list((lake.folder / "flights" / "_delta_log").glob("*.checkpoint*"))
    position.connection.append([{"id": 2}])
    position.commit(2)
    assert lake.sink().claim(TASK, attempt(2)).position == 2


def test_a_position_that_the_log_has_forgotten_is_an_error_by_name_and_no_start(lake: DeltaLake) -> None:
    lake.sink().claim(TASK, attempt(1)).commit(1)
    lake.add_by_others(1)
    lake.table.create_checkpoint()
    last = lake.table.version()
    for number in range(last):
        (lake.folder / "flights" / "_delta_log" / f"{number:020d}.json").unlink()
    assert lake.table.transaction_version(KEY.hashed) == 1
    before = lake.commits()
    with pytest.raises(SinkUnsafeError, match="its log does not say") as raised:
        lake.sink().claim(TASK, attempt(2))
    assert raised.value.problem == "history"
    assert lake.commits() == before
    assert lake.sink().claim(["loop", "another"], attempt(1)).position is None


def test_a_table_that_was_restored_to_a_time_is_refused_until_it_is_restored_to_a_version(lake: DeltaLake) -> None:
    position = lake.sink().claim(TASK, attempt(1))
    position.connection.append([{"id": 1}])
    position.commit(1)
    version = lake.table.version()
    time.sleep(0.02)
    now = datetime.now(timezone.utc)
    time.sleep(0.02)
    lake.add_by_others(2)
    lake.table.restore(now)
    with pytest.raises(SinkUnsafeError, match="Restore it to a version"):
        lake.sink().claim(TASK, attempt(2))
    lake.table.restore(version)
    assert lake.sink().claim(TASK, attempt(2)).position == 1


def test_the_file_of_an_attempt_that_was_superseded_is_in_no_version_and_can_be_removed(lake: DeltaLake) -> None:
    old, new = lake.sink().claim(TASK, attempt(1)), lake.sink().claim(TASK, attempt(2))
    old.connection.append([{"id": 1}])
    with pytest.raises(SupersededError):
        old.commit(1)
    new.connection.append([{"id": 2}])
    new.commit(2)
    assert lake.ids() == [2]
    assert len(list((lake.folder / "flights").glob("*.parquet"))) == 2
    time.sleep(0.1)  # files of the future are kept
    removed = lake.table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False, full=True)
    assert len(removed) == 1
    assert lake.ids() == [2]


def test_a_table_that_is_missing_is_an_error_by_name(tmp_path: Path) -> None:
    with pytest.raises(SinkTableError, match=r"no Delta table at .*flights\.\nMake it, or give the sink schema="):
        DeltaSink(tmp_path / "flights").claim(TASK, attempt(1))
    assert not (tmp_path / "flights").exists()


def test_it_is_made_from_a_schema(tmp_path: Path) -> None:
    (tmp_path / "flights").mkdir()
    sink = DeltaSink(tmp_path / "flights", schema=SCHEMA, partition_by=["name"])
    for number in (1, 2):
        position = sink.claim(TASK, attempt(number))
        position.connection.append([{"id": number, "name": name} for name in "ab"])
        position.commit(number)
    table = DeltaTable(tmp_path / "flights")
    assert table.metadata().partition_columns == ["name"]
    assert table.to_pyarrow_table().num_rows == 4


def test_a_table_may_be_given(lake: DeltaLake) -> None:
    lake.sink().claim(TASK, attempt(1)).commit(1)
    assert DeltaSink(lake.table).claim(TASK, attempt(2)).position == 1


def test_columns_that_were_added_since_the_claim_are_null_in_what_was_appended_before(lake: DeltaLake) -> None:
    from deltalake import Field
    from deltalake.schema import PrimitiveType

    position = lake.sink().claim(TASK, attempt(1))
    lake.table.alter.add_columns(Field("more", PrimitiveType("integer")))
    position.connection.append([{"id": 1}])
    position.commit(1)
    position.connection.append([{"id": 2, "more": 3}])
    position.commit(2)
    assert sorted((row["id"], row["more"]) for row in lake.rows()) == [(1, None), (2, 3)]


def test_a_property_that_forgets_positions_is_refused(lake: DeltaLake) -> None:
    lake.table.alter.set_table_properties({"delta.setTransactionRetentionDuration": "interval 7 days"})
    with pytest.raises(SinkUnsafeError, match="forgets the position") as raised:
        lake.sink().claim(TASK, attempt(1))
    assert raised.value.problem == "database"


@pytest.mark.parametrize("name", ["AWS_S3_ALLOW_UNSAFE_RENAME", "allow_unsafe_rename"])
@pytest.mark.parametrize("where", ["option", "environment"])
def test_a_store_where_writers_overwrite_each_other_is_refused_before_it_is_touched(
    name: str, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if where == "environment":
        monkeypatch.setitem(os.environ, name, "true")
    options = {name: "true"} if where == "option" else {}
    with pytest.raises(SinkUnsafeError, match="unsafe_rename") as raised:
        DeltaSink("s3://nowhere/flights", storage_options=options).claim(TASK, attempt(1))
    assert raised.value.problem == "option"


def test_a_commit_that_is_refused_although_nobody_came_first_is_not_tried_again(lake: DeltaLake) -> None:
    sink, tried = lake.sink(), list[int]()

    def commits(commit: Any) -> None:
        if tried:
            tried.append(1)
            raise CommitFailedError("the table may not be written")
        commit()

    sink.commits = commits
    position = sink.claim(TASK, attempt(1))
    tried.append(0)
    with pytest.raises(CommitFailedError, match="may not be written"):
        position.commit(1)
    assert len(tried) == 2


def test_messages_have_no_secrets() -> None:
    sink = DeltaSink("abfss://user:secret@store/flights?sig=secret", storage_options={"token": "secret"})
    assert sink.target == "abfss://store/flights"
    assert "secret" not in repr(sink)


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"table": 3}, TypeError),
        ({"table": ""}, TypeError),
        ({"table": DeltaTable}, TypeError),
        ({"storage_options": "x"}, TypeError),
        ({"schema": {"id": "int"}}, TypeError),
        ({"partition_by": "id"}, TypeError),
        ({"on_contention": "x"}, ValueError),
        ({"patience": 3}, TypeError),
        ({"script": 3}, TypeError),
    ],
    ids=str,
)
def test_wrong_arguments_are_refused_at_once(wrong: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        DeltaSink(**{"table": "flights", **wrong})


def test_types_of_a_table_are_kept(tmp_path: Path) -> None:
    schema = pa.schema(
        [("at", pa.timestamp("us", tz="UTC")), ("cost", pa.decimal128(10, 2)), ("tags", pa.list_(pa.string()))]
    )
    sink = DeltaSink(tmp_path / "orders", schema=schema)
    position = sink.claim(TASK, attempt(1))
    row = {"at": datetime(2026, 1, 1, tzinfo=timezone.utc), "cost": None, "tags": ["a"]}
    position.connection.append([row])
    position.commit(1)
    [found] = DeltaTable(tmp_path / "orders").to_pyarrow_table().to_pylist()
    assert found["at"] == row["at"]
    assert found["tags"] == ["a"]


def test_a_missing_package_is_named_with_its_extra(lake: DeltaLake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "airflow_resume.sinks.delta_table")
    monkeypatch.setitem(sys.modules, "deltalake", None)
    with pytest.raises(ModuleNotFoundError, match=r"needs the package deltalake\.\nInstall airflow-resume\[delta\]"):
        lake.sink().claim(TASK, attempt(1))
