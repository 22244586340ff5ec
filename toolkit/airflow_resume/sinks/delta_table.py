"""The commits of a Delta table that carry a position.

Theory of operation. A commit has two parts of ours. The application transaction says how many commits the key has: it
is part of the table's state, so it outlives the log. The record of the position is in the commit's own information.
delta-rs refuses a commit if one of the same application came between the state that it knows and this commit. It does
not refuse a number that is there already. So `put` commits only on a state that has our last number, and what came
after this state is refused by delta-rs. Commits of others to the same table refuse nothing.

Which record counts is read from the log, see `delta_log`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.fs import DeltaStorageHandler
from pyarrow.fs import PyFileSystem

from airflow_resume.errors import SinkTableError, SinkUnsafeError
from airflow_resume.sinks.delta_log import RECORD, LoggedCommit, newest_record
from airflow_resume.sinks.delta_partitions import check_partitions
from airflow_resume.sinks.lake_position import LakeMovedError
from airflow_resume.sinks.lake_record import LakeKey, LakeRecord
from airflow_resume.sinks.lake_rows import RowWriter, fitted_rows

_RETENTION = "delta.setTransactionRetentionDuration"


class DeltaLakeTable:
    """A Delta table that takes rows and a record in one commit.

    Args:
        uri: of the table.
        key: of the position.
        options: for the object store.
        schema: with which the table is made if it does not exist; None if it is not made.
        partition_by: if it is made.
        target: what it is called in messages.
        commits: runs each commit.
    """

    def __init__(
        self,
        uri: str,
        key: LakeKey,
        *,
        options: Mapping[str, str],
        schema: Any,
        partition_by: Sequence[str],
        target: str,
        commits: Callable[[Callable[[], None]], None],
    ) -> None:
        self._uri, self.key, self._options, self.target = uri, key, dict(options), target
        self._schema, self._partition_by, self._commits = schema, list(partition_by), commits
        self._table: DeltaTable = self._opened()
        self._arrow: pa.Schema = pa.schema(self._table.schema().to_arrow())
        self._partitioned: Sequence[str] = self._table.metadata().partition_columns
        self._version: int | None = None
        """The number of our key in the state that `put` may commit on."""
        self._check()

    def _opened(self) -> DeltaTable:
        try:
            return DeltaTable(self._uri, storage_options=self._options)
        except TableNotFoundError as error:
            if self._schema is None:
                raise SinkTableError(
                    f"There is no Delta table at {self.target}.",
                    "Make it, or give the sink schema=, an Arrow schema.",
                    sink=self.target,
                    statement=f"DeltaTable.create({self.target!r}, schema=...)",
                ) from error
        return self._made()

    def _made(self) -> DeltaTable:
        made = {"schema": self._schema, "partition_by": self._partition_by, "storage_options": self._options}
        try:
            DeltaTable.create(self._uri, mode="ignore", **made)
        except DeltaError:  # another attempt may have made it at the same time
            return DeltaTable(self._uri, storage_options=self._options)
        return DeltaTable(self._uri, storage_options=self._options)

    def _check(self) -> None:
        if self._table.metadata().configuration.get(_RETENTION) is not None:
            raise SinkUnsafeError(
                f"{self.target} has the property {_RETENTION}, so it forgets the position some day.",
                "Remove the property.",
                problem="database",
                sink=self.target,
            )

    def writer(self, record: LakeRecord) -> RowWriter:  # noqa: ARG002
        """What the body appends to."""
        return RowWriter(self.fitted)

    def fitted(self, rows: Any) -> pa.Table:
        """Rows with the columns of the table."""
        fitted = fitted_rows(rows, self._arrow, self.target)
        check_partitions(fitted, self._partitioned, self.target)
        return fitted

    def look(self) -> LakeRecord | None:
        """Read the newest record of the key.

        Raises:
            SinkUnsafeError: the log has it no more.
            DeltaError: the table cannot be read.
        """
        self._table = DeltaTable(self._uri, storage_options=self._options)
        self._arrow = pa.schema(self._table.schema().to_arrow())
        self._partitioned = self._table.metadata().partition_columns
        self._version = self._table.transaction_version(self.key.hashed)
        return None if self._version is None else self._found(self._version)

    def _found(self, version: int) -> LakeRecord:
        found = newest_record(self._commits_backwards(), self.key, version, self.target)
        if found is not None:
            return found
        raise SinkUnsafeError(
            f"{self.target} has a position of {self.key.identity}, but its log does not say any more which one.",
            "Tables forget their log after delta.logRetentionDuration (30 days). Set it to more than the longest time"
            " between two runs. To start over, delete what was loaded, and give the loop or watermark another name.",
            problem="history",
            sink=self.target,
        )

    def _commits_backwards(self) -> Iterator[LoggedCommit]:
        """The commits, the newest first, as far as the log has them.

        `DeltaTable.history` counts from the newest commit there is, and numbers it like the newest that is known.
        """
        files = PyFileSystem(DeltaStorageHandler(self._uri, self._options))
        for number in range(self._table.version(), -1, -1):
            try:
                with files.open_input_stream(f"_delta_log/{number:020d}.json") as file:
                    lines = file.read().splitlines()
            except FileNotFoundError:
                return
            yield LoggedCommit(number, lines)

    def put(self, record: LakeRecord, pending: Sequence[pa.Table]) -> None:
        """Commit rows and a record, if no record of this key was written since.

        Raises:
            LakeMovedError: one was, or commits of others came first.
            DeltaError: as delta-rs raises it.
        """
        if self._table.transaction_version(self.key.hashed) != self._version:
            raise LakeMovedError(f"{self.target} has another commit of {self.key.identity}")
        number = record.stamp.version
        properties = CommitProperties(
            custom_metadata={RECORD: record.dumps(self.key)},
            app_transactions=[Transaction(self.key.hashed, number)],
        )
        before = self._table.version()
        try:
            self._commits(lambda: self._write(pending, properties))
        except CommitFailedError as error:
            if DeltaTable(self._uri, storage_options=self._options).version() == before:
                raise  # for another reason
            raise LakeMovedError(str(error)) from error
        self._version = number

    def _write(self, rows: Sequence[pa.Table], properties: CommitProperties) -> None:
        if any(len(each) for each in rows):
            fitted = [each if each.schema == self._arrow else self.fitted(each) for each in rows]  # after an ALTER
            write_deltalake(self._table, pa.concat_tables(fitted), mode="append", commit_properties=properties)
        else:
            self._table.create_write_transaction([], "append", self._table.schema(), commit_properties=properties)
            self._table.update_incremental()  # the method above does not
