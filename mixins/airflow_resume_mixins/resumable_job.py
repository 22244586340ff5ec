"""`ResumableJobMixin`: Airflow's mixin by name and by hooks, with the engine of `airflow_resume.jobs` behind them.

It may stand before an operator that already uses Airflow's mixin (`class Livy(ResumableJobMixin, LivyOperator)`), so
nothing here shadows a hook of the operator: a default is filled in only where the method resolution order has none.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, NoReturn

from airflow.sdk import ResumableJobMixin as AirflowResumableJobMixin
from airflow.sdk.bases.operator import BaseOperatorMeta
from airflow.sdk.exceptions import TaskDeferralError, TaskDeferralTimeout

from airflow_resume.jobs import JobRun, JobStatus, ResumeDecision, ResumePolicy
from airflow_resume.jobs.protocol import checked_status, classify_word
from airflow_resume.jobs.record import KEY_PREFIX, JobRecord
from airflow_resume.jobs.token import SubmissionToken
from airflow_resume.store import MemoryStore, StateStore, task_store
from airflow_resume.values import make_key
from airflow_resume_mixins.job_link import JobLink

if TYPE_CHECKING:
    from airflow.sdk.definitions.context import Context
    from pydantic import JsonValue

    from airflow_resume.jobs.transport import ErrorMatch


class ResumableJobMixin(AirflowResumableJobMixin):
    """Submit one job and wait for it, and end up with one job and one result after any crash, retry or clear.

    Put it before the operator's other bases, implement the hooks, and call `execute_resumable(context)` from
    `execute`. Four hooks must be there, with Airflow's names and signatures: `submit_job`, `get_job_status`,
    `is_job_active`, `is_job_succeeded`. The others are optional:

    - `get_job_result(external_id, context)`: what the task returns; by default the id.
    - `find_job(token, context) -> id | None`: looks a submission up by `self.submission_token`. With it, no crash
      leads to a second job.
    - `find_jobs(slot, context) -> {token: id}`: all jobs whose token begins with `self.submission_slot`. With it
      a job of this slot that no record tells of is found before another one is submitted. It serves as `find_job` too.
    - `submission_is_idempotent = True`: submitting the same token twice gives the same job. Likewise.
    - `cancel_job(external_id, context)`: ends a job that is not wanted any more, because the task was cleared, or
      marked failed; see `ResumePolicy.cancel_on`. Without it, an `on_kill` of the operator's own is called for that.
    - `classify_job_status(status) -> JobStatus`: when `is_job_active` and `is_job_succeeded` do not say enough.
    - `job_inputs(context) -> JsonValue`: what the job is made from, see `ResumePolicy.on_input_change`.
    - `poll_until_complete(external_id, context)`: a way of waiting of your own.
    - `job_trigger(external_id, context) -> BaseTrigger`: with it and `self.deferrable = True` the job is waited for in
      the triggerer; its event only says when to look, so any trigger that fires when the job has ended will do.
    - `job_url(external_id) -> str | None`: the page of the job, shown as a link at the task in Airflow's UI.
    - `on_kill()`: called only when the job shall end with the task, see `ResumePolicy.cancel_on`, after `cancel_job`.
    - `job_not_found`, `transient_errors`, `refused_errors`, `ambiguous_errors`: exception types, or a method that takes
      the exception, see `airflow_resume.jobs.Jobs`.

    `self.submission_token`, `self.submission_slot`, `self.external_id` and `self.generation` are set before the hook
    that needs them. The token has 32 hexadecimal digits; `SubmissionToken(self.submission_token).of_length(64)` gives
    another form of it, for an API that asks for more or fewer.

    Args:
        resume_policy: what to do where there is a choice.
        durable: False submits a new job in every attempt and keeps nothing, as in Airflow's mixin.

    Raises:
        TypeError: when the class is made: another base stands before this one and hides its `on_kill`.

    A status that is neither active nor succeeded counts as failed when it is one of the usual words for it, and as
    unknown otherwise: unknown is asked again, and never leads to a second job.
    """

    submission_token: str | None = None
    submission_slot: str | None = None
    external_id: JsonValue = None
    generation: int | None = None
    _job_run: JobRun | None = None
    _job_is_ending = False

    if TYPE_CHECKING:
        # Airflow's mixin and its operators declare it differently, and a subclass of both must not suffer for it.
        @property
        def log(self) -> Any: ...  # type: ignore[override]  # pyright: ignore  # noqa: D102, PGH003

        submission_is_idempotent: bool
        job_not_found: ErrorMatch
        transient_errors: ErrorMatch
        refused_errors: ErrorMatch
        ambiguous_errors: ErrorMatch

        # At run time they are filled in by __init_subclass__, and only where no other base has them.
        def poll_until_complete(self, external_id: JsonValue, context: Context) -> None: ...  # noqa: D102
        def get_job_result(self, external_id: JsonValue, context: Context) -> Any: ...  # noqa: D102

    @BaseOperatorMeta._apply_defaults  # type: ignore[type-var]  # noqa: SLF001  as Airflow's own mixin does
    def __init__(self, *, resume_policy: ResumePolicy | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if not isinstance(resume_policy, ResumePolicy | None):
            raise TypeError(f"resume_policy={resume_policy!r} must be a ResumePolicy")
        self.resume_policy = resume_policy or ResumePolicy()
        if self.resume_policy.poll.timeout is not None and self._waits_by_itself and not hasattr(self, "job_trigger"):
            raise ValueError(
                f"poll.timeout={self.resume_policy.poll.timeout} cannot end the wait of {type(self).__name__}, which"
                f" waits in its own poll_until_complete.\nTake execution_timeout= instead: the job is left alone then,"
                f" and a retry reconnects to it."
            )

    @property
    def _waits_by_itself(self) -> bool:
        return type(self).poll_until_complete is not _leave_waiting_to_the_engine

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Fill in the hooks that nobody in the method resolution order has, and put `on_kill` under the policy."""
        super().__init_subclass__(**kwargs)
        if "on_kill" in vars(cls) and not inspect.isfunction(vars(cls)["on_kill"]):
            raise TypeError(f"{cls.__name__}.on_kill is no plain method.\nWrite it as `def on_kill(self)`.")
        _check_hooks(cls)
        if "on_kill" in vars(cls):
            cls.on_kill = _under_the_policy(vars(cls)["on_kill"])  # type: ignore[assignment, method-assign]
        if not hasattr(cls.on_kill, "is_under_the_policy"):
            hiding = next(base for base in cls.__mro__ if "on_kill" in vars(base))
            raise TypeError(
                f"{cls.__name__} must name ResumableJobMixin before {hiding.__name__}, whose on_kill would cancel the"
                f" job on every deploy: class {cls.__name__}(ResumableJobMixin, {hiding.__name__})"
            )
        _add_link(cls)
        for name, default in _DEFAULT_HOOKS.items():
            resolved = inspect.getattr_static(cls, name)
            if resolved is default or getattr(resolved, "__isabstractmethod__", False):
                # A default that was filled in further up must not hide a hook that stands further down.
                setattr(cls, name, _concrete(cls, name, default))

    def execute_resumable(self, context: Context) -> Any:
        """Submit, or take up what an earlier attempt left; wait; return the result.

        Raises:
            JobFailedError: the job failed while this attempt waited for it; a retry submits another.
            LostSubmissionError: an earlier attempt may have left a job that cannot be found.
            SupersededError: another attempt has replaced this one.
            NoStateStoreError: the context has no task state store.
        """
        return self._begin(context, defer=self._defer_to_trigger(context)).run()

    def resume_complete(self, context: Context, event: Any = None) -> Any:
        """Where a deferred attempt goes on: ask how the job ended, and return its result.

        Raises:
            what `execute_resumable` raises.
        """
        self.log.info("The trigger fired: %r", event)
        return self._begin(context, defer=self._defer_to_trigger(context), resumed=True).run()

    def resume_decision(self, context: Context) -> ResumeDecision:
        """What `execute_resumable` would do next, for an operator that waits or defers in a way of its own.

        Nothing is submitted and nothing is waited for; `submit_resumable` takes the decision.
        """
        return self._begin(context).decide()

    def submit_resumable(self, context: Context) -> ResumeDecision:
        """Submit, or take up what an earlier attempt left, and return without waiting for it.

        It waits for one thing, the end of a job that is not wanted any more.

        The step of the decision is `Step.RECONNECT` when the job `external_id` is to be waited for, otherwise it has
        succeeded.

        Raises:
            what `execute_resumable` raises.
        """
        return self._begin(context).submit()

    def resume_execution(self, next_method: str, next_kwargs: dict[str, Any] | None, context: Context) -> Any:
        """Airflow's own, after a deferral; a deferral that failed is an attempt that failed."""
        try:
            return super().resume_execution(next_method, next_kwargs, context)  # type: ignore[misc]
        except (TaskDeferralTimeout, TaskDeferralError) as error:
            self._see_to_job_of_failed_deferral(context, error)
            raise

    def _see_to_job_of_failed_deferral(self, context: Context, error: Exception) -> None:
        """Whatever goes wrong here must not hide why the deferral failed, which is how the attempt ends."""
        try:
            self._begin(context, resumed=True).fail(error)
        except Exception:
            self.log.exception("Whether the job goes with the failed deferral could not be seen to; it is left alone")

    def defer(self, **kwargs: Any) -> NoReturn:
        """Airflow's own; an operator that defers without asking this class is warned of what it loses."""
        if self._job_run is None:
            self.log.warning(
                "%s has submitted a job and defers, both past ResumableJobMixin: a retry will submit another job. Let"
                " execute() return self.execute_resumable(context) and give it a job_trigger, or set deferrable=False.",
                type(self).__name__,
            )
        super().defer(**kwargs)  # type: ignore[misc]
        raise AssertionError  # pragma: no cover  it raises

    def on_kill(self) -> None:
        """Cancel the job if that is the policy for the reason, and then call the next `on_kill`."""
        super().on_kill()  # type: ignore[misc]

    def _begin(
        self, context: Context, *, defer: Callable[[JsonValue], NoReturn] | None = None, resumed: bool = False
    ) -> JobRun:
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
            raise ValueError("deferrable=True needs durable=True: what the trigger waits for is kept in between")

        def defer(external_id: JsonValue) -> NoReturn:
            made, timeout = trigger(external_id, context), self.resume_policy.poll.timeout
            if (follow := getattr(made, "follow", None)) is not None:  # a JobTrigger
                follow(self.resume_policy)
            self.defer(trigger=made, method_name="resume_complete", timeout=timeout)

        return defer

    def _ends_with_its_job(self) -> bool:
        """Whether the job shall end now that the attempt is killed; if so, it was cancelled."""
        if self._job_run is None:
            return True  # nothing of ours to look after
        return self._job_run.killed()

    def _forget(self, context: Context) -> StateStore:
        """Not durable: what an attempt with durable=True may have left must not come back later."""
        if hasattr(context.get("task_state_store"), "delete"):  # a stand-in may have less
            task_store(context).delete(make_key(KEY_PREFIX, "job"))
            task_store(context).delete(self.external_id_key)
        return MemoryStore()

    def _take_note(self, context: Context, record: JobRecord) -> None:
        is_new = record.id is not None and record.id != self.external_id
        self.submission_token, self.submission_slot = record.token, SubmissionToken(record.token).slot
        self.external_id, self.generation = record.id, record.generation
        if is_new and hasattr(self, "job_url"):
            self._show_link(context)

    def _show_link(self, context: Context) -> None:
        """Let Airflow's UI have the page of the job while it runs. A page is not worth an attempt."""
        link = JobLink()
        try:
            if url := self.job_url(self.external_id):  # type: ignore[attr-defined]
                context["ti"].xcom_push(key=link.xcom_key, value=url)  # pyright: ignore[reportTypedDictNotRequiredAccess]
        except Exception:
            self.log.warning("The page of job %r cannot be shown", self.external_id, exc_info=True)

    def _end_job_by_own_on_kill(self) -> None:
        object.__setattr__(self, "_job_is_ending", True)
        try:
            self.on_kill()
        finally:
            object.__setattr__(self, "_job_is_ending", False)


