"""The contract, with a test that not every store can offer: a value is set in the middle of a cleanup.

Backends on SQLAlchemy show that moment: the cleanup has read the rows, and is about to delete them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from sqlalchemy import Engine, event

from airflow_resume.testing import StoreContract

HOUR = timedelta(hours=1)


class CleanupRace(StoreContract):
    __test__ = False

    @pytest.fixture
    def set_elsewhere(self, open_backend: Callable[[], Any], opened: Callable[[Any], Any]) -> Callable[..., None]:
        """Sets a value on a connection of its own."""
        other = opened(open_backend())
        return other.set  # type: ignore[no-any-return]

    def test_what_is_set_again_during_a_cleanup_is_not_collected(
        self, backend: Any, set_elsewhere: Callable[..., None]
    ) -> None:
        scope = self.scopes(backend)[0]
        for key in ("again", "expired"):
            backend.set(scope, key, "1", expires_at=datetime.now(timezone.utc) - HOUR)
        with once_before_deleting(lambda: set_elsewhere(scope, "again", "2")):
            backend.cleanup()
        assert [backend.get(scope, key) for key in ("again", "expired")] == ["2", None]


def in_another_session(backend: Any) -> Callable[..., None]:
    """A function that sets a value of Airflow's backend on a connection of its own."""
    from airflow.utils.session import create_session

    def set_value(scope: Any, key: str, value: str) -> None:
        with create_session(scoped=False) as session:
            backend.set(scope, key, value, session=session)

    return set_value


@contextmanager
def once_before_deleting(act: Callable[[], None]) -> Iterator[None]:
    """Call `act` when the first rows are about to be deleted, before the transaction for that begins."""
    waiting = [act]

    def listener(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if statement.startswith(("BEGIN", "DELETE")) and waiting:
            waiting.pop()()

    event.listen(Engine, "before_cursor_execute", listener)
    try:
        yield
    finally:
        event.remove(Engine, "before_cursor_execute", listener)
    assert waiting == []
