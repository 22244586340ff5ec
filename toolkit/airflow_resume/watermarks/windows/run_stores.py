"""The stores of one attempt: of the window of its run, and of the mark."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Generic, TypeVar

from airflow_resume.attempt import AnyContext, Scope, current_attempt, state_in_airflow, utc_now
from airflow_resume.errors import WatermarkInputError
from airflow_resume.record import StoredRecord
from airflow_resume.store import ask
from airflow_resume.task_stores import asset_store, task_store
from airflow_resume.watermarks.keys import Keys
from airflow_resume.watermarks.marks.journal import Journal
from airflow_resume.watermarks.marks.mark_record import WindowRecord, WindowState, owner_of
from airflow_resume.watermarks.marks.ownership import Mover
from airflow_resume.watermarks.marks.stored_mark import StoredMark
from airflow_resume.watermarks.options import Options

if TYPE_CHECKING:
    from pydantic import JsonValue

T = TypeVar("T")


class RunStores(Generic[T]):
    """The stores of one attempt: of the window of its run, and of the mark.

    Args:
        options: of the watermark.
        context: of the task.
        partition: of this task instance; None: the asset has no partitions.

    Raises:
        WatermarkInputError: the task is mapped, and its instances would share one mark.
    """

    def __init__(self, options: Options[T], context: AnyContext, partition: JsonValue) -> None:
        self.options, self.context, self.partition = options, context, partition
        self.attempt = current_attempt(context)
        self.keys = Keys.of(asset=options.asset.name, name=options.name, partition=partition)
        if self.attempt.scope.map_index >= 0 and partition is None:
            raise WatermarkInputError(
                f"The instances of this mapped task would share the one mark {self.keys.mark!r}, and skip each"
                " other's rows.",
                "Say which part each one loads, such as watermark(..., partition=lambda table: table).",
                given="partition",
                key=self.keys.mark,
                asset=options.asset.name,
            )
        self.slot = StoredRecord(task_store(context), self.keys.window, WindowRecord)
        """Of the window's record."""
        self.journal = Journal(
            context=context,
            asset=options.asset,
            keys=self.keys,
            store=self.slot.store,
            name=options.name,
            partition=partition,
        )

    @cached_property
    def mark(self) -> StoredMark[T]:
        """The mark; the asset's store is looked up when it is first needed."""
        return StoredMark(
            asset_store(self.context, self.options.asset),
            self.options,
            attempt=self.attempt,
            mover=self.mover(self.attempt.scope.task_id),
            journal=self.journal,
            before_write=self.claim,
            state_of=self._state_of,
        )

    def mover(self, task_id: str) -> Mover:
        """A task of this Dag as the mover of the mark."""
        dag_id, task_ids = self.attempt.scope.dag_id, getattr(self.context.get("dag"), "task_dict", None)
        return Mover(owner=owner_of(dag_id, task_id), shared=self.options.shared, task_ids=task_ids)

    def claim(self) -> None:
        """Before a mark is made, check that this attempt was not replaced: the asset's store does not check that.

        Raises:
            SupersededError: this attempt was replaced.
        """
        self.slot.write(
            WindowRecord(
                key=self.slot.key,
                base_rev=0,
                epoch="",
                type=self.options.cursor.type,
                state=WindowState.CLAIMED,
                claim=self.attempt.claim(utc_now()),
            )
        )

    def _state_of(self, scope: Scope) -> str | None:
        """The state of a task instance, such as `"success"`; None if Airflow cannot be asked."""
        return ask(self.slot.store, lambda: state_in_airflow(self.context.get("ti"), scope))

    def parsed(self, value: JsonValue) -> T:
        """A value from a record, converted to the type of the cursor."""
        return self.options.cursor.parse(value, what=self.keys.mark)
