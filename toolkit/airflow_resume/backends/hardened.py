"""Airflow's own backend for its server, with the same tables, but it repeats failed calls, and cleans up without races.

A call that is given a session is a part of somebody's transaction, and is made once. To repeat a statement inside it
would be wrong: MySQL has rolled back the whole transaction after a deadlock, PostgreSQL takes nothing more in it, and
what was read before may not be true any more. Only who began the transaction can begin it again. Airflow's API server
gives every call the session of the request, which ends with status 500, and the task's client makes it again.

A call without a session is a transaction of its own, and is made again, its commit included. So is every step of
`cleanup`, the only method that Airflow calls without a session.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from datetime import datetime, timezone
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy import ColumnElement, delete, select
from sqlalchemy.exc import DBAPIError

from airflow_resume.backends.dialects.registry import dialect_of
from airflow_resume.backends.span import PATIENCE_SECONDS, patience_of
from airflow_resume.errors import CleanupIncompleteError, MissingDriverError
from airflow_resume.patience import Patience
from airflow_resume.shown import get_logger

try:
    from airflow import settings
    from airflow.configuration import conf
    from airflow.models.task_state_store import TaskStateStoreModel
    from airflow.state.metastore import MetastoreBackend
    from airflow.utils.session import create_session
except ImportError as error:
    raise MissingDriverError(
        "HardenedMetastoreBackend is for `[state_store] backend` of Airflow's server, and there is no"
        f" apache-airflow-core >= 3.3 here ({error}).",
        "Use SqlStoreBackend on a worker.",
        extra=None,
    ) from error

if TYPE_CHECKING:
    from airflow._shared.state import AssetScope, AssetStateStoreWriterKind, StoreScope
    from sqlalchemy.ext.asyncio import AsyncSession
    from sqlalchemy.orm import Session

log = get_logger(__name__)

T = TypeVar("T")

BATCH = 1_000
"""Rows that are deleted in one transaction, where `[state_store] state_cleanup_batch_size` is 0."""
LARGEST_BATCH = 10_000
"""The most rows that are deleted in one transaction, because a statement has a limit: on SQLite 32,766 values."""


class HardenedMetastoreBackend(MetastoreBackend):
    """Airflow's `MetastoreBackend` for `[state_store] backend`: what it keeps, and where, is the same.

    Calls without a session of the caller's are made again after a deadlock, a lock or a lost connection. `cleanup`
    deletes no row that was set again meanwhile, and needs no more memory for a million rows than for a thousand.

    Args:
        patience: for how many seconds a call is repeated.
        sleep: waits between two attempts of a call that is not async.
    """

    def __init__(self, *, patience: float = PATIENCE_SECONDS, sleep: Callable[[float], None] = time.sleep) -> None:
        super().__init__()
        self._patience = patience
        self._sleep = sleep

    # --- what Airflow asks for ------------------------------------------------------------------------------------

    def get(self, scope: StoreScope, key: str, *, session: Session | None = None) -> str | None:
        """The text, or None."""
        return self._call(partial(super().get, scope, key), session)

    def set(
        self,
        scope: StoreScope,
        key: str,
        value: str,
        *,
        expires_at: datetime | None = None,
        session: Session | None = None,
    ) -> None:
        """Keep the text."""
        self._call(partial(super().set, scope, key, value, expires_at=expires_at), session)

    def delete(self, scope: StoreScope, key: str, *, session: Session | None = None) -> None:
        """Remove it."""
        self._call(partial(super().delete, scope, key), session)

    def clear(self, scope: StoreScope, *, all_map_indices: bool = False, session: Session | None = None) -> None:
        """Remove everything in the scope."""
        self._call(partial(super().clear, scope, all_map_indices=all_map_indices), session)

    def set_asset_state_store(
        self,
        scope: AssetScope,
        key: str,
        value: str,
        *,
        kind: AssetStateStoreWriterKind,
        session: Session | None = None,
        **writer: Any,
    ) -> None:
        """Keep the text, and note who wrote it."""
        self._call(partial(super().set_asset_state_store, scope, key, value, kind=kind, **writer), session)

    async def aget(self, scope: StoreScope, key: str, *, session: AsyncSession | None = None) -> str | None:
        """As `get`."""
        return await self._acall(partial(super().aget, scope, key), session)

    async def aset(
        self,
        scope: StoreScope,
        key: str,
        value: str,
        *,
        expires_at: datetime | None = None,
        session: AsyncSession | None = None,
    ) -> None:
        """As `set`."""
        await self._acall(partial(super().aset, scope, key, value, expires_at=expires_at), session)

    async def adelete(self, scope: StoreScope, key: str, *, session: AsyncSession | None = None) -> None:
        """As `delete`."""
        await self._acall(partial(super().adelete, scope, key), session)

    async def aclear(
        self, scope: StoreScope, *, all_map_indices: bool = False, session: AsyncSession | None = None
    ) -> None:
        """As `clear`."""
        await self._acall(partial(super().aclear, scope, all_map_indices=all_map_indices), session)

    async def aset_asset_state_store(
        self,
        scope: AssetScope,
        key: str,
        value: str,
        *,
        kind: AssetStateStoreWriterKind,
        session: AsyncSession | None = None,
        **writer: Any,
    ) -> None:
        """As `set_asset_state_store`."""
        await self._acall(partial(super().aset_asset_state_store, scope, key, value, kind=kind, **writer), session)

    # --- cleaning up ----------------------------------------------------------------------------------------------

    def cleanup(self) -> None:
        """Delete what has expired, as Airflow does: rows of tasks whose `expires_at` is over, and no others.

        Rows are deleted in batches by primary key. Each batch is a transaction of its own, which checks again that the
        rows have expired. A batch that cannot be deleted is left out. The cleanup may be killed at any time and run
        again.

        Raises:
            CleanupIncompleteError: a batch was left out, or the next one could not be looked for. The others are
                deleted.
        """
        expired = TaskStateStoreModel.expires_at < datetime.now(timezone.utc)
        deleted, failures = 0, list[DBAPIError]()
        try:
            for ids in self._pages(expired, batch_size()):
                deleted += self._delete_batch(ids, expired, failures)
        except DBAPIError as error:  # without an answer the next batch is not known
            failures.append(error)
        log.info("Deleted %d expired rows of %s", deleted, TaskStateStoreModel.__tablename__)
        if failures:
            raise CleanupIncompleteError(
                f"{len(failures)} batches were left out, the first because of: {failures[0].orig}. {deleted} rows were"
                " deleted.",
                "Run it again for the others.",
                failed=len(failures),
                deleted=deleted,
            ) from failures[0]

    def _delete_batch(self, ids: Sequence[int], expired: ColumnElement[bool], failures: list[DBAPIError]) -> int:
        """Delete a batch, and return how many rows were deleted. If it fails, its error is added to `failures`."""
        try:
            return self._in_transaction(partial(_delete, ids, expired))
        except DBAPIError as error:
            log.warning("A batch of %d rows of a cleanup was left out: %s", len(ids), error.orig)
            failures.append(error)
            return 0

    def _pages(self, expired: ColumnElement[bool], size: int) -> Iterator[Sequence[int]]:
        """The ids of the rows that have expired, `size` of them at a time."""
        after = 0
        while ids := self._in_transaction(partial(_read_page, expired, after, size)):
            yield ids
            after = ids[-1]

    # --- again and again ------------------------------------------------------------------------------------------

    def _in_transaction(self, work: Callable[[Session], T]) -> T:
        """The result of the work, which gets a session of its own."""

        def once() -> T:
            with create_session(scoped=False) as session:
                return work(session)

        return self._patience_now().call(once, sleep=self._sleep)

    def _call(self, call: Callable[..., T], session: Session | None) -> T:
        if session is not None:
            return call(session=session)
        # Airflow takes the thread's session then, in which the caller may have begun something.
        return call() if _is_in_transaction() else self._patience_now().call(call, sleep=self._sleep)

    async def _acall(self, call: Callable[..., Awaitable[T]], session: AsyncSession | None) -> T:
        if session is not None:
            return await call(session=session)
        return await self._patience_now().acall(call, sleep=asyncio.sleep)

    def _patience_now(self) -> Patience:
        return patience_of(is_passing, lambda: self._patience)


def batch_size() -> int:
    """How many rows go in one transaction."""
    configured: int = conf.getint("state_store", "state_cleanup_batch_size")
    return min(configured, LARGEST_BATCH) if configured > 0 else BATCH


def is_passing(error: BaseException) -> bool:
    """Whether the same call may succeed if it is repeated."""
    if settings.engine is None:
        return False
    dialect = dialect_of(settings.engine.url.get_backend_name())
    return dialect is not None and dialect.is_passing(error)


def _is_in_transaction() -> bool:
    """Whether this thread's session has begun one."""
    sessions = settings.Session
    return sessions is not None and sessions.registry.has() and sessions().in_transaction()


def _read_page(expired: ColumnElement[bool], after: int, size: int, session: Session) -> Sequence[int]:
    page = select(TaskStateStoreModel.id).where(TaskStateStoreModel.id > after, expired)
    return session.scalars(page.order_by(TaskStateStoreModel.id).limit(size)).all()


def _delete(ids: Sequence[int], expired: ColumnElement[bool], session: Session) -> int:
    """Delete those of the rows that are still expired."""
    # This session holds no objects that would have to be updated.
    statement = delete(TaskStateStoreModel).execution_options(synchronize_session=False)
    count: int = session.execute(statement.where(TaskStateStoreModel.id.in_(ids), expired)).rowcount  # type: ignore[attr-defined]
    return count
