"""The errors of the steps that end an attempt without a result."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_resume import errors
from airflow_resume.attempt import in_task
from airflow_resume.jobs.decide import Step, Stray
from airflow_resume.jobs.record import JobRecord
from airflow_resume.shown import MOST_OF_AN_ERROR, short_repr

if TYPE_CHECKING:
    from pydantic import JsonValue

_ANOTHER = "To submit another one: {delete}."

_ERRORS: dict[Step, tuple[type[errors.JobError], str, str | None]] = {
    Step.FAIL_JOB: (errors.JobFailedError, "ended without success. A retry submits another one.", None),
    Step.FAIL_JOB_FOR_GOOD: (
        errors.JobFailedForGoodError,
        "ended without success, and the policy is on_failed_job='fail'.",
        _ANOTHER,
    ),
    Step.FAIL_GONE: (
        errors.JobGoneError,
        "is not known to the job system any more, and the policy is on_gone_job='fail'.",
        _ANOTHER,
    ),
    Step.FAIL_VANISHED: (errors.JobError, "vanished while it was waited for. A retry looks again.", None),
    Step.FAIL_STOPPED: (errors.TaskStoppedError, "has to end, as its task was ended from outside.", None),
    Step.FAIL_INPUTS: (
        errors.JobInputsChangedError,
        "was submitted with other inputs, and the policy is on_input_change='fail'.",
        _ANOTHER,
    ),
}


def failure(step: Step, record: JobRecord, *, name: str, earlier_try: int) -> errors.JobError:
    """The error for a step whose name begins with "fail"."""
    if step is Step.FAIL_LOST:
        return _lost(record, name, earlier_try)
    kind, what, remedy = _ERRORS[step]
    job = "A job that may exist" if record.id is None else f"Job {record.id!r}"
    job = f"{job}, of slot {name!r} (generation {record.generation}, token {record.token}),"
    return kind(
        f"{job} {what}",
        remedy and remedy.format(delete=_how_to_delete(record)),
        slot=name,
        token=record.token,
        external_id=record.id,
        status=record.status and record.status.value,
    )


def _lost(record: JobRecord, name: str, earlier_try: int) -> errors.LostSubmissionError:
    failed = f" (its submit raised {record.error})" if record.error else ""
    return errors.LostSubmissionError(
        f"Try {earlier_try} or one before it may have submitted a job of slot {name!r}, with token {record.token}, and"
        f" its id was never saved{failed}.",
        _what_to_do(record),
        slot=name,
        token=record.token,
    )


def lost_by_error(record: JobRecord, error: Exception, *, name: str) -> errors.LostSubmissionError:
    """The error of a submit that raised without proof that there is no job, if the job cannot be looked up."""
    return errors.LostSubmissionError(
        f"The submit of slot {name!r}, with token {record.token}, raised {short_repr(error, most=MOST_OF_AN_ERROR)}. It"
        " may have created a job, and that job cannot be looked up.",
        f"{_what_to_do(record)} If {type(error).__name__} proves that there is no job, add it to `refused_errors`.",
        slot=name,
        token=record.token,
    )


def _how_to_delete(record: JobRecord) -> str:
    # Outside a task there are no tries; records of 0.1 do not contain any either.
    if record.epoch.try_number is None and not in_task():
        return f"delete the key {record.key!r} from the store"
    return (
        f"delete the key {record.key!r} of the task's state in Airflow's UI (or of the store that was passed), and"
        " clear the task"
    )


def _what_to_do(record: JobRecord) -> str:
    return (
        f"Look in the job system for a job with token {record.token}, or one started at that time. If there is none, or"
        f" you have stopped it: {_how_to_delete(record)}. So that this cannot happen again, give the job system a"
        f" `find(token)` (an operator: `find_job(token, context)`), or declare `submission_is_idempotent`; to accept a"
        f" second job, set on_lost_submission='resubmit'."
    )


def stray_found(external_id: JsonValue, token: str, *, name: str, stray: Stray) -> errors.StrayJobError:
    """The error for a live job of the slot that is not on record, if it may neither be ended nor taken over."""
    found = f"Job {external_id!r} of slot {name!r} (token {token}) is alive, and is not on record."
    if stray is Stray.OURS:
        return errors.StrayJobError(
            f"{found} The policy is on_stray_job='fail', so nothing was submitted or cancelled.",
            "End the job, or use on_stray_job='resubmit' (end it first) or 'resume' (wait for it).",
            slot=name,
            token=token,
            external_id=external_id,
        )
    return errors.StrayJobError(
        f"{found} This deployment has no name of its own, so the job may belong to another Airflow with the same Dag,"
        f" run and task. Nothing was submitted or cancelled.",
        "Give each Airflow a name, [airflow_resume] deployment in its configuration (or"
        " AIRFLOW__AIRFLOW_RESUME__DEPLOYMENT); or end the job, if it is not wanted.",
        slot=name,
        token=token,
        external_id=external_id,
    )


def found_without_token(external_id: JsonValue, record: JobRecord, *, name: str) -> errors.JobHookError:
    """The error for a look-up that ignores the token."""
    return errors.JobHookError(
        f"The look-up of a job of slot {name!r} by the new token {record.token} has returned job"
        f" {short_repr(external_id)}, and so has the look-up by an earlier token. So the look-up ignores the token."
        f" Nothing was submitted.",
        "Make find(token) (an operator: find_job(token, context)) return the id of the job that was submitted with"
        " exactly this token, and None if there is none. Then clear the task.",
        hook="find",
        slot=name,
        token=record.token,
        external_id=external_id,
    )
