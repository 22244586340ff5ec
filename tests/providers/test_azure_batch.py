"""Azure Batch's operator, as it is and as ours, in all scenarios on a loopback service."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("airflow.providers.microsoft.azure", reason="the providers have an environment of their own")

from airflow.providers.microsoft.azure.hooks import batch as hooks
from airflow.providers.microsoft.azure.operators import batch as upstream
from airflow.sdk.exceptions import TaskDeferred
from azure.batch.models import BatchJobManagerTask

from airflow_resume.errors import JobError
from airflow_resume.testing import TaskAttempt, check_operator, task_context
from airflow_resume_mixins.providers import microsoft_azure as ours
from tests.support.providers.azure_batch_tasks import BatchTasks
from tests.support.providers.operator_trials import connections, die_in_the_window, explore, run_rendered
from tests.support.providers.scenario_table import OURS, OWN, documented
from tests.support.providers.trial import AT_ONCE, is_wrapped

POOL = {"batch_pool_id": "pool", "batch_pool_vm_size": "small", "target_dedicated_nodes": 1}
IMAGE = {"vm_publisher": "p", "vm_offer": "o", "vm_sku": "s", "vm_node_agent_sku_id": "a"}
TASK = {"batch_job_id": "job-{{ run_id }}", "batch_task_id": "load", "batch_task_command_line": "echo {{ run_id }}"}


@pytest.fixture(scope="module")
def service() -> Iterator[BatchTasks]:
    with BatchTasks() as running:
        extra = json.dumps({"account_url": running.url})
        key = base64.b64encode(b"key").decode()
        account = {"conn_type": "azure_batch", "login": "account", "password": key, "extra": extra}
        with connections(azure_batch_default=account) as patch:
            real = hooks.time
            patch.setattr(hooks, "time", SimpleNamespace(sleep=lambda _: real.sleep(0.002)))
            yield running


def made(module: Any, **options: Any) -> Any:
    kind = module.AzureBatchOperator
    policy = {"resume_policy": AT_ONCE} if is_wrapped(kind) else {}
    return kind(
        **{"task_id": "task", "retries": 3, "poll_interval": 0.002, **POOL, **IMAGE, **TASK, **policy, **options}
    )


def played(service: BatchTasks, module: Any, **options: Any) -> Any:
    return check_operator(
        partial(made, module),
        service.jobs,
        same_as=partial(made, upstream),
        grace=0.5,
        seconds=20,
        **options,
    )


def test_ours_has_one_job_and_the_providers_result_in_every_scenario(service: BatchTasks) -> None:
    report = documented(
        played(service, ours, deferrable={"deferrable": True}), "microsoft_azure", OURS, "AzureBatchOperator"
    )
    assert not report.problems, f"\n{report}"


def test_what_the_providers_own_does(service: BatchTasks) -> None:
    report = documented(
        played(service, upstream, deferrable={"deferrable": True}), "microsoft_azure", OWN, "AzureBatchOperator"
    )
    assert {name: str(played) for name, played in report.problems.items()} == {
        "job fails": "1 / 1 / 0, RuntimeError",  # and so does every retry
        "marked failed": "1 / 1 / 0, a job lives on",  # the client refuses to send the request
        "marked failed on a retry": "1 / 1 / 0, a job lives on",
        "cleared, job done": "1 / 1 / 0, same result",  # the old task counts as the new one
        "cleared, job alive": "1 / 1 / 0, same result",
    }


@pytest.mark.parametrize("options", [{}, {"should_delete_job": True, "should_delete_pool": True}])
def test_it_may_die_at_any_point(service: BatchTasks, options: dict[str, Any]) -> None:
    explore(partial(made, ours, **options), service, hooks.AzureBatchHook, "add_single_task_to_job")


def began(service: BatchTasks, *states: str, **options: Any) -> TaskAttempt:
    service.jobs.reset()
    service.states_of_jobs.clear()
    service.events.clear()
    service.jobs.follow(list(states) or ["success"])
    return task_context(partial(made, ours, batch_job_id="job", **options))


def deleted(service: BatchTasks) -> list[str]:
    return [event for event in service.events if event.startswith("DELETE")]


@pytest.mark.parametrize(("given", "begin"), [("load", "load"), ("x" * 64, "x" * 31)])
def test_the_id_of_the_task_ends_with_the_token(service: BatchTasks, given: str, begin: str) -> None:
    operator = run_rendered(began(service, batch_task_id=given))
    (task,) = service.jobs.seen()
    assert task.id == f"job/{begin}-{operator.submission_token}"
    assert len(task.id) <= len("job/") + 64


def test_after_a_crash_in_the_window_the_command_of_the_first_attempt_is_what_runs(service: BatchTasks) -> None:
    attempt = began(service, batch_task_command_line="echo {{ ti.try_number }}")
    run_rendered(die_in_the_window(attempt, hooks.AzureBatchHook, "add_single_task_to_job"))
    (task,) = service.jobs.seen()
    assert task.request["commandLine"] == "echo 1"


def test_other_tasks_of_the_job_do_not_matter(service: BatchTasks) -> None:
    attempt = began(service)
    service.jobs.make("job/another", request={"commandLine": "?"}).states = ["running"]
    service.jobs.make("job/failed", request={"commandLine": "?"}).states = ["failed"]
    run_rendered(attempt)


def test_a_job_that_takes_no_task_is_an_error_and_not_taken_for_a_task_that_is_there(service: BatchTasks) -> None:
    attempt = began(service)
    service.states_of_jobs["job"] = "completed"
    with pytest.raises(JobError, match="The Batch job job takes no task: JobCompleted"):
        run_rendered(attempt)
    service.states_of_jobs["job"] = "active"
    run_rendered(attempt.retry())
    assert len(service.jobs.seen()) == 1


def test_a_cleared_task_runs_again_in_the_same_job(service: BatchTasks) -> None:
    attempt = began(service, "running")
    killed = die_in_the_window(attempt, hooks.AzureBatchHook, "add_single_task_to_job")
    service.jobs.follow(["running", "running", "success"])
    run_rendered(killed.clear())
    assert [task.was_cancelled for task in service.jobs.seen()] == [True, False]
    assert service.states_of_jobs == {"job": "active"}


@pytest.mark.parametrize("options", [{}, {"should_delete_job": True}, {"should_delete_pool": True}])
def test_job_and_pool_are_deleted_when_the_result_is_saved_and_a_retry_returns_it(
    service: BatchTasks, options: dict[str, Any]
) -> None:
    attempt = began(service, "running", "success", **options)
    run_rendered(attempt)
    wanted = [f"DELETE {name.rpartition('_')[2]}s" for name in options]
    assert [event.rpartition(" ")[0] for event in deleted(service)] == wanted
    run_rendered(attempt.retry())
    assert len(service.jobs.seen()) == 1


def test_they_are_deleted_after_a_failure_too(service: BatchTasks) -> None:
    with pytest.raises(JobError):
        run_rendered(began(service, "failed", should_delete_job=True, should_delete_pool=True))
    assert deleted(service) == ["DELETE jobs job", "DELETE pools pool"]


def test_a_job_with_other_running_tasks_is_not_deleted(service: BatchTasks, caplog: pytest.LogCaptureFixture) -> None:
    attempt = began(service, should_delete_job=True)
    service.jobs.make("job/another", request={"commandLine": "?"}).states = ["running"]
    run_rendered(attempt)
    assert not deleted(service)
    assert "The job job is not deleted, as it has other tasks: ['another']" in caplog.text


def test_after_a_deferral_the_job_is_deleted(service: BatchTasks) -> None:
    attempt = began(service, "running", deferrable=True, should_delete_job=True)
    with pytest.raises(TaskDeferred) as deferred:
        run_rendered(attempt)
    assert deferred.value.trigger.serialize()[1]["job_id"] == "job"
    service.jobs.follow(["success"])
    assert not deleted(service)
    with attempt.resume() as resumed:
        resumed.ti.render_templates().resume_complete(resumed.context, {"status": "success"})
    assert deleted(service) == ["DELETE jobs job"]


def test_with_a_job_manager_the_providers_own_runs(service: BatchTasks, caplog: pytest.LogCaptureFixture) -> None:
    manager = BatchJobManagerTask(id="manager", command_line="start")
    run_rendered(began(service, batch_job_manager_task=manager))
    assert [task.id for task in service.jobs.seen()] == ["job/load"]
    assert "does not resume: it has a batch_job_manager_task" in caplog.text
