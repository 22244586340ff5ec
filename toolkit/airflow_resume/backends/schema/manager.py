"""The tables of a database, as one process sees them: made when it is opened, upgraded, and checked now and then.

Older tables that this program can use stay as they are if they cannot be changed now: another process has the lock,
somebody reads them for a long time, the user has no right to change them, the file is read-only, or they are so large
that writers would have to wait for too long. An upgraded program goes on with such tables, and `airflow-resume migrate`
says why they could not be changed.

A check is an extra query. If it gets no answer, the call goes on, because a dump, or whoever changes the tables, may
hold a lock on the row that is read.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any, Protocol

from sqlalchemy.exc import DBAPIError

from airflow_resume.backends.dialects.base import Dialect, Trouble
from airflow_resume.backends.event_loop import holds_up_a_loop
from airflow_resume.backends.schema.migrations import SchemaState, migrate, read_state
from airflow_resume.backends.schema.tables import STATE
from airflow_resume.backends.span import PassingError, Span, span_of
from airflow_resume.backends.urls.driver_errors import reason
from airflow_resume.backends.urls.shown import shown_url
from airflow_resume.errors import SchemaError, UnwritableStoreError
from airflow_resume.shown import get_logger

if TYPE_CHECKING:
    from sqlalchemy.engine import URL, Connection

log = get_logger(__name__)

HOW_TO_MIGRATE = (
    "Have a user who may do it run `airflow-resume migrate URL`, or the statements that `airflow-resume migrate"
    " --sql URL` prints."
)
CHECK_SECONDS = 60.0
"""How often a process checks whether a newer version of the program has changed the tables."""
CHECK_AGAIN_SECONDS = 5.0
"""How soon it checks again when there was no answer."""
CHECK_PATIENCE = 2.0
"""How long a check may take. This is a part of the time of the call after it, or of the call that was refused."""
MIGRATION_SECONDS = 600.0
"""How long making or upgrading the tables may take if no event loop waits for it."""
LARGE_BYTES = 2**30
"""Tables of more bytes are not changed when they are opened, as writers would wait for longer than their patience."""


class Runs(Protocol):
    """Has the statements of `work` executed on the connection of this process, within a time of their own."""

    def __call__(self, work: Callable[[Connection], Any], span: Span) -> Any:
        """What the work gives."""


class SchemaManager:
    """Opens, checks and upgrades the tables of one database.

    Args:
        url: where they are.
        dialect: the kind of the database.
        autocommit: executes each statement in a transaction of its own.
        transaction: executes all of them in one.
        clock: for when to check.
    """

    def __init__(
        self, url: URL, dialect: Dialect, *, autocommit: Runs, transaction: Runs, clock: Callable[[], float]
    ) -> None:
        self._url = url
        self._dialect = dialect
        self._autocommit = autocommit
        self._transaction = transaction
        self._clock = clock
        self._next_check = 0.0
        self._warned_of = 0

    def open(self, span: Span) -> None:
        """Make or upgrade the tables; older ones that we can use stay where that does not work now.

        Raises:
            SchemaError: only a newer program can use them, or one of them is missing, or no program of ours has
                written what they say.
            UnwritableStoreError: there are none, and this user may not make them.
            DBAPIError, PassingError: any other error.
        """
        found = self._check(span)
        if not found.is_older:
            return
        if not found.may_be_used:
            self._change(span, span.left())
            return
        why = self._why_not_now(span)
        if why is None:
            try:
                self._change(span if self._dialect.is_server else span_of(CHECK_PATIENCE), 0)
            except (DBAPIError, PassingError, UnwritableStoreError) as error:
                why = f"they could not be changed: {self._reason(error)}"
        if why is not None:
            log.warning(
                "%s has version %d of the tables and is used with them, as %s; `airflow-resume migrate` upgrades them",
                shown_url(self._url),
                found.version,
                why,
            )

    def _why_not_now(self, span: Span) -> str | None:
        if holds_up_a_loop():
            return "an event loop is not held up for it"
        size = self._autocommit(partial(self._dialect.table_bytes, name=STATE.name), span)
        return f"they have {size / 2**30:.1f} GiB" if size > LARGE_BYTES else None

    def upgrade(self, span: Span) -> None:
        """Make or upgrade the tables, however long it takes, also one that is missing. It raises as `open` does."""
        if self._check(span, whole=False).is_outdated:
            self._change(span, span.left())

    def _check(self, span: Span, *, whole: bool = True) -> SchemaState:
        """Check that we may use the tables. If they are newer and we may use them, that is logged once."""
        found: SchemaState = self._autocommit(read_state, span)
        found.require_known(shown_url(self._url))
        if whole:
            found.require_whole(shown_url(self._url))
        if found.is_newer and found.version > self._warned_of:
            self._warned_of = found.version
            log.warning(
                "%s has version %d of the tables, which a newer airflow-resume made; this one may go on with them",
                shown_url(self._url),
                found.version,
            )
        self._next_check = self._clock() + CHECK_SECONDS
        return found

    def check_if_due(self, span: Span) -> SchemaState | None:
        """The state of the tables, once a minute; None if no check was due, or nobody answered in time.

        Raises:
            SchemaError: we may not go on.
        """
        if self._clock() < self._next_check:
            return None
        seconds = min(CHECK_PATIENCE, span.left() / 2)
        now = monotonic()
        try:
            return self._check(Span(now + seconds, now + seconds))
        except (DBAPIError, PassingError) as error:
            log.debug("%s did not say which tables it has: %s", shown_url(self._url), self._reason(error))
            self._next_check = self._clock() + CHECK_AGAIN_SECONDS
            return None

    def check_after_refusal(self, patience: float) -> SchemaState | SchemaError | None:
        """The state of the tables now, as that may be why a call was refused; None if nobody answers."""
        try:
            return self._check(span_of(min(patience, CHECK_PATIENCE)))
        except SchemaError as error:
            return error
        except (DBAPIError, PassingError):
            return None

    def _change(self, span: Span, lock_seconds: float) -> None:
        """Wait for the lock for at most `lock_seconds`. Once it is there, the change may take its time."""

        def change(connection: Connection) -> None:
            with self._dialect.schema_lock(connection, lock_seconds):
                migrate(connection)

        longer = span if holds_up_a_loop() or not self._dialect.is_server else span_of(MIGRATION_SECONDS)
        try:
            self._autocommit(self._dialect.prepare_database, span)
            self._transaction(change, longer)
        except DBAPIError as error:
            if self._dialect.trouble(error) is not Trouble.NO_RIGHT:
                raise
            raise UnwritableStoreError(
                f"{shown_url(self._url)} does not let this user change its tables: {self._reason(error)}",
                HOW_TO_MIGRATE,
                problem="no right",
                where=shown_url(self._url),
            ) from error

    def _reason(self, error: Exception) -> str:
        return error.message if isinstance(error, UnwritableStoreError) else reason(error, self._url)
