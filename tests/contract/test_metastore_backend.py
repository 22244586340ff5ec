"""Airflow's own backend, on a metadata database made with Airflow's migrations."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from metastore import metastore, only

from airflow_resume.testing import StoreContract
from airflow_resume.testing.contract import Ability


@pytest.fixture(scope="module", autouse=True)
def _metastore(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with metastore(tmp_path_factory.mktemp("airflow")):
        yield


class TestMetastoreBackend(StoreContract):
    examples = 50  # a call takes some milliseconds
    promises = (Ability.SCOPES, Ability.DURABLE, Ability.RETENTION, Ability.CLEANUP)

    @pytest.fixture
    def open_backend(self) -> Callable[[], Any]:
        from airflow.state.metastore import MetastoreBackend

        only(self.scopes(MetastoreBackend()))
        return MetastoreBackend

    @pytest.mark.xfail(
        strict=True,
        raises=AssertionError,
        reason="Airflow's cleanup deletes, by its id, what had expired when it looked",
    )
    def test_what_is_set_again_during_a_cleanup_is_not_collected(self, backend: Any) -> None:
        scope = self.scopes(backend)[0]
        backend.set(scope, "key", "1", expires_at=datetime.now(timezone.utc) - timedelta(hours=1))
        with before_the_first_delete(lambda session: backend.set(scope, "key", "2", session=session)):
            backend.cleanup()
        assert backend.get(scope, "key") == "2"


@contextmanager
def before_the_first_delete(act: Callable[[Any], None]) -> Iterator[None]:
    """Act in a session of another connection, once, when a DELETE is about to be executed."""
    from sqlalchemy import event

    from airflow import settings

    waiting = [act]

    def listener(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if statement.startswith("DELETE") and waiting:
            with settings.NonScopedSession.begin() as session:  # type: ignore[union-attr]
                waiting.pop()(session)

    event.listen(settings.engine, "before_cursor_execute", listener)
    yield
    event.remove(settings.engine, "before_cursor_execute", listener)
    if waiting:
        raise RuntimeError("nothing was deleted")
