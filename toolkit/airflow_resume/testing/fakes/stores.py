"""Fakes of Airflow's state stores that accept, refuse and change what Airflow's do.

Each fact was observed on Airflow 3.3; tests of this project run the same cases on both and compare them.
"""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from airflow.sdk.exceptions import AirflowRuntimeError
from pydantic import JsonValue

from airflow_resume.compat import NEVER_EXPIRE
from airflow_resume.shown import get_logger
from airflow_resume.store import AccessorStandIn
from airflow_resume.testing.fakes.clock import FakeClock
from airflow_resume.testing.fakes.operations import CallRecorder, Observer, Operation
from airflow_resume.testing.fakes.refusals import archived, invalid_key, is_not_found, not_found, refusal
from airflow_resume.testing.fakes.rows import StoredRow, StoredRows
from airflow_resume.testing.fakes.wire import kept, kept_unchanged, key_sent, received, refuse_none, set_sent

DEFAULT_RETENTION = timedelta(days=30)
"""Airflow's setting `[state_store] default_retention_days`."""

LARGE = 65535
"""Bytes of JSON. Airflow's setting `[state_store] max_value_storage_bytes`: more is kept, with a warning in the log."""

log = get_logger(__name__)


class _FakeStore(AccessorStandIn):
    """What the two kinds of stores share: rows, and a recorder that every call passes.

    Its 21 methods are those of Airflow's stores, what tests do to a store, and the steps that the two kinds override.
    """

    def __init__(self, rows: StoredRows | None, clock: FakeClock | None, counter: CallRecorder | None) -> None:
        self.rows = StoredRows() if rows is None else rows
        self.clock = clock or FakeClock()
        self._counter = counter or CallRecorder()

    @property
    def observer(self) -> Observer | None:
        """Called with "before" or "after" and the operation, such as "set resume.job.x", around every call.

        An error that it raises is raised by the call. At "before", nothing was done yet; at "after", the call was
        applied. A call that fails has no "after". Stores of one `World` have one observer, one log and one outage.
        """
        return self._counter.observer

    @observer.setter
    def observer(self, observer: Observer | None) -> None:
        self._counter.observer = observer

    @property
    def log(self) -> list[Operation]:
        """Every call so far, in order, with those that failed."""
        return self._counter.log

    @property
    def values(self) -> dict[str, Any]:
        """A copy of the values in the rows, whether this attempt may read them or not.

        Change the store by `set` and `delete`: this copy refuses changes.
        """
        return self.rows.values_by_key()

    def sleep(self, seconds: float) -> None:
        """Advance the clock, for code that waits before it repeats a call. No real time passes.

        Args:
            seconds: by how much the clock moves.
        """
        self.clock.sleep(seconds)

    def monotonic(self) -> float:
        """The seconds that have passed on the clock."""
        return self.clock.monotonic()

    def now(self) -> datetime:
        """The time on the clock."""
        return self.clock.now()

    def outage(self, calls: int, *, status: int | None = 503) -> None:
        """Let the next calls fail, as if the API server were away; with None it does not answer at all.

        Args:
            calls: how many fail.
            status: the HTTP status with which they fail; None: there is no answer.
        """
        self._counter.outage.calls, self._counter.outage.status = calls, status

    def backup(self) -> StoredRows:
        """A copy of the rows."""
        return StoredRows(self.rows)

    def restore(self, backup: StoredRows) -> None:
        """Restore the rows.

        Args:
            backup: as `backup` returned it.
        """
        self.rows.replace_by(backup)

    def collect_garbage(self) -> list[str]:
        """Delete what has expired by the clock, as `airflow state-store clean` does. Returns the deleted keys."""
        return self.rows.collect(self.clock.now())

    def get(self, key: str, default: JsonValue = None) -> JsonValue:
        """The value, or `default` if there is no value, or when this attempt or asset is not known (any more).

        Args:
            key: any text.
            default: what is returned when there is no value.

        Raises:
            pydantic.ValidationError: the key is no text.
            AirflowRuntimeError: the value is nested too deeply, the key is unusable, or during an outage.
        """
        return self._counter.pass_through("get", key, partial(self._get, key, default))

    def delete(self, key: str) -> None:
        """Remove the value, if there is one. In a task's store, `"."` removes all of them!

        Args:
            key: any text.

        Raises:
            pydantic.ValidationError: the key is no text.
            AirflowRuntimeError: status 404 when this attempt or asset is not known (any more); during an outage.
        """
        self._counter.pass_through("delete", key, partial(self._delete, key))

    def clear(self) -> None:
        """Remove all values.

        Raises:
            AirflowRuntimeError: status 404 when this attempt or asset is not known (any more); during an outage.
        """
        self._counter.pass_through("clear", "", self._clear)

    def _get(self, key: str, default: JsonValue) -> JsonValue:
        sent = key_sent(key)
        refused = self._refused(sent)
        if refused is not None:
            if is_not_found(refused):
                return default  # a reader cannot tell a key that is missing from one that Airflow does not know
            raise refused
        row = self.rows.get(sent)
        return default if row is None else received(row.text)

    def _set(self, key: str, value: JsonValue, expires_at: datetime | None = None) -> None:
        unchanged = kept_unchanged(key, value)
        message_key, body = set_sent(key, value) if unchanged is None else (key, "")
        self._admit(message_key)
        row = StoredRow(text=kept(body) if unchanged is None else unchanged, expires_at=expires_at)
        if len(row.text) > LARGE:
            log.warning("The value of %r has %d bytes, which Airflow warns of from %d on.", key, len(row.text), LARGE)
        self.rows[message_key] = row

    def _admit(self, key: str) -> None:
        """Raise if a write is refused."""
        self._admit_any(key)

    def _delete(self, key: str) -> None:
        sent = key_sent(key)
        self._admit_any(sent)
        self.rows.pop(sent, None)

    def _clear(self) -> None:
        self._admit_any("any")
        self.rows.clear()

    def _admit_any(self, key: str) -> None:
        refused = self._refused(key)
        if refused is not None:
            raise refused

    def _refused(self, key: str) -> AirflowRuntimeError | None:
        """The error with which the API server refuses calls with this key, or None."""
        raise NotImplementedError