def _check_hooks(cls: type) -> None:
    """Refuse a hook that is a coroutine function, as nobody would await it."""
    for name in (*_HOOKS, *_DEFAULT_HOOKS):
        if inspect.iscoroutinefunction(getattr(cls, name, None)):
            raise TypeError(f"{cls.__name__}.{name} is a coroutine function.\nMake it a plain method.")


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
    "job_trigger",
    "job_url",
)


def _add_link(cls: type) -> None:
    """Where the class has a `job_url`, put the link to it beside those that it has."""
    links: Any = inspect.getattr_static(cls, "operator_extra_links", ())
    if not hasattr(cls, "job_url") or hasattr(links, "has_job_link"):
        return
    if not hasattr(links, "__get__"):  # a tuple, a list, a set, or None
        if not any(isinstance(link, JobLink) for link in links or ()):
            cls.operator_extra_links = (*(links or ()), JobLink())  # type: ignore[attr-defined]
        return

    class LinksAndJob(property):
        has_job_link = True

    own_links, setter = links.__get__, getattr(links, "fset", None)

    def with_job(self: Any) -> tuple[Any, ...]:
        own = tuple(own_links(self, type(self)) or ())  # it may have asked a base, which has the link
        return own if any(isinstance(link, JobLink) for link in own) else (*own, JobLink())

    cls.operator_extra_links = LinksAndJob(with_job, setter)  # type: ignore[attr-defined]


