"""Everything this package raises, in one tree under `ResumeError`.

The first line of a class docstring is the message used when none is given, and `remedy` of the class goes with it. An
error inherits from Airflow's `AirflowFailException` exactly where another try of the same task cannot end differently.
"""

from __future__ import annotations

import inspect

from airflow.sdk.exceptions import AirflowFailException


class ResumeError(Exception):
    """Resuming failed.

    Args:
        message: what happened, and where.
        remedy: what to do about it. It is shown on a line of its own, as Airflow's log view wraps none.
    """

    remedy: str | None = None
    """In a class: what to do when it is raised without a message."""

    def __init__(self, message: str | None = None, remedy: str | None = None) -> None:
        if not message:
            message = (inspect.getdoc(type(self)) or "").partition("\n")[0]
            remedy = remedy or self.remedy
        self.message = message
        self.remedy = remedy
        super().__init__(f"{message}\n{remedy}" if remedy else message)


# --- finding and reaching a store -----------------------------------------------------------------------------


class NoStateStoreError(ResumeError, LookupError):
    """There is no state store here."""

    remedy = "Run this inside an Airflow task, or pass `store=`."


class AssetNotDeclaredError(ResumeError, LookupError, AirflowFailException):
    """The asset is not among the inlets and outlets of this task, so Airflow gives no access to its state."""


class AssetInactiveError(ResumeError):
    """The asset is not active, so its state cannot be written."""

    remedy = "See whether its Dag is paused or gone, or its URI was changed."


class StoreUnavailableError(ResumeError):
    """The state store could not be reached in time. Nothing was lost: a retry continues from the last write."""


class StoreRefusedError(ResumeError):
    """The state store refused the call for good."""


class NameInUseError(ResumeError, ValueError, AirflowFailException):
    """Two jobs or loops of one task have the same name, so they would share one record."""


class SupersededError(ResumeError):
    """Another attempt has replaced this one. This one must stop, and has touched nothing since it found out."""


# --- values and records ---------------------------------------------------------------------------------------


class InvalidKeyError(ResumeError, ValueError):
    """A name must match [A-Za-z0-9_:.%-]+, and the key made from it must have 1 to 200 characters."""


class InvalidValueError(ResumeError, ValueError, AirflowFailException):
    """The state store would refuse this value, or give it back changed."""


class ValueTooLargeError(InvalidValueError):
    """The value is too large for the state store."""

    remedy = "Keep the data elsewhere and store where it is."


class UnreadableRecordError(ResumeError, AirflowFailException):
    """The stored record cannot be read by this version of airflow-resume."""


class WrongRecordError(ResumeError):
    """The store answered with the record of another key; the answer was not used."""


# --- jobs -----------------------------------------------------------------------------------------------------


class JobError(ResumeError):
    """The job failed."""


class JobFailedError(JobError):
    """The job ended without success."""


class JobFailedForGoodError(JobFailedError, AirflowFailException):
    """The job ended without success and the policy forbids another one."""


class JobGoneError(JobError, AirflowFailException):
    """The job system no longer knows the job, and the policy forbids another one."""


class JobInputsChangedError(JobError, AirflowFailException):
    """The job was submitted with other inputs, and the policy forbids to go on."""


class JobStatusUnknownError(JobError):
    """The job's status stayed unknown for too long. The job was left alone; a retry asks again."""


class AmbiguousStatusError(JobStatusUnknownError):
    """The job has ended, and the word for it does not say whether it succeeded. It was left alone."""


class StrayJobError(JobError):
    """Another job of the same slot is alive, and nothing was submitted beside it."""


class EventLoopError(ResumeError, RuntimeError, AirflowFailException):
    """`run_job` would hold up the event loop that it is called on."""


class JobWaitTimeoutError(JobError):
    """Waiting took longer than `poll.timeout`. Unless `cancel_on` ends it the job lives on, and a retry reconnects."""


class TaskStoppedError(JobError):
    """The task was ended from outside, so its job was cancelled and no other one submitted."""


class LostSubmissionError(JobError, AirflowFailException):
    """An earlier attempt may have submitted a job whose id was never saved, and it cannot be looked up."""


class InvalidJobIdError(JobError, ValueError, AirflowFailException):
    """The submit hook must return the id of the job as a JSON value other than None."""


# --- loops ----------------------------------------------------------------------------------------------------


class LoopError(ResumeError):
    """The loop cannot go on."""


class SourceChangedError(LoopError, AirflowFailException):
    """The source is not the one the saved position belongs to."""


class SourceNotReopenableError(LoopError, TypeError):
    """A later attempt could not go on in this source, as no position in it means anything."""


class WrongAnswerError(LoopError, TypeError, AirflowFailException):
    """A function given to the loop answered with something else than it should."""


class RepeatedTokenError(LoopError, AirflowFailException):
    """The source answered with a token for the second time: the loop would never end."""


class TokenExpiredError(LoopError, AirflowFailException):
    """The token of the next page is too old: the API no longer takes it."""


class EndlessPagesError(LoopError, AirflowFailException):
    """The source gives one page after the other without an item, and a new token with each."""


class RepeatedPageError(LoopError, AirflowFailException):
    """The source gave the same page twice, so it does not look at the number it is asked for."""


class PageTooLongError(LoopError, ValueError, AirflowFailException):
    """The source gave more items than it was asked for, so it does not look at the limit."""


