"""Operators of `apache-airflow-providers-cncf-kubernetes` that resume."""

from __future__ import annotations

import time
from copy import deepcopy
from functools import cached_property
from typing import TYPE_CHECKING, Any

from airflow.providers.cncf.kubernetes.operators import job as upstream
from airflow.providers.cncf.kubernetes.operators import spark_kubernetes
from kubernetes.client import ApiException, V1ObjectMeta, V1Pod

from airflow_resume.jobs import JobStatus
from airflow_resume.shown import get_logger
from airflow_resume_mixins.providers.provider_job import ProviderJob

if TYPE_CHECKING:
    from airflow.providers.cncf.kubernetes.operators.custom_object_launcher import CustomObjectLauncher
    from airflow.sdk.definitions.context import Context
    from airflow.triggers.base import BaseTrigger
    from kubernetes.client import CustomObjectsApi, V1Job
    from pydantic import JsonValue

log = get_logger(__name__)

__all__ = ["KubernetesJobOperator", "SparkKubernetesOperator"]

NOT_FOUND, CONFLICT = 404, 409
LABEL = "airflow-resume-token"
"""The label of a job and of its pods."""
MAX_NAME = 26
"""The most characters of the given name: with `job-` before it and the token after it, a name has at most 63."""


class KubernetesJobOperator(ProviderJob, upstream.KubernetesJobOperator):
    """Creates one Kubernetes job, and waits for that one in every attempt.

    The window between submit and save is closed by the name of the job, which a namespace has only once. The name gets
    the token as its suffix. With `random_name_suffix=False` it stays as it is. In either case a label has the token, so
    a job of that name that was there before is not taken for ours: the task fails, as with the provider's operator.

    With `do_xcom_push=True` and `wait_until_job_complete=True` it does not resume: the job ends only after the attempt
    has fetched the result and has ended the sidecar, so a retry could not fetch it again.
    """

    submission_is_idempotent = True
    active = frozenset({"RUNNING"})
    job: Any
    succeeded = frozenset({"SUCCEEDED"})
    not_waiting = {"wait_until_job_complete": False}  # noqa: RUF012
    while_submitting = {"random_name_suffix": False, "get_logs": False, "do_xcom_push": False}  # noqa: RUF012
    still_called = ("build_job_request_obj",)

    def cannot_resume(self) -> str | None:
        """With a result in a sidecar."""
        if self.do_xcom_push and self.wait_until_job_complete:
            return "do_xcom_push=True fetches the result of a sidecar, which can be done only once"
        return None

    def put_token(self, token: str) -> None:
        """Into the label, and into the name."""
        self.labels = {**(self.labels or {}), LABEL: token}
        if self.random_name_suffix:
            self.name = f"{(self.name or self.task_id)[:MAX_NAME]}-{token}"

    def create_job(self, job_request_obj: V1Job) -> V1Job:
        """Create the job, or find it if an earlier submit has created it.

        It is looked for first: the hook of the provider repeats a refused request for a quarter of a minute.
        """
        if self._is_there(job_request_obj):
            return job_request_obj
        try:
            return super().create_job(job_request_obj)
        except ApiException as error:
            if error.status != CONFLICT or not self._is_there(job_request_obj):
                raise
            return job_request_obj

    def _is_there(self, job: Any) -> bool:
        try:
            found: Any = self.job_client.read_namespaced_job(job.metadata.name, job.metadata.namespace)
        except ApiException as error:
            if error.status != NOT_FOUND:
                raise
            return False
        return bool((found.metadata.labels or {}).get(LABEL) == self.submission_token)

    def job_id_of(self, answer: Any) -> JsonValue:  # noqa: ARG002
        """Namespace and name."""
        return f"{self.job.metadata.namespace}/{self.job.metadata.name}"

    def job_status(self, external_id: JsonValue) -> str:
        """By the conditions of the job."""
        namespace, name = str(external_id).split("/")
        self.job = self.hook.get_job_status(job_name=name, namespace=namespace)
        if not self.hook.is_job_complete(self.job):
            return "RUNNING"
        return "FAILED" if self.hook.is_job_failed(self.job) else "SUCCEEDED"

    def restore(self, external_id: JsonValue, context: Context) -> None:
        """The XComs of name and namespace."""
        namespace, name = str(external_id).split("/")
        context["ti"].xcom_push(key="job_name", value=name)  # pyright: ignore[reportTypedDictNotRequiredAccess]
        context["ti"].xcom_push(key="job_namespace", value=namespace)  # pyright: ignore[reportTypedDictNotRequiredAccess]

    def answer(self, external_id: JsonValue, context: Context) -> None:
        """Nothing, as the provider's operator."""

    def get_job_result(self, external_id: JsonValue, context: Context) -> None:
        """Nothing; the job is in an XCom, and the logs of its pods are in the log."""
        super().get_job_result(external_id, context)
        self._see_to_pods(context)

    def after_failure(self, external_id: JsonValue, context: Context) -> None:  # noqa: ARG002
        """As after a success."""
        self._see_to_pods(context)

    def _see_to_pods(self, context: Context) -> None:
        context["ti"].xcom_push(key="job", value=self.job.to_dict())  # pyright: ignore[reportTypedDictNotRequiredAccess]
        self.pods = self._pods_of(self.job.metadata.namespace)
        try:
            for pod in self.pods if self.get_logs else ():
                self.pod_manager.fetch_requested_container_logs(
                    pod=pod, containers=self.container_logs, follow_logs=True
                )
        finally:
            self._cleanup_monitoring_pods(context)

    def _pods_of(self, namespace: str) -> list[Any]:
        selector = f"{LABEL}={self.submission_token}"
        client: Any = self.client
        return list(client.list_namespaced_pod(namespace=namespace, label_selector=selector).items)

    def job_trigger(self, external_id: JsonValue, context: Context) -> BaseTrigger:  # noqa: ARG002
        """The provider's own. It watches the job only: the pods are seen to when it has ended."""
        namespace, name = str(external_id).split("/")
        from airflow.providers.cncf.kubernetes.triggers.job import KubernetesJobTrigger

        return KubernetesJobTrigger(
            job_name=name,
            job_namespace=namespace,
            pod_names=[],
            pod_namespace=namespace,
            base_container_name=self.base_container_name,
            kubernetes_conn_id=self.kubernetes_conn_id,
            cluster_context=self.cluster_context,
            config_file=self.config_file,
            in_cluster=self.in_cluster,
            poll_interval=self.job_poll_interval,
            get_logs=False,
        )

    def cancel_job(self, external_id: JsonValue, context: Context) -> None:  # noqa: ARG002
        """Delete the job and its pods, as the operator's own `on_kill` does."""
        namespace, name = str(external_id).split("/")
        try:
            self.job = self.hook.get_job_status(job_name=name, namespace=namespace)
            self.pods = self._pods_of(namespace)
            self._upstream("on_kill")(self)
        except ApiException as error:
            if error.status != NOT_FOUND:
                raise

    def on_kill(self) -> None:
        """`cancel_job` does it."""


