"""The log of a folder: which files are committed, and up to which position.

Theory of operation. Commit n of a key is the file n of its log. It contains the record of the position and the names of
the files that were written since commit n - 1. It is created only if it is not there yet, so of two attempts that make
commit n only one succeeds. Files of data are written before, under names that no other attempt uses, and count only
when a commit names them.

A file that may be committed, or may become so by a request that is still under way, is never removed. Once an attempt
has claimed the position by commit n, no earlier attempt can make a commit from n on. So files for these commits that
were there before the claim are left behind, also if the attempt that removes them was frozen and replaced meanwhile.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from airflow_resume.errors import SinkError, SupersededError
from airflow_resume.shown import get_logger, short_repr
from airflow_resume.sinks.lake_position import LakeMovedError, LakeWriter
from airflow_resume.sinks.lake_record import LakeKey, LakeRecord
from airflow_resume.sinks.object_store import PART, ObjectStore

log = get_logger(__name__)

_LOGS = "_airflow_resume/log"
_COMMIT = re.compile(r"\d{20}\.json")
"""The name of a file of the log; files of others in its folder do not count."""


class ObjectLog:
    """A folder that takes files and a record in one commit.

    Args:
        store: the folder.
        key: of the position.
        commits: runs each commit.
    """

    def __init__(self, store: ObjectStore, key: LakeKey, *, commits: Callable[[Callable[[], None]], None]) -> None:
        self._store, self.key, self._commits, self.target = store, key, commits, store.target
        self._log, self._data = f"{_LOGS}/{key.hashed}", key.hashed
        self._writer: ObjectWriter | None = None

    def look(self) -> LakeRecord | None:
        """Read the newest record of the key.

        Raises:
            SinkError: it cannot be read.
        """
        names = _commits_in(self._store, self._log)
        if not names:
            return None
        found = LakeRecord.loads(self._text(names[-1]), self.key, self.target)
        if found is not None:
            self._next(found)
        return found

    def _next(self, record: LakeRecord) -> None:
        if self._writer is not None:
            self._writer.number = record.stamp.version + 1

    def _text(self, name: str) -> str:
        return self._store.read(f"{self._log}/{name}").decode()

    def put(self, record: LakeRecord, pending: Sequence[str]) -> None:
        """Commit files and a record, if nobody has made this commit.

        Raises:
            LakeMovedError: somebody has.
            Exception: as the file system raises it.
        """
        commit = {**json.loads(record.dumps(self.key)), "files": list(pending)}
        name = f"{self._log}/{record.stamp.version:020d}.json"
        try:
            self._commits(lambda: self._store.create(name, json.dumps(commit).encode()))
        except FileExistsError as error:
            raise LakeMovedError(f"{name} exists in {self.target}") from error
        self._next(record)

    def writer(self, record: LakeRecord) -> ObjectWriter:
        """What the body writes with."""
        self._writer = ObjectWriter(self._store, self._data, record, lambda: self._check(record))
        return self._writer

    def _check(self, record: LakeRecord) -> None:
        found = self.look()
        if found is None or found.stamp.nonce != record.stamp.nonce:
            raise SupersededError(key=self.key.identity)

    def files(self) -> list[str]:
        """The names of the files of data, committed or not."""
        return self._store.names(self._data)

    def remove_left_behind(self, files: Sequence[str]) -> None:
        """Remove files of earlier attempts that were not committed and cannot be any more.

        Args:
            files: that were there before the claim.
        """
        assert self._writer is not None  # noqa: S101  the key is claimed
        first = f"{self._writer.number - 1:020d}"  # the number of the claim
        try:
            self._store.remove([f"{self._data}/{name}" for name in files if name >= first])
        except Exception as error:  # noqa: BLE001  they do not count, and the next attempt tries again
            log.debug("%s: files that were left behind were not removed: %r", self.target, error)


class ObjectWriter(LakeWriter):
    """What the body of a loop or a window writes with. A file counts when the position after it is committed.

    Args:
        store: the folder.
        data: the folder of the key in it.
        record: of the claim.
        check: raises a `SupersededError` if another attempt has claimed the position.
    """

    def __init__(self, store: ObjectStore, data: str, record: LakeRecord, check: Callable[[], None]) -> None:
        super().__init__()
        self._store, self._data, self._nonce, self._check = store, data, record.stamp.nonce[:8], check
        self.number = record.stamp.version + 1
        """Of the next commit."""
        self._written = 0

    def write(self, name: str, data: bytes | str) -> str:
        """Write a file.

        Args:
            name: of the file, without a folder. The path begins with the number of the commit.
            data: a str is written in UTF-8.

        Returns:
            Its path.

        Raises:
            ValueError: as `open`.
            SinkUnsafeError: the loop or the window is over, or another thread than its own writes.
        """
        with self.open(name) as file:
            file.write(data.encode() if isinstance(data, str) else data)
        path: str = self._store.path(self.pending[-1])
        return path

    @contextmanager
    def open(self, name: str) -> Iterator[Any]:
        """A binary file to write to. If the block raises an error, there is no such file.

        Args:
            name: of the file, without a folder.

        Raises:
            ValueError: it has a folder.
            SinkUnsafeError: the loop or the window is over, or another thread than its own writes.
            SupersededError: another attempt has claimed the position, and has removed the file.
        """
        self.check()
        if not isinstance(name, str) or not name or "/" in name or "\\" in name or name.endswith(PART):
            raise ValueError(f"{short_repr(name)} is not the name of a file.\nGive a name without a folder.")
        self._written += 1  # one that may be committed already is not overwritten, whatever the next number is
        path = f"{self._data}/{self.number:020d}-{self._written:06d}-{self._nonce}-{name}"
        try:
            with self._store.writing(path) as file:
                yield file
        except FileNotFoundError:
            self._check()  # a later attempt may have removed it
            raise
        with self.lock:
            self.pending.append(path)

    def forget(self, after: int = 0) -> None:
        """Remove what was written, except for the first so many files."""
        names = self.pending[after:]
        del self.pending[after:]
        try:
            self._store.remove(names)
        except Exception as error:  # noqa: BLE001  they do not count, and a later attempt removes them
            log.debug("%s: files that do not count were not removed: %r", self._store.target, error)


def committed_files(store: ObjectStore) -> list[str]:
    """The paths of all files that are committed to a folder, those of each key in the order of their commits.

    Args:
        store: the folder.

    Raises:
        SinkError: a commit is missing in the log of a key, so some of its files are not known.
    """
    files: list[str] = []
    for key in store.names(_LOGS):
        names = _commits_in(store, f"{_LOGS}/{key}")
        _check_whole(names, key, store.target)
        for name in names:
            files += json.loads(store.read(f"{_LOGS}/{key}/{name}"))["files"]
    return [store.path(each) for each in files]


def _commits_in(store: ObjectStore, folder: str) -> list[str]:
    return [name for name in store.names(folder) if _COMMIT.fullmatch(name)]


def _check_whole(names: Sequence[str], key: str, target: str) -> None:
    missing = next((number for number, name in enumerate(names) if name != f"{number:020d}.json"), None)
    if missing is not None:
        raise SinkError(
            f"The commit {missing} is missing in the log of {key} in {target}, so its files are not known.",
            "Restore the file of the log. Nothing may remove files of the log, such as a lifecycle rule.",
            sink=target,
        )
