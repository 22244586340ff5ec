"""`ProviderJob`: what turns an operator that submits and waits in one `execute` into one that resumes.

Theory of operation. The job is submitted by the operator's own `execute`, with waiting and deferral switched off for
this call. So arguments, templates, links and XComs stay what they are. The engine of `ResumableJobMixin` does the rest:
it waits, finds the job again, and cancels it if it has to.

Airflow deletes the XComs of an attempt when the next one begins. So the XComs of the submit, and what it returned, are
noted in the record of the job, and are pushed and returned again by the attempt that continues. Between the submit and
the save of the id nothing else happens: XComs that need a request are made after that (`restore`).

An operator's own way of waiting is not used, even if it has a `poll_until_complete`: the engine's follows the policy.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from airflow_resume.compat import ResumableJobMixin as AirflowResumableJobMixin
from airflow_resume.compat import TaskDeferred
from airflow_resume.errors import JobFailedError, UsageError
from airflow_resume.jobs.record import JobRecord, SavedResult
from airflow_resume.jobs.token import SubmissionToken
from airflow_resume.shown import get_logger
from airflow_resume_mixins.resumable_job import ResumableJobMixin

if TYPE_CHECKING:
    from airflow.sdk.definitions.context import Context
    from pydantic import JsonValue

log = get_logger(__name__)


class ProviderJob(ResumableJobMixin):
    """The base of a recipe. It comes before the operator: `class AthenaOperator(ProviderJob, upstream.AthenaOperator)`.

    A recipe sets some of the class attributes below, and implements `put_token` and `job_status`. The optional hooks
    of `ResumableJobMixin` (`find_job`, `cancel_job`, `job_trigger`, `job_url`, `submission_is_idempotent`, ...) work
    here too. If the operator already uses Airflow's mixin of that name, its own hooks are used, and only `put_token`
    and what it lacks has to be written.

    Args:
        resume_policy: what to do with a job of an earlier attempt, and how to wait, see `ResumePolicy`.
    """

    active: ClassVar[Collection[str]] = ()
    """The statuses of a job that has not ended."""
    succeeded: ClassVar[Collection[str]] = ()
    """The statuses of a job that has succeeded. All other words count as in `classify_job_status`."""
    job_id_attribute: ClassVar[str | None] = None
    """The attribute in which the operator's own `on_kill` and links look for the id of the job."""
    not_waiting: ClassVar[Mapping[str, Any]] = {}
    """Attributes and their values that mean "submit, and do not wait", such as `{"wait_for_completion": False}`."""
    while_submitting: ClassVar[Mapping[str, Any]] = {}
    """Further attributes and their values during the submit. With `{"deferrable": True}` the operator's own deferral
    ends the submit, for an operator that always waits otherwise. It needs a `job_id_attribute`."""
    still_called: ClassVar[Collection[str]] = ()
    """Methods of the operator that its `execute` calls also when it does not wait. The setting `upgrade` leaves a
    subclass alone that overrides another one which this recipe does not call."""
    _is_submitting = False
    _has_submitted = False
    """The next record that is written has the id of the job that was just submitted."""
    _is_pushed = False
    _defers = False
    _waits = True
    _notes: Mapping[str, Any] = MappingProxyType({})

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...  # what the operator has, which is not known here

    # --- the recipe -------------------------------------------------------------------------------------------

    def put_token(self, token: str) -> None:
        """Put the token into what the operator is about to send. Called before each submit, on the rendered operator.

        Everything that is sent must be the same when a token is sent again: a service compares it.

        Args:
            token: 32 hexadecimal digits.
        """

    def job_status(self, external_id: JsonValue) -> Any:
        """The status of the job, as one word of its service.

        Args:
            external_id: of the job.

        Raises:
            NotImplementedError: the recipe does not say.
        """
        raise NotImplementedError(f"{type(self).__name__} needs a job_status(external_id)")

    def own_execute(self, context: Context) -> Any:
        """Submit the job by the operator's own `execute`. Override it for one that does not just return.

        Args:
            context: of the task; the XComs that are pushed with it are noted.
        """
        return self._upstream("execute")(self, context)

    def job_id_of(self, answer: Any) -> JsonValue:
        """The id of the job that was just submitted. By default `job_id_attribute`, if it is set, or else the answer.

        Args:
            answer: what the operator's own `execute` returned.
        """
        own: JsonValue = None if self.job_id_attribute is None else getattr(self, self.job_id_attribute, None)
        return answer if own is None else own

    def answer(self, external_id: JsonValue, context: Context) -> Any:  # noqa: ARG002
        """What the operator returns if it does not wait, and no answer of the submit is noted. By default, the id.

        Args:
            external_id: of the job.
            context: of the task.
        """
        return external_id

    def success_event(self, external_id: JsonValue) -> Mapping[str, Any] | None:  # noqa: ARG002
        """What the operator's own trigger fires when the job has succeeded.

        If it is not None, the result of the job is what the operator's own `execute_complete` makes of it.

        Args:
            external_id: of the job.
        """
        return None

    def restore(self, external_id: JsonValue, context: Context) -> None:
        """Set the attributes and push the XComs that the operator sets and pushes when it submits.

        Called after a submit that pushes none, as soon as the id of the job is saved. Also called by a later attempt
        if the record has no XComs yet: they are saved at the latest when the job has succeeded. By default nothing is
        done.

        Args:
            external_id: of the job.
            context: of the task.
        """

    def after_failure(self, external_id: JsonValue, context: Context) -> None:
        """Called when the job has failed while this attempt waited for it, before the attempt fails: to show its log.

        Args:
            external_id: of the job.
            context: of the task.
        """

    def cannot_resume(self) -> str | None:
        """Why an operator with these arguments cannot resume; None if it can.

        Then its own `execute` is called, as if there was no recipe, and the log says so. `airflow-resume doctor --dags`
        asks too. A reason that ends with the words "ends with the task" tells it that no job is left behind.
        """
        return None

    @classmethod
    def lacks(cls) -> str | None:
        """Which hook is missing; None if there are all."""
        own = (cls.job_status is not ProviderJob.job_status, cls.get_job_status is not ProviderJob.get_job_status)
        if any(own) or any(issubclass(base, AirflowResumableJobMixin) for base in cls._operators()):
            return None
        return f"{cls.__name__} has no job_status(external_id), so nobody could see when its job has ended."

    # --- as Airflow calls it ----------------------------------------------------------------------------------

    def execute(self, context: Context, *args: Any, **options: Any) -> Any:  # noqa: ARG002  some operators have more
        """Submit the job, or continue with that of an earlier attempt, and do what the operator's arguments say.

        Raises:
            UsageError: the operator's own `execute` calls itself while it submits.
            ResumeError: what `execute_resumable` raises.
        """
        if self._is_submitting:
            raise UsageError(
                f"The execute of {type(self).__name__} calls itself while it submits.",
                "Override submit_job(context) in the recipe.",
            )
        if (reason := self.cannot_resume()) is not None:
            log.warning("%s does not resume: %s. Every retry submits another job.", type(self).__name__, reason)
            # That of the recipe does nothing, as its cancel_job does it: but only for a job on record.
            object.__setattr__(self, "on_kill", partial(self._upstream("on_kill"), self))
            return self._upstream("execute")(self, context)
        with self._seeing_to_a_failure(context):
            return self._execute(context)

    def _execute(self, context: Context) -> Any:
        wanted = self.not_waiting.items()
        self._waits = not wanted or any(getattr(self, name, None) != value for name, value in wanted)
        if not self._waits:
            decision = self.submit_resumable(context)
            self._push_again(decision.external_id, context)
            return self._notes["answer"] if "answer" in self._notes else self.answer(decision.external_id, context)
        self._defers = getattr(self, "deferrable", False)
        if self._defers and not hasattr(self, "job_trigger"):
            log.warning(
                "%s has deferrable=True and no job_trigger: the task waits in its worker instead", type(self).__name__
            )
        if not self._uses_airflows_mixin:
            return self.execute_resumable(context)
        with self._set(deferrable=False):  # its own way of deferring would submit another job in every attempt
            return self._upstream("execute")(self, context)

    def execute_resumable(self, context: Context) -> Any:
        """As in `ResumableJobMixin`."""
        result = super().execute_resumable(context)
        self._try_to_push(self.external_id, context)  # if the job system has forgotten the job, nothing else does
        return result

    def resume_complete(self, context: Context, event: Any = None) -> Any:
        """As in `ResumableJobMixin`."""
        self._defers = True
        with self._seeing_to_a_failure(context):
            return super().resume_complete(context, event)

    @contextmanager
    def _seeing_to_a_failure(self, context: Context) -> Iterator[None]:
        try:
            yield
        except JobFailedError:
            try:
                self.after_failure(self.external_id, context)
            except Exception:  # the attempt fails because the job has failed
                log.warning("What is done after a failure of job %r has failed", self.external_id, exc_info=True)
            raise

    def _defer_to_trigger(self, context: Context) -> Callable[[JsonValue], NoReturn] | None:
        with self._set(deferrable=self._defers):
            return super()._defer_to_trigger(context)

    # --- the hooks of the mixin -------------------------------------------------------------------------------

    def submit_job(self, context: Context) -> JsonValue:
        """Submit the job as the operator does, with the token in it."""
        if self._is_submitting:  # the operator's own execute calls a submit_job of its own
            own: JsonValue = self._upstream("submit_job")(self, context)
            return own
        if self.job_id_attribute is not None:  # that of an earlier job must not be taken for the new one's
            object.__setattr__(self, self.job_id_attribute, None)
        self._refuse_unknown_attributes()
        self.put_token(str(self.submission_token))
        pushed: dict[str, Any] = {}
        recording = _recording(context, pushed)
        external_id: JsonValue
        if self._uses_airflows_mixin:
            answer = external_id = self._upstream("submit_job")(self, recording)
        else:
            switched = {"deferrable": False, **self.not_waiting, **self.while_submitting}
            with self._set(_is_submitting=True, **switched):
                try:
                    answer = self.own_execute(recording)
                    external_id = self.job_id_of(answer)
                except TaskDeferred:
                    answer = external_id = self.job_id_of(None)
        self._is_pushed = bool(pushed)
        self._has_submitted = True
        is_noted = answer != external_id and (answer is None or SavedResult.of(answer) is not None)
        self._notes = {"xcoms": _small(pushed), **({"answer": answer} if is_noted else {})}
        return external_id

    def _refuse_unknown_attributes(self) -> None:
        """A part of the names may be of other versions of the operator; if all are unknown, its submit would wait."""
        for switch in ("not_waiting", "while_submitting"):
            names = getattr(self, switch)
            if names and not any(hasattr(self, name) for name in names):
                raise UsageError(
                    f"The operator of {type(self).__name__} has no attribute {' or '.join(map(repr, names))}, which "
                    f"{switch} of the recipe sets.",
                    "Correct the name. Nothing was submitted.",
                )

    def job_notes(self) -> Mapping[str, Any] | None:
        """What is saved together with the id: the XComs of the submit, and its answer if that is not the id."""
        return self._notes or None

    def get_job_status(self, external_id: JsonValue, context: Context) -> Any:
        """The status, by the recipe or by the operator's own hook."""
        try:
            if self._uses_airflows_mixin and type(self).job_status is ProviderJob.job_status:
                status = self._upstream("get_job_status")(self, external_id, context)
            else:
                status = self.job_status(external_id)
        except Exception:
            if self._notes.get("xcoms"):  # the result of a job that is forgotten by now is on record, with its XComs
                self._try_to_push(external_id, context)
            raise
        if self.is_job_active(status):  # the links are wanted most while the job runs
            self._try_to_push(external_id, context)
        return status

    def poll_until_complete(self, external_id: JsonValue, context: Context) -> None:
        """The engine waits, and follows the policy."""

    @property
    def _waits_by_itself(self) -> bool:
        return type(self).poll_until_complete is not ProviderJob.poll_until_complete

    def is_job_active(self, status: Any) -> bool:
        """Whether the status is one of `active`."""
        if not self.active and self._uses_airflows_mixin:
            return bool(self._upstream("is_job_active")(self, status))
        return status in self.active

    def is_job_succeeded(self, status: Any) -> bool:
        """Whether the status is one of `succeeded`."""
        if not self.succeeded and self._uses_airflows_mixin:
            return bool(self._upstream("is_job_succeeded")(self, status))
        return status in self.succeeded

    def get_job_result(self, external_id: JsonValue, context: Context) -> Any:
        """What the operator returns at its end; see `success_event`. By default, what its submit returned."""
        self._push_again(external_id, context)
        if self._uses_airflows_mixin:
            return self._upstream("get_job_result")(self, external_id, context)
        if (event := self.success_event(external_id)) is not None:
            return self._upstream("execute_complete")(self, context, event)
        return self._notes.get("answer", external_id)

    def _take_note(self, context: Context, record: JobRecord) -> None:
        super()._take_note(context, record)
        if record.id is None:  # what is noted is of an earlier job, and a submit of the recipe's own may note nothing
            self._notes, self._is_pushed = {}, False
            return
        if self.job_id_attribute is not None:
            object.__setattr__(self, self.job_id_attribute, record.id)
        if record.notes is not None:
            self._notes = record.notes.decoded()
        if self._has_submitted:  # an operator may push XComs only when it waits; a request before this point would
            self._has_submitted = False  # delay the moment when the id is saved
            self._try_to_push(record.id, context)

    # --- the operator's own -----------------------------------------------------------------------------------

    @property
    def _uses_airflows_mixin(self) -> bool:
        """Whether the operator itself is written with Airflow's mixin. It may begin to be, with a new release."""
        return any(issubclass(base, AirflowResumableJobMixin) for base in self._operators())

    @classmethod
    def _operators(cls) -> list[type]:
        return [base for base in cls._upstream_classes() if base is not AirflowResumableJobMixin]

    @classmethod
    def _upstream_classes(cls) -> list[type]:
        """The classes of the operator, without ours."""
        after = cls.__mro__[cls.__mro__.index(ProviderJob) + 1 :]
        return [base for base in after if base is not ResumableJobMixin]

    @classmethod
    def _upstream(cls, name: str) -> Any:
        """A method of the operator as its class has it; `super()` would first find the abstract hooks of the mixins."""
        for base in cls._upstream_classes():
            found = vars(base).get(name)
            if found is not None and not getattr(found, "__isabstractmethod__", False):
                return found
        raise AttributeError(f"{cls.__name__} has no {name} of its own")

    @contextmanager
    def _set(self, **attributes: Any) -> Iterator[None]:
        """Have these attributes for a while, as far as the operator has them."""
        before = {name: getattr(self, name) for name in attributes if hasattr(self, name)}
        for name in before:
            object.__setattr__(self, name, attributes[name])
        try:
            yield
        finally:
            for name, value in before.items():
                object.__setattr__(self, name, value)

    def _try_to_push(self, external_id: JsonValue, context: Context) -> None:
        try:
            self._push_again(external_id, context)
        except Exception:
            log.warning("The XComs of job %r cannot be pushed", external_id, exc_info=True)

    def _push_again(self, external_id: JsonValue, context: Context) -> None:
        """Push the XComs of the submit, which Airflow has deleted if another attempt has made it."""
        if self._is_pushed:
            return
        xcoms = self._notes.get("xcoms", {})
        if not xcoms:
            self._restore_and_note(external_id, context)
        self._is_pushed = True
        for key, value in xcoms.items():
            context["ti"].xcom_push(key=key, value=value)  # pyright: ignore[reportTypedDictNotRequiredAccess]

    def _restore_and_note(self, external_id: JsonValue, context: Context) -> None:
        """The notes are saved with the next change of the record, at the latest when the job has succeeded."""
        pushed: dict[str, Any] = {}
        self.restore(external_id, _recording(context, pushed))
        if (kept := _small(pushed)) and self._job_run is not None:
            self._notes = {**self._notes, "xcoms": kept}
            self._job_run.note(self._notes)


