"""`ResumableJobMixin`: the name and the hooks of Airflow's mixin, with the engine of `airflow_resume.jobs`.

It may be a base before an operator that already uses Airflow's mixin (`class Livy(ResumableJobMixin, LivyOperator)`).
So nothing here hides a hook of the operator: a default is set only if the method resolution order has no other.

Many Dag files are read for each task that runs. So what only a running task needs is loaded by it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, NoReturn

from airflow.sdk.bases.operator import BaseOperatorMeta

from airflow_resume.arguments import check_flag, check_function, check_type
from airflow_resume.compat import ResumableJobMixin as AirflowResumableJobMixin
from airflow_resume.compat import TaskDeferralError, TaskDeferralTimeout
from airflow_resume.errors import UsageError
from airflow_resume.jobs import ResumePolicy
from airflow_resume.jobs.looks import WaitFacts, place_of_wait, refuse
from airflow_resume.shown import get_logger, short_repr
from airflow_resume_mixins.job_link import JobLink, add_job_link, link_of

if TYPE_CHECKING:
    from airflow.sdk.definitions.context import Context
    from pydantic import JsonValue

    from airflow_resume.jobs import JobRun, ResumeDecision
    from airflow_resume.jobs.record import JobRecord
    from airflow_resume.jobs.transport import ErrorMatch
    from airflow_resume.store import StateStore


log = get_logger(__name__)

MAX_EVENT = 500
"""The most characters of the event of a trigger in the log."""


class ResumableJobMixin(AirflowResumableJobMixin):
    """Submit one job and wait for it, with one job and one result after any crash, retry or clear.

    Put it before the operator's other bases, implement the hooks, and call `execute_resumable(context)` from
    `execute`. Four hooks are required, with Airflow's names and signatures: `submit_job`, `get_job_status`,
    `is_job_active`, `is_job_succeeded`. The others are optional:

    - `get_job_result(external_id, context)`: what the task returns; by default the id.
    - `find_job(token, context) -> id | None`: looks a submission up by `self.submission_token`. With it, no crash
      leads to a second job.
    - `find_jobs(slot, context) -> {token: id}`: all jobs whose token begins with `self.submission_slot`. With it
      a job of this slot that is not on record is found before another one is submitted. It serves as `find_job` too.
    - `submission_is_idempotent = True`: submitting the same token twice gives the same job. With it, too, no crash
      leads to a second job.
    - `cancel_job(external_id, context)`: ends a job that is not wanted any more, because the task was cleared or
      marked failed; see `ResumePolicy.cancel_on`. Without it, an `on_kill` of the operator's own is called instead.
    - `classify_job_status(status) -> JobStatus`: when `is_job_active` and `is_job_succeeded` do not say enough.
    - `job_inputs(context) -> JsonValue`: the inputs of the job, see `ResumePolicy.on_input_change`.
    - `poll_until_complete(external_id, context)`: a way of waiting of your own.
    - `job_trigger(external_id, context) -> BaseTrigger`: with it and `self.deferrable = True` the job is waited for in
      the triggerer. Its event is not read, so any trigger that fires when the job has ended can be used.
    - `job_notes()`: called once after a submit. What it returns is saved together with the id, if it is small and of
      kinds that can be kept exactly.
    - `job_url(external_id) -> str | None`: the page of the job, shown as a link of the task in Airflow's UI.
    - `on_kill()`: called only when the job is to end with the task, see `ResumePolicy.cancel_on`, after `cancel_job`.
    - `job_not_found`, `transient_errors`, `refused_errors`, `ambiguous_errors`: exception types, or a method that takes
      the exception, see `airflow_resume.jobs.Jobs`.

    `self.submission_token`, `self.submission_slot`, `self.external_id` and `self.generation` are set before the hook
    that needs them. The token has 32 hexadecimal digits; `SubmissionToken(self.submission_token).of_length(64)` gives
    another form of it, for an API that asks for more or fewer.

    Args:
        resume_policy: what to do with a job of an earlier attempt, and how to wait.

    Keyword Args:
        durable (bool): False submits a new job in every attempt and keeps nothing, as in Airflow's mixin.

    Raises:
        UsageError: when the operator is made: it cannot wait as `ResumePolicy.wait` says.
        TypeError: when the class is made: another base comes before this one and hides its `on_kill`.

    A status that is neither active nor succeeded counts as failed if it is one of the usual words for that. Otherwise
    it counts as unknown. An unknown status is asked again, and never leads to a second job.
    """

    submission_token: str | None = None
    """The token of the job that is being submitted or waited for: 32 hexadecimal digits."""
    submission_slot: str | None = None
    """The beginning that all tokens of this task's jobs have in common: 16 hexadecimal digits."""
    external_id: JsonValue = None
    """The id of the job on record; None if there is no job yet."""
    generation: int | None = None
    """The number of the job in its slot, from 1 on."""
    _job_run: JobRun | None = None
    _job_is_ending = False

    if TYPE_CHECKING:
        # Airflow's mixin and its operators declare it differently; without this, a subclass of both is a type error.
        @property
        def log(self) -> Any: ...  # type: ignore[override]  # pyright: ignore  # noqa: D102, PGH003

        submission_is_idempotent: bool
        """Submitting the same token twice gives the same job."""
        job_not_found: ErrorMatch
        """Which errors of a status question mean that the job is gone, see `Jobs`."""
        transient_errors: ErrorMatch
        """Which errors of a status question are asked again, see `Jobs`."""
        refused_errors: ErrorMatch
        """Which errors of a submit prove that it has created nothing, see `Jobs`."""
        ambiguous_errors: ErrorMatch
        """Which of these errors do not prove that, see `Jobs`."""

        # At run time `__init_subclass__` sets them, and only if no other base has them.
        def poll_until_complete(self, external_id: JsonValue, context: Context) -> None: ...  # noqa: D102
        def get_job_result(self, external_id: JsonValue, context: Context) -> Any: ...  # noqa: D102

    @BaseOperatorMeta._apply_defaults  # type: ignore[type-var]  # noqa: SLF001  as Airflow's own mixin does
    def __init__(self, *, resume_policy: ResumePolicy | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if (lacks := self.lacks()) is not None:
            raise UsageError(lacks, "Write it: docs/providers.md shows a recipe in 'Write a recipe in ten minutes'.")
        if resume_policy is not None:
            check_type("resume_policy", resume_policy, ResumePolicy, "a ResumePolicy")
        check_flag("durable", self.durable)
        check_type("external_id_key", self.external_id_key, str, "a text")
        self.resume_policy = resume_policy or ResumePolicy()
        facts = WaitFacts(waits_by_itself=self._waits_by_itself, is_kept=self.durable)
        refuse(place_of_wait(facts, self.resume_policy), who=type(self).__name__)
        if self.resume_policy.poll.timeout is not None and self._waits_by_itself and not hasattr(self, "job_trigger"):
            raise ValueError(
                f"poll.timeout={self.resume_policy.poll.timeout} cannot end the wait of {type(self).__name__}, which"
                f" waits in its own poll_until_complete.\nUse execution_timeout= instead: the job is left alone then,"
                f" and a retry reconnects to it."
            )

    @classmethod
    def lacks(cls) -> str | None:
        """What is missing in this class, as a sentence; None if nothing is known to be."""
        return None

    @property
    def _waits_by_itself(self) -> bool:
        return type(self).poll_until_complete is not _leave_waiting_to_the_engine

    @property
    def _has_own_on_kill(self) -> bool:
        """Whether there is an `on_kill` that is neither Airflow's nor of this module."""
        return any(
            "on_kill" in vars(base) and base is not ResumableJobMixin and not base.__module__.startswith("airflow.sdk.")
            for base in type(self).__mro__
        )

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Set the hooks that no base has, and make every `on_kill` follow the policy."""
        super().__init_subclass__(**kwargs)
        if "on_kill" in vars(cls) and not inspect.isfunction(vars(cls)["on_kill"]):
            raise TypeError(f"{cls.__name__}.on_kill is not a plain method.\nWrite it as `def on_kill(self)`.")
        for name in (*_HOOKS, *_DEFAULT_HOOKS):
            hook = inspect.getattr_static(cls, name, None)
            if hook is not None and not hasattr(hook, "__get__"):  # one that has it is looked up on the operator
                check_function(f"{cls.__name__}.{name}", hook, "a method")
            if inspect.iscoroutinefunction(getattr(cls, name, None)):  # nobody would await it
                raise TypeError(f"{cls.__name__}.{name} is a coroutine function.\nMake it a plain method.")
        if "on_kill" in vars(cls):
            cls.on_kill = _under_the_policy(vars(cls)["on_kill"])  # type: ignore[assignment, method-assign]
        if not hasattr(cls.on_kill, "is_under_the_policy"):
            hiding = next(base for base in cls.__mro__ if "on_kill" in vars(base))
            raise TypeError(
                f"{cls.__name__} must name ResumableJobMixin before {hiding.__name__}, whose on_kill would cancel the"
                f" job on every deploy: class {cls.__name__}(ResumableJobMixin, {hiding.__name__})"
            )
        add_job_link(cls)
        for name, default in _DEFAULT_HOOKS.items():
            resolved = inspect.getattr_static(cls, name)
            if resolved is default or getattr(resolved, "__isabstractmethod__", False):
                # A default that was set for a base must not hide a hook of a later base.
                setattr(cls, name, _concrete(cls, name, default))

    def execute_resumable(self, context: Context) -> Any:
        """Submit a job, or continue with the job of an earlier attempt; wait for it; return its result.

        Args:
            context: of the task.

        Raises:
            JobFailedError: the job failed while this attempt waited for it; a retry submits another.
            LostSubmissionError: an earlier attempt may have left a job that cannot be found.
            SupersededError: another attempt has replaced this one.
            NoStateStoreError: the context has no task state store.
        """
        return self._begin(context, defer=self._defer_to_trigger(context)).run()

    def resume_complete(self, context: Context, event: Any = None) -> Any:
        """Continue after a deferral: ask how the job ended, and return its result.

        Args:
            context: of the task.
            event: the event of the trigger; it is only logged.

        Raises:
            ResumeError: what `execute_resumable` raises.
        """
        log.info("The trigger fired: %s", short_repr(event, most=MAX_EVENT))
        return self._begin(context, defer=self._defer_to_trigger(context), resumed=True).run()

    def resume_decision(self, context: Context) -> ResumeDecision:
        """What `execute_resumable` would do next, for an operator that waits or defers in its own way.

        This neither submits nor waits. `submit_resumable` executes the decision.

        Args:
            context: of the task.
        """
        return self._begin(context).decide()

    def submit_resumable(self, context: Context) -> ResumeDecision:
        """Submit a job, or continue with the job of an earlier attempt, and return without waiting for it.

        It waits only for the end of a job that is not wanted any more.

        If the step of the decision is `Step.RECONNECT`, wait for the job `external_id`. Otherwise it has succeeded.

        Args:
            context: of the task.

        Raises:
            ResumeError: what `execute_resumable` raises.
        """
        return self._begin(context).submit()

    def resume_execution(self, next_method: str, next_kwargs: dict[str, Any] | None, context: Context) -> Any:
        """As in Airflow, after a deferral. If the deferral failed, the attempt has failed."""
        try:
            return super().resume_execution(next_method, next_kwargs, context)  # type: ignore[misc]
        except (TaskDeferralTimeout, TaskDeferralError) as error:
            try:
                self._begin(context, resumed=True).fail(error)
            except Exception:  # the attempt ends with the error of the deferral, even if this fails
                log.exception("Whether to cancel the job of the failed deferral could not be decided; it is left alone")
            raise

    def defer(self, **kwargs: Any) -> NoReturn:
        """As in Airflow. It warns if the operator has submitted a job and defers without this class."""
        if self._job_run is None:
            log.warning(
                "%s submits a job and defers without ResumableJobMixin: a retry will submit another job. Let"
                " execute() return self.execute_resumable(context) and give it a job_trigger, or set deferrable=False.",
                type(self).__name__,
            )
        super().defer(**kwargs)  # type: ignore[misc]
        raise AssertionError  # pragma: no cover  it raises

    def post_execute(self, context: Any, result: Any = None) -> None:
        """As in Airflow, which calls it after a successful `execute`. It warns if that has bypassed this class.

        Args:
            context: of the task.
            result: what `execute` returned.
        """
        if self._job_run is None:
            log.warning(
                "The execute() of %s has ended without ResumableJobMixin: the task does not resume, and a retry submits"
                " another job. Let execute() return self.execute_resumable(context), or remove the mixin.",
                type(self).__name__,
            )
        super().post_execute(context, result)  # type: ignore[misc]

    def on_kill(self) -> None:
        """Cancel the job if that is the policy for the reason, and then call the next `on_kill`."""
        super().on_kill()  # type: ignore[misc]

    def _begin(
        self, context: Context, *, defer: Callable[[JsonValue], NoReturn] | None = None, resumed: bool = False
    ) -> JobRun:
        from airflow_resume.jobs import JobRun
        from airflow_resume.task_stores import task_store
        from airflow_resume_mixins.operator_jobs import OperatorJobs

        inputs = getattr(self, "job_inputs", None)
        self._job_run = JobRun(
            OperatorJobs(self, context),
            policy=self.resume_policy,
            inputs=None if inputs is None else inputs(context),
            context=context,
            store=task_store(context) if self.durable else self._forget(context),
            mirror_key=self.external_id_key,
            operator=type(self).__name__,
            durable=self.durable,
            notice=partial(self._take_note, context),
            defer=defer,
            resumed=resumed,
        )
        return self._job_run

    def _defer_to_trigger(self, context: Context) -> Callable[[JsonValue], NoReturn] | None:
        trigger = getattr(self, "job_trigger", None)
        if trigger is None or not getattr(self, "deferrable", False):
            return None
        if not self.durable:
            raise ValueError("deferrable=True needs durable=True: the id of the job is kept while the task is deferred")

        def defer(external_id: JsonValue) -> NoReturn:
            made, timeout = trigger(external_id, context), self.resume_policy.poll.timeout
            if (follow := getattr(made, "follow", None)) is not None:  # a JobTrigger
                follow(self.resume_policy)
            self.defer(trigger=made, method_name="resume_complete", timeout=timeout)

        return defer

    def _forget(self, context: Context) -> StateStore:
        """The store of an attempt that is not durable. The record of an earlier durable attempt is deleted."""
        from airflow_resume.jobs.record import KEY_PREFIX
        from airflow_resume.store import MemoryStore
        from airflow_resume.task_stores import find_task_store
        from airflow_resume.values import make_key

        store = find_task_store(context)
        if store is not None and hasattr(store, "delete"):  # a stand-in may have less
            store.delete(make_key(KEY_PREFIX, "job"))
            store.delete(self.external_id_key)
        return MemoryStore()

    def _take_note(self, context: Context, record: JobRecord) -> None:
        from airflow_resume.jobs import SubmissionToken

        is_new = record.id is not None and record.id != self.external_id
        self.submission_token, self.submission_slot = record.token, SubmissionToken(record.token).slot
        self.external_id, self.generation = record.id, record.generation
        if is_new and hasattr(self, "job_url"):
            self._show_link(context)

    def _show_link(self, context: Context) -> None:
        """Show the page of the job in Airflow's UI while the job runs. An error here must not fail the attempt."""
        try:
            if url := link_of(self):
                context["ti"].xcom_push(key=JobLink().xcom_key, value=url)  # pyright: ignore[reportTypedDictNotRequiredAccess]
        except Exception:
            log.warning("The page of job %r cannot be shown", self.external_id, exc_info=True)

    def _end_job_by_own_on_kill(self) -> None:
        object.__setattr__(self, "_job_is_ending", True)
        try:
            self.on_kill()
        finally:
            object.__setattr__(self, "_job_is_ending", False)


_HOOKS = (
    "submit_job",
    "get_job_status",
    "is_job_active",
    "is_job_succeeded",
    "find_job",
    "find_jobs",
    "cancel_job",
    "classify_job_status",
    "job_inputs",
    "job_notes",
    "job_trigger",
    "job_url",
)


def _under_the_policy(on_kill: Callable[[Any], None]) -> Callable[[Any], None]:
    """Call `on_kill` only if the job is to be cancelled. Of nested calls, the outermost one asks the policy."""

    @wraps(on_kill)
    def guarded(self: ResumableJobMixin) -> None:
        if self._job_is_ending:
            on_kill(self)
        elif self._job_run is None or self._job_run.killed():  # without a run there is no job to look after
            self._end_job_by_own_on_kill()

    guarded.is_under_the_policy = True  # type: ignore[attr-defined]
    return guarded


ResumableJobMixin.on_kill = _under_the_policy(ResumableJobMixin.on_kill)  # type: ignore[assignment, method-assign]


def _return_id(_self: object, external_id: JsonValue, _context: Context) -> JsonValue:
    """By default, the result of a job is its id."""
    return external_id


def _leave_waiting_to_the_engine(_self: object, _external_id: JsonValue, _context: Context) -> None:
    """By default, the engine asks for the status until the job has ended."""


_DEFAULT_HOOKS = {"get_job_result": _return_id, "poll_until_complete": _leave_waiting_to_the_engine}


def _concrete(cls: type, name: str, default: Callable[..., Any]) -> Callable[..., Any]:
    """The first hook in the method resolution order that is neither abstract nor a default."""
    for base in cls.__mro__:
        hook = vars(base).get(name)
        if hook is not None and hook is not default and not getattr(hook, "__isabstractmethod__", False):
            return hook  # type: ignore[no-any-return]
    return default
