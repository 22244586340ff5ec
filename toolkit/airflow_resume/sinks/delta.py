"""A Delta table as a sink. delta-rs is imported when the sink is first used, and not when a Dag file is read."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_resume.arguments import kind_of
from airflow_resume.errors import SinkUnsafeError
from airflow_resume.shown import short_repr
from airflow_resume.sink_protocol import Claimant
from airflow_resume.sinks.decide import OnContention
from airflow_resume.sinks.lake_options import LakeSink, check_schema, checked_options, needs_extra, without_secrets

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from pydantic import JsonValue

    from airflow_resume.sinks.lake_position import LakePosition

_UNSAFE = ("aws_s3_allow_unsafe_rename", "allow_unsafe_rename")
"""Options with which a writer overwrites the commit of another one."""


class DeltaSink(LakeSink):
    """A Delta table that keeps the position of a loop or a watermark in the commits of its rows.

        sink = DeltaSink("s3://lake/orders", storage_options={...})
        with checkpoint(pages, name="orders", sink=sink) as loop:
            for page in loop:
                loop.append(page.items)

    `loop.append` and `window.append` take a list of dicts, an Arrow table, a record batch or a data frame. The rows are
    in memory until the commit. Each commit is a version of the table.

    Args:
        table: its path or URI, or a `DeltaTable`. Others may write to it at the same time.
        storage_options: for the object store, as delta-rs takes them.
        schema: an Arrow schema, with which the table is made if it does not exist.
        partition_by: the columns of its partitions, if it is made.
        on_contention: what to do if another run without an order holds the position, as for `SqlSink`.
        patience: for how long to try a commit again when commits of others come first; and after which time without a
            commit another run counts as dead, with `"wait"` and `"fail"`. 60 s by default, so it should be longer than
            the work on one element.
        script: the name of the script, for scripts whose `store=` does not outlive them. In a task it has no meaning.

    Raises:
        TypeError, ValueError: at once, for invalid arguments.
    """

    def __init__(
        self,
        table: str | Path | DeltaTable,
        *,
        storage_options: Mapping[str, str] | None = None,
        schema: Any = None,
        partition_by: Sequence[str] = (),
        on_contention: OnContention = "take_over",
        patience: timedelta = timedelta(seconds=60),
        script: str | None = None,
    ) -> None:
        is_table = hasattr(table, "table_uri") and not isinstance(table, type)
        if not is_table and not (isinstance(table, (str, Path)) and str(table)):
            raise TypeError(f"table= was given {kind_of(table)}, and must be a path, a URI or a DeltaTable")
        checked = checked_options("storage_options", storage_options, "delta-rs")
        check_schema(schema)
        if isinstance(partition_by, str) or not all(isinstance(each, str) for each in partition_by):
            raise TypeError(f"partition_by={short_repr(partition_by)} must be a list of names")
        super().__init__(on_contention=on_contention, patience=patience, script=script)
        given: Any = table
        self._uri = str(given.table_uri if is_table else table)
        takes_its_own = is_table and storage_options is None
        self._options = dict(given._storage_options or {}) if takes_its_own else checked  # noqa: SLF001
        self._schema, self._partition_by = schema, list(partition_by)

    @property
    def target(self) -> str:
        """The table without anything secret, for messages."""
        return without_secrets(self._uri)

    def claim(self, identity: Sequence[JsonValue], claimant: Claimant) -> LakePosition:
        """Claim a position; loops and watermarks do that.

        Args:
            identity: what identifies the position.
            claimant: the running attempt.

        Raises:
            SupersededError: a later attempt has claimed it. Nothing was touched.
            SinkBusyError, SinkTableError, SinkUnsafeError: it cannot be claimed.
            ModuleNotFoundError: the extra `delta` is not installed.
        """
        self._check_options()
        from airflow_resume.sinks.lake_record import LakeKey

        with needs_extra("delta", self):
            from airflow_resume.sinks.delta_table import DeltaLakeTable

        table = DeltaLakeTable(
            self._uri,
            LakeKey.of(identity),
            options=self._options,
            schema=self._schema,
            partition_by=self._partition_by,
            target=self.target,
            commits=self.commits,
        )
        return self._claimed(table, claimant)

    def _check_options(self) -> None:
        """Check that two writers of the table notice each other.

        Raises:
            SinkUnsafeError: they do not.
        """
        given = {name.lower(): value for name, value in [*os.environ.items(), *self._options.items()]}
        unsafe = [name for name in _UNSAFE if str(given.get(name, "")).lower() in {"true", "1", "yes", "on", "t", "y"}]
        if unsafe and not self._uri.startswith(("file:", "/", ".")):
            raise SinkUnsafeError(
                f"With {unsafe[0]}, a commit to {self.target} overwrites another one that comes at the same time.",
                "Leave out the option. S3 needs none; for a store without conditional writes, see the documentation of"
                " delta-rs about locking providers.",
                problem="option",
                sink=self.target,
            )
