"""A folder of files as a sink. fsspec is imported when the sink is first used, and not when a Dag file is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_resume.arguments import kind_of
from airflow_resume.sink_protocol import Claimant
from airflow_resume.sinks.decide import OnContention
from airflow_resume.sinks.lake_options import LakeSink, checked_options, needs_extra, without_secrets

if TYPE_CHECKING:
    from pydantic import JsonValue

    from airflow_resume.sinks.lake_position import LakePosition
    from airflow_resume.sinks.object_store import ObjectStore


class ObjectSink(LakeSink):
    """A folder, local or in an object store, that keeps the position of a loop or a watermark in a log of its files.

        sink = ObjectSink("s3://lake/orders")
        with checkpoint(pages, name="orders", sink=sink) as loop:
            for page in loop:
                loop.connection.write("orders.json", json.dumps(page.items))

        ObjectSink("s3://lake/orders").committed()  # the files that count

    `loop.connection` and `window.connection` have `write(name, data)` and `open(name)`. Each file gets a path of its
    own, so files of one name do not overwrite each other.

    Args:
        path: of the folder, or its URL.
        storage_options: for the file system, as fsspec takes them.
        filesystem: of fsspec, if it is not the one of the URL.
        on_contention: what to do if another run without an order holds the position, as for `SqlSink`.
        patience: after which time without a commit another run counts as dead, with `"wait"` and `"fail"`. 60 s by
            default, so it should be longer than the work on one element.
        script: the name of the script, for scripts whose `store=` does not outlive them. In a task it has no meaning.

    Raises:
        TypeError, ValueError: at once, for invalid arguments.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        storage_options: Mapping[str, Any] | None = None,
        filesystem: Any = None,
        on_contention: OnContention = "take_over",
        patience: timedelta = timedelta(seconds=60),
        script: str | None = None,
    ) -> None:
        if not (isinstance(path, (str, Path)) and str(path)):
            raise TypeError(f"path= was given {kind_of(path)}, and must be a path or a URL")
        options = checked_options("storage_options", storage_options, "fsspec")
        if filesystem is not None and not hasattr(filesystem, "pipe_file"):
            raise TypeError(f"filesystem= was given {kind_of(filesystem)}, and must be one of fsspec")
        if filesystem is not None and storage_options is not None:
            raise ValueError("storage_options= mean nothing with filesystem=, which has its own")
        super().__init__(on_contention=on_contention, patience=patience, script=script)
        self._path, self._options, self._filesystem = str(path), options, filesystem

    @property
    def target(self) -> str:
        """The folder without anything secret, for messages."""
        return without_secrets(self._path)

    def committed(self) -> list[str]:
        """The paths of all files that are committed, of all loops and watermarks that write to this folder.

        Files of one loop or watermark are in the order of their commits. A file that is in the folder and not among
        these is one of an element that is not done, or was left behind by an attempt that failed.

        Raises:
            SinkError: a commit is missing in the log.
        """
        from airflow_resume.sinks.object_log import committed_files

        return committed_files(self._store())

    def claim(self, identity: Sequence[JsonValue], claimant: Claimant) -> LakePosition:
        """Claim a position; loops and watermarks do that.

        Args:
            identity: what identifies the position.
            claimant: the running attempt.

        Raises:
            SupersededError: a later attempt has claimed it. Nothing was touched.
            SinkBusyError: another run works on it.
            SinkUnsafeError: the file system does not refuse to create a file that exists already.
            ModuleNotFoundError: a package is missing that the file system needs.
        """
        from airflow_resume.sinks.lake_record import LakeKey
        from airflow_resume.sinks.object_log import ObjectLog

        store = self._store()
        store.check_creates()
        lake = ObjectLog(store, LakeKey.of(identity), commits=self.commits)
        before = lake.files()
        position = self._claimed(lake, claimant)
        lake.remove_left_behind(before)
        return position

    def _store(self) -> ObjectStore:
        with needs_extra("objects", self):
            from airflow_resume.sinks.object_store import ObjectStore

            return ObjectStore(self._path, self._options, self._filesystem, self.target)
