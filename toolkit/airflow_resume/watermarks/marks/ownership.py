"""Which task owns a mark. If two tasks moved one mark, each would skip the rows that the other has read.

The decision is pure; `tests/unit/watermarks/test_ownership.py` prints it as a table.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from enum import Enum

from airflow_resume.errors import WatermarkMismatchError
from airflow_resume.watermarks.marks.mark_record import MarkRecord, Owner


class Ownership(str, Enum):
    """The relation of a task to a mark. The value is its name in a table."""

    MINE = "its own"
    FREE = "nobody's"
    LEFT = "of a task that its Dag has no longer"
    SHARED = "shared by both"
    TAKEN = "another's"


@dataclass(frozen=True, kw_only=True)
class Mover:
    """A task that wants to move a mark.

    Args:
        owner: the task; None if no task runs. Then the mark may be moved.
        shared: the user says that several tasks move the mark.
        task_ids: of its Dag; None if they are not known.
    """

    owner: Owner | None
    shared: bool = False
    task_ids: Collection[str] | None = field(default=None)

    def ownership(self, record: MarkRecord) -> Ownership:
        """The relation of this task to the mark."""
        other, own = record.owner, self.owner
        if other is None or own is None:
            return Ownership.FREE
        if other.dag_id == own.dag_id and other.task_id == own.task_id:
            return Ownership.MINE
        if self.shared and record.shared:
            return Ownership.SHARED
        if other.dag_id == own.dag_id and self.task_ids is not None and other.task_id not in self.task_ids:
            return Ownership.LEFT
        return Ownership.TAKEN

    def check(self, record: MarkRecord, *, asset: str, by_hand: str) -> Ownership:
        """Check that this task may move the mark, and return its relation to the mark.

        Args:
            record: of the mark.
            asset: its name.
            by_hand: how a person sets the mark.

        Raises:
            WatermarkMismatchError: another task moves it.
        """
        found = self.ownership(record)
        if found is Ownership.TAKEN:
            raise WatermarkMismatchError(
                f"The mark {record.key!r} of asset {asset!r} is moved by {record.owner}, and this is {self.owner}: each"
                " would skip what the other has read.",
                "Give this watermark a name= of its own. If both tasks load one target together, set shared=True in"
                " both; the other task must have run with it once. If the other task does not exist any more, hand the"
                f" mark over: {by_hand}",
                key=record.key,
                asset=asset,
                stored=str(record.owner),
                expected=str(self.owner),
            )
        return found
