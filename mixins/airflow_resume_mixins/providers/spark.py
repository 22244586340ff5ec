"""Operators of `apache-airflow-providers-apache-spark` that resume."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from airflow.providers.apache.spark.operators import spark_submit as upstream

from airflow_resume.jobs import JobStatus
from airflow_resume.jobs.transport import is_not_found, is_passing
from airflow_resume.shown import get_logger
from airflow_resume_mixins.providers.provider_job import ProviderJob

if TYPE_CHECKING:
    from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
    from airflow.sdk.definitions.context import Context
    from pydantic import JsonValue

log = get_logger(__name__)

__all__ = ["SparkSubmitOperator"]

LABEL = "airflow-resume-token"
CLIENT_MODE = "in client mode the driver ends with the task"
SECONDS = 30
"""The most that a question to YARN or to a master may take."""
REFUSED = r"Spark REST API returned failure for \S+: "
NOT_KNOWN = rf"^{REFUSED}unknown error\Z"


class SparkSubmitOperator(ProviderJob, upstream.SparkSubmitOperator):
    """Submits one Spark driver in cluster mode, and waits for that one in every attempt.

    How the window between submit and save is closed depends on the cluster:

    - YARN (with `yarn_track_via_rm_api=True`): the token is a tag of the application, by which YARN finds it.
    - Kubernetes (with `track_driver_via_k8s_api=True`): the token is in the name of the driver pod, which a namespace
      has only once, and in a label, by which the pod is found.
    - A standalone master can neither be asked nor refuse a second driver. A crash in the window is decided by
      `on_lost_submission`. `-Dspark.airflow.resume.job=<token>` in the command line of the driver shows whose it is.

    In client mode the driver is a child of the task and ends with it, so the operator does not resume, and says so.
    """

    def cannot_resume(self) -> str | None:
        """If nothing can be asked for the status of the driver."""
        hook = self._get_hook()
        if hook._should_track_driver_status or hook._should_track_driver_via_k8s_api() or hook._is_yarn_cluster_mode:
            return None
        if hook._connection["deploy_mode"] == "cluster":
            return "cluster mode on Kubernetes needs track_driver_via_k8s_api=True"
        return CLIENT_MODE

    @property
    def _cluster(self) -> SparkSubmitHook:
        if self._hook is None:
            self._hook = self._get_hook()
        return self._hook

    def put_token(self, token: str) -> None:
        """Into the conf that is sent."""
        hook = self._cluster
        hook._driver_id = hook._kubernetes_driver_pod = hook._yarn_application_id = None  # of a job before a clear
        conf = hook._conf
        conf["spark.airflow.resume.job"] = token  # Spark shows no value of a name with "token" in it
        if self._cluster._is_yarn_cluster_mode:
            tags = [tag for tag in str(conf.get("spark.yarn.tags", "")).split(",") if tag]
            conf["spark.yarn.tags"] = ",".join([*tags, token])
        elif self._cluster._is_kubernetes:
            conf[f"spark.kubernetes.driver.label.{LABEL}"] = token
            conf.setdefault("spark.kubernetes.driver.pod.name", f"airflow-{token}-driver")

    @property
    def find_job(self) -> Any:
        """A function that looks a driver up by its token. A standalone master has none."""
        if self._cluster._is_yarn_cluster_mode:
            return self._find_in_yarn
        if self._cluster._is_kubernetes:
            return self._find_in_kubernetes
        raise AttributeError("find_job")

    def _find_in_yarn(self, token: str, _context: Context) -> JsonValue:
        import requests

        answer = requests.get(
            f"{self._cluster._get_yarn_rm_base_url()}/ws/v1/cluster/apps",
            params={"applicationTags": token},
            auth=self._cluster._resolved_yarn_rm_auth,
            timeout=SECONDS,
        )
        answer.raise_for_status()
        found = (answer.json()["apps"] or {}).get("app") or []
        return found[0]["id"] if found else None

    def _find_in_kubernetes(self, token: str, _context: Context) -> JsonValue:
        namespace = self._cluster._connection["namespace"]
        client = upstream.kube_client.get_kube_client()
        found = client.list_namespaced_pod(namespace, label_selector=f"{LABEL}={token}").items
        return f"{namespace}:{found[0].metadata.name}" if found else None

    def get_job_status(self, external_id: JsonValue, context: Context) -> Any:
        """As the operator asks, without the status that it keeps itself: that may be of a driver before a clear."""
        if len(self._masters) > 1:
            return self._status_by_any_master(str(external_id))
        without: Any = {name: value for name, value in context.items() if name != "task_state_store"}
        return super().get_job_status(external_id, without)

    @property
    def _masters(self) -> list[str]:
        """The REST addresses of the masters of a standalone cluster; none if it is another cluster."""
        hook = self._cluster
        if not hook._should_track_driver_status:
            return []
        where = hook._connection
        hosts = [host.strip().split(":")[0] for host in where["master"].removeprefix("spark://").split(",")]
        return [f"{where['rest_scheme']}://{host}:{where['rest_port']}/v1/submissions" for host in hosts]

    def _status_by_any_master(self, name: str) -> str:
        """Ask all masters, of which only the leader knows drivers. Upstream raises what the last one has said."""
        errors: list[Exception] = []
        for master in self._masters:
            try:
                return str(self._fetch_driver_status(f"{master}/status/{name}", name))
            except Exception as error:  # noqa: BLE001, PERF203  raised below
                errors.append(error)
        raise next((error for error in errors if self.job_not_found(error)), errors[-1])

    def classify_job_status(self, status: Any) -> JobStatus | None:
        """A pod that is not there is gone; one whose node does not answer is in an unknown state."""
        return {"NotFound": JobStatus.GONE, "Unknown": JobStatus.UNKNOWN}.get(status)

    @staticmethod
    def job_not_found(error: BaseException) -> bool:
        """Whether YARN answers 404, or a standalone master does not know the driver.

        About such a driver, a master answers success=false without a message, for which the provider writes "unknown
        error". A master that cannot know, as it is in recovery or not the leader, sends a message.
        """
        said = re.search(rf"^YARN .* HTTP 404 |{NOT_KNOWN}", str(error))
        return is_not_found(error) or (isinstance(error, RuntimeError) and said is not None)

    @staticmethod
    def transient_errors(error: BaseException) -> bool:
        """Whether YARN answers 5xx, or a standalone master is in recovery. The provider says it in its text only."""
        said = re.search(rf"^YARN .* HTTP 5\d\d |(?!{NOT_KNOWN})^{REFUSED}", str(error))
        return is_passing(error) or (isinstance(error, RuntimeError) and said is not None)

    def get_job_result(self, external_id: JsonValue, context: Context) -> None:
        """Nothing, after the `post_submit_commands`."""
        super().get_job_result(external_id, context)
        self._cluster._run_post_submit_commands()

    def after_failure(self, external_id: JsonValue, context: Context) -> None:  # noqa: ARG002
        """The `post_submit_commands` run after a failure too."""
        self._cluster._run_post_submit_commands()

    def on_kill(self) -> None:
        """End the driver as the operator does, also that of an earlier attempt."""
        if self.external_id is not None:
            name = str(self.external_id)
            if self._cluster._is_yarn_cluster_mode:
                self._cluster._yarn_application_id = name
            elif self._cluster._is_kubernetes:
                self._cluster._kubernetes_driver_pod = name.partition(":")[2]
            else:
                self._cluster._driver_id = name
                self._kill_by_any_master(name)
        super().on_kill()

    def _kill_by_any_master(self, name: str) -> None:
        """Where there are several masters, the hook lets `spark-submit` ask their other port, which fails."""
        import requests

        for master in self._masters if len(self._masters) > 1 else ():
            try:
                answer = requests.post(f"{master}/kill/{name}", timeout=SECONDS).json()
                log.info("%s says about the kill of %s: %s", master, name, answer.get("message"))
            except requests.RequestException as error:  # noqa: PERF203  the other one may know the driver
                log.warning("%s cannot be asked to kill %s: %s", master, name, error)
