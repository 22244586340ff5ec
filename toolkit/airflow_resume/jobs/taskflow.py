"""`run_job`: the job of a `@task` function, of an `execute` method, or of a script.

What a job needs is loaded when the function is called, and not when a Dag file imports it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar, overload

from airflow_resume.jobs.policy import ResumePolicy

if TYPE_CHECKING:
    from pydantic import JsonValue

    from airflow_resume.attempt import AnyContext
    from airflow_resume.jobs.decide import JobStatus
    from airflow_resume.jobs.protocol import Jobs, JobsWithResult
    from airflow_resume.store import StateStore

IdT = TypeVar("IdT")
ResultT = TypeVar("ResultT")


@overload
def run_job(
    jobs: JobsWithResult[IdT, ResultT],
    *,
    name: str = ...,
    policy: ResumePolicy = ...,
    inputs: JsonValue = ...,
    statuses: Mapping[str, JobStatus | str] | None = ...,
    context: AnyContext | None = ...,
    store: StateStore | None = ...,
) -> ResultT: ...
@overload
def run_job(
    jobs: Jobs[IdT],
    *,
    name: str = ...,
    policy: ResumePolicy = ...,
    inputs: JsonValue = ...,
    statuses: Mapping[str, JobStatus | str] | None = ...,
    context: AnyContext | None = ...,
    store: StateStore | None = ...,
) -> IdT: ...
def run_job(
    jobs: Jobs[Any],
    *,
    name: str = "job",
    policy: ResumePolicy = ResumePolicy(),  # noqa: B008  frozen
    inputs: JsonValue = None,
    statuses: Mapping[str, JobStatus | str] | None = None,
    context: AnyContext | None = None,
    store: StateStore | None = None,
) -> object:
    """Submit one job, wait for it, and return its result: one job and one result over all tries.

    Args:
        jobs: the job system, see `Jobs`.
        name: the slot. Two jobs of one task have two names and resume independently.
        policy: what to do where there is a choice.
        inputs: what the job is made from, as JSON. A later attempt with other inputs follows
            `policy.on_input_change`. Only a fingerprint is stored.
        statuses: what words of the job system mean, such as `{"DONE": "succeeded"}`, for those that are not among the
            usual words or have another meaning.
        context: of the task; by default that of the running one.
        store: used instead of the task's, for scripts and tests.

    Returns:
        `jobs.result(id)`, or the id where there is no `result`: the same on every path.

    Raises:
        JobFailedError: the job failed while this attempt waited for it; a retry submits another.
        LostSubmissionError: an earlier attempt may have left a job that cannot be found.
        JobHookError: `jobs.find` returns jobs that were not submitted with the token.
        SupersededError: another attempt has replaced this one.
        NoStateStoreError: no task is running, and no `store` was given.
        StoreUnavailableError: the store could not be reached, or the given store raised an error of its own.
        UsageError: it was called on an event loop, which it would block: await `arun_job` there.
        JobError: and its other subclasses, whose messages say what to do.
    """
    from airflow_resume.arguments import check_context, check_store
    from airflow_resume.channel import on_event_loop
    from airflow_resume.errors import UsageError
    from airflow_resume.jobs.run import JobRun

    if on_event_loop():
        raise UsageError(
            "run_job was called on an event loop, which it would block until the job has ended.",
            "Write: result = await arun_job(...), with the same arguments.",
        )
    if context is not None:
        check_context(context)
    if store is not None:
        check_store(store)
    run = JobRun(jobs, name=name, policy=policy, inputs=inputs, statuses=statuses, context=context, store=store)
    with cancelled_on_kill(run.killed, context):
        return run.run()


@contextmanager
def cancelled_on_kill(killed: Callable[[], object], context: AnyContext | None) -> Iterator[None]:
    """While the block runs, Airflow's `on_kill` of the task calls `killed` of the run."""
    from airflow_resume.compat import AirflowTaskTimeout
    from airflow_resume.killed import kill_listener

    with kill_listener(killed, context):
        try:
            yield
        except AirflowTaskTimeout:  # Airflow calls on_kill only after this block was left
            killed()
            raise