class _AsyncMethods(_FakeStore):
    """The async methods; the fakes answer at once."""

    async def aget(self, key: str, default: JsonValue = None) -> JsonValue:
        """As `get`.

        Args:
            key: as for `get`.
            default: as for `get`.
        """
        return self.get(key, default)

    async def adelete(self, key: str) -> None:
        """As `delete`.

        Args:
            key: as for `delete`.
        """
        self.delete(key)

    async def aclear(self) -> None:
        """As `clear`."""
        self.clear()


class FakeTaskStore(_FakeStore):
    """The state of one task instance as one attempt sees it: Airflow's `context["task_state_store"]`.

    Args:
        rows: what outlives the attempt; two stores on the same rows are two attempts of one task instance.
        clock: what retention is counted from.
        counter: records the calls, if several stores are watched together.
    """

    def __init__(
        self, rows: StoredRows | None = None, *, clock: FakeClock | None = None, counter: CallRecorder | None = None
    ) -> None:
        super().__init__(rows, clock, counter)
        self.replaced = False
        """Whether another attempt has taken over: reads give defaults, and writes are refused with 404."""

    def __repr__(self) -> str:
        return f"<FakeTaskStore {', '.join(self.rows) or 'empty'}>"

    def recreate_runs(self) -> None:
        """The Dag run is deleted and created again: its rows are gone."""
        self.rows.replace_by({})

    def clear_state(self) -> None:
        """A person clears the state."""
        self.rows.replace_by({})

    def set(self, key: str, value: JsonValue, *, retention: timedelta | None = None) -> None:
        """Keep a JSON value.

        Args:
            key: any text, but see the errors.
            value: JSON, not None. NaN and infinity inside of it silently become None.
            retention: `NEVER_EXPIRE`, or how long after now the value may be deleted; 30 days by default.

        Raises:
            ValueError: the value is None.
            pydantic.ValidationError: the value is no JSON (datetime, tuple, bytes, other keys than text, ...).
            OverflowError: an integer in it has more than 64 bits; or the retention is too long.
            UnicodeEncodeError: a text in it has a lone surrogate.
            AirflowRuntimeError: the value is NaN or infinity, or the key is empty (422); the key is `"."` (405); the
                key is `".."` or has a line break, or another attempt has replaced this one (404); an outage.
        """
        self._counter.pass_through("set", key, partial(self._set_until, key, value, retention))

    def _set_until(self, key: str, value: JsonValue, retention: timedelta | None) -> None:
        refuse_none(value)
        expires_at = None
        if retention is not NEVER_EXPIRE:
            expires_at = self.clock.now() + (DEFAULT_RETENTION if retention is None else retention)
        self._set(key, value, expires_at)

    def _delete(self, key: str) -> None:
        if key_sent(key) == ".":  # the client resolves the path, which becomes the path of `clear`
            self._clear()
        else:
            super()._delete(key)

    def _refused(self, key: str) -> AirflowRuntimeError | None:
        """The key is a part of the URL's path, so names with a meaning in paths are refused."""
        if key == "":
            return invalid_key()
        if key == ".":
            return refusal(405, "Method Not Allowed")
        if key == ".." or "\n" in key:
            return refusal(404, "Not Found")
        return not_found("Task instance") if self.replaced else None


