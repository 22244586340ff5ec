"""Everything this package raises, in one tree under `ResumeError`.

The data of an error is in its fields, such as `error.external_id` and `error.key`. `error.fields` has all of them.

To add an error: if a caller would handle it in the same way as one that exists, raise that one. Otherwise write a class
under the base class of its part of the package (`JobError`, `LoopError`, ...). The first line of its docstring is the
message when none is given, with the `remedy` of the class. "Fields:" in the docstring says what each field contains. A
field is an annotated attribute, and a keyword argument of the class. mypy and pyright check its type, and require it if
it has no default. A field contains the original value (only the text is escaped). The value can be pickled, and is not
a secret. The error inherits from what a caller would catch. It also inherits from Airflow's `AirflowFailException` if
another try of the same task cannot end differently, and only then. Then put its row into docs/errors.md, as
tests/unit/test_errors_page.py prints it.

Old names of classes that were merged into another one are in `MERGED`, and can be imported for one release.
"""

from __future__ import annotations

import warnings
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal

from airflow_resume.compat import AirflowFailException
from airflow_resume.error_fields import DeclaredError, text_argument

if TYPE_CHECKING:
    from pydantic import JsonValue


class ResumeError(DeclaredError):
    """Resuming failed.

    Args:
        message: what happened, and where.
        remedy: what to do about it. It is shown on a line of its own, as Airflow's log view wraps none.
        **fields: those of the class, as they are.

    In the two texts, what cannot be seen is escaped, see `shown`: ids, names and other errors stand in them.
    """

    message: str = text_argument(default="", kw_only=False)
    remedy: str | None = text_argument(default=None, kw_only=False)
    """In a class: what to do when it is raised without a message."""

    @property
    def fields(self) -> dict[str, Any]:
        """The fields by their names, e.g. for an alert or a structured log; None where one is not known."""
        return {name: getattr(self, name) for name in self.FIELDS}

    def __str__(self) -> str:
        return f"{self.message}\n{self.remedy}" if self.remedy else self.message


class UsageError(ResumeError, RuntimeError, TypeError, ValueError, AirflowFailException):
    """A function or decorator of airflow-resume is used in a way in which it cannot work.

    For example: two jobs or loops of one task have the same name, so they would share one record; `run_job` would block
    the event loop that it is called on; a job has `wait="reschedule"` and cannot be waited for in this way; the
    decorator of a watermark is above @task; the body of a watermark returns work that is not done, such as a generator;
    a factory for `airflow-resume conformance` makes no store.

    Fields:
        name: of the job, loop, factory or body of a watermark; None for a decorator or an event loop.
    """

    name: str | None = None


class UpgradeError(ResumeError, ValueError):
    """An item of `[airflow_resume] upgrade` or a task that it names cannot be upgraded.

    It is logged when a Dag is parsed, and not raised: the Dag and all others are used as they are.

    Fields:
        item: of the setting.
        task: `dag_id.task_id`; None if it is the item that is wrong.
    """

    item: str | None = None
    task: str | None = None


# --- finding and reaching a store -----------------------------------------------------------------------------


class NoStateStoreError(ResumeError, LookupError):
    """There is no state store here."""

    remedy = "Run this inside an Airflow task, or pass `store=`."


class AssetNotDeclaredError(ResumeError, LookupError, AirflowFailException):
    """The asset is not among the inlets and outlets of this task, so Airflow gives no access to its state.

    Fields:
        asset: its name.
    """

    asset: str


class StoreUnavailableError(ResumeError):
    """The state store could not be reached in time. Nothing was lost: a retry continues from the last write.

    Or it answered with the record of another key, and the answer was not used.

    Fields:
        where: what could not be reached: the URL of the database without its password, a connection, or the type of a
            store that was passed. None for Airflow's own store.
        seconds: for how long it was tried, if that is known.
        key: that was asked for, if the store answered with the record of another key.
    """

    where: str | None = None
    seconds: float | None = None
    key: str | None = None


class StoreRefusedError(ResumeError):
    """The state store refused the call.

    Fields:
        where: what refused: the URL of the database without its password, or a connection. None for Airflow's own
            store.
        asset: its name, if Airflow refused to write its state because the asset is not active.
    """

    where: str | None = None
    asset: str | None = None


class SupersededError(ResumeError):
    """Another attempt has replaced this one. This one must stop, and has touched nothing since it found out.

    Fields:
        key: that the other attempt has written, if that is known.
    """

    key: str | None = None


# --- values and records ---------------------------------------------------------------------------------------


