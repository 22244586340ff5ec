"""What each step that ends an attempt without a result raises."""

from __future__ import annotations

from airflow_resume import errors
from airflow_resume.jobs.decide import Step
from airflow_resume.jobs.record import JobRecord


def failure(step: Step, record: JobRecord, *, name: str) -> errors.JobError:
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
            return _lost(record, name)
        case _:
            raise AssertionError(step)


def _lost(record: JobRecord, name: str) -> errors.LostSubmissionError:
    return errors.LostSubmissionError(
        f"An earlier attempt (before try {record.claim.try_number}) may have submitted a job of slot {name!r} and died"
        f" before its id was saved. Look in the job system for a job with token {record.token}, or one started about"
        f" then. If there is none, or it was stopped: clear the task. To close this window, give the job system a"
        f" `find(token)` (an operator: `find_job(token, context)`), or declare `submission_is_idempotent`; to accept a"
        f" second job, on_lost_submission='resubmit'."
    )
