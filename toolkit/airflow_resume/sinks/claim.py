"""How an attempt claims a position in a SQL database, before it does anything else there."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from sqlalchemy import Connection, Engine, Table
from sqlalchemy.exc import DBAPIError

from airflow_resume.errors import SinkError
from airflow_resume.sink_protocol import Claimant
from airflow_resume.sinks.checks import autocommits, check_autocommit, check_engine, check_pool
from airflow_resume.sinks.contention import LOOK_SECONDS, Races, Watch, raced, refusal
from airflow_resume.sinks.databases import DATABASES
from airflow_resume.sinks.decide import Claiming, Held, OnContention, Stamp, decide_claim
from airflow_resume.sinks.guard import Guard
from airflow_resume.sinks.refusals import busy, in_use, kept_without_position, without_rights
from airflow_resume.sinks.rows import FoundRow, PositionRow, make_table
from airflow_resume.sinks.transaction import SqlPosition

if TYPE_CHECKING:
    from pydantic import JsonValue


class Claim:
    """How a position is claimed.

    Args:
        engine: of the database.
        table: of positions.
        target: what the database is called in messages.
        on_contention: what to do about another run.
        patience: how long to wait for a lock, and for a run that says nothing.
        monotonic: a clock, in seconds.
        sleep: waits for a number of seconds.
    """

    def __init__(
        self,
        engine: Engine,
        table: Table,
        *,
        target: str,
        on_contention: OnContention,
        patience: timedelta,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._engine, self._table, self._target = engine, table, target
        self._database = DATABASES[engine.dialect.name]
        self._on_contention: OnContention = on_contention
        self._patience = patience.total_seconds()
        self._monotonic, self._sleep = monotonic, sleep

    def claimed(self, identity: Sequence[JsonValue], claimant: Claimant) -> SqlPosition:
        """Claim the position.

        Raises:
            SupersededError: a later attempt has claimed it. Nothing was touched.
            SinkBusyError: another run works on it, or has locked it.
            SinkUnsafeError: exactly once is not possible on this connection.
            SinkTableError: there is no table, or this user has no right to make or to use it.
            SinkError: the connection was lost.
        """
        check_pool(self._engine, self._target)
        row = PositionRow(self._table, self._database, identity)
        connection = self._connection()
        try:
            check_autocommit(connection, self._target)
            make_table(connection, self._table, self._target, self._database)
            if self._database.has_engines:
                check_engine(connection, self._table, self._target)
            self._check_roll_back(connection, row)
            found = self._claim(connection, row, claimant)
            guard = Guard(
                connection,
                row,
                self._database,
                target=self._target,
                claimant=claimant,
                stamp=found.stamp,
                patience=self._patience,
            )
            return SqlPosition(guard, found.position)
        except DBAPIError as error:
            connection.close()
            if (named := self._named(error, row)) is None:
                raise
            raise named from error
        except BaseException:
            connection.close()
            raise

    def _connection(self) -> Connection:
        """A connection.

        Raises:
            SinkBusyError: another process keeps all others out.
        """
        patient_until = self._monotonic() + (self._patience if self._on_contention == "wait" else 0)
        while True:
            try:
                return self._engine.connect()
            except DBAPIError as error:
                if not self._database.is_in_use(error):
                    raise
                if self._monotonic() >= patient_until:
                    raise in_use(self._target) from error
            self._sleep(LOOK_SECONDS)

    def _named(self, error: DBAPIError, row: PositionRow) -> SinkError | None:
        """The error by name for an error of the database; None for one that has no name."""
        if self._database.was_locked(error):
            return busy(row.identity, self._target)
        if self._database.was_denied(error):
            return without_rights(self._table, self._engine.url.username, self._target)
        return None

    def _check_roll_back(self, connection: Connection, row: PositionRow) -> None:
        """Check that what is rolled back is gone. This notices every kind of autocommit.

        Raises:
            SinkUnsafeError: it is kept.
        """
        with self._database.short_transaction(connection, self._patience):
            if row.probe(connection, secrets.token_hex(16)):
                raise autocommits(self._target)

    # --- the row ----------------------------------------------------------------------------------------------

    def _claim(self, connection: Connection, row: PositionRow, claimant: Claimant) -> FoundRow:
        watch = Watch(self._patience, self._monotonic)
        races = Races(self._patience, self._monotonic, self._sleep)
        while True:
            try:
                with self._database.short_transaction(connection, self._patience):
                    outcome = self._try_once(connection, row, claimant, watch)
            except DBAPIError as error:
                if not self._database.was_raced(error):
                    raise
                outcome = None
            if isinstance(outcome, FoundRow):
                return outcome
            if outcome is Claiming.WAIT:
                self._sleep(LOOK_SECONDS)
            elif races.are_over:
                raise raced(row.identity, self._target, races)
            else:
                races.lost()

    def _try_once(
        self, connection: Connection, row: PositionRow, claimant: Claimant, watch: Watch
    ) -> FoundRow | Claiming | None:
        """The row when it is ours; WAIT if it is another's; None if it has changed in between.

        Raises:
            SupersededError, SinkBusyError: as `claimed`.
        """
        found, nonce = row.read(connection, lock=True), secrets.token_hex(16)
        if found is None:
            row.insert(connection, claimant, nonce)
            connection.commit()
            return FoundRow(held=Held(by=claimant), stamp=Stamp(nonce, 0), position=None)
        decision = decide_claim(found.held, claimant, self._on_contention, watch.sign_of(found.stamp))
        if decision is Claiming.TAKE_OVER:
            if (unfinished := row.unfinished(connection)) is not None:
                raise kept_without_position(row, unfinished, self._target)
            if not row.take_over(connection, found.stamp, claimant, nonce):
                return None
            connection.commit()
            return FoundRow(
                held=Held(by=claimant), stamp=Stamp(nonce, found.stamp.version + 1), position=found.position
            )
        if decision is not Claiming.WAIT:
            raise refusal(decision, row.identity, found.held.by, self._target)
        return decision
