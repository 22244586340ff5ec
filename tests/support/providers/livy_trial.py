"""The real LivyOperator under faults, in this process.

Each scenario is a function of the operator's class, and returns what people would see, in a few words: a cell of the
table in docs/providers.md.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest
from airflow.providers.apache.livy.operators.livy import LivyOperator

from airflow_resume.errors import LostSubmissionError
from tests.support.providers.livy_service import ENDLESS, LivyService, app_id
from tests.support.providers.trial import Trial, is_wrapped

AGES = ("running",) * 5 + ("success",)
"""Still running when the second attempt begins."""

Kind = type[LivyOperator]


def make_operator(kind: Kind, **options: Any) -> Any:
    """The operator; its interval is in whole seconds for people, but any positive number will do."""
    return kind(task_id="task", file="job.py", polling_interval=0.001, **options)  # type: ignore[arg-type]


@contextmanager
def livy_trial(kind: Kind, *, first: int = 7, states: tuple[str, ...] = AGES) -> Iterator[Trial]:
    """A task whose first batch gets the id `first`."""
    with LivyService(states=states) as livy, pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIRFLOW_CONN_LIVY_DEFAULT", connection(livy))
        livy.batches.first = first
        yield Trial(jobs=livy.batches, make_operator=partial(make_operator, kind), is_wrapped=is_wrapped(kind))


def connection(livy: LivyService) -> str:
    """The Airflow connection that leads to the server."""
    return json.dumps({"conn_type": "livy", "host": "127.0.0.1", "port": livy.port, "schema": "http"})


def _said(trial: Trial, returned: Any) -> str:
    pushed = trial.attempt.ti.xcoms.get("app_id")
    named = "its app_id" if pushed == app_id(returned if returned is not None else trial.jobs.first) else pushed
    return f"{'nothing' if returned is None else f'batch {returned}'} and {named or 'no app_id'}"


def _batches(number: int) -> str:
    return f"{number} batch" if number == 1 else f"{number} batches"


def killed_while_it_waits_for_batch_0(kind: Kind) -> str:
    with livy_trial(kind, first=0) as trial:
        trial.killed("get_batch_state", nth=2)
        trial.run()
        return f"{_batches(trial.submitted)}, {trial.jobs.most_alive} at once"


def what_the_retry_returns(kind: Kind) -> str:
    with livy_trial(kind) as trial:
        trial.killed("get_batch_state", nth=2)
        returned = trial.run()
        assert trial.submitted == 1
        return _said(trial, returned)


def killed_when_all_is_done(kind: Kind) -> str:
    with livy_trial(kind) as trial:
        trial.run()
        trial.attempt = trial.attempt.retry()  # Airflow was not told
        returned = trial.run()
        assert trial.submitted == 1
        return _said(trial, returned)


def killed_before_the_id_is_saved(kind: Kind) -> str:
    with livy_trial(kind, states=ENDLESS) as trial:
        trial.killed("post_batch")
        trial.jobs.states = AGES
        try:
            trial.run()
        except LostSubmissionError:
            return f"{_batches(trial.submitted)}; the retry fails and says what to look for"
        return f"{_batches(trial.submitted)}, {trial.jobs.most_alive} at once"


def forgotten_between_two_tries(kind: Kind) -> str:
    with livy_trial(kind) as trial:
        trial.killed("get_batch_state", nth=2)
        trial.jobs.forgotten.add(7)
        if trial.fails(3):
            return "every retry fails"
        return f"the first retry submits batch {trial.jobs.jobs[-1].number}"


def no_answer_for_a_moment(kind: Kind) -> str:
    with livy_trial(kind) as trial:
        trial.jobs.failures = 1
        failed = trial.fails(1)
        assert trial.submitted == 1
        return "the attempt fails" if failed else "it waits on"


def a_status_the_provider_does_not_know(kind: Kind) -> str:
    with livy_trial(kind) as trial:
        trial.killed("get_batch_state", nth=2)
        trial.jobs.jobs[0].states[:] = ["recovering"] * 3 + ["running", "success"]
        failed = trial.fails(3)
        assert trial.submitted == 1
        return "every retry fails" if failed else "it waits on"


def cleared(kind: Kind) -> str:
    with livy_trial(kind) as trial:
        before = trial.run()
        trial.attempt = trial.attempt.clear()
        after = trial.run()
        return f"nothing is submitted, batch {after} again" if before == after else f"batch {after} is submitted"


SCENARIOS: dict[str, Callable[[Kind], str]] = {
    "killed while it waits for batch 0": killed_while_it_waits_for_batch_0,
    "killed while it waits for batch 7; the retry returns": what_the_retry_returns,
    "killed when all is done, and Airflow was not told; the retry returns": killed_when_all_is_done,
    "killed after the submit, before the id is saved": killed_before_the_id_is_saved,
    "Livy has forgotten the batch (404)": forgotten_between_two_tries,
    "Livy answers 503 once while it waits": no_answer_for_a_moment,
    "a status that the provider does not know (`recovering`, after a restart of Livy)": (
        a_status_the_provider_does_not_know
    ),
    "the task is cleared": cleared,
}
"""The rows of the table that need no Airflow."""

ROWS_ON_AIRFLOW = (
    "SIGKILL in a real Airflow; the retry returns",
    "SIGTERM, as in a deploy",
    "a person marks the task failed",
)
"""The others: see tests/airflow/test_livy.py."""
