"""A Kubernetes API server in memory for pods and SparkApplications whose states a test orders.

It follows the API documents: names are unique in a namespace (409), an unknown one is 404, lists take label and field
selectors. A SparkApplication has the driver pod that the Spark operator would make. It cannot show scheduling, the
restart of a driver, nor the time that a deleted pod takes to end.
"""

from __future__ import annotations

import re
from contextlib import suppress
from copy import deepcopy
from datetime import datetime, timezone
from typing import Any

from airflow.providers.cncf.kubernetes.hooks.kubernetes import KubernetesHook
from kubernetes.client import (
    ApiClient,
    ApiException,
    V1Container,
    V1ContainerState,
    V1ContainerStateRunning,
    V1ContainerStateTerminated,
    V1ContainerStatus,
    V1ObjectMeta,
    V1Pod,
    V1PodList,
    V1PodSpec,
    V1PodStatus,
)

from airflow_resume.testing import ServiceJobs
from airflow_resume.testing.fakes.job import UnknownJobError
from airflow_resume.testing.operators import OrderedFailureError

NOT_FOUND, CONFLICT = 404, 409
NAMESPACE = "ns"
LOG = b"2026-01-01T00:00:00Z the log of the pod\n"


class DeletedJobs(ServiceJobs):
    """Jobs that their operator deletes when they have ended: then there is nothing left to forget."""

    def forget(self, job_id: Any, /) -> None:
        with suppress(UnknownJobError):
            super().forget(job_id)


class Pods:
    """An API server whose jobs are pods. The id of a job is the name of its pod."""

    def __init__(self) -> None:
        self.api_client = ApiClient()
        self.service = DeletedJobs(running="Running", succeeded="Succeeded", failed="Failed", cancelled="Deleted")
        self.pods: dict[str, V1Pod] = {}
        self.logs_read: list[str] = []

    def hook(self) -> KubernetesHook:
        """The real hook, with clients that talk to this server."""
        made = KubernetesHook(conn_id=None)
        made.__dict__.update(core_v1_client=self, custom_object_client=self, _is_in_cluster=True)
        return made

    def _asked(self, name: str) -> str:
        try:
            return str(self.service.ask(name))
        except UnknownJobError as error:
            raise ApiException(status=NOT_FOUND, reason="NotFound") from error
        except OrderedFailureError as error:
            raise ApiException(status=error.status) from error

    def _delete(self, name: str) -> None:
        try:
            self.service.cancel(name)
            self.service.forget(name)
        except UnknownJobError as error:
            raise ApiException(status=NOT_FOUND, reason="NotFound") from error

    # --- CoreV1Api --------------------------------------------------------------------------------------------

    def create_namespaced_pod(self, body: dict[str, Any], namespace: str, **_options: Any) -> V1Pod:
        self.service.begin()
        name = body["metadata"]["name"]
        if any(job.id == name for job in self.service.known()):
            raise ApiException(status=CONFLICT, reason="AlreadyExists")
        self.pods[name] = self._pod(name, namespace, body["metadata"]["labels"], body["spec"]["containers"][0]["name"])
        self.service.make(name)
        return self.pods[name]

    @staticmethod
    def _pod(name: str, namespace: str, labels: dict[str, str], container: str) -> V1Pod:
        return V1Pod(
            metadata=V1ObjectMeta(name=name, namespace=namespace, labels=dict(labels)),
            spec=V1PodSpec(containers=[V1Container(name=container)]),
            status=V1PodStatus(phase="Pending"),
        )

    def _job_of(self, pod: str) -> str:
        return pod

    def _in_phase(self, pod: V1Pod, phase: str) -> V1Pod:
        code = {"Succeeded": 0, "Failed": 1}.get(phase)
        state = (
            V1ContainerState(running=V1ContainerStateRunning())
            if code is None
            else V1ContainerState(terminated=V1ContainerStateTerminated(exit_code=code))
        )
        name = pod.spec.containers[0].name
        seen = V1ContainerStatus(name=name, state=state, image="i", image_id="i", ready=code is None, restart_count=0)
        pod.status = V1PodStatus(phase=phase, container_statuses=[seen])
        return pod

    def _is_there(self, state: str) -> bool:
        """Whether a job in this state has a pod."""
        return True

    def read_namespaced_pod(self, name: str, namespace: str, **_options: Any) -> V1Pod:
        self.service.begin()
        state = self._asked(self._job_of(name))
        if not self._is_there(state):
            raise ApiException(status=NOT_FOUND, reason="NotFound")
        return self._in_phase(self.pods[name], state)

    def list_namespaced_pod(
        self, namespace: str, label_selector: str, field_selector: str = "", **_o: Any
    ) -> V1PodList:
        self.service.begin()
        known = {job.id: job for job in self.service.known() if self._is_there(job.state)}
        found = [
            self._in_phase(pod, known[self._job_of(name)].state)
            for name, pod in self.pods.items()
            if self._job_of(name) in known and _selected(pod.metadata.labels, label_selector)
        ]
        return V1PodList(items=[pod for pod in found if _selected({"status.phase": pod.status.phase}, field_selector)])

    def patch_namespaced_pod(self, name: str, namespace: str, body: dict[str, Any], **_options: Any) -> V1Pod:
        self.service.begin()
        if not any(job.id == self._job_of(name) for job in self.service.known()):
            raise ApiException(status=NOT_FOUND, reason="NotFound")
        self.pods[name].metadata.labels.update(body["metadata"]["labels"])
        return self.pods[name]

    def delete_namespaced_pod(self, name: str, namespace: str, **_options: Any) -> None:
        self.service.begin()
        self._delete(self._job_of(name))

    def read_namespaced_pod_log(self, name: str, **_options: Any) -> Any:
        self.logs_read.append(name)
        return _Log()


