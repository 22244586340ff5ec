"""What each step that ends an attempt without a result raises."""

from __future__ import annotations

from airflow_resume import errors
from airflow_resume.jobs.decide import Step
from airflow_resume.jobs.record import JobRecord

_ERRORS: dict[Step, tuple[type[errors.JobError], str]] = {
    Step.FAIL_JOB: (errors.JobFailedError, "ended without success. A retry submits another one."),
    Step.FAIL_JOB_FOR_GOOD: (
        errors.JobFailedForGoodError,
        "ended without success, and the policy is on_failed_job='fail'.",
    ),
    Step.FAIL_GONE: (errors.JobGoneError, "is not known any more, and the policy is on_gone_job='fail'."),
    Step.FAIL_VANISHED: (errors.JobError, "vanished while it was waited for. A retry looks again."),
    Step.FAIL_STOPPED: (errors.TaskStoppedError, "ends with its task, which was ended from outside."),
    Step.FAIL_INPUTS: (
        errors.JobInputsChangedError,
        "was submitted with other inputs, and the policy is on_input_change='fail'. To take the new, clear the task.",
    ),
}


def failure(step: Step, record: JobRecord, *, name: str, earlier_try: int) -> errors.JobError:
    """The error for a step whose name begins with "fail"."""
    if step is Step.FAIL_LOST:
        return _lost(record, name, earlier_try)
    kind, what = _ERRORS[step]
    return kind(f"Job {record.id!r} of slot {name!r} (generation {record.generation}, token {record.token}) {what}")


def _lost(record: JobRecord, name: str, earlier_try: int) -> errors.LostSubmissionError:
    return errors.LostSubmissionError(
        f"Try {earlier_try} or one before it may have submitted a job of slot {name!r} and died before its id was"
        f" saved. Look in the job system for a job with token {record.token}, or one started about then. If there is"
        f" none, or you stopped it: delete the key {record.key!r} of the task's state in Airflow's UI and clear the"
        f" task. To close this window, give the job system a `find(token)` (an operator: `find_job(token, context)`),"
        f" or declare `submission_is_idempotent`; to accept a second job, on_lost_submission='resubmit'."
    )
