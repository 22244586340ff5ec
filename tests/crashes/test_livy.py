"""The real LivyOperator on a loopback Livy, as it is and wrapped: the table and the snippets of docs/providers.md."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from airflow.providers.apache.livy.operators.livy import LivyOperator

from airflow_resume.errors import LostSubmissionError
from airflow_resume.testing import CrashWorld, TaskAttempt, explore_crashes, task_context
from airflow_resume.testing.crashes.outcome import ExplorationOutcome
from airflow_resume.testing.oracles import same_result
from tests.support.providers.livy_service import LivyService, app_id
from tests.support.providers.livy_trial import AGES, ROWS_ON_AIRFLOW, SCENARIOS, connection, livy_trial, make_operator
from tests.support.providers.page import classes, documented
from tests.support.providers.trial import AT_ONCE, is_wrapped

WRAPPED = classes("livy")["Livy"]
WITH_LOOK_UP = classes("livy", "livy_look_up")["NamedLivy"]


@pytest.mark.parametrize("row", SCENARIOS)
def test_the_table_is_what_happens(row: str) -> None:
    scenario = SCENARIOS[row]
    assert (scenario(LivyOperator), scenario(WRAPPED)) == documented("livy")[row]


def test_the_table_has_no_row_that_is_not_tested() -> None:
    assert list(documented("livy")) == [*ROWS_ON_AIRFLOW, *SCENARIOS]


# --- crashes everywhere ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def livy() -> Iterator[LivyService]:
    with LivyService() as running, pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIRFLOW_CONN_LIVY_DEFAULT", connection(running))
        yield running


class LivyWorld(CrashWorld):
    """A Livy server that has just started, and a task."""

    def __init__(self, livy: LivyService) -> None:
        super().__init__()
        livy.restart(states=AGES)
        self.batches = livy.batches
        self.task: TaskAttempt = task_context()

    def execute(self, kind: type[LivyOperator]) -> Any:
        """One attempt: what it returns and pushes."""
        self.task = self.task if self.attempt == 1 else self.task.retry()
        self.watch(self.task.task_store)
        made = make_operator(kind, **({"resume_policy": AT_ONCE} if is_wrapped(kind) else {}))
        for call in ("post_batch", "delete_batch"):
            setattr(made.hook, call, self.effect(call)(getattr(made.hook, call)))
        with self.task:
            return made.execute(self.task.context), self.task.ti.xcoms


def one_batch(outcome: ExplorationOutcome[LivyWorld]) -> None:
    assert outcome.world.batches.events == ["submit 0"]


def test_wrapped_with_a_look_up_there_is_one_batch_and_one_result_whenever_it_dies(livy: LivyService) -> None:
    report = explore_crashes(
        lambda world: world.execute(WITH_LOOK_UP),
        oracle=[one_batch, same_result],
        world=lambda: LivyWorld(livy),
        max_pairs=100,
    )
    assert report.pairs > 50


def test_wrapped_in_one_line_the_one_window_is_named(livy: LivyService) -> None:
    report = explore_crashes(
        lambda world: world.execute(WRAPPED),
        oracle=[one_batch, same_result],
        world=lambda: LivyWorld(livy),
        double=False,
        find_all=True,
        retry_on=(LostSubmissionError,),
    )
    lost = [finding for finding in report.findings if "LostSubmissionError" in finding.problem]
    others = [finding for finding in report.findings if finding not in lost]
    # The store refuses the id: the batch is ended by the operator's own on_kill, and the retry submits another.
    assert [list(finding.way.values()) for finding in others] == [["refused"]]
    assert "delete 0" in others[0].problem
    assert {finding.where[0] for finding in lost} <= {
        "after set resume.job.job",  # the intent
        "before post_batch",
        "after post_batch",
        "before set resume.job.job",  # the id
    }


def test_as_it_is_it_loses_the_result_or_submits_twice(livy: LivyService) -> None:
    report = explore_crashes(
        lambda world: world.execute(LivyOperator),
        oracle=[one_batch, same_result],
        world=lambda: LivyWorld(livy),
        double=False,
        find_all=True,
    )
    assert {finding.where[0] for finding in report.findings} == {
        "after post_batch",
        "before set livy_batch_id",
        "after set livy_batch_id",
    }


# --- deferrable -----------------------------------------------------------------------------------------------


def test_deferred_it_waits_for_the_same_batch_in_every_attempt() -> None:
    from airflow.sdk.exceptions import TaskDeferred

    deferrable = classes("livy", "livy_look_up", "livy_deferrable")["DeferrableLivy"]
    with livy_trial(deferrable) as trial:
        batches = set()
        for _ in range(2):
            with trial.attempt, pytest.raises(TaskDeferred) as deferred:
                trial.make_operator(deferrable=True).execute(trial.attempt.context)
            batches.add(deferred.value.trigger._batch_id)
            trial.attempt = trial.attempt.retry()
        assert batches == {7}
        trial.jobs.end(7, "success")
        with trial.attempt:
            assert trial.make_operator(deferrable=True).resume_complete(trial.attempt.context, {"status": "?"}) == 7
        assert trial.jobs.events == ["submit 7"]
        assert trial.attempt.ti.xcoms["app_id"] == app_id(7)


def test_deferring_past_the_mixin_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    from airflow.sdk.exceptions import TaskDeferred

    with livy_trial(WRAPPED) as trial:
        made = trial.make_operator(deferrable=True)
        with trial.attempt, pytest.raises(TaskDeferred):
            made.execute(trial.attempt.context)
    assert "Livy submits a job and defers without ResumableJobMixin" in caplog.text