class InvalidKeyError(ResumeError, ValueError):
    """A name, a key or a part of a scope is empty, too long, or has a character that cannot be kept.

    The name of a job, loop or watermark must match [A-Za-z0-9_:.%-]+, and the key made from it may have up to 200
    characters. A key that is given to a state backend or `SqlStateStore` itself has 1 to 512 characters, and no NUL.

    Fields:
        key: the name, key or part of a scope, if it is a text.
    """

    key: str | None = None


class InvalidValueError(ResumeError, ValueError, AirflowFailException):
    """The state store would refuse this value, or give it back changed.

    Fields:
        at: the place of the refused part in the value, such as "$.rows[3]".
        key: under which the value was to be stored, if that is known.
    """

    at: str | None = None
    key: str | None = None


class ValueTooLargeError(InvalidValueError):
    """The value is too large for the state store.

    Fields:
        size: of the value or its record, in bytes.
        limit: the most bytes it may have.
    """

    remedy = "Keep the data elsewhere and store its address."

    size: int
    limit: int


class UnreadableRecordError(ResumeError, AirflowFailException):
    """The stored record cannot be read by this version of airflow-resume.

    Fields:
        key: of the record.
    """

    key: str | None


# --- jobs -----------------------------------------------------------------------------------------------------


class JobError(ResumeError):
    """The job failed.

    Fields:
        slot: the name of the job in its task.
        token: with which the job was submitted.
        external_id: the id of the job in the job system; None if it is not known.
        status: the last known status, such as "failed" or "cancelled"; a word of the job system that is not understood
            is here as it came.
    """

    slot: str | None = None
    token: str | None = None
    external_id: JsonValue = None
    status: str | None = None


class JobFailedError(JobError):
    """The job ended without success."""


class JobFailedForGoodError(JobFailedError, AirflowFailException):
    """The job ended without success and the policy forbids another one."""


class JobGoneError(JobError, AirflowFailException):
    """The job system no longer knows the job, and the policy forbids another one."""


class JobInputsChangedError(JobError, AirflowFailException):
    """The job was submitted with other inputs, and the policy is to fail then."""


class JobStatusUnknownError(JobError):
    """The job's status stayed unknown for too long. The job was left alone; a retry asks again.

    Or the job has ended, and the word for its status does not say whether it succeeded.

    Fields:
        seconds: for how long it has been unknown; None if the job has ended.
    """

    seconds: float | None = None


class StrayJobError(JobError):
    """Another job of the same slot is alive, and nothing was submitted beside it."""


class JobHookError(JobError, LookupError, ValueError, AirflowFailException):
    """A function of the job system has returned something that it must not return.

    Either `find` has returned jobs that were not submitted with the token; then nothing was submitted. Or `submit` has
    returned None, or something that is not JSON, instead of the id of the job; then the job may be running.

    Fields:
        hook: the function.
    """

    hook: Literal["find", "submit"]


class JobWaitTimeoutError(JobError):
    """Waiting took longer than `poll.timeout`. Unless `cancel_on` ends it the job lives on, and a retry reconnects.

    Fields:
        timeout: `poll.timeout`.
    """

    timeout: timedelta | None


class TaskStoppedError(JobError):
    """The task was told to stop, so its job was cancelled and no other one submitted."""


class LostSubmissionError(JobError, AirflowFailException):
    """An earlier attempt may have submitted a job whose id was never saved, and it cannot be looked up."""


# --- loops ----------------------------------------------------------------------------------------------------


class LoopError(ResumeError):
    """The loop cannot go on.

    Fields:
        loop: its name, if that is known, after the names of the loops around it.
    """

    loop: str | None = None


class SourceChangedError(LoopError, AirflowFailException):
    """The saved position belongs to another source, or to this one before it was changed.

    Fields:
        position: that was saved.
        changes: what has changed since, in words.
    """

    position: JsonValue = None
    changes: tuple[str, ...] = ()


class TokenExpiredError(LoopError, AirflowFailException):
    """The token of the next page is too old: the API no longer takes it.

    Fields:
        position: the token, or the position that it is in.
        age: the time since it was received, if that is known.
    """

    position: JsonValue = None
    age: timedelta | None = None


class SourceNotReopenableError(LoopError, TypeError):
    """A later attempt could not continue in this source, because no position in it can be saved.

    Fields:
        type_name: the name of its type.
    """

    type_name: str


