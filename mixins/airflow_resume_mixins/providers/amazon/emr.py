"""EMR: steps of a cluster, EMR Serverless, and EMR on EKS."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from airflow.providers.amazon.aws.links.emr import EmrClusterLink, EmrLogsLink, get_log_uri
from airflow.providers.amazon.aws.operators import emr as upstream
from airflow.providers.amazon.aws.triggers.emr import (
    EmrAddStepsTrigger,
    EmrContainerTrigger,
    EmrServerlessStartJobTrigger,
)

from airflow_resume_mixins.providers.amazon.aws_job import AwsJob, not_older
from airflow_resume_mixins.providers.provider_job import with_token

if TYPE_CHECKING:
    from airflow.sdk.definitions.context import Context


NAME_OF_UNNAMED = "emr_serverless_job_airflow"
"""The beginning of the name of a job run to which the Dag gives none."""


class EmrAddStepsOperator(AwsJob, upstream.EmrAddStepsOperator):
    """`EmrAddStepsOperator` that resumes. All steps that it adds are one job.

    By look-up: the token is at the end of each step's name, and `ListSteps` returns the names. The role needs
    `elasticmapreduce:ListSteps` and `elasticmapreduce:CancelSteps`.

    The job has failed when all steps have ended and one of them has failed. (The provider's operator does not wait for
    the steps after a failed one.)
    """

    active = frozenset({"PENDING", "CANCEL_PENDING", "RUNNING"})
    succeeded = frozenset({"COMPLETED"})
    not_waiting = {"wait_for_completion": False, "deferrable": False}  # noqa: RUF012
    not_found_codes = frozenset({"InvalidRequestException"})
    _cluster_id: str | None = None

    def put_token(self, token: str) -> None:
        """As in `ProviderJob`."""
        steps: Any = ast.literal_eval(self.steps) if isinstance(self.steps, str) else self.steps
        self.steps = [{**step, "Name": with_token(step["Name"], token, most=256, separator=" ")} for step in steps]

    def find_job(self, token: str, context: Context) -> Any:
        """The ids of the steps with the token in their names, in the order in which they were added."""
        pages = self.hook.conn.get_paginator("list_steps").paginate(ClusterId=self._cluster())
        steps = (step for page in pages for step in page["Steps"])
        recent = not_older(steps, context, began=("Status", "Timeline", "CreationDateTime"))
        return [step["Id"] for step in recent if step["Name"].endswith(f" {token}")][::-1] or None

    def job_status(self, external_id: Any) -> Any:
        """The status of the first step that has not ended; or else of the first that has not succeeded."""
        describe = self.hook.conn.describe_step
        found = [describe(ClusterId=self._cluster(), StepId=step)["Step"]["Status"]["State"] for step in external_id]
        unfinished = [state for state in found if state in self.active]
        return next((state for state in (*unfinished, *found) if state not in self.succeeded), found[-1])

    def job_trigger(self, external_id: Any, context: Context) -> EmrAddStepsTrigger:  # noqa: ARG002
        """The operator's own trigger."""
        return EmrAddStepsTrigger(job_flow_id=self._cluster(), step_ids=external_id, **self.waiting())

    def cancel_job(self, external_id: Any, context: Context) -> None:  # noqa: ARG002
        """Cancel those steps that have not ended."""
        self.hook.conn.cancel_steps(ClusterId=self._cluster(), StepIds=external_id)

    def restore(self, external_id: Any, context: Context) -> None:  # noqa: ARG002
        """As in `ProviderJob`."""
        cluster = self._cluster()
        if self.do_xcom_push:
            context["ti"].xcom_push(key="job_flow_id", value=cluster)  # pyright: ignore[reportTypedDictNotRequiredAccess]
        self.persist(EmrClusterLink, context, job_flow_id=cluster)
        log_uri = get_log_uri(emr_client=self.hook.conn, job_flow_id=cluster)
        self.persist(EmrLogsLink, context, job_flow_id=self.job_flow_id, log_uri=log_uri)

    def _cluster(self) -> str:
        """The id of the cluster. The operator may have only its name, and later another cluster may have that."""
        if self._cluster_id is None:
            noted = self._notes.get("xcoms", {}).get("job_flow_id")
            by_name = self.hook.get_cluster_id_by_name
            found = self.job_flow_id or noted or by_name(str(self.job_flow_name), self.cluster_states)
            if found is None:
                raise LookupError(f"There is no EMR cluster with the name {self.job_flow_name!r}.")
            self._cluster_id = found
        return self._cluster_id


