"""What each step that ends an attempt without a result raises."""

from __future__ import annotations

from airflow_resume import errors
from airflow_resume.jobs.decide import Step
from airflow_resume.jobs.record import JobRecord


def failure(step: Step, record: JobRecord, *, name: str, earlier_try: int) -> errors.JobError:
    """The error for a step whose name begins with "fail"."""
    job = f"Job {record.id!r} of slot {name!r} (generation {record.generation}, token {record.token})"
    match step:
        case Step.FAIL_JOB:
            return errors.JobFailedError(f"{job} ended without success. A retry submits another one.")
        case Step.FAIL_JOB_FOR_GOOD:
            return errors.JobFailedForGoodError(f"{job} ended without success, and the policy is on_failed_job='fail'.")
        case Step.FAIL_GONE:
            return errors.JobGoneError(f"{job} is not known any more, and the policy is on_gone_job='fail'.")
        case Step.FAIL_VANISHED:
            return errors.JobError(f"{job} vanished while it was waited for. A retry looks again.")
        case Step.FAIL_LOST:
            return _lost(record, name, earlier_try)
        case Step.FAIL_INPUTS:
            return errors.JobInputsChangedError(
                f"{job} was submitted with other inputs, and the policy is on_input_change='fail'. It was left alone."
                f" To have it done again with the new ones, clear the task."
            )
        case _:
            raise AssertionError(step)


def _lost(record: JobRecord, name: str, earlier_try: int) -> errors.LostSubmissionError:
    return errors.LostSubmissionError(
        f"Try {earlier_try} or one before it may have submitted a job of slot {name!r} and died before its id was"
        f" saved. Look in the job system for a job with token {record.token}, or one started about then. If there is"
        f" none, or you stopped it: delete the key {record.key!r} of the task's state in Airflow's UI and clear the"
        f" task. To close this window, give the job system a `find(token)` (an operator: `find_job(token, context)`),"
        f" or declare `submission_is_idempotent`; to accept a second job, on_lost_submission='resubmit'."
    )
