"""`KubernetesPodOperator` as it is, on an API server in memory: docs/providers.md says why it has no class of ours."""

from __future__ import annotations

from functools import cached_property, partial
from typing import Any

import pytest

pytest.importorskip("airflow.providers.cncf.kubernetes", reason="the providers have an environment of their own")

from airflow.providers.cncf.kubernetes.operators import pod as upstream

from airflow_resume.testing import check_operator, task_context
from tests.support.providers.checked import cells
from tests.support.providers.kubernetes_pods import NAMESPACE, Pods
from tests.support.providers.page import documented


def operator(**options: Any) -> Any:
    return upstream.KubernetesPodOperator(
        task_id="task",
        name="load",
        namespace=NAMESPACE,
        image="busybox",
        arguments=["{{ run_id }}"],
        retries=3,
        startup_check_interval_seconds=0,
        base_container_status_polling_interval=0.001,
        log_events_on_startup=False,
        **{"get_logs": False, **options},
    )


@pytest.fixture(autouse=True)
def server(monkeypatch: pytest.MonkeyPatch) -> Pods:
    made = Pods()
    hook = cached_property(lambda _self: made.hook())
    hook.__set_name__(upstream.KubernetesPodOperator, "hook")
    monkeypatch.setattr(upstream.KubernetesPodOperator, "hook", hook)
    monkeypatch.setattr(
        "airflow.providers.cncf.kubernetes.utils.pod_manager.time.sleep", lambda _seconds: None
    )  # of all modules
    return made


def without_name(value: Any) -> Any:
    returned, xcoms = value
    return [returned, {key: key if key == "pod_name" else value for key, value in xcoms.items()}]


ROWS = {
    "killed while it waits": "crash while waiting",
    "killed after the pod was created, before its name is kept": "crash in the window",
    "killed when all is done, and Airflow was not told": "crash after all is done",
    "SIGTERM, as in a deploy": "deploy",
    "a person marks the task failed": "marked failed",
    "killed, and cleared while the pod runs": "cleared, job alive",
}
"""Rows of the page, and the scenarios of `check_operator`."""
IN_WORDS = {
    "1 / 1 / 0, same result": "1 pod",
    "2 / 1 / 0, same result": "2 pods",
    "2 / 1 / 1, same result": "2 pods; the first is deleted",
    "1 / 1 / 1, no job left": "the pod is deleted",
    "1 / 1 / 0, a job lives on": "the pod runs on",
}
ENDED = "killed, and the pod succeeds before the retry"
KEEP = {"on_kill_action": "keep_pod", "on_finish_action": "keep_pod"}


@pytest.mark.parametrize("options", [{}, KEEP], ids=["as it is", "keep_pod"])
def test_what_happens_is_what_the_page_says(server: Pods, options: dict[str, str]) -> None:
    make = partial(operator, **options)
    report = check_operator(make, server.service, normalise=without_name, expand="arguments", seconds=20)
    played = {scenario: cell.partition(":")[0] for scenario, cell in cells(report).items()}
    seen = {what: IN_WORDS[played[scenario]] for what, scenario in ROWS.items()}
    seen[ENDED] = ended_while_no_attempt_ran(server, **options)
    assert seen == {what: columns[bool(options)] for what, columns in documented("pods").items()}, f"\n{report}"


def ended_while_no_attempt_ran(server: Pods, **options: str) -> str:
    server.service.reset()
    server.service.follow(["Running"])
    attempt, made = task_context(run_id="ended"), operator(**options)
    made.await_pod_completion = made.post_complete_action = _die
    with attempt, pytest.raises(KeyboardInterrupt):
        made.execute(attempt.context)
    server.service.follow(["Succeeded"])
    with (attempt := attempt.retry()):
        operator(**options).execute(attempt.context)
    return {1: "1 pod", 2: "2 pods"}[len(server.service.seen())]


def _die(**_options: Any) -> None:
    raise KeyboardInterrupt