class WrongAnswerError(LoopError, TypeError, ValueError, AirflowFailException):
    """A function that was given to the loop has returned something that it must not return.

    It has returned a value of another type, more items than it was asked for (so it ignores the limit), or two files
    with the same identity.

    Fields:
        call: what was called, if that is known.
        answered: the number of items, if there were too many; or the identity that two files have.
    """

    call: str | None = None
    answered: JsonValue = None


class EndlessSourceError(LoopError, AirflowFailException):
    """The source would never end.

    It has returned a token for the second time, or the same page twice (so it ignores the number of the page that it is
    asked for), or one page after the other without an item.

    Fields:
        call: that answered with the same page again.
        position: the token of the page whose next page was fetched before.
        empty_pages: how many pages without an item came in a row.
    """

    call: str | None = None
    position: JsonValue = None
    empty_pages: int = 0


class IncompleteLoopError(LoopError):
    """The loop ended before all was done. A retry asks again.

    Either the source had no element, and `on_empty="fail"` does not allow that. Or it gave fewer elements than it had
    announced. Or elements were delivered and never acked.

    Fields:
        problem: which of the three.
        unacked: the number of elements that were delivered and never acked.
    """

    problem: Literal["empty", "short", "unacked"]
    unacked: int = 0


class StalledError(LoopError, AirflowFailException):
    """Attempts died at the same element, one after the other.

    Fields:
        position: of the element.
        attempts: how many died there in a row.
    """

    position: JsonValue
    attempts: int


class LoopStoppedError(LoopError):
    """The task was told to stop, and stopped between two elements. What is done is saved; a retry goes on.

    Fields:
        reason: why it was to stop.
    """

    reason: str


# --- SQL state backends ---------------------------------------------------------------------------------------


class BackendError(ResumeError):
    """The state backend cannot be used.

    Fields:
        where: the URL of the database, without its password; None if there is none yet, or if it is not known.
    """

    where: str | None = None


class BackendSettingError(BackendError, LookupError, ValueError):
    """A setting of the state backend is missing, cannot be read, or does not exist.

    Its URL is not one of SQLite, PostgreSQL, MySQL or MariaDB; its connection does not exist; or its codec, or the key
    of the codec, cannot be loaded.

    Fields:
        setting: its name in the section [airflow_resume], also if the value was passed as an argument: "backend_url",
            "backend_conn_id", "backend_codec" and so on. None for `[workers] state_store_backend`.
    """

    setting: str | None


class MissingDriverError(BackendError, ImportError):
    """A package is missing that the database of the state backend needs.

    Fields:
        extra: of airflow-resume that installs it, such as "postgresql"; None if the package is apache-airflow-core.
    """

    extra: str | None


class SchemaError(BackendError):
    """The tables of the state backend are not those that this version of airflow-resume can use.

    Fields:
        problem: "newer": a newer version has made them; "damaged": somebody has changed or dropped a part of them;
            "missing": there are none yet; "no former id": the database has had no other id, and nothing was changed.
        version: of the tables, if the problem is "newer".
        known: the newest version that this airflow-resume knows, if the problem is "newer".
    """

    problem: Literal["newer", "damaged", "missing", "no former id"]
    version: int | None = None
    known: int | None = None


class UnwritableStoreError(BackendError):
    """The database of the state backend cannot be written. Nothing was changed.

    Fields:
        problem: "read-only"; "full": no space is left; "no right": this user may not make or change its tables.
    """

    problem: Literal["read-only", "full", "no right"]


class CodecError(BackendError):
    """A value in a state backend cannot be encrypted or decrypted. It was left as it is, and not taken for missing.

    Fields:
        codec: its name or type; None if none is configured.
    """

    remedy = "See whether `backend_codec` and its keys are those of the worker that wrote it."

    codec: str | None


class CleanupIncompleteError(BackendError):
    """A part of a cleanup failed. The rest was deleted.

    Fields:
        failed: the number of batches that were left out.
        deleted: the number of rows that were deleted.
    """

    remedy = "Run it again for what is left."

    failed: int
    deleted: int


class StateReferenceError(BackendError):
    """A reference to a value in a state backend cannot be followed.

    It was written by another backend or by hand, or it leads to another database than that of this state backend.

    Fields:
        key: of the value, if the reference can be read so far.
        store_id: the id of the database to which the reference leads, if it can be read so far.
    """

    key: str | None = None
    store_id: str | None = None


class DanglingReferenceError(StateReferenceError, LookupError, AirflowFailException):
    """Airflow has a reference to a value that is not in the database of the state backend any more."""


# --- watermarks -----------------------------------------------------------------------------------------------


