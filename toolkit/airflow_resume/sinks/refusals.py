"""Errors of a SQL sink that are raised in several places."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_resume.errors import SinkBusyError, SinkError, SinkTableError, SinkUnsafeError
from airflow_resume.sinks.rows import PositionRow, Unfinished

if TYPE_CHECKING:
    from sqlalchemy import Table


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


def in_use(target: str) -> SinkBusyError:
    """The error for a database that another process keeps others out of.

    Args:
        target: what the database is called in messages.
    """
    return SinkBusyError(
        f"Another process has the file of {target} open, and keeps all others out.",
        "Wait for its end, or set on_contention='wait'. on_contention='take_over' is not possible with DuckDB.",
        sink=target,
    )


def without_rights(table: Table, user: str | None, target: str) -> SinkTableError:
    """The error for a user who may not use the table of positions.

    Args:
        table: of positions.
        user: of the connection, if that is known.
        target: what the database is called in messages.
    """
    grant = f"GRANT SELECT, INSERT, UPDATE, DELETE ON {table.fullname} TO {user}"
    return SinkTableError(
        f"This user may not read and write the table of positions, {table.fullname!r} in {target}.",
        "Open the database for writing." if user is None else f"Have a user who may do that say: {grant}",
        sink=target,
        statement="" if user is None else grant,
    )


def kept_without_position(
    row: PositionRow, unfinished: Unfinished, target: str, *, rolled_back: bool = False
) -> SinkUnsafeError:
    """The error for a transaction of a body that was committed behind our back.

    Args:
        row: of the position.
        unfinished: what the transaction has left.
        target: what the database is called in messages.
        rolled_back: whether it was rolled back, and what was written after that was committed by itself.
    """
    by = unfinished.by
    began = f"A transaction of {row.identity} (try {by.try_number}), which began at {unfinished.at:%Y-%m-%d %H:%M:%S}"
    return SinkUnsafeError(
        f"{began}, was rolled back in the body, by the connection of the driver. What was written after that was"
        f" committed without its position. Such rows may be in {target}, and a retry would write them again."
        if rolled_back
        else f"{began}, was committed without its position. Its rows are in {target}, and a retry would write them"
        " again.",
        "Let the body leave the commit to the loop. Delete the rows that it wrote after the position, and then:"
        f" {row.settle(unfinished)}",
        problem="kept",
        sink=target,
    )


def ended_by_body(what: str, target: str) -> SinkUnsafeError:
    """The error for a body that ends the transaction by itself, or wants to.

    Args:
        what: it does.
        target: what the database is called in messages.
    """
    return SinkUnsafeError(
        f"{what} The rows would be kept without the position.",
        "Leave the commit to the loop or the window, and use its `connection` for what belongs to it only. Make an ORM"
        " Session for each element, with Session(bind=loop.connection): one that is kept ends a transaction of its own."
        " Make tables before, on another connection. For an Airflow hook, use airflow_resume.sinks.hook_on.",
        problem="ended",
        sink=target,
    )


def rolled_back(identity: str, target: str) -> SinkError:
    """The error for a transaction that was rolled back where nobody saw it.

    Args:
        identity: of the position.
        target: what the database is called in messages.
    """
    return SinkError(
        f"The transaction of {identity} in {target} was rolled back before its end, by the database (as after a"
        " deadlock) or by the body; or the body has changed the row of the position. Nothing of it was committed.",
        "A retry does it again, from the position on.",
        sink=target,
    )