class UnsortedKeyError(LoopError, ValueError, AirflowFailException):
    """The rows do not come in the order of their keys, so rows would be skipped."""


class KeyColumnError(LoopError, LookupError, AirflowFailException):
    """A row has no such key column, or nothing in it."""


class DuplicateFileError(LoopError, ValueError, AirflowFailException):
    """Two files of a listing have the same identity."""


class EmptySourceError(LoopError):
    """The source had no element at all, where `on_empty="fail"` expects some. A retry asks again."""


class ShortSourceError(LoopError):
    """The source ended before all had come that it had announced. A retry asks again."""


class StalledError(LoopError, AirflowFailException):
    """Attempts died at the same element, one after the other."""


class UnackedError(LoopError):
    """The loop was left with elements that were delivered and never acked, so it is not done."""


class LoopStoppedError(LoopError):
    """The task was told to stop, and stopped between two elements. What is done is saved; a retry goes on."""


# --- SQL state backends ---------------------------------------------------------------------------------------


class BackendError(ResumeError):
    """The state backend cannot be used."""


class BackendNotConfiguredError(BackendError, LookupError):
    """The state backend has no URL."""

    remedy = "Set `[airflow_resume] backend_url`, or pass one."


class InvalidStoreUrlError(BackendError, ValueError):
    """The URL of the state backend is not one of SQLite, PostgreSQL, MySQL or MariaDB."""


class MissingDriverError(BackendError, ImportError):
    """A package is missing that the database of the state backend needs."""


class NewerSchemaError(BackendError):
    """The database was made by a newer version of airflow-resume."""

    remedy = "Upgrade this one, or use another database."


class ReadOnlyStoreError(BackendError):
    """The database of the state backend can be read and not written. Nothing was changed."""


class StoreFullError(BackendError):
    """The database of the state backend has no space left. Nothing was changed."""

    remedy = "Make room and try again."


class NoTablesError(BackendError):
    """The database has no tables of airflow-resume yet."""


class CleanupIncompleteError(BackendError):
    """A part of a cleanup failed. The rest was deleted."""

    remedy = "Run it again for what is left."


class StateReferenceError(BackendError):
    """A reference to a value in a state backend cannot be followed."""


class DanglingReferenceError(StateReferenceError, LookupError, AirflowFailException):
    """Airflow has a reference to a value that is not in the database of the state backend any more."""


class ForeignStoreError(StateReferenceError):
    """A reference leads to another database than that of this state backend."""


# --- the console command --------------------------------------------------------------------------------------


class ConformanceError(ResumeError):
    """The contract cannot be run on this store."""


# --- watermarks -----------------------------------------------------------------------------------------------


class WatermarkError(ResumeError):
    """The watermark cannot be used."""


class CursorTypeError(WatermarkError, TypeError, AirflowFailException):
    """A watermark value has another type than its cursor."""


class WatermarkChangedError(WatermarkError, AirflowFailException):
    """The stored watermark belongs to another cursor definition."""


class WatermarkLostError(WatermarkError, AirflowFailException):
    """The watermark's record is missing although this asset was loaded before."""


class WatermarkOwnedError(WatermarkError, AirflowFailException):
    """Another task moves this mark, and the two would skip each other's rows."""


class WatermarkAheadError(WatermarkError, ValueError, AirflowFailException):
    """The mark was set to a time that has not come, so nothing would be loaded until then."""


class PartitionNeededError(WatermarkError, AirflowFailException):
    """The instances of a mapped task would share one mark, and skip each other's rows."""


class PartitionError(WatermarkError, ValueError, AirflowFailException):
    """The partition is not JSON, or cannot be found out."""


class CursorColumnError(WatermarkError, LookupError, AirflowFailException):
    """A row has no such cursor column."""


class NullCursorError(WatermarkError, ValueError, AirflowFailException):
    """A row has no cursor value, so it lies in no window."""


class FutureRowError(WatermarkError, ValueError, AirflowFailException):
    """A row lies behind the end of the window."""


class UnsortedRowsError(WatermarkError, ValueError, AirflowFailException):
    """The rows do not come in the order of the cursor."""


class NothingReadError(WatermarkError, AirflowFailException):
    """The body returned without having read what the mark would move over. The mark stays."""


class WindowDeferredError(WatermarkError, AirflowFailException):
    """The body defers in a way in which its window could never be committed rightly."""


class FullPageError(WatermarkError, AirflowFailException):
    """A page is full, and no row of it lies after the mark: the mark could never move on."""


class WatermarkGapError(WatermarkError, AirflowFailException):
    """Something before the window is not loaded, and the policy does not go on over it."""


class WatermarkConflictError(WatermarkError):
    """Another run has moved the token, or the mark back, since the window began. A retry begins where it stands."""


class BackfillError(WatermarkError, AirflowFailException):
    """This backfill run cannot load a window."""


class OverrideError(WatermarkError, ValueError, AirflowFailException):
    """The run's conf names a window that cannot be."""


class StageTokenError(WatermarkError, ValueError, AirflowFailException):
    """The token is not one that this run staged for this watermark."""


class WatermarkWarning(UserWarning):
    """Something about a watermark that is likely not meant; said when the Dag file is read."""


class DecoratorOrderError(ResumeError, TypeError):
    """The decorator of airflow-resume stands above @task."""

    remedy = "Put it below @task, directly over the function."
