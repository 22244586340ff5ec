"""The log of a Delta table: which record of a position counts.

Theory of operation. A RESTORE undoes rows, and not the number of an application. So the records of what it has undone
are passed over. It says in its own information to which version the table went back. The information is optional, and
another engine may leave it out. Then the files tell: after a restore, the table has the files that an earlier version
had, and no others.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import tee
from typing import Any

from airflow_resume.errors import SinkUnsafeError
from airflow_resume.sinks.lake_record import LakeKey, LakeRecord

RECORD = "airflow_resume"
"""The name of the record in the information of a commit."""


class LoggedCommit:
    """A commit, as the log has it.

    Args:
        number: of the commit, which is the version of the table that it has made.
        lines: of its file, each with one action as JSON.
    """

    def __init__(self, number: int, lines: Sequence[bytes]) -> None:
        self.number, self._lines = number, lines

    @cached_property
    def info(self) -> Mapping[str, Any]:
        """What the commit says of itself; empty if it says nothing."""
        return next((action["commitInfo"] for action in self._actions("commitInfo") if action["commitInfo"]), {})

    def _actions(self, *kinds: str) -> Iterator[Any]:
        names = [f'"{kind}"'.encode() for kind in kinds]
        for line in self._lines:
            if any(name in line for name in names):
                action = json.loads(line)
                if any(action.get(kind) is not None for kind in kinds):
                    yield action

    @property
    def may_be_restore(self) -> bool:
        """Whether the commit removes rows, and does not say in which way."""
        if self.info.get("operation"):
            return False
        return any(action["remove"].get("dataChange", True) for action in self._actions("remove"))

    def files(self) -> Iterator[tuple[str, int]]:
        """The files that the table had before the commit and not after it (1), or the other way round (-1).

        A commit that only adds files, and says that no row has changed, writes new statistics of files that were there.
        """
        files = [(action.get("add"), action.get("remove")) for action in self._actions("add", "remove")]
        adds_only = all(removed is None for _, removed in files)
        for added, removed in files:
            file = removed or added
            if adds_only and not file.get("dataChange", True):
                continue
            vector = file.get("deletionVector") or {}
            rows = [vector.get(part) for part in ("storageType", "pathOrInlineDv", "offset")]
            yield json.dumps([file["path"], *rows]), -1 if removed is None else 1


def newest_record(commits: Iterable[LoggedCommit], key: LakeKey, version: int, target: str) -> LakeRecord | None:
    """The record of a key that counts; None if the commits do not say.

    Args:
        commits: the newest first, as far as the log has them.
        key: of the position.
        version: how many commits the key has, as the state of the table says it.
        target: where it is, for messages.

    Returns:
        The record. Its version is that of the state, also if the record is older because the table was restored.

    Raises:
        SinkUnsafeError: it is not known what the table was restored to.
        SinkError: a record cannot be read.
    """
    last: int | None = None
    rest = iter(commits)
    while (commit := next(rest, None)) is not None:
        if last is not None and commit.number > last:
            continue
        if commit.info.get("operation") == "RESTORE":
            last = _restored_to(commit.info, target)
        elif (record := LakeRecord.loads(commit.info.get(RECORD), key, target)) is not None:
            return record.moved_to(version) if last is not None or record.stamp.version == version else None
        elif commit.may_be_restore:
            rest, ahead = tee(rest)
            last = _with_the_files_of(commit, ahead, last, target)
        if commit.number == 0 and last is not None:
            return LakeRecord.of_nothing(version)
    return None


def _restored_to(info: Mapping[str, Any], target: str) -> int:
    to = str((info.get("operationParameters") or {}).get("version"))
    if not to.isdigit():
        raise SinkUnsafeError(
            f"{target} was restored to a point in time, which does not say to which commit.",
            "Restore it to a version.",
            problem="history",
            sink=target,
        )
    return int(to)


def _with_the_files_of(
    commit: LoggedCommit, before: Iterable[LoggedCommit], last: int | None, target: str
) -> int | None:
    """The newest earlier version with the files that the table has after a commit; `last` if no version has them.

    A person who deletes all that was written since some version does the same to the rows as a restore to it. So it
    does not matter which of the two it was.

    Args:
        commit: that does not say what it was.
        before: the commits before it, the newest first.
        last: to which version a later commit has restored the table; None if none has.
        target: where it is, for messages.

    Raises:
        SinkUnsafeError: the log begins too late to know.
    """
    differ: dict[str, int] = {}
    at = commit
    for earlier in before:
        for file, change in at.files():
            differ[file] = differ.get(file, 0) + change
            if differ[file] == 0:
                del differ[file]
        if not differ:
            return earlier.number
        at = earlier
    if at.number == 0:
        return last
    raise SinkUnsafeError(
        f"The commit {commit.number} of {target} has removed rows, and does not say whether it was a restore. The log"
        f" begins with the commit {at.number}, so nobody knows.",
        "See which rows are there, and give the loop or watermark another name. Have the engine that made the commit"
        " write its commitInfo.",
        problem="history",
        sink=target,
    )