def _under_the_policy(on_kill: Callable[[Any], None]) -> Callable[[Any], None]:
    """Call `on_kill` only when the job shall end with the task; an outer one has asked that for those within."""

    @wraps(on_kill)
    def guarded(self: ResumableJobMixin) -> None:
        if self._job_is_ending:
            on_kill(self)
        elif self._ends_with_its_job():
            self._end_job_by_own_on_kill()

    guarded.is_under_the_policy = True  # type: ignore[attr-defined]
    return guarded


ResumableJobMixin.on_kill = _under_the_policy(ResumableJobMixin.on_kill)  # type: ignore[assignment, method-assign]


def _return_id(_self: object, external_id: JsonValue, _context: Context) -> JsonValue:
    """Without a result of its own, a job's result is its id."""
    return external_id


def _leave_waiting_to_the_engine(_self: object, _external_id: JsonValue, _context: Context) -> None:
    """The engine asks for the status until the job has ended."""


_DEFAULT_HOOKS = {"get_job_result": _return_id, "poll_until_complete": _leave_waiting_to_the_engine}


def _concrete(cls: type, name: str, default: Callable[..., Any]) -> Callable[..., Any]:
    """The first hook in the method resolution order that is neither abstract nor a default."""
    for base in cls.__mro__:
        hook = vars(base).get(name)
        if hook is not None and hook is not default and not getattr(hook, "__isabstractmethod__", False):
            return hook  # type: ignore[no-any-return]
    return default