def _small(xcoms: Mapping[str, Any]) -> dict[str, Any]:
    """Those that can be kept in a record."""
    return {name: value for name, value in xcoms.items() if SavedResult.of(value) is not None}


def _recording(context: Context, pushed: dict[str, Any]) -> Context:
    """The context, with a task instance that also notes the XComs that are pushed."""
    ti = _RecordingTaskInstance(context["ti"], pushed)  # pyright: ignore[reportTypedDictNotRequiredAccess]
    return {**context, "ti": ti, "task_instance": ti}  # type: ignore[typeddict-item]  # pyright: ignore[reportReturnType]


class _RecordingTaskInstance:
    """Stands in for the task instance while the job is submitted."""

    def __init__(self, ti: Any, pushed: dict[str, Any]) -> None:
        self._ti, self._pushed = ti, pushed

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ti, name)

    def xcom_push(self, key: str, value: Any, **options: Any) -> None:
        self._ti.xcom_push(key=key, value=value, **options)
        self._pushed[key] = value


def with_token(name: str, token: str, *, most: int, separator: str = "-") -> str:
    """The name with the token at its end, and without the token of an earlier job of the task.

    Args:
        name: is cut if it is too long. May be empty.
        token: 32 hexadecimal digits.
        most: the most characters that the service allows.
        separator: between them.
    """
    slot = SubmissionToken(token).slot
    plain = re.sub(f"(^|{re.escape(separator)}){slot}[0-9a-f]{{{len(token) - len(slot)}}}$", "", name)
    return f"{plain[: most - len(separator) - len(token)]}{separator}{token}" if plain else token
