"""Errors of a SQL sink that are raised in several places."""

from __future__ import annotations

from airflow_resume.errors import SinkBusyError, SinkUnsafeError
from airflow_resume.sinks.rows import PositionRow, Unfinished


def busy(identity: str, target: str) -> SinkBusyError:
    """The error for a lock that was not given in time.

    Args:
        identity: of the position.
        target: what the database is called in messages.
    """
    return SinkBusyError(
        f"The row of {identity} in {target}, or a table or database around it, was locked for too long.",
        "A retry looks again. An attempt that is in its commit has the lock, or one that is frozen, or a person.",
        sink=target,
    )


def kept_without_position(row: PositionRow, unfinished: Unfinished, target: str) -> SinkUnsafeError:
    """The error for a transaction of a body that was committed behind our back.

    Args:
        row: of the position.
        unfinished: what the transaction has left.
        target: what the database is called in messages.
    """
    by = unfinished.by
    return SinkUnsafeError(
        f"A transaction of {row.identity} (try {by.try_number}), which began at {unfinished.at:%Y-%m-%d %H:%M:%S}, was"
        f" committed without its position. Its rows are in {target}, and a retry would write them again.",
        "Let the body leave the commit to the loop. Delete the rows that it wrote after the position, and then:"
        f" {row.settle(unfinished)}",
        problem="kept",
        sink=target,
    )
