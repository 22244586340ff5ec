"""Dataflow: jobs from flex and classic templates.

Only one active job can have a name: a second launch with it is refused (409). But a job that has ended leaves its name
free. So a job is looked up before it is launched again:

- by its name, which ends with the token;
- with `append_job_name=False`, when the name has to stay as it is, by a label with the token.

A streaming job counts as a success as soon as it runs, and goes on. When such a task is cleared, that job is ended
before the next one is launched.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.providers.google.cloud.hooks.dataflow import (
    DEFAULT_DATAFLOW_LOCATION,
    DataflowHook,
    DataflowJobStatus,
    DataflowJobTerminalStateHelper,
    DataflowJobType,
)
from airflow.providers.google.cloud.links.dataflow import DataflowJobLink
from airflow.providers.google.cloud.operators import dataflow
from googleapiclient.errors import HttpError

from airflow_resume.compat import TaskDeferred
from airflow_resume.errors import StrayJobError
from airflow_resume.jobs import JobStatus
from airflow_resume.shown import get_logger
from airflow_resume_mixins.providers.provider_job import ProviderJob

if TYPE_CHECKING:
    from airflow.sdk.definitions.context import Context
    from pydantic import JsonValue

    from airflow_resume.jobs.record import JobRecord

log = get_logger(__name__)

__all__ = ["DataflowStartFlexTemplateOperator", "DataflowTemplatedJobStartOperator"]

_LABEL = "airflow-resume-token"
_LABELS = "additionalUserLabels"
_MOST = 1024
"""The most characters of a job's name."""
_CONFLICT, _NOT_FOUND = 409, 404
_ASK_AGAIN = timedelta(seconds=5)
"""Between two questions for a job that Dataflow does not know."""
_CLOCKS_DIFFER = timedelta(hours=1)
"""The most by which the clock of the service may differ from Airflow's."""
_NOT_ENDED = DataflowJobStatus.AWAITING_STATES | {
    "JOB_STATE_PAUSED",
    "JOB_STATE_PAUSING",
    "JOB_STATE_RESOURCE_CLEANING_UP",
}


def _is_not_found(error: BaseException) -> bool:
    """Whether the job is not known. A 404 may also be about a file of a job that runs."""
    return (
        isinstance(error, HttpError)
        and getattr(error, "status_code", None) == _NOT_FOUND
        and re.search(r"job .* could not be found", str(error)) is not None
    )


