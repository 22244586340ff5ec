"""The commits of an Iceberg table that carry a position.

Theory of operation. A commit is a snapshot whose summary has the record of the position. It is made on the condition
that `main` is still at the snapshot that was looked at. So it is refused if anybody has committed in between, and the
caller looks again. By itself, pyiceberg would then put our snapshot on top of the others, whatever they are. So the
commit is given to the catalog directly.

Snapshots expire. So the commit writes the record into a property of the table, too. A rollback undoes snapshots, and no
property. So the property counts only if the snapshot that it belongs to is an ancestor of the present one. Some writers
leave the id of an expired parent in a snapshot; pyiceberg removes it. Earlier metadata files of the table have both the
id and the snapshot. If the line of ancestors cannot be followed far enough, nobody knows whether there was a rollback,
and the claim is refused.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError, TableAlreadyExistsError
from pyiceberg.serializers import FromInputFile
from pyiceberg.table import Table, Transaction
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.update import AssertTableUUID

from airflow_resume.errors import SinkTableError, SinkUnsafeError
from airflow_resume.sinks.lake_position import LakeMovedError
from airflow_resume.sinks.lake_record import LakeKey, LakeRecord
from airflow_resume.sinks.lake_rows import RowWriter, fitted_rows

pc: Any = pyarrow.compute
"""Its functions are made when it is imported, so type checkers do not know them."""
RECORD = "airflow-resume"
"""The name of the record in the summary of a snapshot."""
PREFIX = "airflow-resume."
"""What the properties of the table begin with that have the newest record of each key."""


class Ancestor(NamedTuple):
    """A snapshot that led to the present one, or that one itself.

    Args:
        snapshot: its id.
        parent: the id of the snapshot before, which may have expired; None if it is not known, or if there was none.
        sequence: its number; those of its ancestors are smaller.
        summary: what the commit says of itself.
    """

    snapshot: int
    parent: int | None
    sequence: int
    summary: Mapping[str, Any]


def loaded_table(given: Any, catalog: str | None, options: Mapping[str, Any], schema: Any, target: str) -> Table:
    """The table, loaded from its catalog.

    Args:
        given: its name, or a `Table`.
        catalog: the name of the catalog.
        options: of the catalog.
        schema: with which it is made if it does not exist; None if it is not made.
        target: what it is called in messages.

    Raises:
        SinkTableError: there is no such table.
    """
    name = given if isinstance(given, str) else given.name()
    source = load_catalog(catalog, **options) if isinstance(given, str) else given.catalog
    try:
        return source.load_table(name)
    except NoSuchTableError as error:
        if schema is None:
            raise SinkTableError(
                f"There is no Iceberg table {target}.",
                "Make it, or give the sink schema=, an Arrow schema.",
                sink=target,
                statement=f"catalog.create_table({name!r}, schema=...)",
            ) from error
    try:
        return source.create_table(name, schema=schema)
    except TableAlreadyExistsError:  # another attempt has made it at the same time
        return source.load_table(name)


class IcebergLakeTable:
    """An Iceberg table that takes rows and a record in one commit.

    Args:
        table: that belongs to nobody else.
        key: of the position.
        target: what the table is called in messages.
        commits: runs each commit.
        keep_positions: after which time without a commit a position is forgotten.
    """

    def __init__(
        self,
        table: Table,
        key: LakeKey,
        *,
        target: str,
        commits: Callable[[Callable[[], None]], None],
        keep_positions: timedelta,
    ) -> None:
        self._table, self.key, self.target, self._commits = table, key, target, commits
        self._keep_positions = keep_positions
        self._first: int | None = None
        """The sequence number before which no commit of the key can be; None if it is not known."""
        if table.format_version == 1:
            raise SinkUnsafeError(
                f"{target} has the format version 1, which does not number its snapshots.",
                "Upgrade it: table.transaction().upgrade_table_version(2).",
                problem="database",
                sink=target,
            )
        self._arrow: pa.Schema = table.schema().as_arrow()

    def writer(self, record: LakeRecord) -> RowWriter:  # noqa: ARG002
        """What the body appends to."""
        return RowWriter(self.fitted)

    def fitted(self, rows: Any) -> pa.Table:
        """Rows with the columns of the table.

        Raises:
            ValueError: they do not fit, or pyiceberg cannot write them to their partition.
        """
        fitted = fitted_rows(rows, self._arrow, self.target)
        for field in self._table.spec().fields:
            column = self._table.schema().find_column_name(field.source_id)
            if column in fitted.column_names:  # and is not in a struct
                self._check_partition(fitted.column(column), field.name)
        return fitted

    def _check_partition(self, column: pa.ChunkedArray, name: str) -> None:
        """Refuse what pyiceberg (0.12) takes for a partition of its own, but does not find, or finds twice."""
        if not pa.types.is_floating(column.type):
            return
        wide = column.cast(pa.float64())
        is_minus_zero = pc.and_(pc.equal(wide, 0), pc.less(pc.divide(1.0, wide), 0))
        found = pc.index(pc.or_(pc.is_nan(wide), is_minus_zero), True).as_py()
        if found >= 0:
            raise ValueError(
                f"{column[found].as_py()!r} does not fit the partition {name} ({column.type}) of {self.target}:"
                " pyiceberg would write the rows of 0.0 twice, and fails for NaN."
                "\nAppend None or 0.0, or partition the table by another column."
            )

    def look(self) -> LakeRecord | None:
        """Read the newest record of the key.

        Raises:
            SinkError: it cannot be read.
        """
        self._table.refresh()
        self._arrow = self._table.schema().as_arrow()
        kept = self._table.properties.get(PREFIX + self.key.hashed)
        found = newest_record(self._ancestors(goes_back=kept is not None), kept, self.key, self.target)
        if kept is not None:
            self._first = json.loads(kept).get("first")
        elif found is None:
            self._first = self._table.metadata.next_sequence_number()
        return found

    def _ancestors(self, *, goes_back: bool) -> Iterator[Ancestor]:
        """The snapshots that led to the present one, the newest first, as far as they are known.

        Args:
            goes_back: whether to read earlier metadata of the table for those that have expired.
        """
        known = {each.snapshot_id: each for each in self._table.metadata.snapshots}
        earlier = self._earlier_snapshots() if goes_back else iter(())
        at = self._table.current_snapshot()
        while at is not None:
            summary = {} if at.summary is None else at.summary.additional_properties
            yield Ancestor(at.snapshot_id, at.parent_snapshot_id, at.sequence_number or 0, summary)
            while (parent := known[at.snapshot_id].parent_snapshot_id) not in known:
                more = next(earlier, None)
                if more is None:
                    return
                for each in more:
                    if known.get(each.snapshot_id, each).parent_snapshot_id is None:
                        known[each.snapshot_id] = each
                    known.setdefault(each.snapshot_id, each)
            at = None if parent is None else known[parent]

    def _earlier_snapshots(self) -> Iterator[Sequence[Snapshot]]:
        """The snapshots that each earlier metadata file of the table has, the newest file first."""
        for entry in reversed(self._table.metadata.metadata_log):
            try:
                earlier = FromInputFile.table_metadata(self._table.io.new_input(entry.metadata_file))
            except (OSError, ValueError):  # it was removed, or cannot be read
                continue
            yield earlier.snapshots

    def put(self, record: LakeRecord, pending: Sequence[pa.Table]) -> None:
        """Commit rows and a record, if nobody has committed since the table was looked at.

        Raises:
            LakeMovedError: somebody has.
            Exception: as pyiceberg or the catalog raises it.
        """
        table, text = self._table, record.dumps(self.key)
        transaction = table.transaction()
        if any(len(each) for each in pending):
            fitted = [each if each.schema == self._arrow else self.fitted(each) for each in pending]  # after an ALTER
            transaction.append(pa.concat_tables(fitted), snapshot_properties={RECORD: text})
        else:
            with transaction.update_snapshot(snapshot_properties={RECORD: text}).fast_append():
                pass
        now = datetime.now(timezone.utc)
        snapshot = transaction.table_metadata.current_snapshot()
        assert snapshot is not None  # noqa: S101  the transaction has made it
        self._check_count(snapshot, sum(len(each) for each in pending))
        kept = {"at": now.isoformat(), "first": self._first, "snapshot": snapshot.snapshot_id, "record": text}
        transaction.set_properties({PREFIX + self.key.hashed: json.dumps(kept)})
        if old := list(self._forgotten(now)):
            transaction.remove_properties(*old)
        try:
            self._commits(lambda: self._commit(transaction))
        except CommitFailedException as error:
            raise LakeMovedError(str(error)) from error

    def _check_count(self, snapshot: Snapshot, wanted: int) -> None:
        """Check that each row is in one file of the snapshot, before it is committed."""
        added = 0 if snapshot.summary is None else int(snapshot.summary.additional_properties.get("added-records", 0))
        if added != wanted:
            raise SinkUnsafeError(
                f"pyiceberg has written {added:,} rows for {wanted:,} to {self.target}, in whose partitions some values"
                " are equal to several or to none. Nothing was committed.",
                "Partition the table by other columns.",
                problem="database",
                sink=self.target,
            )

    def _forgotten(self, now: datetime) -> Iterator[str]:
        for name, value in self._table.properties.items():
            if name.startswith(PREFIX) and name != PREFIX + self.key.hashed:
                at = datetime.fromisoformat(json.loads(value)["at"])
                if now - at >= self._keep_positions:
                    yield name

    def _commit(self, transaction: Transaction) -> None:
        """Commit without the retries of pyiceberg, which would pass over the claim of another attempt."""
        table = self._table
        same_table = AssertTableUUID(uuid=table.metadata.table_uuid)
        requirements = (*transaction._requirements, same_table)  # noqa: SLF001  there is no public way
        committed = table.catalog.commit_table(table, requirements, transaction._updates)  # noqa: SLF001
        table.metadata, table.metadata_location = committed.metadata, committed.metadata_location


def newest_record(ancestors: Iterable[Ancestor], kept: str | None, key: LakeKey, target: str) -> LakeRecord | None:
    """The record of a key that counts; None if there is none.

    Args:
        ancestors: the present snapshot and those that led to it, the newest first, as far as they are known.
        kept: the property of the table with the newest record of the key.
        key: of the position.
        target: where it is, for messages.

    Returns:
        The record. Its version is that of the newest commit, also if the record is older because of a rollback.

    Raises:
        SinkError: a record cannot be read.
        SinkUnsafeError: it is not known whether the newest commit was rolled back.
    """
    property_of = {} if kept is None else json.loads(kept)
    newest = LakeRecord.loads(property_of.get("record"), key, target)
    snapshot, first = property_of.get("snapshot"), property_of.get("first")
    for each in ancestors:
        found = LakeRecord.loads(each.summary[RECORD], key, target) if RECORD in each.summary else None
        if found is not None:
            return found.moved_to(max(found.stamp.version, -1 if newest is None else newest.stamp.version))
        if newest is None:
            continue
        if each.parent is not None and each.parent == snapshot:
            return newest
        if first is not None and each.sequence < first:
            return LakeRecord.of_nothing(newest.stamp.version)
    if newest is None:
        return None
    raise SinkUnsafeError(
        f"{target} has a position of {key.identity}, but so many of its snapshots have expired that nobody knows"
        " whether its rows were rolled back.",
        "Keep snapshots, or metadata files (write.metadata.previous-versions-max), for longer than the longest time"
        " between two runs. To go on now, see which rows are there, and give the loop or watermark another name.",
        problem="history",
        sink=target,
    )
