"""What a sink of files keeps: whole files, a log of what counts, fences, leftovers, and stores that are refused."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest
from fsspec.implementations.dirfs import DirFileSystem
from fsspec.implementations.local import LocalFileSystem
from fsspec.implementations.memory import MemoryFileSystem

from airflow_resume import checkpoint
from airflow_resume.errors import SinkBusyError, SinkError, SinkUnsafeError, SupersededError
from airflow_resume.sink_protocol import Claimant
from airflow_resume.sinks import ObjectSink
from airflow_resume.sinks.lake_position import LakePosition
from airflow_resume.testing import task_context

TASK: list[Any] = ["loop", "dag", "run", "task", -1, "orders"]


def attempt(try_number: int) -> Claimant:
    return Claimant(owner="a task", try_number=try_number)


class LostReplyError(Exception):
    """Stands for what a client raises when the connection breaks."""


class Folder:
    """A folder, and what any reader finds in it."""

    def __init__(self, path: str, files: Any) -> None:
        self.path, self.files = path, files

    def sink(self, **options: Any) -> ObjectSink:
        return ObjectSink(self.path, **options)

    def committed(self) -> list[str]:
        return [self.files.cat_file(path).decode() for path in self.sink().committed()]

    def data(self) -> list[str]:
        """The files of data, committed or not."""
        return sorted(each for each in self.files.find(self.path) if "_airflow_resume" not in each)


@pytest.fixture(params=["local", "memory"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Folder]:
    if request.param == "local":
        yield Folder(str(tmp_path / "orders"), LocalFileSystem())
        return
    MemoryFileSystem.store.clear()
    yield Folder("memory://orders", fsspec.filesystem("memory"))
    MemoryFileSystem.store.clear()


@pytest.fixture
def claim(folder: Folder) -> Iterator[Callable[..., LakePosition]]:
    claimed: list[LakePosition] = []

    def claim_one(by: int | Claimant = 1, **options: Any) -> LakePosition:
        claimed.append(folder.sink(**options).claim(TASK, attempt(by) if isinstance(by, int) else by))
        return claimed[-1]

    yield claim_one
    for position in claimed:
        position.close()


# --- files ----------------------------------------------------------------------------------------------------------


def test_files_and_position_are_committed_together(claim: Any, folder: Folder) -> None:
    first = claim()
    assert first.position is None
    first.connection.write("a.txt", "one")
    with first.connection.open("b.txt") as file:
        file.write(b"t")
        file.write(b"wo")
    assert folder.committed() == []
    first.commit({"n": 1})
    assert folder.committed() == ["one", "two"]
    assert claim(2).position == {"n": 1}


def test_files_of_one_name_do_not_overwrite_each_other(claim: Any, folder: Folder) -> None:
    first = claim()
    paths: list[str] = []
    for number in range(12):
        path = first.connection.write("part.txt", str(number))
        first.commit(number)
        paths += [path]
    assert folder.committed() == [str(number) for number in range(12)]
    assert len(set(paths)) == 12
    assert [Path(path).name for path in folder.sink().committed()] == [Path(path).name for path in paths]


def test_a_file_whose_body_fails_is_not_there(claim: Any, folder: Folder) -> None:
    first = claim()
    with pytest.raises(KeyError), first.connection.open("a.txt") as file:
        file.write(b"half")
        raise KeyError
    first.connection.write("a.txt", "whole")
    first.commit(1)
    assert folder.committed() == ["whole"]
    assert len(folder.data()) == 1


def test_a_file_is_whole_when_it_is_there(claim: Any, tmp_path: Path) -> None:
    first = ObjectSink(tmp_path / "x").claim(TASK, attempt(1))
    with first.connection.open("a.txt") as file:
        file.write(b"half")
        file.flush()
        assert [path.suffix for path in tmp_path.rglob("*a.txt*")] == [".part"]
    assert [path.suffix for path in tmp_path.rglob("*a.txt*")] == [".txt"]


def test_what_is_not_committed_is_removed(claim: Any, folder: Folder) -> None:
    first = claim()
    first.connection.write("a.txt", "1")
    first.rollback()
    first.connection.write("a.txt", "2")
    first.commit(1)
    with pytest.raises(KeyError), first.savepoint():
        first.connection.write("b.txt", "3")
        raise KeyError
    first.connection.write("b.txt", "4")
    first.commit(2)
    first.connection.write("c.txt", "5")
    first.close()
    assert folder.committed() == ["2", "4"]
    assert len(folder.data()) == 2


@pytest.mark.parametrize("name", ["", "a/b.txt", "/a.txt", "a\\b", "x.part", 3, None])
def test_wrong_names_are_refused(claim: Any, name: Any) -> None:
    with pytest.raises(ValueError, match="is not the name of a file"):
        claim().connection.write(name, "x")


def test_a_name_may_be_used_again(claim: Any, folder: Folder) -> None:
    first = claim()
    first.connection.write("a.txt", "1")
    first.connection.write("a.txt", "2")
    first.commit(1)
    assert folder.committed() == ["1", "2"]


def test_what_was_kept_for_later_writes_nothing_after_the_end(claim: Any, folder: Folder) -> None:
    first = claim()
    writer = first.connection
    first.close()
    with pytest.raises(SinkUnsafeError, match="is over"):
        writer.write("a.txt", "x")
    assert folder.data() == []


def test_loops_share_a_folder(folder: Folder) -> None:
    loops = {name: folder.sink().claim(["loop", name], attempt(1)) for name in "ab"}
    for number, name in enumerate("abab"):
        loops[name].connection.write("x.txt", f"{name}{number}")
        loops[name].commit(number)
    assert sorted(folder.committed()) == ["a0", "a2", "b1", "b3"]
    assert {name: folder.sink().claim(["loop", name], attempt(2)).position for name in "ab"} == {"a": 2, "b": 3}


def test_an_empty_folder_has_no_files(tmp_path: Path) -> None:
    assert ObjectSink(tmp_path / "nothing").committed() == []


def test_a_loop_writes_each_element_once(folder: Folder) -> None:
    def write(task: Any, fail_at: int | None = None) -> None:
        with checkpoint([1, 2, 3], name="x", sink=folder.sink(), context=task.context) as loop:
            for number in loop:
                loop.connection.write("x.json", json.dumps(number))
                if number == fail_at:
                    raise LostReplyError

    task = task_context(retries=3)
    with pytest.raises(LostReplyError):
        write(task, fail_at=2)
    write(task.retry())
    assert folder.committed() == ["1", "2", "3"]
    assert len(folder.data()) == 3


def test_append_is_for_tables(folder: Folder) -> None:
    with checkpoint([1], name="x", sink=folder.sink(), context=task_context().context) as loop:
        for _ in loop:
            with pytest.raises(TypeError, match=r"for the tables of a lake, and this sink has a ObjectWriter"):
                loop.append([{"id": 1}])


# --- who may commit -------------------------------------------------------------------------------------------------


def test_the_commit_of_a_replaced_attempt_fails_and_its_files_do_not_count(claim: Any, folder: Folder) -> None:
    old = claim(1)
    old.commit(1)
    new = claim(2)
    for number in range(3):
        new.connection.write("x.txt", f"new {number}")
        new.commit(number)
    old.connection.write("x.txt", "old")
    with pytest.raises(SupersededError):
        old.commit(2)
    assert folder.committed() == ["new 0", "new 1", "new 2"]
    assert claim(3).position == 2


def test_an_attempt_that_is_late_claims_nothing(claim: Any) -> None:
    claim(2).commit(7)
    with pytest.raises(SupersededError):
        claim(1)
    assert claim(3).position == 7


def test_of_many_that_commit_at_once_each_file_counts_once(folder: Folder) -> None:
    outcomes: list[str] = []

    def run(number: int) -> None:
        try:
            position = folder.sink().claim(TASK, Claimant())
            for each in range(3):
                position.connection.write("x.txt", f"{number} {each}")
                position.commit([number, each])
            outcomes.append("ended")
        except (SupersededError, SinkBusyError) as error:
            outcomes.append(type(error).__name__)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(outcomes) == 4
    assert "ended" in outcomes
    assert len(folder.committed()) == len(set(folder.committed()))


def test_a_reader_sees_all_that_is_committed_while_others_commit(folder: Folder) -> None:
    position = folder.sink().claim(TASK, attempt(1))
    seen: list[int] = []
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            seen.append(len(folder.sink().committed()))

    reader = threading.Thread(target=read)
    reader.start()
    for number in range(60):
        position.connection.write("x.txt", str(number))
        position.commit(number)
    done.set()
    reader.join()
    assert seen == sorted(seen)


def test_an_attempt_whose_file_was_removed_by_its_successor_is_superseded_by_name(tmp_path: Path) -> None:
    first = ObjectSink(tmp_path).claim(TASK, attempt(1))
    with pytest.raises(SupersededError), first.connection.open("a.txt") as file:
        file.write(b"x")
        ObjectSink(tmp_path).claim(TASK, attempt(2))


# --- leftovers ------------------------------------------------------------------------------------------------------


def test_the_next_attempt_removes_what_a_dead_one_has_left_behind(claim: Any, folder: Folder) -> None:
    dead = folder.sink().claim(TASK, attempt(1))
    dead.connection.write("a.txt", "kept")
    dead.commit(1)
    dead.connection.write("b.txt", "left behind")
    assert len(folder.data()) == 2
    second = claim(2)
    assert len(folder.data()) == 1
    second.connection.write("b.txt", "again")
    second.commit(2)
    assert folder.committed() == ["kept", "again"]
    assert len(folder.data()) == 2


def test_one_that_is_frozen_between_its_claim_and_the_removal_removes_nothing_of_its_successor(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow_resume.sinks.object_log import ObjectLog

    remove = ObjectLog.remove_left_behind

    def frozen(self: ObjectLog, files: Any) -> None:
        monkeypatch.setattr(ObjectLog, "remove_left_behind", remove)
        successor = folder.sink().claim(TASK, attempt(2))
        successor.connection.write("a.txt", "of the successor")
        successor.commit(1)
        remove(self, files)

    monkeypatch.setattr(ObjectLog, "remove_left_behind", frozen)
    folder.sink().claim(TASK, attempt(1))
    assert folder.committed() == ["of the successor"]


# --- a reply that got lost ------------------------------------------------------------------------------------------


def test_a_commit_whose_reply_was_lost_counts_and_its_files_stay(folder: Folder) -> None:
    first = folder.sink().claim(TASK, attempt(1))
    breaks = [LostReplyError("gone")]

    def commits(commit: Callable[[], None]) -> None:
        commit()
        if breaks:
            raise breaks.pop()

    first._lake._commits = commits  # type: ignore[attr-defined]
    first.connection.write("a.txt", "1")
    first.commit(1)
    first.connection.write("a.txt", "2")
    first.commit(2)
    first.close()
    assert folder.committed() == ["1", "2"]


@pytest.mark.parametrize("interrupted", [True, False])
def test_files_of_a_commit_that_comes_late_are_still_there(folder: Folder, *, interrupted: bool) -> None:
    """The request was still under way when the attempt looked, and rolled back."""
    first = folder.sink().claim(TASK, attempt(1))
    late: list[Callable[[], None]] = []

    def commits(commit: Callable[[], None]) -> None:
        late.append(commit)
        raise KeyboardInterrupt if interrupted else LostReplyError

    first._lake._commits = commits  # type: ignore[attr-defined]
    first.connection.write("a.txt", "1")
    with pytest.raises((LostReplyError, KeyboardInterrupt)):
        first.commit(1)
    first.rollback()
    late[0]()
    assert folder.committed() == ["1"]
    first._lake._commits = lambda commit: commit()  # type: ignore[attr-defined]
    first.connection.write("a.txt", "another")
    with pytest.raises(SinkError, match="not known what became of an earlier commit"):
        first.commit(2)
    first.close()
    assert folder.committed() == ["1"]
    assert folder.sink().claim(TASK, attempt(2)).position == 1


# --- stores that are refused ----------------------------------------------------------------------------------------


class Overwriting(MemoryFileSystem):  # type: ignore[misc]
    """Has the option, and ignores it."""

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **kwargs: Any) -> None:
        super().pipe_file(path, value, mode="overwrite", **kwargs)


class Ignoring(MemoryFileSystem):  # type: ignore[misc]
    """Says that the file exists, and has written it."""

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **kwargs: Any) -> None:
        existed = self.exists(path)
        super().pipe_file(path, value, mode="overwrite", **kwargs)
        if mode == "create" and existed:
            raise FileExistsError(path)


REFUSED: dict[str, tuple[Callable[[Path], Any], str]] = {
    "one that overwrites": (lambda _: Overwriting(), "overwrites a file"),
    "one that overwrites and raises": (lambda _: Ignoring(), "overwrites a file"),
    "one that looks before it writes": (
        lambda path: DirFileSystem(path=str(path), fs=LocalFileSystem()),
        "DirFileSystem looks whether a file exists",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_store_where_two_can_commit_is_refused_and_nothing_is_left_there(name: str, tmp_path: Path) -> None:
    make, message = REFUSED[name]
    files = make(tmp_path)
    with pytest.raises(SinkUnsafeError, match=message) as raised:
        ObjectSink("orders", filesystem=files).claim(TASK, attempt(1))
    assert raised.value.problem == "database"
    assert files.find("orders") == []
    MemoryFileSystem.store.clear()


def test_a_local_folder_without_hard_links_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def link(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("os.link", link)
    with pytest.raises(SinkUnsafeError, match="hard links are not possible"):
        ObjectSink(tmp_path / "orders").claim(TASK, attempt(1))
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_the_probe_leaves_nothing_behind(claim: Any, folder: Folder) -> None:
    claim()
    assert [each for each in folder.files.find(folder.path) if "/probes/" in each] == []


def test_messages_have_no_secrets() -> None:
    sink = ObjectSink("s3://key:secret@lake/orders", storage_options={"secret": "secret"})
    assert sink.target == "s3://lake/orders"
    assert "secret" not in repr(sink)


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"path": 3}, TypeError),
        ({"path": ""}, TypeError),
        ({"storage_options": "x"}, TypeError),
        ({"filesystem": "s3"}, TypeError),
        ({"filesystem": LocalFileSystem(), "storage_options": {}}, ValueError),
        ({"on_contention": "x"}, ValueError),
        ({"patience": 3}, TypeError),
        ({"script": 3}, TypeError),
    ],
)
def test_wrong_arguments_are_refused_at_once(wrong: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        ObjectSink(**{"path": "orders", **wrong})


def test_a_commit_that_is_missing_in_the_log_is_an_error_by_name(claim: Any, folder: Folder) -> None:
    first = claim()
    for number in range(3):
        first.connection.write("a.txt", str(number))
        first.commit(number)
    logged = sorted(each for each in folder.files.find(folder.path) if "_airflow_resume/log" in each)
    folder.files.rm_file(logged[1])
    with pytest.raises(SinkError, match=r"commit 1 is missing in the log of .*\nRestore"):
        folder.committed()


def test_files_of_others_in_the_log_do_not_count(claim: Any, folder: Folder) -> None:
    first = claim()
    first.connection.write("a.txt", "1")
    first.commit(1)
    logged = next(each for each in folder.files.find(folder.path) if "_airflow_resume/log" in each)
    folder.files.pipe_file(f"{logged.rpartition('/')[0]}/copy of 1.json", b"{}")
    assert folder.committed() == ["1"]
    assert claim(2).position == 1


FORKED = """
    import os, sys
    from airflow_resume import checkpoint
    from airflow_resume.sinks import ObjectSink
    from airflow_resume.store import MemoryStore

    folder = ObjectSink(sys.argv[1], script="s", on_contention="wait")
    with checkpoint([1, 2, 3], name="rows", sink=folder, store=MemoryStore()) as loop:
        for number in loop:
            loop.connection.write(f"{number}.txt", str(number))
            if number == 2 and os.fork() == 0:
                if sys.argv[2] == "write":
                    loop.connection.write("9.txt", "9")
                if sys.argv[2] != "next":
                    sys.exit(0)
            elif number == 2:
                os.wait()
"""


@pytest.mark.parametrize("way", ["SystemExit", "write", "next"])
def test_a_fork_in_the_body_removes_no_file_of_its_parent_and_commits_nothing(way: str, tmp_path: Path) -> None:
    command = [sys.executable, "-c", textwrap.dedent(FORKED), str(tmp_path / "folder"), way]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    files = ObjectSink(tmp_path / "folder").committed()
    assert [Path(file).read_text() for file in files] == ["1", "2", "3"]
