"""The database of a backend: its tables, and calls that are repeated.

A call that fails for a transient reason (a deadlock, a lock, a lost connection) is repeated, including its commit,
until its time limit (the *patience*) is over. Every wait counts: for other threads, for a connection, for an answer
(see `process_connection` and `watchdog`). Any other error is raised as one of our own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, TypeVar

from sqlalchemy.engine import URL, Connection
from sqlalchemy.exc import DBAPIError

from airflow_resume.backends.database.process_connection import OpenDatabase, ProcessConnection
from airflow_resume.backends.dialects.base import Dialect, Trouble
from airflow_resume.backends.event_loop import patience_here
from airflow_resume.backends.schema.manager import SchemaManager
from airflow_resume.backends.span import PATIENCE_SECONDS, PassingError, Span, patience_of, span_of
from airflow_resume.backends.urls.connections import ConnectionUrl
from airflow_resume.backends.urls.driver_errors import reason
from airflow_resume.backends.urls.read import read_url
from airflow_resume.backends.urls.shown import shown_url
from airflow_resume.errors import (
    InvalidValueError,
    ResumeError,
    StoreRefusedError,
    StoreUnavailableError,
    UnwritableStoreError,
)
from airflow_resume.patience import Patience, patiently
from airflow_resume.shown import get_logger

if TYPE_CHECKING:
    from tenacity import RetryCallState

T = TypeVar("T")

log = get_logger(__name__)

NOTABLE_WAIT = 2.0
"""After this number of seconds, a line in the log says why the task waits."""


def _wait(seconds: float) -> None:
    time.sleep(seconds)


class RowExistsError(StoreRefusedError):
    """A row with the same identity exists already."""


class Database:
    """A database by its URL, which is opened when it is first needed.

    Args:
        url: the URL, or the connection of Airflow that has it.
        patience: for how many seconds a call is repeated.
        erases: whether a value in a file is overwritten with zeros when it is deleted or replaced, because it may have
            been plain text.
        sleep: waits between two tries.
        clock: shows when to check the tables again.
    """

    def __init__(
        self,
        url: str | URL | ConnectionUrl,
        *,
        patience: float = PATIENCE_SECONDS,
        erases: bool = False,
        sleep: Callable[[float], None] = _wait,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._given = url if isinstance(url, ConnectionUrl) else read_url(url)
        self._patience = patience
        self._erases = erases
        self._sleep = sleep
        self._clock = clock

    def __str__(self) -> str:
        """The name of the database for people. A connection of Airflow is not looked up for it."""
        return str(self._given) if isinstance(self._given, ConnectionUrl) else shown_url(self.url)

    @cached_property
    def _place(self) -> tuple[URL, Dialect]:
        return read_url(self._given()) if isinstance(self._given, ConnectionUrl) else self._given

    @cached_property
    def url(self) -> URL:
        """The URL. A connection of Airflow is looked up when it is first needed, and its URL is then kept."""
        return self._place[0]

    @cached_property
    def dialect(self) -> Dialect:
        """The dialect of its kind."""
        return self._place[1]

    @cached_property
    def _process(self) -> ProcessConnection:
        # Two threads that make the first call at once must get the same object, which may contain a database in memory.
        made = ProcessConnection(self.url, self.dialect, erases=self._erases)
        first: ProcessConnection = vars(self).setdefault("_process", made)
        return first

    @cached_property
    def _schema(self) -> SchemaManager:
        return SchemaManager(
            self.url,
            self.dialect,
            autocommit=self._process.autocommit,
            transaction=self._process.transaction,
            clock=self._clock,
        )

    # --- calls ------------------------------------------------------------------------------------------------

    def autocommit(self, work: Callable[[Connection], T], *, only_reads: bool = False) -> T:
        """The result of the work. Each of its statements is a transaction of its own.

        Args:
            work: executes the statements.
            only_reads: whether nothing is written.

        Raises:
            StoreUnavailableError: the call failed for transient reasons for longer than the patience.
            RowExistsError: a row with the same identity exists already.
            BackendError, StoreRefusedError, InvalidValueError: the call cannot succeed.
        """

        def call(span: Span) -> T:
            self._open(span)
            return self._process.autocommit(work, span, only_reads=only_reads)

        return self._persist(call)

    def transaction(self, work: Callable[[Connection], T]) -> T:
        """The result of the work, in one transaction. It raises as `autocommit` does."""

        def call(span: Span) -> T:
            self._open(span)
            return self._process.transaction(work, span)

        return self._persist(call)

    def as_it_is(self, work: Callable[[Connection], T]) -> T:
        """As `autocommit`, without making the tables or bringing them up to our version."""
        return self._persist(lambda span: self._process.autocommit(work, span))

    def opened(self) -> OpenDatabase:
        """The database of this process, opened. It raises as `autocommit` does."""
        return self._persist(self._open)

    def opened_anew(self) -> OpenDatabase:
        """As `opened`, but on a new connection, and the facts about the server are asked again."""
        self.close()
        return self.opened()

    def upgrade_tables(self) -> None:
        """Bring the tables up to our version. `opened` puts that off if it could keep others waiting."""
        self._persist(self._schema.upgrade)

    def close(self) -> None:
        """Close the connection of this process. It may be used again afterwards."""
        self._process.close()

    def _open(self, span: Span) -> OpenDatabase:
        opened = self._process.opened
        if opened is None:
            self._schema.open(span)
            return self._process.set_opened(self._process.autocommit(self.dialect.packet_limit, span))
        found = self._schema.check_if_due(span)
        if found is not None and found.is_missing:
            self._process.forget_opened()
            return self._open(span)
        return opened

    # --- again, and by name -----------------------------------------------------------------------------------

    def _persist(self, call: Callable[[Span], T]) -> T:
        """Make the call, repeat it while it fails for a transient reason, and raise one of our own errors at the end.

        All tries together have one time limit, which includes the wait for other threads of this process.
        """
        patience = patience_here(self._patience)
        span = span_of(patience)
        errors: list[DBAPIError | PassingError] = []

        def once() -> T:
            try:
                return call(span)
            except (DBAPIError, PassingError) as error:
                errors.append(error)
                raise

        def patience_after(error: Exception) -> Patience | None:
            if not isinstance(error, (DBAPIError, PassingError)) or span.is_over():
                return None
            if not (self.dialect.is_passing(error) or self._goes_with_the_connection(error)):
                return None
            return patience_of(
                self.dialect.is_passing,
                lambda: 0.0 if span.is_over() else patience,
                say=partial(self._say_that_it_waits, patience),
            )

        try:
            return patiently(
                once,
                patience_after,
                sleep=lambda seconds: self._sleep(min(seconds, span.left())),
            )
        except (DBAPIError, PassingError):
            telling = self._telling(errors)
            raise self._named(telling, patience) from telling

    def _telling(self, errors: Sequence[DBAPIError | PassingError]) -> DBAPIError | PassingError:
        """The most useful error: the last one; if that is transient, the last one of the server, or else the first."""
        if not self.dialect.is_passing(errors[-1]):
            return errors[-1]
        of_the_server = [error for error in errors if isinstance(error, DBAPIError) and self.dialect.is_passing(error)]
        return of_the_server[-1] if of_the_server else errors[0]

    def _say_that_it_waits(self, patience: float, state: RetryCallState) -> None:
        """Log why a call is repeated, once, when it has waited for `NOTABLE_WAIT` seconds."""
        error = state.outcome.exception() if state.outcome is not None else None
        if state.idle_for - state.upcoming_sleep < NOTABLE_WAIT <= state.idle_for and error is not None:
            log.warning(
                "%s is away or busy, and is asked again for up to %g s: %s",
                shown_url(self.url),
                patience,
                reason(error, self.url),
            )

    def _goes_with_the_connection(self, error: BaseException) -> bool:
        """Whether a new connection may help. Then it is tried once.

        A connection that was opened read-only stays read-only after the file has become writable. And a server may have
        planned a statement for tables that have changed since.
        """
        return isinstance(error, DBAPIError) and self.dialect.trouble(error) in {Trouble.READ_ONLY, Trouble.STALE_PLAN}

    def _named(self, error: DBAPIError | PassingError, patience: float) -> Exception:
        where, why = shown_url(self.url), reason(error, self.url)
        if isinstance(error, PassingError) or self.dialect.is_passing(error):
            return StoreUnavailableError(
                f"{where} could not be used for {patience:g} s: {why}", where=where, seconds=patience
            )
        trouble = self.dialect.trouble(error)
        if trouble in _OF_TABLES and self._process.opened is not None:
            found = self._schema.check_after_refusal(patience)
            if isinstance(found, ResumeError):
                return found
            if found is not None and found.is_missing:  # the next call makes the tables, as a new process does
                self._process.forget_opened()
        return _error_of(trouble, where, why)


def _error_of(trouble: Trouble, where: str, why: str) -> ResumeError:
    remedy: str | None = None
    match trouble:
        case Trouble.READ_ONLY:
            message = f"{where} can be read and not written: {why}"
            return UnwritableStoreError(message, problem="read-only", where=where)
        case Trouble.FULL:
            message = f"{where} has no space left: {why}"
            return UnwritableStoreError(message, "Make room and try again.", problem="full", where=where)
        case Trouble.TOO_LARGE:
            return InvalidValueError(f"{where} takes no value of this size: {why}")
        case Trouble.EXISTS:
            return RowExistsError(f"{where} has such a row already: {why}", where=where)
        case Trouble.NOT_OPENED:
            remedy = "See whether its folder is there, and this user may write in it, also beside the file."
        case Trouble.REFUSED:
            remedy = "See whether the URL is right, and the server, or the pooler before it, lets its user in."
    return StoreRefusedError(f"{where} refused the call: {why}", remedy, where=where)


_OF_TABLES = {Trouble.OTHER, Trouble.NO_RIGHT, Trouble.STALE_PLAN}
"""Errors of a statement for which there are no tables."""
