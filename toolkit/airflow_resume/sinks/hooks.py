"""An Airflow hook that works on the connection of a loop or a window."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, TypeVar

from airflow_resume.errors import SinkUnsafeError

if TYPE_CHECKING:
    from sqlalchemy import Connection

H = TypeVar("H")


def hook_on(hook: H, connection: Connection) -> H:
    """A copy of a hook, such as a `PostgresHook`, that works in the transaction of this connection.

        hook_on(PostgresHook("warehouse"), loop.connection).insert_rows("orders", page.items)

    Methods of hooks commit, and close their connection. On this copy both do nothing, and the loop commits. The hook
    must be one for the driver of the connection, because the copy uses the driver's own connection.

    Args:
        hook: with a method `get_conn`.
        connection: `loop.connection` or `window.connection`.
    """
    lent: Any = copy.copy(hook)
    raw = connection.connection.dbapi_connection
    lent.get_conn = lambda: LentConnection(raw)
    return lent  # type: ignore[no-any-return]


class LentConnection:
    """A connection of a driver that is lent to a hook. What would end its transaction does nothing, or is refused.

    Args:
        raw: the connection.
    """

    _raw: Any

    def __init__(self, raw: Any) -> None:
        object.__setattr__(self, "_raw", raw)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._raw, name)
        return _no_autocommit if name == "autocommit" and callable(found) else found

    def __setattr__(self, name: str, value: object) -> None:
        if name != "autocommit":
            setattr(self._raw, name, value)
        else:
            _no_autocommit(value)

    def commit(self) -> None:
        """Nothing: the loop commits."""

    def close(self) -> None:
        """Nothing: the loop closes it."""

    def rollback(self) -> None:
        """Refused, because the rows that were written before would be lost, and the position would move.

        Raises:
            SinkUnsafeError: always.
        """
        raise SinkUnsafeError(
            "The hook rolls the transaction back, which is that of the loop or the window.",
            "Let its error leave the body: the loop then rolls back.",
            problem="ended",
        )


def _no_autocommit(wanted: object) -> None:
    if wanted:
        raise SinkUnsafeError(
            "The hook sets autocommit, so its rows would be kept without the position.",
            "Call it with autocommit=False.",
            problem="autocommit",
        )
