"""The Kubernetes API server in memory as a service for `check_operator`.

It cannot show scheduling, nor the garbage collection of pods.
"""

from __future__ import annotations

from typing import Any

from kubernetes.client import ApiException, V1Job, V1JobCondition, V1JobStatus, V1ObjectMeta

from airflow_resume.testing import ServiceJobs
from airflow_resume.testing.fakes.job import UnknownJobError
from airflow_resume.testing.operators import OrderedFailureError
from tests.support.providers.kubernetes_service import NOT_FOUND, Cluster

ENDS = {"Complete", "Failed"}


class CheckedCluster(Cluster):
    """Jobs whose states the test orders. The id of a job is its name."""

    def __init__(self) -> None:
        super().__init__(looks=1_000_000)
        self.service = ServiceJobs(running="Running", succeeded="Complete", failed="Failed", cancelled="Deleted")

    def create_namespaced_job(self, body: dict[str, Any], namespace: str) -> V1Job:
        self.service.begin()
        made = super().create_namespaced_job(body, namespace)
        self.service.make(made.metadata.name)
        return made

    def read_namespaced_job(self, name: str, namespace: str, **_options: Any) -> V1Job:
        made = super().read_namespaced_job(name, namespace)
        made.metadata = V1ObjectMeta(name=name, namespace=namespace, labels=self.jobs[name]["metadata"]["labels"])
        return made

    def read_namespaced_job_status(self, name: str, namespace: str, **_options: Any) -> V1Job:
        self.service.begin()
        try:
            state = self.service.ask(name)
        except UnknownJobError as error:
            raise ApiException(status=NOT_FOUND, reason="NotFound") from error
        except OrderedFailureError as error:
            raise ApiException(status=error.status) from error
        made = self.read_namespaced_job(name, namespace)
        ended = [V1JobCondition(type=state, status="True", reason="AsOrdered")] if state in ENDS else []
        made.status = V1JobStatus(conditions=ended)
        return made

    def delete_namespaced_job(self, name: str, namespace: str, **_options: Any) -> None:
        self.service.begin()
        super().delete_namespaced_job(name, namespace)
        self.service.cancel(name)
        self.service.forget(name)

    def delete_namespaced_pod(self, name: str, namespace: str, **_options: Any) -> None:
        if name in self.pods:
            super().delete_namespaced_pod(name, namespace)