class DataflowJobs:
    """The jobs of one project and region. The operators use it in the worker, and their trigger in the triggerer.

    Args:
        gcp_conn_id: of the connection.
        location: the region.
        project_id: None takes that of the connection.
        impersonation_chain: as in the operators.
        drain_pipeline: end a streaming job by draining it.
        wait_until_finished: None counts a streaming job as a success when it runs.
        expected_terminal_state: the state that counts as a success, as in the operators.
        cancels: whether `cancel` does anything.
    """

    def __init__(
        self,
        *,
        gcp_conn_id: str,
        location: str,
        project_id: str | None = None,
        impersonation_chain: str | list[str] | None = None,
        drain_pipeline: bool = False,
        wait_until_finished: bool | None = None,
        expected_terminal_state: str | None = None,
        cancels: bool = True,
    ) -> None:
        self._hook = DataflowHook(
            gcp_conn_id=gcp_conn_id,
            impersonation_chain=impersonation_chain,
            drain_pipeline=drain_pipeline,
            cancel_timeout=None,  # whoever needs the end of a job waits for it by asking for its status
        )
        self._project_id = project_id or self._hook.project_id
        self._location = location
        self._wait_until_finished = wait_until_finished
        self._expected = expected_terminal_state
        self._cancels = cancels

    def get(self, external_id: Any) -> dict[str, Any]:
        """The job, as Dataflow describes it."""
        job: dict[str, Any] = self._hook.get_job(
            job_id=external_id, project_id=self._project_id, location=self._location
        )
        return job

    def status(self, external_id: Any) -> JobStatus:
        """Whether the job has reached the state that the operator waits for."""
        job = self.get(external_id)
        state, is_streaming = job["currentState"], job.get("type") == DataflowJobType.JOB_TYPE_STREAMING
        expected = self._expected or ("JOB_STATE_RUNNING" if is_streaming else "JOB_STATE_DONE")
        DataflowJobTerminalStateHelper.expected_terminal_state_is_allowed(expected)
        DataflowJobTerminalStateHelper.expected_terminal_state_is_valid_for_job_type(expected, is_streaming)
        if state == expected and not (state == "JOB_STATE_RUNNING" and self._wait_until_finished):
            return JobStatus.SUCCEEDED
        if state == "JOB_STATE_CANCELLING":
            return JobStatus.CANCELLING
        if state in _NOT_ENDED:
            return JobStatus.ACTIVE
        if state not in DataflowJobStatus.TERMINAL_STATES:
            return JobStatus.UNKNOWN
        log.warning("Dataflow job %r is in the state %s, and %s was expected", external_id, state, expected)
        return JobStatus.FAILED

    def has_ended(self, external_id: Any, *, confirm_gone: timedelta) -> bool:
        """Whether the job does nothing any more, whatever the operator waits for.

        Args:
            external_id: of the job.
            confirm_gone: for how long Dataflow must say that it does not know the job.
        """
        waited = timedelta()
        while (state := self._state_of(external_id)) is None and waited < confirm_gone:
            pause = min(confirm_gone - waited, _ASK_AGAIN)
            time.sleep(pause.total_seconds())
            waited += pause
        return state is None or state in DataflowJobStatus.TERMINAL_STATES

    def _state_of(self, external_id: Any) -> str | None:
        """None if Dataflow does not know the job."""
        try:
            return str(self.get(external_id)["currentState"])
        except HttpError as error:
            if not _is_not_found(error):
                raise
            return None

    def cancel(self, external_id: Any) -> None:
        """Ask for the end of the job."""
        if self._cancels:
            self._hook.cancel_job(job_id=external_id, project_id=self._project_id, location=self._location)

    def job_not_found(self, error: BaseException) -> bool:
        """Whether the job is not known."""
        return _is_not_found(error)

    def find(self, name: str, label: str | None = None, *, since: datetime | None = None) -> str | None:
        """The id of the newest job with this name, and with this value of our label, since a time."""
        named = self._named(name, since)
        found = [job for job in named if label is None or self._label_of(job["id"]) == label]
        newest = max(found, key=lambda job: job.get("createTime", ""), default=None)
        return None if newest is None else newest["id"]

    def _named(self, name: str, since: datetime | None) -> Iterator[dict[str, Any]]:
        jobs = self._jobs()
        where = {"projectId": self._project_id, "location": self._location, "filter": "ALL"}
        if since is not None:
            where["createTimeRange_startTime"] = since.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        request = jobs.list(**where, name=name)
        while request is not None:
            answer = request.execute(num_retries=self._hook.num_retries)
            yield from (job for job in answer.get("jobs", ()) if job["name"] == name)
            request = jobs.list_next(previous_request=request, previous_response=answer)

    def _label_of(self, external_id: str) -> str | None:
        """A list has no labels."""
        where = {"projectId": self._project_id, "location": self._location}
        request = self._jobs().get(**where, jobId=external_id, view="JOB_VIEW_DESCRIPTION")
        try:
            labels: Mapping[str, str] = request.execute(num_retries=self._hook.num_retries).get("labels") or {}
        except HttpError as error:
            if not _is_not_found(error):
                raise
            return None
        return labels.get(_LABEL)

    def _jobs(self) -> Any:
        return self._hook.get_conn().projects().locations().jobs()


