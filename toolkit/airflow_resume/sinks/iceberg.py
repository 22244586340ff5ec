"""An Iceberg table as a sink. pyiceberg is imported when the sink is first used, and not when a Dag file is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow_resume.arguments import check_duration, check_type, kind_of
from airflow_resume.sink_protocol import Claimant
from airflow_resume.sinks.decide import OnContention
from airflow_resume.sinks.lake_options import LakeSink, check_schema, checked_options, needs_extra

if TYPE_CHECKING:
    from pydantic import JsonValue
    from pyiceberg.table import Table

    from airflow_resume.sinks.lake_position import LakePosition


class IcebergSink(LakeSink):
    """An Iceberg table that keeps the position of a loop or a watermark in the snapshots of its rows.

        sink = IcebergSink("lake.orders", catalog="prod")
        with checkpoint(pages, name="orders", sink=sink) as loop:
            for page in loop:
                loop.append(page.items)

    `loop.append` and `window.append` take a list of dicts, an Arrow table, a record batch or a data frame. The rows are
    in memory until the commit. Each commit is a snapshot of the branch `main`.

    Args:
        table: its name with its namespace; or a `Table` of pyiceberg, which is loaded anew from its catalog. Others may
            write to it at the same time.
        catalog: the name of the catalog, as `.pyiceberg.yaml` has it. By default pyiceberg's own default.
        catalog_options: of the catalog, as `load_catalog` takes them, such as `{"type": "rest", "uri": ...}`.
        schema: an Arrow schema, with which the table is made if it does not exist. Its namespace must exist.
        keep_positions: after which time without a commit a position is forgotten, if its snapshots have expired.
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
        table: str | Table,
        *,
        catalog: str | None = None,
        catalog_options: Mapping[str, Any] | None = None,
        schema: Any = None,
        keep_positions: timedelta = timedelta(days=90),
        on_contention: OnContention = "take_over",
        patience: timedelta = timedelta(seconds=60),
        script: str | None = None,
    ) -> None:
        if isinstance(table, type) or not (hasattr(table, "catalog") or (isinstance(table, str) and "." in table)):
            raise TypeError(
                f"table= was given {kind_of(table)}, and must be a name with its namespace, such as 'lake.orders', or a"
                " Table of pyiceberg"
            )
        if catalog is not None:
            check_type("catalog", catalog, str, "a name")
        options = checked_options("catalog_options", catalog_options, "load_catalog")
        if not isinstance(table, str) and (catalog, catalog_options) != (None, None):
            raise ValueError("catalog= and catalog_options= mean nothing with a Table, which has its catalog")
        check_schema(schema)
        check_duration("keep_positions", keep_positions)
        super().__init__(on_contention=on_contention, patience=patience, script=script)
        self._given: Any = table
        self._catalog, self._options, self._schema = catalog, options, schema
        self._keep_positions = keep_positions

    @property
    def target(self) -> str:
        """The table, for messages."""
        catalog = f"{self._catalog}:" if self._catalog else ""
        return f"{catalog}{self._given if isinstance(self._given, str) else '.'.join(self._given.name())}"

    def claim(self, identity: Sequence[JsonValue], claimant: Claimant) -> LakePosition:
        """Claim a position; loops and watermarks do that.

        Args:
            identity: what identifies the position.
            claimant: the running attempt.

        Raises:
            SupersededError: a later attempt has claimed it. Nothing was touched.
            SinkBusyError, SinkTableError: it cannot be claimed.
            ModuleNotFoundError: the extra `iceberg` is not installed.
        """
        from airflow_resume.sinks.lake_record import LakeKey

        with needs_extra("iceberg", self):
            from airflow_resume.sinks.iceberg_table import IcebergLakeTable, loaded_table

        table = IcebergLakeTable(
            loaded_table(self._given, self._catalog, self._options, self._schema, self.target),
            LakeKey.of(identity),
            target=self.target,
            commits=self.commits,
            keep_positions=self._keep_positions,
        )
        return self._claimed(table, claimant)
