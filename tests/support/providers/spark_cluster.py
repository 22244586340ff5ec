"""A fake standalone master, a YARN and a Kubernetes on loopback, to which the fake `spark-submit` submits.

They cannot show what a cluster does with a driver.
"""

from __future__ import annotations

import itertools
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from kubernetes.client import ApiException, V1ObjectMeta, V1Pod, V1PodList, V1PodStatus

from airflow_resume.testing import ServiceJobs
from airflow_resume.testing.fakes.job import UnknownJobError
from airflow_resume.testing.operators import OrderedFailureError
from json_request import NotFoundError, Request
from json_service import JsonService
from tests.support.providers import fake_spark_submit
from tests.support.providers.scripted_jobs import UnavailableError

STATES = {
    "standalone": ("RUNNING", "FINISHED", "FAILED", "KILLED"),
    "yarn": ("RUNNING", "FINISHED", "FAILED", "KILLED"),
    "k8s": ("Running", "Succeeded", "Failed", "deleted"),
}


class SparkCluster(JsonService):
    """One kind of cluster.

    Args:
        kind: `standalone`, `yarn` or `k8s`.
    """

    def __init__(self, kind: str) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        running, succeeded, failed, cancelled = STATES[kind]
        self.kind = kind
        self.jobs = ServiceJobs(running=running, succeeded=succeeded, failed=failed, cancelled=cancelled)
        self._numbers = itertools.count(1)

    def connection(self, *, masters: str = "127.0.0.1") -> str:
        """What AIRFLOW_CONN_... is set to.

        Args:
            masters: the hosts of a standalone cluster, with a comma between them.
        """
        port = int(self.url.rpartition(":")[2])
        kinds: dict[str, tuple[str, dict[str, Any]]] = {
            "standalone": (f"spark://{masters}", {"rest-port": port}),
            "yarn": ("yarn", {"yarn_resourcemanager_webapp_address": self.url}),
            "k8s": ("k8s://https://127.0.0.1", {"namespace": "ns"}),
        }
        host, extra = kinds[self.kind]
        given: dict[str, Any] = {"conn_type": "spark", "host": host, "extra": {"deploy-mode": "cluster", **extra}}
        return json.dumps(given if self.kind == "yarn" else {**given, "port": 7077})

    def respond(self, request: Request) -> object:
        self.jobs.begin()
        try:
            return self._answer(request)
        except UnknownJobError as error:
            if self.kind == "standalone":
                return {"success": False}
            raise NotFoundError(str(error)) from error
        except OrderedFailureError as error:
            raise UnavailableError(str(error)) from error

    def _answer(self, request: Request) -> object:
        match request.route:
            case ("POST", "drivers"):
                return self._submit(request.field("arguments", list))
            case ("GET", "v1", "submissions", "status", driver):
                return {"success": True, "driverState": self.jobs.ask(driver)}
            case ("POST", "v1", "submissions", "kill", driver):
                self.jobs.cancel(driver)
                return {"success": True}
            case ("GET", "ws", "v1", "cluster", "apps"):
                found = self.jobs.with_token(request.query["applicationTags"])
                return {"apps": None if found is None else {"app": [{"id": found.id}]}}
            case ("GET", "ws", "v1", "cluster", "apps", app):
                state = self.jobs.ask(app)
                final = {"FINISHED": "SUCCEEDED", "RUNNING": "UNDEFINED"}.get(state, "FAILED")
                return {"app": {"state": state, "finalStatus": final, "diagnostics": ""}}
            case ("PUT", "ws", "v1", "cluster", "apps", app, "state"):
                self.jobs.cancel(app)
                return {"state": "KILLED"}
        raise NotFoundError(request.path)

    def _submit(self, arguments: list[str]) -> object:
        confs = dict(
            value.split("=", 1) for name, value in itertools.pairwise(arguments) if name == "--conf" and "=" in value
        )
        number = next(self._numbers)
        if self.kind == "k8s":
            name = confs.get("spark.kubernetes.driver.pod.name", f"app-{number:x}-driver")
            if any(job.id == name for job in self.jobs.known()):
                return {"error": f'pods "{name}" already exists'}
            return {
                "id": self.jobs.make(name, token=confs.get("spark.kubernetes.driver.label.airflow-resume-token")).id
            }
        token = confs.get("spark.yarn.tags", "").rpartition(",")[2]
        name = f"application_1700000000_{number:04}" if self.kind == "yarn" else f"driver-20260101000000-{number:04}"
        return {"id": self.jobs.make(name, token=token).id}

    # --- CoreV1Api ------------------------------------------------------------------------------------------------

    def kube_client(self) -> Any:
        """What the provider imports as `kube_client`."""
        return SimpleNamespace(get_kube_client=lambda: self, ApiException=ApiException)

    def read_namespaced_pod(self, name: str, namespace: str) -> V1Pod:
        try:
            phase = self.jobs.ask(name)
        except UnknownJobError as error:
            raise ApiException(status=404) from error
        except OrderedFailureError as error:
            raise ApiException(status=error.status) from error
        if phase == "deleted":
            raise ApiException(status=404)
        return V1Pod(metadata=V1ObjectMeta(name=name), status=V1PodStatus(phase=phase, container_statuses=[]))

    def list_namespaced_pod(self, namespace: str, label_selector: str) -> V1PodList:
        found = self.jobs.with_token(label_selector.partition("=")[2])
        return V1PodList(items=[] if found is None else [V1Pod(metadata=V1ObjectMeta(name=found.id))])

    def delete_namespaced_pod(self, name: str, namespace: str, **_options: Any) -> None:
        self.jobs.cancel(name)


def install(folder: Path) -> None:
    """Put the fake `spark-submit` into the folder."""
    script = folder / "spark-submit"
    script.write_text(f'#!/bin/sh\nexec {sys.executable} -S -E {fake_spark_submit.__file__} "$@"\n')
    script.chmod(0o755)