class _DataflowJob(ProviderJob):
    """What the operators have in common."""

    active = frozenset({JobStatus.ACTIVE})
    succeeded = frozenset({JobStatus.SUCCEEDED})
    not_waiting: ClassVar[Mapping[str, Any]] = {"wait_until_finished": False, "deferrable": False}
    while_submitting: ClassVar[Mapping[str, Any]] = {"deferrable": True}  # it looks at the job otherwise
    _went_on: tuple[JsonValue, ...] = ()
    """The earlier jobs of the task that have succeeded. They run on if they are streaming jobs."""

    # --- the name and the label, which each operator has elsewhere --------------------------------------------

    def _own_name(self) -> str | None:
        """The name of the job without the token."""
        raise NotImplementedError

    def _sent(self, name: str, labels: Mapping[str, str]) -> dict[str, Any]:
        """The arguments of the operator for one submit, in which the job has this name, and these labels too."""
        raise NotImplementedError

    def _name(self, token: str) -> str | None:
        own = self._own_name()
        if own is None or not self.append_job_name:
            return own
        return f"{own[: _MOST - len(token) - 1]}-{token}"

    # --- the recipe -------------------------------------------------------------------------------------------

    def _where(self) -> dict[str, Any]:
        return {
            "gcp_conn_id": self.gcp_conn_id,
            "impersonation_chain": self.impersonation_chain,
            "project_id": self.project_id,
            "location": self.location or DEFAULT_DATAFLOW_LOCATION,
            "drain_pipeline": getattr(self, "drain_pipeline", False),
            # A deferrable operator sets wait_until_finished=False, and waits all the same.
            "wait_until_finished": self.wait_until_finished or None,
            "expected_terminal_state": self.expected_terminal_state,
            "cancels": self.cancel_on_kill,
        }

    def _jobs(self) -> DataflowJobs:
        return DataflowJobs(**self._where())

    def own_execute(self, context: Context) -> Any:
        """As in the base, with the token in the name or in a label of the job."""
        self._end_what_went_on()
        token = str(self.submission_token)
        name = self._name(token)
        labels = {} if self.append_job_name else {_LABEL: token}
        try:
            with self._set(append_job_name=False, **({} if name is None else self._sent(name, labels))):
                return super().own_execute(context)
        except TaskDeferred:
            self._push_id(self.job_id_of(None), context)
            raise
        except HttpError as error:
            if error.status_code != _CONFLICT or (found := self.find_job(token, context)) is None:
                raise
        self._take(found)  # the client repeats a request that was answered with an error, or not at all
        self.restore(found, context)
        return found

    def _end_what_went_on(self) -> None:
        jobs = self._jobs()
        for earlier in self._went_on:
            if jobs.has_ended(earlier, confirm_gone=self.resume_policy.confirm_gone):
                continue
            if not self.cancel_on_kill:
                raise StrayJobError(
                    f"The streaming job {earlier!r} of this task is still running, and cancel_on_kill=False.",
                    "Cancel or drain it, and clear the task again.",
                    slot="job",
                    external_id=earlier,
                )
            log.info("The streaming job %r of this task is ended before another one is launched", earlier)
            self._ending_hook().cancel_job(
                job_id=earlier, project_id=self.project_id, location=self._where()["location"]
            )

    def _ending_hook(self) -> DataflowHook:
        """It waits until the job has ended, for at most `cancel_timeout`."""
        return DataflowHook(
            gcp_conn_id=self.gcp_conn_id,
            impersonation_chain=self.impersonation_chain,
            poll_sleep=self.poll_sleep,
            drain_pipeline=getattr(self, "drain_pipeline", False),
            cancel_timeout=self.cancel_timeout,
        )

    def _take(self, external_id: Any) -> None:
        """Where the operator's own `on_kill` looks."""
        if external_id is not None and (self.job or {}).get("id") != external_id:
            where = {"projectId": self.project_id, "location": self._where()["location"]}
            object.__setattr__(self, "job", {"id": external_id, **where})

    def job_id_of(self, answer: Any) -> JsonValue:  # noqa: ARG002
        """The id of the job."""
        job_id: JsonValue = self.job["id"]
        return job_id

    def find_job(self, token: str, context: Context) -> str | None:
        """The job by its name; by its label, if its name has no token. It is not older than the Dag run."""
        if (name := self._name(token)) is None:
            return None
        name = DataflowHook.build_dataflow_job_name(name, append_job_name=False)
        run_after = getattr(context.get("dag_run"), "run_after", None)
        since = None if run_after is None else run_after - _CLOCKS_DIFFER
        return self._jobs().find(name, None if self.append_job_name else token, since=since)

    def job_status(self, external_id: Any) -> JobStatus:
        """As in `DataflowJobs`."""
        return self._jobs().status(external_id)

    def job_not_found(self, error: BaseException) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """As in `DataflowJobs`."""
        return _is_not_found(error)

    def cancel_job(self, external_id: Any, context: Context) -> None:  # noqa: ARG002
        """Cancel or drain the job, unless `cancel_on_kill=False`."""
        self._jobs().cancel(external_id)

    def on_kill(self) -> None:
        """Nothing is left to do: `cancel_job` cancels the job, if the policy wants that."""

    def job_trigger(self, external_id: Any, context: Context) -> Any:  # noqa: ARG002
        """A trigger of ours: that of the provider knows neither cancelled jobs nor `expected_terminal_state`."""
        from airflow_resume.jobs.trigger import PollJobTrigger

        return PollJobTrigger(
            client=f"{DataflowJobs.__module__}.{DataflowJobs.__qualname__}",
            client_kwargs=self._where(),
            external_id=external_id,
            poll=self.resume_policy.poll,
        )

    def _push_id(self, external_id: Any, context: Context) -> None:
        """The operator itself pushes it at the end of the job, when the service may have forgotten the job."""
        context["ti"].xcom_push(key="job_id", value=external_id)  # pyright: ignore[reportTypedDictNotRequiredAccess]

    def restore(self, external_id: Any, context: Context) -> None:
        """Push the id of the job and what the link in the UI needs."""
        self._push_id(external_id, context)
        location = self._where()["location"]
        DataflowJobLink.persist(context=context, project_id=self.project_id, region=location, job_id=external_id)

    def success_event(self, external_id: Any) -> dict[str, Any]:
        """As the operator's own trigger fires it."""
        return {"status": "success", "job_id": external_id, "message": "Job completed"}

    def answer(self, external_id: Any, context: Context) -> Any:
        """As the result."""
        return self._upstream("execute_complete")(self, context, self.success_event(external_id))

    def _take_note(self, context: Context, record: JobRecord) -> None:
        super()._take_note(context, record)
        self._take(record.id)
        succeeded = (past for past in record.history if past.status == JobStatus.SUCCEEDED)
        object.__setattr__(self, "_went_on", tuple(past.id for past in succeeded))


