"""The state of a task or an asset in a database of your own, as one attempt sees it: for Airflow without state stores.

Airflow's own stores refuse the writes of an attempt that was replaced, and are empty when a Dag run was deleted and
made again under the same id. A database knows neither, so each task has one more row here, its *fence*, under the key
`resume.attempt`. It names the newest attempt that has opened the store, and the life of the Dag run.

- An attempt writes the fence before it reads anything. Every later write changes the fence too, in the same
  transaction, and only if no newer attempt has written it. So a replaced attempt cannot write once its successor has
  begun, and its reads give the default, as with Airflow's stores.
- If the fence is that of another life of the Dag run, what the task has kept is deleted: `is_another_life`.

The values are rows like those of `SqlStateStore` with the scope of the task instance or of the asset.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from airflow_resume.attempt import Epoch, Scope, utc_now
from airflow_resume.backends.backend import MAX_VALUE_BYTES
from airflow_resume.backends.database.database import Database, RowExistsError
from airflow_resume.backends.rows import statements
from airflow_resume.backends.rows.statements import NewRow
from airflow_resume.backends.rows.value_table import ValueTable
from airflow_resume.backends.urls.connections import ConnectionUrl
from airflow_resume.backends.values.codecs import Cipher
from airflow_resume.backends.values.scopes import AnyScope, key_digest, place_of
from airflow_resume.backends.values.texts import text_of, value_in_row
from airflow_resume.backends.values.writer import WritingAttempt
from airflow_resume.compat import TaskScope
from airflow_resume.errors import BackendSettingError, InvalidValueError, SupersededError
from airflow_resume.shown import get_logger

if TYPE_CHECKING:
    from pydantic import JsonValue
    from sqlalchemy.engine import Connection

log = get_logger(__name__)

FENCE = "resume.attempt"
"""The key of the fence, in the scope of the task instance."""


def is_another_life(*, before: Epoch, now: Epoch, same_id: bool) -> bool:
    """Whether the Dag run was deleted and made again under the same id since the fence was written.

    A run has another start then, but also after a task of it was cleared, and after a person set it back to *queued*.
    A clear has a number. What tells the other two apart is that tries are counted from 1 in a run that is made again.
    What is not proved is not another life, as what a task has kept cannot be had back.

    Args:
        before: of the fence.
        now: of this attempt.
        same_id: whether this attempt has the id of the one that wrote the fence, as after a reschedule.
    """
    starts = {before.run_started, now.run_started}
    if None in starts or len(starts) == 1 or now.clear_number > before.clear_number:
        return False
    return not same_id and (now.try_number or 0) <= (before.try_number or 0)


def open_values(*, url: str | None, conn_id: str | None, codec: str | None) -> ValueTable:
    """The values of a database, which is connected to when it is first needed.

    Raises:
        BackendSettingError: the URL cannot be right, or is for an unsupported database; or there is no such codec.
    """
    cipher = Cipher(codec)
    place = url if url is not None else ConnectionUrl(conn_id=conn_id or "", setting="state_conn_id")
    try:
        database = Database(place, erases=cipher.encrypts)
    except BackendSettingError as error:
        message = error.message.replace("The URL of the state backend", "[airflow_resume] state_url")
        raise BackendSettingError(message, error.remedy, setting="state_url") from None
    return ValueTable(
        database=database,
        max_value_bytes=MAX_VALUE_BYTES,
        keep_versions=1,
        now=utc_now,
        cipher=cipher,
    )


@dataclass(kw_only=True, eq=False)
class AttemptStore:
    """The values of one scope, as one attempt of a task sees them; a `StateStore`.

    Args:
        values: of the database.
        task: the task instance.
        writer: the attempt.
        epoch: of the attempt.
        asset: the scope of an asset whose state this is; None: it is that of the task instance.
    """

    values: ValueTable
    task: Scope
    writer: WritingAttempt
    epoch: Epoch
    asset: AnyScope | None = None
    _is_open: bool = field(default=False, init=False)

    def __repr__(self) -> str:
        return f"<AttemptStore in {self.values.database}>"

    def get(self, key: str, default: JsonValue = None) -> JsonValue:
        """The value, or `default` if there is no value. An attempt that was replaced gets the default, too.

        Raises:
            UnreadableRecordError: the text of the value is not JSON.
        """
        if self.asset is None and not self._is_mine():
            return default
        text = self.values.read(statements.at(place_of(self._scope), key), key)
        return default if text is None else value_in_row(text, key, self, is_secret=self.values.cipher.encrypts)

    def set(self, key: str, value: JsonValue) -> None:
        """Keep the value for ever.

        Raises:
            SupersededError: another attempt has replaced this one. Nothing was written.
            InvalidKeyError, InvalidValueError, ValueTooLargeError: before anything is written.
        """
        row = self.values.row(self._scope, key, text_of(value), writer=self.writer)
        dialect = self.values.database.dialect
        self._fenced(lambda connection: statements.write(connection, dialect, [row]))

    def delete(self, key: str) -> None:
        """Remove the value, if there is one.

        Raises:
            SupersededError: another attempt has replaced this one. Nothing was removed.
        """
        key_digest(key)
        where = statements.at(place_of(self._scope), key)
        self._fenced(lambda connection: statements.remove(connection, where))

    # --- the fence --------------------------------------------------------------------------------------------

    @property
    def _of_task(self) -> TaskScope:
        task = self.task
        return TaskScope(dag_id=task.dag_id, run_id=task.run_id, task_id=task.task_id, map_index=task.map_index)

    @property
    def _scope(self) -> AnyScope:
        return self._of_task if self.asset is None else self.asset

    def _fence(self) -> NewRow:
        life = {"run_started": self.epoch.run_started, "clear_number": self.epoch.clear_number}
        text = text_of({"try": self.writer.try_number, **life})
        return self.values.row(self._of_task, FENCE, text, writer=self.writer)

    def _is_mine(self) -> bool:
        """Whether no newer attempt has begun."""
        try:
            self._open()
        except SupersededError:
            return False
        return not self._is_replaced(self.values.database.autocommit(self._read_fence, only_reads=True))

    def _read_fence(self, connection: Connection) -> tuple[WritingAttempt, str] | None:
        found = statements.read_state(connection, statements.at(place_of(self._of_task), FENCE))
        if found is None:
            return None
        writer = WritingAttempt(identity=found.writer_hash, try_number=found.try_number, attempt_id=found.attempt_id)
        return writer, found.value

    def _is_replaced(self, fence: tuple[WritingAttempt, str] | None) -> bool:
        return fence is not None and self.writer.is_replaced_by(fence[0])

    def _open(self) -> None:
        """Write the fence, once in an attempt."""
        if not self._is_open:
            self._fenced(lambda _: None)
            self._is_open = True

    def _fenced(self, change: Callable[[Connection], object]) -> None:
        """Make a change in one transaction with the fence, unless a newer attempt has written the fence."""
        work = partial(self._change, row=self._fence(), change=change)
        try:
            self.values.database.transaction(work)
        except RowExistsError:  # another attempt has inserted the fence in between; now it is there
            self.values.database.transaction(work)

    def _change(self, connection: Connection, *, row: NewRow, change: Callable[[Connection], object]) -> None:
        fence = self._read_fence(connection)
        if self._is_replaced(fence):
            raise SupersededError
        if fence is not None and not self._is_open and self._is_of_another_life(*fence):
            log.info("The Dag run was deleted and made again, so what this task had kept is deleted")
            statements.remove_all(connection, place_of(self._of_task), family=False)
            fence = None
        if fence is None:
            statements.write_new(connection, row)
        elif not statements.write_unless_newer(connection, row):  # replaced, or deleted, since it was read
            raise SupersededError
        change(connection)

    def _is_of_another_life(self, writer: WritingAttempt, text: str) -> bool:
        try:
            kept = value_in_row(self._decrypted(text), FENCE, self)
            before = Epoch.model_validate(kept)
        except (InvalidValueError, ValueError):
            return False  # it was changed by hand
        now = self.epoch.model_copy(update={"try_number": self.writer.try_number})
        return is_another_life(before=before, now=now, same_id=writer.attempt_id == self.writer.attempt_id)

    def _decrypted(self, text: str) -> str:
        return self.values.decrypted(text, statements.at(place_of(self._of_task), FENCE), FENCE)
