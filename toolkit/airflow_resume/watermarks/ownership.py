"""Whose a mark is. Two that move one mark starve each other: each finds nothing new where the other has read.

The decision is pure; `tests/unit/watermarks/test_ownership.py` prints it as a table.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from enum import Enum

from airflow_resume.errors import WatermarkOwnedError
from airflow_resume.watermarks.record import MarkRecord, Owner


class Ownership(str, Enum):
    """What a task is to a mark. The value is how a table names it."""

    MINE = "its own"
    FREE = "nobody's"
    LEFT = "of a task that its Dag has no longer"
    SHARED = "shared by both"
    TAKEN = "another's"


@dataclass(frozen=True, kw_only=True)
class Mover:
    """A task that wants to move a mark.

    Args:
        owner: its name; None where no task runs, and then it may.
        shared: the user says that several move the mark.
        task_ids: of its Dag; None where they are not known.
    """

    owner: Owner | None
    shared: bool = False
    task_ids: Collection[str] | None = field(default=None)

    def ownership(self, record: MarkRecord) -> Ownership:
        """What it is to the mark."""
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
        """What it is to the mark.

        Args:
            record: of the mark.
            asset: its name.
            by_hand: how a person sets the mark.

        Raises:
            WatermarkOwnedError: another task moves it.
        """
        found = self.ownership(record)
        if found is Ownership.TAKEN:
            raise WatermarkOwnedError(
                f"The mark {record.key!r} of asset {asset!r} is moved by {record.owner}, and this is {self.owner}: each"
                " would skip what the other has read.",
                "Give this watermark a name= of its own; or shared=True in both, if they load one target together: the"
                " other must have run so once. If"
                f" the other is no more, hand the mark over: {by_hand}",
            )
        return found