_ATTRIBUTES = (
    "submission_is_idempotent",
    "job_not_found",
    "transient_errors",
    "refused_errors",
    "ambiguous_errors",
)


class OperatorJobs:
    """The hooks of an operator as the `Jobs` that the engine talks to. What the operator lacks, this lacks."""

    def __init__(self, operator: ResumableJobMixin, context: Context) -> None:
        self._operator = operator
        self._context = context
        self.wait_means_success = operator._waits_by_itself  # noqa: SLF001  the two are one
        for ours, theirs in (("find", "find_job"), ("find_jobs", "find_jobs"), ("cancel", "cancel_job")):
            if (hook := getattr(operator, theirs, None)) is not None:
                setattr(self, ours, lambda value, hook=hook: hook(value, self._context))
        self.cancels_by_on_kill = not hasattr(self, "cancel") and _has_own_on_kill(operator)
        if self.cancels_by_on_kill:
            self.cancel = lambda _external_id: operator._end_job_by_own_on_kill()  # noqa: SLF001
        for name in _ATTRIBUTES:
            if (declared := getattr(operator, name, None)) is not None:
                setattr(self, name, declared)

    def submit(self, _token: str) -> JsonValue:
        """Submit; the operator has the token as `submission_token`."""
        return self._operator.submit_job(self._context)

    def status(self, external_id: JsonValue) -> JobStatus:
        """How the job is, by the operator's own hooks."""
        return self._classify(self._operator.get_job_status(external_id, self._context))

    def wait(self, external_id: JsonValue) -> None:
        """Wait as the operator does."""
        self._operator.poll_until_complete(external_id, self._context)

    def result(self, external_id: JsonValue) -> Any:
        """What the job returned."""
        return self._operator.get_job_result(external_id, self._context)

    def replay(self, external_id: JsonValue) -> Any:
        """What the job returned, from the hooks as in a first attempt.

        They may push XComs and note the id on the operator, and both are gone when Airflow tries again.
        """
        self._operator.get_job_status(external_id, self._context)
        return self.result(external_id)

    def _classify(self, status: Any) -> JobStatus:
        if isinstance(status, JobStatus):
            return status
        if self._operator.is_job_active(status):
            return JobStatus.ACTIVE
        if self._operator.is_job_succeeded(status):
            return JobStatus.SUCCEEDED
        classify = getattr(self._operator, "classify_job_status", None)
        own = None if classify is None else classify(status)
        return _classify_end(status) if own is None else checked_status(own, where=f"classify_job_status({status!r})")


def _has_own_on_kill(operator: ResumableJobMixin) -> bool:
    """Whether somebody else than Airflow and this module has written an `on_kill`."""
    return any(
        "on_kill" in vars(base) and base is not ResumableJobMixin and not base.__module__.startswith("airflow.sdk.")
        for base in type(operator).__mro__
    )


def _classify_end(status: Any) -> JobStatus:
    """What a status means that is neither active nor succeeded; it may have parts, as Databricks' "TERMINATED:FAILED".

    The words for active and succeeded are the operator's to know, so only those for an end are taken from us.
    """
    for part in status.split(":") if isinstance(status, str) else (status,):
        word = JobStatus.FAILED if str(part).upper() in _SAID_OF_ANY_END else classify_word(part)
        if word in {JobStatus.FAILED, JobStatus.CANCELLING, JobStatus.GONE}:
            return word
    return JobStatus.UNKNOWN


_SAID_OF_ANY_END = {"EXPIRED", "SKIPPED", "STOPPED", "TERMINATED"}
"""A failure only where the operator has already said that it is no success."""
