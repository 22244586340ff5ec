"""What each step that ends an attempt without a result raises."""

from __future__ import annotations

from airflow_resume import errors
from airflow_resume.attempt import in_task
from airflow_resume.jobs.decide import Step, Stray
from airflow_resume.jobs.record import JobRecord

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
        "is not known any more, and the policy is on_gone_job='fail'.",
        _ANOTHER,
    ),
    Step.FAIL_VANISHED: (errors.JobError, "vanished while it was waited for. A retry looks again.", None),
    Step.FAIL_STOPPED: (errors.TaskStoppedError, "ends with its task, which was ended from outside.", None),
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
    return kind(f"{job} {what}", remedy and remedy.format(delete=_how_to_delete(record)))


def _lost(record: JobRecord, name: str, earlier_try: int) -> errors.LostSubmissionError:
    failed = f" (its submit raised {record.error})" if record.error else ""
    return errors.LostSubmissionError(
        f"Try {earlier_try} or one before it may have submitted a job of slot {name!r}, with token {record.token}, and"
        f" its id was never saved{failed}.",
        _what_to_do(record),
    )


def lost_by_error(record: JobRecord, error: Exception, *, name: str) -> errors.LostSubmissionError:
    """The error of a submit that raised what proves nothing, where nobody can be asked for the job."""
    return errors.LostSubmissionError(
        f"The submit of slot {name!r}, with token {record.token}, raised {error!r}. Nothing proves that it created no"
        f" job, and none can be looked up.",
        f"{_what_to_do(record)} If {type(error).__name__} proves that there is no job, name it in `refused_errors`.",
    )


def _how_to_delete(record: JobRecord) -> str:
    # Outside a task there are no tries; records of 0.1 do not tell.
    if record.epoch.try_number is None and not in_task():
        return f"delete the key {record.key!r} from the store"
    return (
        f"delete the key {record.key!r} of the task's state in Airflow's UI (or of the store that was passed), and"
        " clear the task"
    )


def _what_to_do(record: JobRecord) -> str:
    return (
        f"Look in the job system for a job with token {record.token}, or one started about then. If there is none, or"
        f" you stopped it: {_how_to_delete(record)}. To close this window, give the job system a `find(token)` (an"
        f" operator: `find_job(token, context)`), or declare `submission_is_idempotent`; to accept a second job,"
        f" on_lost_submission='resubmit'."
    )


def stray_found(external_id: object, token: str, *, name: str, stray: Stray) -> errors.StrayJobError:
    """The error for a live job of the slot that is not on record, where nothing may be done about it."""
    found = f"Job {external_id!r} of slot {name!r} (token {token}) is alive, and the record does not tell of it."
    if stray is Stray.OURS:
        return errors.StrayJobError(
            f"{found} The policy is on_stray_job='fail', so nothing was submitted or cancelled.",
            "End the job, or take on_stray_job='resubmit' (end it first) or 'resume' (take it up).",
        )
    return errors.StrayJobError(
        f"{found} This deployment has no name of its own, so the job may be that of another Airflow with the same Dag,"
        f" run and task. Nothing was submitted or cancelled.",
        "Give each Airflow a name, [airflow_resume] deployment in its configuration (or"
        " AIRFLOW__AIRFLOW_RESUME__DEPLOYMENT); or end the job, if it is not wanted.",
    )