class Applications(Pods):
    """An API server whose jobs are SparkApplications. The id of a job is the name of its application."""

    PHASES = {"COMPLETED": "Succeeded", "FAILED": "Failed"}  # noqa: RUF012

    def __init__(self) -> None:
        super().__init__()
        self.service = DeletedJobs(
            running="RUNNING", succeeded="COMPLETED", failed="FAILED", cancelled="Deleted", unknown="UNKNOWN"
        )
        self.applications: dict[str, dict[str, Any]] = {}
        self.created = datetime.now(timezone.utc)

    def _job_of(self, pod: str) -> str:
        return pod.removesuffix("-driver")

    def _is_there(self, state: str) -> bool:
        return state not in {"NEW", "SUBMITTED"}  # the Spark operator makes the driver pod later

    def _in_phase(self, pod: V1Pod, phase: str) -> V1Pod:
        return super()._in_phase(pod, self.PHASES.get(phase, "Running"))

    # --- CustomObjectsApi -------------------------------------------------------------------------------------

    def create_namespaced_custom_object(self, body: dict[str, Any], namespace: str, **kind: str) -> dict[str, Any]:
        assert kind == {"group": "sparkoperator.k8s.io", "version": "v1beta2", "plural": "sparkapplications"}
        self.service.begin()
        name = body["metadata"]["name"]
        if any(job.id == name for job in self.service.known()):
            raise ApiException(status=CONFLICT, reason="AlreadyExists")
        made = deepcopy(body)
        made["metadata"]["creationTimestamp"] = self.created.strftime("%Y-%m-%dT%H:%M:%SZ")
        self.applications[name] = made
        labels = {**made["spec"]["driver"].get("labels", {}), "spark-role": "driver"}
        self.pods[f"{name}-driver"] = self._pod(f"{name}-driver", namespace, labels, "spark-kubernetes-driver")
        self.service.make(name)
        return made

    def get_namespaced_custom_object_status(self, name: str, **_where: str) -> dict[str, Any]:
        self.service.begin()
        state = self._asked(name)
        found = deepcopy(self.applications[name])
        return found if state == "NEW" else {**found, "status": {"applicationState": {"state": state}}}

    def delete_namespaced_custom_object(self, name: str, **_where: str) -> None:
        self.service.begin()
        self._delete(name)


class _Log:
    """What the client returns for a log that is not loaded at once."""

    def stream(self, **_options: Any) -> Any:
        yield LOG

    def __iter__(self) -> Any:
        yield LOG

    def close(self) -> None:
        """Nothing."""


def _selected(values: dict[str, str], selector: str) -> bool:
    """Whether a selector with `=`, `!=` and `!` selects what has these values."""
    for part in filter(None, selector.split(",")):
        name, operator, value = re.fullmatch(r"(!?[^!=]+)(!=|=|)(.*)", part).groups()  # type: ignore[union-attr]
        if operator == "!=" and values.get(name) == value:
            return False
        if operator == "=" and values.get(name) != value:
            return False
        if not operator and (name.removeprefix("!") in values) == name.startswith("!"):
            return False
    return True