class DataflowTemplatedJobStartOperator(_DataflowJob, dataflow.DataflowTemplatedJobStartOperator):
    """The provider's operator, which resumes. The job is looked up by its name, which ends with the token.

    With `append_job_name=False` the name stays as it is, and the job is looked up by the label `airflow-resume-token`.

    With `deferrable=True`, a job counts as a success as it does without it: a streaming job when it runs, or any job in
    its `expected_terminal_state`. A streaming job that counts as a success when it runs is cancelled and waited for, up
    to `cancel_timeout`, when the task is cleared, before another one is launched.
    """

    def _own_name(self) -> str | None:
        return str(self.job_name)

    def _sent(self, name: str, labels: Mapping[str, str]) -> dict[str, Any]:
        if not labels:
            return {"job_name": name}
        options = {**self.dataflow_default_options, **self.options}
        if _LABELS in options:  # the options take the place of what the environment has
            options[_LABELS] = {**options[_LABELS], **labels}
            return {"job_name": name, "options": options}
        environment = self.environment or {}
        return {"job_name": name, "environment": {**environment, _LABELS: {**environment.get(_LABELS, {}), **labels}}}


class DataflowStartFlexTemplateOperator(_DataflowJob, dataflow.DataflowStartFlexTemplateOperator):
    """The provider's operator, which resumes. The job is looked up by its name, which ends with the token.

    With `append_job_name=False` the name stays as it is, and the job is looked up by the label `airflow-resume-token`.

    With `deferrable=True`, a job counts as a success as it does without it: a streaming job when it runs, or any job in
    its `expected_terminal_state`. A streaming job that counts as a success when it runs is ended and waited for, up to
    `cancel_timeout`, when the task is cleared, before another one is launched.
    """

    @property
    def _parameter(self) -> tuple[str, dict[str, Any]]:
        """The part of the body that describes the job, and its key. Both spellings are accepted."""
        key = "launch_parameter" if self.body.get("launch_parameter") else "launchParameter"
        return key, self.body.get(key) or {}

    def _own_name(self) -> str | None:
        own: str | None = self._parameter[1].get("jobName")
        return own

    def _sent(self, name: str, labels: Mapping[str, str]) -> dict[str, Any]:
        key, parameter = self._parameter
        sent = {**parameter, "jobName": name}
        if labels:
            environment = parameter.get("environment") or {}
            sent["environment"] = {**environment, _LABELS: {**environment.get(_LABELS, {}), **labels}}
        return {"body": {**self.body, key: sent}}