class WatermarkError(ResumeError):
    """The watermark cannot be used.

    Fields:
        key: under which the mark is stored, in the state of its asset.
        asset: its name.
    """

    key: str | None = None
    asset: str | None = None


class CursorTypeError(WatermarkError, TypeError, AirflowFailException):
    """A watermark value has another type than its cursor.

    Fields:
        what: where the value came from, such as "advance()" or "the cursor value of a row"; or the column, if the type
            of a column does not fit.
        type_name: the name of the type of the value or the column.
    """

    what: str | None = None
    type_name: str | None = None


class WatermarkMismatchError(WatermarkError, AirflowFailException):
    """The stored mark is not that of this watermark.

    It belongs to another cursor definition, or another task moves it, so that the two would skip each other's rows.

    Fields:
        stored: the definition of the cursor, or the owner of the mark, that is stored.
        expected: that of this watermark or task.
    """

    stored: JsonValue
    expected: JsonValue


class WatermarkLostError(WatermarkError, AirflowFailException):
    """The watermark's record is missing although this asset was loaded before.

    Fields:
        last: the last known mark, as it was stored; None if it is not known.
    """

    last: JsonValue = None


class WatermarkGapError(WatermarkError, AirflowFailException):
    """A range before the window is not loaded, and `on_gap` does not allow to move the mark over it.

    Fields:
        start: of the window, as it is stored.
        mark: where it stands, as it is stored.
    """

    start: JsonValue
    mark: JsonValue


class WatermarkConflictError(WatermarkError):
    """Since the window began, another run has moved the token, or has set the mark back. A retry begins there.

    Fields:
        start: of the window, as it is stored.
        mark: where it stands now, as it is stored.
    """

    start: JsonValue = None
    mark: JsonValue = None


class WatermarkInputError(WatermarkError, ValueError, AirflowFailException):
    """A value that was given to the watermark for this run cannot be used.

    Fields:
        given: which value. "partition": it is not JSON, cannot be determined, or is missing in a mapped task, whose
            instances would skip each other's rows. "window": the run's conf or the backfill asks for a window that is
            not possible. "token": this run did not stage it for this watermark. "mark": somebody has set it to a time
            in the future, so nothing would be loaded until then.
    """

    given: Literal["partition", "window", "token", "mark"]


class WindowNotReadError(WatermarkError, AirflowFailException):
    """The way in which the body read its window does not show how far the mark may move. So the mark stays.

    Fields:
        problem: "unread": the body returned without having read the rows over which the mark would move. "full page": a
            page is full, and none of its rows is after the mark, so the mark could never move. "deferred": the body
            defers in a way in which its window could never be committed.
    """

    problem: Literal["unread", "full page", "deferred"]


class WatermarkWarning(UserWarning):
    """An option of a watermark that is probably a mistake. The warning is given when the Dag file is read."""


# --- sinks ----------------------------------------------------------------------------------------------------


class SinkError(ResumeError):
    """The sink cannot keep the position together with the data. Nothing of this transaction was committed.

    Fields:
        sink: where it is, without its password.
    """

    sink: str | None = None


class SinkBusyError(SinkError):
    """Another run works on the same position, holds a lock on it, or always commits first. A retry looks again.

    Fields:
        owner: the task instance that has claimed the position, as JSON; empty for a script; None if it is not known.
    """

    owner: str | None = None


class SinkUnsafeError(SinkError, ValueError, AirflowFailException):
    """With this sink, or used in this way, a row could be lost or written twice.

    Fields:
        problem: "database": it has no transactions that were tested. "autocommit": each statement commits by itself.
            "engine": the table of positions has no transactions (MyISAM). "ended": the body has ended the transaction,
            or wanted to. "option": an option of the loop or watermark contradicts exactly once. "use": the connection
            was used where it may not be. "foreign": the position belongs to another script. "lost": an earlier attempt
            has kept a position, and this sink has none. "kept": a body has committed rows without the position; no
            attempt goes on until a person has looked. "history": the table has forgotten the position. "pool": others
            are given the same connection.
    """

    problem: Literal[
        "database", "autocommit", "engine", "ended", "option", "use", "foreign", "lost", "kept", "history", "pool"
    ]


class SinkTableError(SinkError, AirflowFailException):
    """The table of positions is missing, or this user has no right to make or to use it.

    Fields:
        statement: that makes the table or the schema, or gives the right; empty if no statement helps.
    """

    statement: str


# --- a deployment, seen from the command line -----------------------------------------------------------------