class EmrServerlessStartJobOperator(AwsJob, upstream.EmrServerlessStartJobOperator):
    """`EmrServerlessStartJobOperator` that resumes.

    By token: `StartJobRun` with the same `clientToken` is the same job run. If the arguments of a retry are other ones,
    it fails with `JobInputsChangedError`. A job run without a name has the token in its name.

    An application that is not started is started in the worker, also with `deferrable=True`.
    """

    submission_is_idempotent = True
    active = frozenset({"SUBMITTED", "PENDING", "SCHEDULED", "QUEUED", "RUNNING"})
    succeeded = frozenset({"SUCCESS"})
    job_id_attribute = "job_id"
    not_waiting = {"wait_for_completion": False}  # noqa: RUF012
    not_found_codes = frozenset({"ResourceNotFoundException"})

    def put_token(self, token: str) -> None:
        """As in `ProviderJob`."""
        self.client_request_token = token
        self.config = {name: value for name, value in self.config.items() if name != "clientToken"}
        name = self.name or self.config.pop("name", None)
        if not name or name.startswith(f"{NAME_OF_UNNAMED}_"):  # the operator itself would make up one in every attempt
            name = with_token(NAME_OF_UNNAMED, token, most=256, separator="_")
        self.name = name

    def job_status(self, external_id: Any) -> Any:
        """As in `ProviderJob`."""
        found = self.hook.conn.get_job_run(applicationId=self.application_id, jobRunId=external_id)
        return found["jobRun"]["state"]

    def job_trigger(self, external_id: Any, context: Context) -> EmrServerlessStartJobTrigger:  # noqa: ARG002
        """The operator's own trigger."""
        return EmrServerlessStartJobTrigger(
            application_id=self.application_id,
            job_id=external_id,
            cancel_on_kill=self.cancel_on_kill,
            **self.waiting(),
        )

    def restore(self, external_id: Any, context: Context) -> None:  # noqa: ARG002
        """As in `ProviderJob`."""
        self.persist_links(context)


class EmrContainerOperator(AwsJob, upstream.EmrContainerOperator):
    """`EmrContainerOperator` (EMR on EKS) that resumes.

    By token: `StartJobRun` with the same `clientToken` is the same job run. If the arguments of a retry are other ones,
    it fails with `JobInputsChangedError`.
    """

    submission_is_idempotent = True
    active = frozenset({"PENDING", "SUBMITTED", "RUNNING", "CANCEL_PENDING"})
    succeeded = frozenset({"COMPLETED"})
    job_id_attribute = "job_id"
    not_waiting = {"wait_for_completion": False, "deferrable": False}  # noqa: RUF012
    not_found_codes = frozenset({"ResourceNotFoundException"})

    def put_token(self, token: str) -> None:
        """As in `ProviderJob`."""
        self.client_request_token = token

    def job_status(self, external_id: Any) -> Any:
        """As in `ProviderJob`."""
        found = self.hook.conn.describe_job_run(virtualClusterId=self.virtual_cluster_id, id=external_id)
        return found["jobRun"]["state"]

    def job_trigger(self, external_id: Any, context: Context) -> EmrContainerTrigger:  # noqa: ARG002
        """The operator's own trigger."""
        most = {"waiter_max_attempts": self.max_polling_attempts} if self.max_polling_attempts else {}
        return EmrContainerTrigger(
            virtual_cluster_id=self.virtual_cluster_id,
            job_id=external_id,
            cancel_on_kill=self.cancel_on_kill,
            waiter_delay=self.poll_interval,
            **most,
            **self.connection(),
        )
