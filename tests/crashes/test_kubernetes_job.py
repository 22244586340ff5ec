"""The real KubernetesJobOperator in the testing kit, as it is and with the hooks of a resumable job."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.providers.cncf.kubernetes.hooks.kubernetes import KubernetesHook
from airflow.providers.cncf.kubernetes.operators.job import KubernetesJobOperator
from kubernetes.client import ApiException

from airflow_resume.testing import CrashWorld, World, explore_crashes, task_context
from airflow_resume.testing.crashes.outcome import ExplorationOutcome
from airflow_resume_mixins import ResumableJobMixin
from tests.support.providers.kubernetes_service import NAMESPACE, NOT_FOUND, Cluster
from tests.support.providers.trial import AT_ONCE, is_wrapped


class KubernetesJob(ResumableJobMixin, KubernetesJobOperator):
    """The token is in the name of the job, which the cluster takes once."""

    def execute(self, context: Any) -> Any:
        return self.execute_resumable(context)

    def submit_job(self, context: Any) -> str:
        self.name, self.random_name_suffix = self.submission_token, False
        self.job = self.create_job(self.build_job_request_obj(context))
        return str(self.job.metadata.name)

    def find_job(self, token: str, context: Any) -> str | None:
        try:
            return str(self.hook.get_job(f"job-{token}", self.namespace).metadata.name)  # the operator's own prefix
        except ApiException as error:
            if error.status == NOT_FOUND:
                return None
            raise

    def get_job_status(self, external_id: Any, context: Any) -> str:
        self.job = self.hook.get_job_status(external_id, self.namespace)
        if not self.hook.is_job_complete(self.job):
            return "RUNNING"
        return "FAILED" if self.hook.is_job_failed(self.job) else "SUCCEEDED"

    def is_job_active(self, status: str) -> bool:
        return status == "RUNNING"

    def is_job_succeeded(self, status: str) -> bool:
        return status == "SUCCEEDED"

    def get_job_result(self, external_id: Any, context: Any) -> None:
        assert self.job is not None
        context["ti"].xcom_push("job_name", external_id)
        context["ti"].xcom_push("job_namespace", self.namespace)
        context["ti"].xcom_push("job", self.job.to_dict())

    def cancel_job(self, external_id: Any, context: Any) -> None:
        self.job_client.delete_namespaced_job(external_id, self.namespace, propagation_policy="Foreground")


@pytest.fixture(autouse=True)
def _no_waiting_between_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """The hook takes "AlreadyExists" for a trouble that passes, and asks five times."""
    calls: Any = KubernetesHook.create_job
    monkeypatch.setattr(calls.retry, "sleep", lambda _seconds: None)


class ClusterWorld(CrashWorld):
    """A cluster, and an Airflow with a task."""

    def __init__(self) -> None:
        super().__init__(airflow=World())
        self.cluster = Cluster()

    def execute(self, kind: type[KubernetesJobOperator], **options: Any) -> Any:
        """One attempt: what it returns and pushes."""
        options |= {"resume_policy": AT_ONCE} if is_wrapped(kind) else {}
        made = kind(
            task_id="load",
            retries=3,
            name="load",
            namespace=NAMESPACE,
            image="busybox",
            arguments=["{{ run_id }}", "{{ dag.dag_id }}"],
            wait_until_job_complete=True,
            job_poll_interval=0.001,
            get_logs=False,
            **options,
        )
        made.hook = self.cluster.hook()  # type: ignore[misc]
        made.hook.create_job = self.effect("create_job")(made.hook.create_job)  # type: ignore[method-assign]
        with task_context(made, dag_id="dag", world=self.airflow) as attempt:
            attempt.ti.render_templates()
            return attempt.ti.task.execute(attempt.context), attempt.ti.xcoms


def one_job(outcome: ExplorationOutcome[ClusterWorld]) -> None:
    created = [event for event in outcome.world.cluster.events if event.startswith("create")]
    assert len(created) == 1, f"{len(created)} jobs, {outcome.world.cluster.most_alive} at once"


def test_the_templates_are_rendered_and_the_job_is_found_in_the_xcoms() -> None:
    world = ClusterWorld()
    returned, pushed = world.execute(KubernetesJobOperator)
    (name,) = world.cluster.jobs
    container = world.cluster.jobs[name]["spec"]["template"]["spec"]["containers"][0]
    assert container["args"] == ["run-1", "dag"]
    assert (returned, pushed["job_name"], pushed["job_namespace"]) == (None, name, NAMESPACE)


def test_as_it_is_every_crash_after_the_submit_makes_another_job() -> None:
    report = explore_crashes(
        lambda world: world.execute(KubernetesJobOperator),
        oracle=one_job,
        world=ClusterWorld,
        double=False,
        find_all=True,
    )
    assert {(finding.where[0], finding.problem.splitlines()[0]) for finding in report.findings} == {
        ("after create_job", "2 jobs, 2 at once"),
    }


def test_as_it_is_with_a_fixed_name_every_retry_after_the_submit_fails() -> None:
    report = explore_crashes(
        lambda world: world.execute(KubernetesJobOperator, random_name_suffix=False),
        oracle=one_job,
        world=ClusterWorld,
        double=False,
        find_all=True,
    )
    assert {finding.where[0] for finding in report.findings} == {"after create_job"}
    assert all("ApiException" in finding.problem for finding in report.findings)


def test_wrapped_there_is_one_job_and_one_result_whenever_it_dies() -> None:
    report = explore_crashes(
        lambda world: world.execute(KubernetesJob), oracle=[one_job, same_name], world=ClusterWorld, max_pairs=100
    )
    assert report.pairs > 50


def same_name(outcome: ExplorationOutcome[ClusterWorld]) -> None:
    (name,) = outcome.world.cluster.jobs
    returned, pushed = outcome.result
    assert (returned, pushed["job_name"]) == (None, name)
