"""A Kubernetes API server in memory, as `KubernetesJobOperator` uses it: jobs with unique names, and their pods."""

from __future__ import annotations

from typing import Any

from airflow.providers.cncf.kubernetes.hooks.kubernetes import KubernetesHook
from kubernetes.client import (
    ApiClient,
    ApiException,
    V1Container,
    V1Job,
    V1JobCondition,
    V1JobStatus,
    V1ObjectMeta,
    V1Pod,
    V1PodList,
    V1PodSpec,
    V1PodStatus,
)

NOT_FOUND, CONFLICT = 404, 409
NAMESPACE = "ns"


class Cluster:
    """Jobs and pods.

    Args:
        looks: the number of questions for which a job is still running; then it is complete.

    Attributes:
        events: what was done, such as `"create job-a"`.
        most_alive: the most jobs that were ever alive at once.
    """

    def __init__(self, looks: int = 2) -> None:
        self.api_client = ApiClient()
        self.jobs: dict[str, dict[str, Any]] = {}
        self.pods: dict[str, V1Pod] = {}
        self.events: list[str] = []
        self.most_alive = 0
        self._looks = looks
        self._left: dict[str, int] = {}

    @property
    def alive(self) -> list[str]:
        """The names of the jobs that run."""
        return [name for name, left in self._left.items() if left]

    def hook(self) -> KubernetesHook:
        """The real hook, with clients that use these jobs."""
        made = KubernetesHook(conn_id=None)
        made.__dict__.update(batch_v1_client=self, core_v1_client=self, _is_in_cluster=True)
        return made

    # --- BatchV1Api -------------------------------------------------------------------------------------------

    def create_namespaced_job(self, body: dict[str, Any], namespace: str) -> V1Job:
        name = body["metadata"]["name"]
        if name in self.jobs:
            raise ApiException(status=CONFLICT, reason="AlreadyExists")
        self.jobs[name], self._left[name] = body, self._looks
        self.events.append(f"create {name}")
        self.most_alive = max(self.most_alive, len(self.alive))
        self.pods[f"{name}-x"] = V1Pod(
            metadata=V1ObjectMeta(
                name=f"{name}-x", namespace=namespace, labels=body["spec"]["template"]["metadata"]["labels"]
            ),
            spec=V1PodSpec(containers=[V1Container(name="base")]),
            status=V1PodStatus(phase="Running"),
        )
        return self.read_namespaced_job(name, namespace)

    def read_namespaced_job(self, name: str, namespace: str, **_options: Any) -> V1Job:
        if name not in self.jobs:
            raise ApiException(status=NOT_FOUND, reason="NotFound")
        done = [] if self._left[name] else [V1JobCondition(type="Complete", status="True")]
        return V1Job(
            metadata=V1ObjectMeta(name=name, namespace=namespace), status=V1JobStatus(active=1, conditions=done)
        )

    def read_namespaced_job_status(self, name: str, namespace: str, **_options: Any) -> V1Job:
        seen = self.read_namespaced_job(name, namespace)
        self._left[name] = max(0, self._left[name] - 1)
        if not self._left[name] and (pod := self.pods.get(f"{name}-x")):
            pod.status = V1PodStatus(phase="Succeeded")
        return seen

    def delete_namespaced_job(self, name: str, namespace: str, **_options: Any) -> None:
        self.read_namespaced_job(name, namespace)
        self.events.append(f"delete {name}")
        del self.jobs[name], self._left[name]
        self.pods.pop(f"{name}-x", None)

    # --- CoreV1Api --------------------------------------------------------------------------------------------

    def list_namespaced_pod(self, namespace: str, label_selector: str) -> V1PodList:
        wanted = dict(part.split("=") for part in label_selector.split(",") if "=" in part and "!" not in part)
        return V1PodList(items=[pod for pod in self.pods.values() if wanted.items() <= pod.metadata.labels.items()])

    def read_namespaced_pod(self, name: str, namespace: str, **_options: Any) -> V1Pod:
        if name not in self.pods:
            raise ApiException(status=NOT_FOUND, reason="NotFound")
        return self.pods[name]

    def patch_namespaced_pod(self, name: str, namespace: str, body: dict[str, Any], **_options: Any) -> V1Pod:
        pod = self.read_namespaced_pod(name, namespace)
        pod.metadata.labels.update(body["metadata"]["labels"])
        return pod

    def delete_namespaced_pod(self, name: str, namespace: str, **_options: Any) -> None:
        self.read_namespaced_pod(name, namespace)
        self.events.append(f"delete {'running' if name.removesuffix('-x') in self.alive else 'ended'} pod")
        del self.pods[name]