class AsyncFakeTaskStore(FakeTaskStore, _AsyncMethods):
    """A task's store as Airflow 3.4 has it: with async methods, and a replaced attempt is refused with 410."""

    async def aset(self, key: str, value: JsonValue, *, retention: timedelta | None = None) -> None:
        """As `set`."""
        self.set(key, value, retention=retention)

    def _admit_any(self, key: str) -> None:
        if self.replaced:
            raise archived()
        super()._admit_any(key)


class FakeAssetStore(_AsyncMethods):
    """The state of one asset: Airflow's `context["asset_state_store"][asset]`.

    Unlike a task's state it has no retention and is shared by all tasks. A replaced attempt cannot `set` either, but
    it still reads the values, and its `delete` and `clear` are carried out!

    Args:
        rows: what outlives the attempt.
        active: whether Airflow knows the asset; if not, reads give defaults, and writes are refused with 404.
        clock: as in `FakeTaskStore`.
        counter: as in `FakeTaskStore`.
    """

    def __init__(
        self,
        rows: StoredRows | None = None,
        *,
        active: bool = True,
        clock: FakeClock | None = None,
        counter: CallRecorder | None = None,
    ) -> None:
        super().__init__(rows, clock, counter)
        self.active = active
        self.replaced = False
        """Whether another attempt of the task has taken over: `set` is refused with 404."""

    def __repr__(self) -> str:
        return f"<FakeAssetStore {', '.join(self.rows) or 'empty'}>"

    def set(self, key: str, value: JsonValue) -> None:
        """Keep a JSON value.

        Args:
            key: any text, but see the errors.
            value: JSON, not None.

        Raises:
            ValueError: the value is None.
            TypeError: Python's `json` cannot write the value (datetime, bytes, ...).
            pydantic.ValidationError: it can, but the value is no JSON (tuple, keys other than text).
            OverflowError: an integer in it has more than 64 bits.
            RecursionError: it is nested far too deeply.
            UnicodeEncodeError: a text in it has a lone surrogate.
            AirflowRuntimeError: the value is NaN or infinity, or the key is empty (422); the asset is not active, or
                another attempt has replaced this one (404); an outage.
        """
        self._counter.pass_through("set", key, partial(self._measure_and_set, key, value))

    def _measure_and_set(self, key: str, value: JsonValue) -> None:
        refuse_none(value)
        json.dumps(value)  # Airflow looks how large it is first
        self._set(key, value)

    def _admit(self, key: str) -> None:
        super()._admit(key)
        if self.replaced:  # only a write names its attempt, which Airflow must know
            raise not_found("Task instance")

    def _refused(self, key: str) -> AirflowRuntimeError | None:
        if key == "":
            return invalid_key()
        return None if self.active else not_found("Asset")

    async def aset(self, key: str, value: JsonValue) -> None:
        """As `set`.

        Args:
            key: as for `set`.
            value: as for `set`.
        """
        self.set(key, value)


class NextFakeAssetStore(FakeAssetStore):
    """The state of one asset as Airflow 3.4 has it: every write of a replaced attempt is refused with 410."""

    def _admit_any(self, key: str) -> None:
        if self.replaced:
            raise archived()
        super()._admit_any(key)