class OperatingError(ResumeError):
    """The state of a deployment could not be read or changed from outside."""


class AirflowApiError(OperatingError):
    """Airflow's REST API cannot be reached, or has refused a request.

    Fields:
        status: of HTTP; None if there was no answer.
        call: the method and the path.
    """

    status: int | None = None
    call: str


class ChangeRefusedError(OperatingError):
    """A change of a record was refused, and nothing was changed; or it is not known whether it has arrived.

    Fields:
        why: "running" (its task runs, or may start at any moment), "moved" (the record is not the one that was shown),
            "risk" (it would lose rows or leave a job alone), "unfit" (it cannot be done with this record), "unknown"
            (the record that is there now is neither the one before nor the one that was written).
    """

    why: Literal["running", "moved", "risk", "unfit", "unknown"]


# --- rows, of a keyset or a window ----------------------------------------------------------------------------


class ColumnError(LoopError, WatermarkError, LookupError, ValueError, AirflowFailException):
    """A row does not have the column of the key or cursor, or has no value in it.

    Fields:
        column: its name or position; None if a function was to take the value from the row.
        columns: the names of the columns that exist, if the column is missing.
    """

    column: str | int | None
    columns: tuple[str, ...] = ()


class RowOrderError(LoopError, WatermarkError, ValueError, AirflowFailException):
    """The rows are not sorted by their key or cursor value, or a row is after the end of the window.

    Fields:
        value: the key or cursor value of the row; None for rows of a frame.
        limit: the value of the row before it, or the end of the window.
    """

    value: Any = None
    limit: Any = None


# --- names of 0.1 that were merged ----------------------------------------------------------------------------

MERGED = {
    "AmbiguousStatusError": "JobStatusUnknownError",
    "AssetInactiveError": "StoreRefusedError",
    "BackendNotConfiguredError": "BackendSettingError",
    "BackfillError": "WatermarkInputError",
    "ConformanceError": "UsageError",
    "CursorColumnError": "ColumnError",
    "DamagedStoreError": "SchemaError",
    "DecoratorOrderError": "UsageError",
    "DuplicateFileError": "WrongAnswerError",
    "EmptySourceError": "IncompleteLoopError",
    "EndlessPagesError": "EndlessSourceError",
    "EventLoopError": "UsageError",
    "ForeignStoreError": "StateReferenceError",
    "FullPageError": "WindowNotReadError",
    "FutureRowError": "RowOrderError",
    "InvalidJobIdError": "JobHookError",
    "InvalidSettingError": "BackendSettingError",
    "InvalidStoreUrlError": "BackendSettingError",
    "KeyColumnError": "ColumnError",
    "NameInUseError": "UsageError",
    "NewerSchemaError": "SchemaError",
    "NoFormerIdError": "SchemaError",
    "NoTablesError": "SchemaError",
    "NothingReadError": "WindowNotReadError",
    "NullCursorError": "ColumnError",
    "OverrideError": "WatermarkInputError",
    "PageTooLongError": "WrongAnswerError",
    "PartitionError": "WatermarkInputError",
    "PartitionNeededError": "WatermarkInputError",
    "ReadOnlyStoreError": "UnwritableStoreError",
    "RepeatedPageError": "EndlessSourceError",
    "RepeatedTokenError": "EndlessSourceError",
    "SchemaRightsError": "UnwritableStoreError",
    "ShortSourceError": "IncompleteLoopError",
    "StageTokenError": "WatermarkInputError",
    "StoreFullError": "UnwritableStoreError",
    "UnackedError": "IncompleteLoopError",
    "UnsortedKeyError": "RowOrderError",
    "UnsortedRowsError": "RowOrderError",
    "WatermarkAheadError": "WatermarkInputError",
    "WatermarkChangedError": "WatermarkMismatchError",
    "WatermarkOwnedError": "WatermarkMismatchError",
    "WindowDeferredError": "WindowNotReadError",
    "WrongFindError": "JobHookError",
    "WrongRecordError": "StoreUnavailableError",
}
"""Each by the class that is raised now and has all its bases. To be removed with 0.3."""

if not TYPE_CHECKING:  # to a type checker an import of them is wrong, as is that of a name that never was

    def __getattr__(name: str) -> type[ResumeError]:
        new = MERGED.get(name)
        if new is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        warnings.warn(
            f"airflow_resume.errors.{name} is now a part of {new}.\nUse that name: this one will go.",
            DeprecationWarning,
            stacklevel=2,
        )
        return globals()[new]