MAX_APPLICATION_NAME = 30
"""The most characters of the given name: with the token after it, the name of an application has at most 63."""
NOT_STARTED = "NOT_STARTED_IN_TIME"


class SparkKubernetesOperator(ProviderJob, spark_kubernetes.SparkKubernetesOperator):
    """Creates one SparkApplication, and waits for that one in every attempt.

    The window between submit and save is closed by the name of the application, which a namespace has only once. The
    name gets the token as its suffix. With `random_name_suffix=False` it stays as it is. In either case a label has the
    token, so an application of that name that was there before is not taken for ours: the task fails, as with the
    provider's operator.

    The state of the application says whether it has succeeded, and not its driver pod: the Spark operator may restart
    the driver. The log of the driver is shown when the application has ended. Then `delete_on_termination` is carried
    out, after the result is saved. An application is deleted if every answer during `startup_timeout_seconds` says that
    it has not started. Each attempt counts anew, and each look with `wait="reschedule"`.

    It does not resume with `reattach_on_restart=False`, which asks for a new application in every attempt, nor with
    `do_xcom_push`, `callbacks` or `skip_on_exit_code`, which belong to the operator's own way of waiting.
    """

    submission_is_idempotent = True
    active = frozenset(
        {
            "NEW",
            "SUBMITTED",
            "RUNNING",
            "SUBMISSION_FAILED",  # it is submitted again, or fails then
            "PENDING_RERUN",
            "INVALIDATING",
            "SUCCEEDING",
            "FAILING",  # it is run again, or fails then
            "SUSPENDING",
            "SUSPENDED",
            "RESUMING",
        }
    )
    succeeded = frozenset({"COMPLETED"})
    while_submitting = {"deferrable": True, "random_name_suffix": False}  # noqa: RUF012  see execute_async
    _given_name: str | None = None
    _deleted_id: JsonValue = None
    _not_started_since: float | None = None

    def cannot_resume(self) -> str | None:
        """With what only the operator's own way of waiting does."""
        if not self.reattach_on_restart:
            return "reattach_on_restart=False asks for a new application in every attempt"
        own = [name for name in ("do_xcom_push", "callbacks", "skip_on_exit_code") if getattr(self, name)]
        return f"{', '.join(own)} needs the operator's own way of waiting" if own else None

    # --- submit -----------------------------------------------------------------------------------------------

    def put_token(self, token: str) -> None:
        """Into the name; `manage_template_specs` puts it into the label."""
        self.name = self._name_with(token)

    def _name_with(self, token: str) -> str:
        if self._given_name is None:
            in_template = self.template_body["spark"].get("metadata", {}).get("name")
            self._given_name = self._set_name(self.name or in_template or self.task_id)
        given = str(self._given_name)
        return f"{given[:MAX_APPLICATION_NAME].rstrip('-')}-{token}" if self.random_name_suffix else given

    def manage_template_specs(self) -> dict[str, Any]:
        """As upstream, with the label. It is a copy: the operator changes what it gets."""
        given: Any = super()
        body: dict[str, Any] = deepcopy(given.manage_template_specs())
        if self._is_submitting:
            metadata = body["spark"].setdefault("metadata", {})
            metadata["labels"] = {**(metadata.get("labels") or {}), LABEL: self.submission_token}
        return body

    def find_spark_job(self, context: Context, exclude_checked: bool = True) -> Any:  # noqa: FBT001, FBT002
        """Nothing while it submits: its labels are those of the task, so it may be the driver of before a clear."""
        return None if self._is_submitting else super().find_spark_job(context, exclude_checked)

    def get_or_create_spark_crd(self, launcher: CustomObjectLauncher, context: Context) -> V1Pod:  # noqa: ARG002
        """Create the application, or find it if an earlier submit has created it. Do not wait for its start.

        It is looked for first: the launcher of the provider repeats a refused request for some seconds.
        """
        own: Any = launcher
        own.spark_job_not_running = lambda _made: False
        if not self._is_there(str(self.name)):
            try:
                launcher.start_spark_job(image=self.image, code_path=self.code_path)
            except ApiException as error:
                if error.status != CONFLICT or not self._is_there(str(self.name)):
                    raise
        return V1Pod(metadata=V1ObjectMeta(name=f"{self.name}-driver", namespace=self.namespace))

    def execute_async(self, context: Context) -> None:
        """The end of the submit: an operator that defers does so here, and one that does not would wait."""
        if not self._is_submitting:
            super().execute_async(context)

    def find_job(self, token: str, context: Context) -> JsonValue:  # noqa: ARG002
        """By its name."""
        name = self._name_with(token)
        return f"{self.namespace}/{name}" if self._is_there(name) else None

    def _is_there(self, name: str) -> bool:
        try:
            found = self._read(str(self.namespace), name)
        except ApiException as error:
            if error.status != NOT_FOUND:
                raise
            return False
        return bool((found["metadata"].get("labels") or {}).get(LABEL) == self.submission_token)

    def job_id_of(self, answer: Any) -> JsonValue:  # noqa: ARG002
        """Namespace and name."""
        return f"{self.namespace}/{self.name}"

    # --- wait -------------------------------------------------------------------------------------------------

    @cached_property
    def custom_obj_api(self) -> CustomObjectsApi:
        """The client of the operator's connection. Upstream's is of the connection that was loaded last."""
        return self.hook.custom_object_client

    @cached_property
    def _kind(self) -> dict[str, str]:
        body = self.template_body["spark"]
        version = body.get("apiVersion") or f"{body['apiGroup']}/{body['version']}"
        group, _, version = version.partition("/")
        return {"group": group, "version": version, "plural": f"{body['kind'].lower()}s"}

    def _read(self, namespace: str, name: str) -> Any:
        """The application. The operator has the permission to read it by its status."""
        api: Any = self.custom_obj_api
        return api.get_namespaced_custom_object_status(**self._kind, namespace=namespace, name=name)

    def job_status(self, external_id: JsonValue) -> str:
        """By the state of the application. One that does not start in time is deleted."""
        if external_id == self._deleted_id:  # the engine asks twice before a job counts as failed
            return NOT_STARTED
        namespace, name = str(external_id).split("/")
        found = self._read(namespace, name)
        state = str(((found.get("status") or {}).get("applicationState") or {}).get("state") or "NEW")
        if state not in {"NEW", "SUBMITTED"}:
            self._not_started_since = None
        elif self._is_late():
            log.error("The application %s is deleted: it has not started in %s s", name, self.startup_timeout_seconds)
            self._delete(external_id)
            self._deleted_id = external_id
            return NOT_STARTED
        return state

    def _is_late(self) -> bool:
        """Whether each answer of that time said that it has not started. The age of the application does not count.

        A single answer may be of a moment ago, the cluster has another clock, and a driver that has failed is submitted
        again.
        """
        now = time.monotonic()
        if self._not_started_since is None:
            self._not_started_since = now
        return now - self._not_started_since > self.startup_timeout_seconds

    def classify_job_status(self, status: Any) -> JobStatus | None:
        """One that was deleted because it did not start has failed."""
        return JobStatus.FAILED if status == NOT_STARTED else None

    # --- the end ----------------------------------------------------------------------------------------------

    def restore(self, external_id: JsonValue, context: Context) -> None:
        """The XComs of the driver pod."""
        namespace, name = str(external_id).split("/")
        context["ti"].xcom_push(key="pod_name", value=f"{name}-driver")  # pyright: ignore[reportTypedDictNotRequiredAccess]
        context["ti"].xcom_push(key="pod_namespace", value=namespace)  # pyright: ignore[reportTypedDictNotRequiredAccess]

    def get_job_result(self, external_id: JsonValue, context: Context) -> None:
        """Nothing, as the provider's operator; the log of the driver is in the log."""
        super().get_job_result(external_id, context)
        self._show_log(external_id)

    def execute(self, context: Context, *args: Any, **options: Any) -> Any:
        """As in `ProviderJob`; the application is deleted when the result is saved."""
        answer = super().execute(context, *args, **options)
        self._clean_up(self.external_id)
        return answer

    def after_failure(self, external_id: JsonValue, context: Context) -> None:  # noqa: ARG002
        """Show the log and, with `log_events_on_failure`, the events of the driver; delete the application."""
        self._show_log(external_id)
        if self.log_events_on_failure:
            self._read_pod_container_states(_driver(external_id), reraise=False)
            self._read_pod_events(_driver(external_id), reraise=False)
        self._clean_up(external_id)

    def _show_log(self, external_id: JsonValue) -> None:
        if not self.get_logs:
            return
        try:
            self._write_logs(_driver(external_id))  # the pod manager's shows none that ended two minutes ago
        except ApiException as error:
            log.warning("The log of the driver of %s cannot be shown: %s", external_id, error)

    def _clean_up(self, external_id: JsonValue) -> None:
        if external_id is None or not self.delete_on_termination:
            return
        try:
            self._delete(external_id)
        except ApiException as error:
            log.warning("The application %s is not deleted: %s", external_id, error)

    def cancel_job(self, external_id: JsonValue, context: Context) -> None:  # noqa: ARG002
        """Delete the application, as the operator's own `on_kill` does."""
        self._delete(external_id)

    def _delete(self, external_id: JsonValue) -> None:
        namespace, name = str(external_id).split("/")
        api: Any = self.custom_obj_api
        try:
            api.delete_namespaced_custom_object(**self._kind, namespace=namespace, name=name)
        except ApiException as error:
            if error.status != NOT_FOUND:
                raise

    def on_kill(self) -> None:
        """`cancel_job` does it."""


def _driver(external_id: JsonValue) -> V1Pod:
    namespace, name = str(external_id).split("/")
    return V1Pod(metadata=V1ObjectMeta(name=f"{name}-driver", namespace=namespace))
